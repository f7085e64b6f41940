"""MongoDB's wire protocol: the whole suite on FerretDB 1.24.0 with SQLite, which is not MongoDB itself."""

from session_engines import Ferretdb
from session_suite import TestOutage as TestOutage
from session_suite import TestRaces as TestRaces
from session_suite import TestStore as TestStore

ENGINE = Ferretdb
