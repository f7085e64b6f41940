"""A directory of files: the whole suite."""

from session_engines import Directory
from session_suite import OutageTests, RaceTests, StoreTests

ENGINE = Directory


class TestStore(StoreTests):
    pass


class TestRaces(RaceTests):
    pass


class TestOutage(OutageTests):
    pass
