"""The memory of one process: the contract of a store. Processes share nothing there."""

from session_engines import Memory
from session_suite import TestStore as TestStore

ENGINE = Memory
