"""Records in MariaDB or MySQL, by PyMySQL."""

from __future__ import annotations

from urllib.parse import parse_qs, unquote, urlsplit

import pymysql
from pymysql.constants import CLIENT

from poorhttp.sessions.errors import SessionError
from poorhttp.sessions.store import TIMEOUT
from poorhttp.sessions.stores.sql import TABLE, Dialect, SqlStore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

GONE = (2006, 2013, 4031)
"""Numbers of errors after which a connection is closed."""


class _Mariadb(Dialect):
    name = "MariaDB"
    blob = "MEDIUMBLOB"
    key = "CHAR(64) CHARACTER SET ascii COLLATE ascii_bin"
    insert = "INSERT IGNORE"
    errors = (pymysql.MySQLError,)

    def __init__(self, address: str, timeout: float) -> None:
        parts = urlsplit(address)
        database = unquote(parts.path[1:])
        if not database:
            raise SessionError("the address of MariaDB names no database: mariadb://user@host/database")
        socket = parse_qs(parts.query).get("unix_socket", [""])[-1]
        self._settings: dict[str, Any] = {
            "host": parts.hostname or "localhost",
            "port": parts.port or 3306,
            "unix_socket": socket or None,
            "user": unquote(parts.username or "root"),
            "password": unquote(parts.password or ""),
            "database": database,
            "connect_timeout": timeout,
            "read_timeout": timeout,
            "write_timeout": timeout,
            "autocommit": True,
            "client_flag": CLIENT.FOUND_ROWS,  # an UPDATE that changes nothing counts its rows too
        }

    def connect(self) -> Any:
        return pymysql.connect(**self._settings)

    def is_lost(self, error: Exception) -> bool:
        is_closed = bool(error.args) and error.args[0] in GONE and "timed out" not in str(error)
        return is_closed or isinstance(error, pymysql.InterfaceError)


class MariadbStore(SqlStore):
    def __init__(self, address: str, timeout: float = TIMEOUT, table: str = TABLE) -> None:
        """address: `mariadb://user:password@host:3306/database`, or `...@localhost/database?unix_socket=/path`."""
        super().__init__(_Mariadb(address, timeout), table)
