"""SQLite: the whole suite, and a file that is removed while the site is served."""

from __future__ import annotations

from pathlib import Path

from session_engines import Sqlite
from session_suite import TestOutage as TestOutage
from session_suite import TestRaces as TestRaces
from session_suite import TestStore as TestStore
from session_suite import any_key

from poorhttp.sessions import open_store

ENGINE = Sqlite


def test_a_file_that_was_removed_is_made_again_by_the_next_connection(tmp_path: Path) -> None:
    store = open_store(f"sqlite:{tmp_path}/sessions.db")
    store.save(any_key(), b"old", 60, None)
    store.close()
    for file in tmp_path.iterdir():
        file.unlink()
    key = any_key()
    version = store.save(key, b"new", 60, None)
    assert store.load(key) == (b"new", version)
