"""SQLite: the whole suite."""

from session_engines import Sqlite
from session_suite import OutageTests, RaceTests, StoreTests

ENGINE = Sqlite


class TestStore(StoreTests):
    pass


class TestRaces(RaceTests):
    pass


class TestOutage(OutageTests):
    pass
