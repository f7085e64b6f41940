"""Redis: the whole suite on Debian's redis-server."""

from session_engines import Redis
from session_suite import OutageTests, RaceTests, StoreTests

ENGINE = Redis


class TestStore(StoreTests):
    pass


class TestRaces(RaceTests):
    pass


class TestOutage(OutageTests):
    pass
