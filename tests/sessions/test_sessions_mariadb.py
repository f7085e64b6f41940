"""MariaDB: the whole suite on Debian's mariadb-server."""

import pytest
from session_engines import Mariadb
from session_suite import TestOutage as TestOutage
from session_suite import TestRaces as TestRaces
from session_suite import TestStore as TestStore

ENGINE = Mariadb

# PyMySQL leaves a unix socket open that it could not connect.
pytestmark = pytest.mark.usefixtures("careless")
