"""Records in a file of SQLite, with the module of the standard library. Readers do not wait for writers (WAL).

The locks of SQLite between processes are POSIX locks. So this process never opens the file by itself, and connections
are closed before a fork; only a connection that another thread uses at that moment is inherited.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress

from poorhttp.sessions.store import TIMEOUT
from poorhttp.sessions.stores.connections import close_before_forks
from poorhttp.sessions.stores.private_files import close_to_others, make_empty
from poorhttp.sessions.stores.sql import TABLE, Dialect, SqlStore


class _Sqlite(Dialect):
    name = "SQLite"
    mark = "?"
    blob = "BLOB"
    insert = "INSERT OR IGNORE"
    errors = (sqlite3.Error,)

    def __init__(self, path: str, timeout: float) -> None:
        self._path = path
        self._timeout = timeout

    def connect(self) -> sqlite3.Connection:
        make_empty(self._path)
        return sqlite3.connect(self._path, timeout=self._timeout, isolation_level=None, check_same_thread=False)

    def prepare(self, connection: sqlite3.Connection) -> None:
        close_to_others(self._path)
        with suppress(sqlite3.OperationalError):  # another process is about to do so
            connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")

    def is_lost(self, error: Exception) -> bool:
        return False


class SqliteStore(SqlStore):
    def __init__(self, path: str, timeout: float = TIMEOUT, table: str = TABLE) -> None:
        super().__init__(_Sqlite(path, timeout), table)
        self._path = path
        close_before_forks(self)

    def purge(self) -> int:
        return super().purge() if os.path.exists(self._path) else 0
