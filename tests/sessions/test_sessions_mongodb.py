"""MongoDB's wire protocol: the whole suite on FerretDB 1.24.0 with SQLite, which is not MongoDB itself."""

from session_engines import Ferretdb
from session_suite import OutageTests, RaceTests, StoreTests

ENGINE = Ferretdb


class TestStore(StoreTests):
    pass


class TestRaces(RaceTests):
    pass


class TestOutage(OutageTests):
    pass
