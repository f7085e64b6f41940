"""PostgreSQL: the whole suite on Debian's postgresql."""

from session_engines import Postgresql
from session_suite import OutageTests, RaceTests, StoreTests

ENGINE = Postgresql


class TestStore(StoreTests):
    pass


class TestRaces(RaceTests):
    pass


class TestOutage(OutageTests):
    pass
