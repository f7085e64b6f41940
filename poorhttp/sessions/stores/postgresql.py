"""Records in PostgreSQL, by psycopg. A server that does not answer is given up after the timeout."""

from __future__ import annotations

from time import monotonic

import psycopg

from poorhttp.sessions.store import TIMEOUT
from poorhttp.sessions.stores.sql import TABLE, Dialect, SqlStore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    from psycopg.abc import PQGen

    RV = TypeVar("RV")

INTERVAL = 0.1
"""Seconds after which psycopg looks whether a signal has come."""


class _Late(Exception):
    """The server has not answered in time."""


class _Bounded(psycopg.Connection["tuple[object, ...]"]):
    """A connection that waits for each answer no longer than its patience, in seconds: psycopg itself bounds only the
    connecting, and `statement_timeout` needs a server that works.
    """

    patience = TIMEOUT

    def wait(self, gen: PQGen[RV], interval: float = INTERVAL, timeout: float | None = None) -> RV:
        start = monotonic()
        try:
            return super().wait(gen, interval, self.patience if timeout is None else timeout)
        except psycopg.Error as error:
            if monotonic() - start >= self.patience:
                raise _Late(f"no answer within {self.patience:g} seconds") from error
            raise


class _Postgresql(Dialect):
    name = "PostgreSQL"
    blob = "BYTEA"
    unless = " ON CONFLICT DO NOTHING"
    errors = (psycopg.Error, _Late)

    def __init__(self, address: str, timeout: float) -> None:
        self._address = address
        self._timeout = timeout

    def connect(self) -> _Bounded:
        wait = max(2, round(self._timeout))  # libpq takes no less
        connection = _Bounded.connect(self._address, autocommit=True, connect_timeout=wait)
        connection.patience = self._timeout
        connection.prepare_threshold = None  # a pooler between may not have the prepared statement
        return connection

    def is_lost(self, error: Exception) -> bool:
        return isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError))


class PostgresqlStore(SqlStore):
    def __init__(self, address: str, timeout: float = TIMEOUT, table: str = TABLE) -> None:
        """address: as libpq takes it, `postgresql://user:password@host/database?sslmode=require`."""
        super().__init__(_Postgresql(address, timeout), table)
