"""MariaDB: the whole suite on Debian's mariadb-server."""

import pytest
from session_engines import Mariadb
from session_suite import OutageTests, RaceTests, StoreTests

ENGINE = Mariadb

# PyMySQL leaves a unix socket open that it could not connect.
pytestmark = pytest.mark.usefixtures("careless")


class TestStore(StoreTests):
    pass


class TestRaces(RaceTests):
    pass


class TestOutage(OutageTests):
    pass
