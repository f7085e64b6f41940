"""MariaDB: the whole suite on Debian's mariadb-server."""

import gc
from collections.abc import Iterator

import pytest
from session_engines import Mariadb
from session_suite import OutageTests, RaceTests, StoreTests

ENGINE = Mariadb

# PyMySQL leaves a unix socket open that it could not connect.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """What PyMySQL has left open is found in the test that made it do so."""
    yield
    gc.collect()


class TestStore(StoreTests):
    pass


class TestRaces(RaceTests):
    pass


class TestOutage(OutageTests):
    pass
