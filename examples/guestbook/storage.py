"""Where the guest book keeps its data: one file of SQLite."""

import os
import sqlite3
from contextlib import contextmanager
from pathlib import Path

FOLDER = Path(os.environ.get("GUESTBOOK_DATA") or Path(__file__).parent).absolute()

SCHEMA = """
CREATE TABLE IF NOT EXISTS entries (
    number INTEGER PRIMARY KEY, author TEXT, written TEXT DEFAULT CURRENT_TIMESTAMP, text TEXT);
CREATE TABLE IF NOT EXISTS users (name TEXT PRIMARY KEY, salt BLOB, password BLOB);
CREATE TABLE IF NOT EXISTS pictures (entry INTEGER PRIMARY KEY, kind TEXT, data BLOB);
"""


@contextmanager
def database():
    """A connection for one request. At its end the changes are kept, or dropped if there was an exception."""
    connection = sqlite3.connect(FOLDER / "guestbook.db")
    try:
        with connection:
            yield connection
    finally:
        connection.close()


if __name__ == "__main__":
    with database() as db:
        db.executescript(SCHEMA)
    print("The tables are in", FOLDER / "guestbook.db")
