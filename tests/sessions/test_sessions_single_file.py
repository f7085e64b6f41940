"""One file: the whole suite."""

from session_engines import SingleFile
from session_suite import OutageTests, RaceTests, StoreTests

ENGINE = SingleFile


class TestStore(StoreTests):
    pass


class TestRaces(RaceTests):
    pass


class TestOutage(OutageTests):
    pass
