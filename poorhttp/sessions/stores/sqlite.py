"""Records in a file of SQLite, with the module of the standard library. Readers do not wait for writers (WAL)."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress

from poorhttp.sessions.store import TIMEOUT
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
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        connection = sqlite3.connect(self._path, timeout=self._timeout, isolation_level=None, check_same_thread=False)
        with suppress(sqlite3.OperationalError):  # another process is about to do so
            connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        return connection

    def is_lost(self, error: Exception) -> bool:
        return False


class SqliteStore(SqlStore):
    def __init__(self, path: str, timeout: float = TIMEOUT, table: str = TABLE) -> None:
        super().__init__(_Sqlite(path, timeout), table)
