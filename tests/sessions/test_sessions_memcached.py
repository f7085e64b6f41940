"""Memcached: the whole suite on Debian's memcached."""

from session_engines import Memcached
from session_suite import OutageTests, RaceTests, StoreTests

ENGINE = Memcached


class TestStore(StoreTests):
    pass


class TestRaces(RaceTests):
    pass


class TestOutage(OutageTests):
    pass
