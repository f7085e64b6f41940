"""PostgreSQL: the whole suite on Debian's postgresql."""

from session_engines import Postgresql
from session_suite import TestOutage as TestOutage
from session_suite import TestRaces as TestRaces
from session_suite import TestStore as TestStore

ENGINE = Postgresql
