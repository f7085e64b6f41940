"""DiskCache: the whole suite."""

from session_engines import DiskCache
from session_suite import OutageTests, RaceTests, StoreTests

ENGINE = DiskCache


class TestStore(StoreTests):
    pass


class TestRaces(RaceTests):
    pass


class TestOutage(OutageTests):
    pass
