"""A directory of files: the whole suite."""

import resource
from pathlib import Path

import pytest
from session_engines import Directory
from session_suite import TestOutage as TestOutage
from session_suite import TestRaces as TestRaces
from session_suite import TestStore as TestStore
from session_suite import any_key

from poorhttp.sessions import StoreDown, open_store

ENGINE = Directory


def test_a_full_disk_leaves_the_old_record_and_its_owner_alone_can_read_it(tmp_path: Path) -> None:
    store, key = open_store(f"directory:{tmp_path}/sessions"), any_key()
    version = store.save(key, b"old", 60, None)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(StoreDown, match="File too large"):
            store.save(key, b"x" * 5000, 60, version)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert store.load(key) == (b"old", version)
    made = [tmp_path / "sessions", *(tmp_path / "sessions").rglob("*")]
    assert {path.stat().st_mode & 0o077 for path in made} == {0}
