"""Records in a table of a SQL database: `id`, `data`, `version`, `expires` (seconds since 1970).

Knows the statements, which are whole transactions each. A `Dialect` holds the differences between databases.
"""

from __future__ import annotations

from poorhttp.sessions.errors import Conflict, SessionError
from poorhttp.sessions.store import Store, new_version, now
from poorhttp.sessions.stores.connections import Connections

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

TABLE = "poorhttp_sessions"
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz_0123456789")


class Dialect:
    """A kind of database and how to reach it.

    mark: of a parameter. blob: the type of the data, which holds at least 16 MB. key: the type of the id.
    insert, unless: the words around an INSERT that does nothing if the id is known.
    """

    name = ""
    mark = "%s"
    blob = ""
    key = "CHAR(64)"
    insert = "INSERT"
    unless = ""
    errors: tuple[type[Exception], ...] = ()

    def connect(self) -> Any:
        """Return a connection that commits each statement."""
        raise NotImplementedError

    def prepare(self, connection: Any) -> None:
        """Make the database fit for sessions."""

    def is_lost(self, error: Exception) -> bool:
        """Whether the database has closed the connection before it got the statement."""
        raise NotImplementedError

    def run(self, connection: Any, statement: str, values: tuple[Any, ...]) -> tuple[list[Any], int]:
        """Return the rows of a SELECT, and the number of rows that were found or changed."""
        cursor = connection.cursor()
        try:
            cursor.execute(statement, values)
            return (list(cursor.fetchall()) if cursor.description else []), cursor.rowcount
        finally:
            cursor.close()


class SqlStore(Store):
    """table: made if it is not there. An administrator may make it, then the site needs no right to do so."""

    def __init__(self, dialect: Dialect, table: str = TABLE) -> None:
        if not table or not _LETTERS.issuperset(table) or table[0].isdigit():
            raise SessionError(f"table is {table!r}; expected small letters, digits and _")
        self._dialect = dialect
        self._table = table
        self._connections = self._connections_by(self._connect)

    def load(self, key: str) -> tuple[bytes, str] | None:
        rows, _ = self._run("SELECT data, version FROM {table} WHERE id = ? AND expires > ?", key, now())
        return (bytes(rows[0][0]), rows[0][1]) if rows else None

    def save(self, key: str, data: bytes, ttl: float, version: str | None) -> str:
        fresh, moment = new_version(), now()
        end = moment + ttl
        if version is not None:
            change = (
                "UPDATE {table} SET data = ?, version = ?, expires = ? WHERE id = ? AND version = ? AND expires > ?"
            )
            _, count = self._run(change, data, fresh, end, key, version, moment)
        else:
            insert = f"{self._dialect.insert} INTO {{table}} (id, data, version, expires) VALUES (?, ?, ?, ?)"
            _, count = self._run(insert + self._dialect.unless, key, data, fresh, end)
            if count == 0:  # the id is known: perhaps from a record that has expired
                change = "UPDATE {table} SET data = ?, version = ?, expires = ? WHERE id = ? AND expires <= ?"
                _, count = self._run(change, data, fresh, end, key, moment)
        if count == 0:
            raise Conflict(key)
        return fresh

    def touch(self, key: str, ttl: float) -> bool:
        moment = now()
        change = "UPDATE {table} SET expires = ? WHERE id = ? AND expires > ?"
        return self._run(change, moment + ttl, key, moment)[1] > 0

    def delete(self, key: str) -> None:
        self._run("DELETE FROM {table} WHERE id = ?", key)

    def purge(self) -> int:
        """Makes no table in a database that has none, which may be another one than was meant: raises StoreDown."""
        plain = self._connections_by(self._dialect.connect)
        text = self._text("DELETE FROM {table} WHERE expires <= ?")
        try:
            return plain.use(lambda connection: self._dialect.run(connection, text, (now(),)))[1]
        finally:
            plain.close()

    def close(self) -> None:
        self._connections.close()

    def _connections_by(self, make: Callable[[], Any]) -> Connections[Any]:
        dialect = self._dialect
        return Connections(dialect.name, make, lambda connection: connection.close(), dialect.errors, dialect.is_lost)

    def _run(self, statement: str, *values: Any) -> tuple[list[Any], int]:
        text = self._text(statement)
        return self._connections.use(lambda connection: self._dialect.run(connection, text, values))

    def _text(self, statement: str) -> str:
        return statement.format(table=self._table).replace("?", self._dialect.mark)

    def _connect(self) -> Any:
        connection = self._dialect.connect()
        try:
            self._dialect.prepare(connection)
            self._ensure_table(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _ensure_table(self, connection: Any) -> None:
        """Make the table, unless it is there: asking first, for CREATE needs rights that the site may not have."""
        try:
            self._dialect.run(connection, self._text("SELECT 1 FROM {table} WHERE 1 = 0"), ())
        except self._dialect.errors:
            columns = (
                f"id {self._dialect.key} PRIMARY KEY, data {self._dialect.blob} NOT NULL, version CHAR(16) NOT NULL"
            )
            table = f"CREATE TABLE IF NOT EXISTS {{table}} ({columns}, expires DOUBLE PRECISION NOT NULL)"
            try:
                self._dialect.run(connection, self._text(table), ())
                self._dialect.run(connection, self._text("CREATE INDEX {table}_expires ON {table} (expires)"), ())
            except self._dialect.errors:  # another process was faster
                self._dialect.run(connection, self._text("SELECT 1 FROM {table} WHERE 1 = 0"), ())
