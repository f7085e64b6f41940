"""SQLite: the whole suite."""

from session_engines import Sqlite
from session_suite import TestOutage as TestOutage
from session_suite import TestRaces as TestRaces
from session_suite import TestStore as TestStore

ENGINE = Sqlite
