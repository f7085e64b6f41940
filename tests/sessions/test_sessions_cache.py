"""A cache that processes share, as a store: the whole suite; and sessions that are too large."""

from __future__ import annotations

from pathlib import Path

import pytest
from session_engines import SharedCache
from session_suite import TestOutage as TestOutage
from session_suite import TestRaces as TestRaces
from session_suite import TestStore as TestStore
from session_suite import any_key

from poorhttp.cache import Cache
from poorhttp.sessions import Conflict, StoreDown, TooLarge, open_store
from poorhttp.sessions.stores.shared_cache import CacheStore

ENGINE = SharedCache


def test_a_session_that_is_larger_than_a_value_may_be_is_refused(tmp_path: Path) -> None:
    store, key = CacheStore(f"{tmp_path}/sessions", size=1 << 20), any_key()
    version = store.save(key, b"small", 60, None)
    with pytest.raises(TooLarge, match="a value has 300016 bytes; this cache takes at most 262144"):
        store.save(key, b"x" * 300_000, 60, version)
    assert store.load(key) == (b"small", version)


def test_what_is_no_record_is_no_session(tmp_path: Path) -> None:
    store, key = open_store(f"cache:{tmp_path}/sessions"), any_key()
    Cache(f"{tmp_path}/sessions").set(key, "text")
    assert store.load(key) is None
    with pytest.raises(Conflict):
        store.save(key, b"1", 60, "0" * 16)


def test_a_file_that_is_no_cache_is_an_outage(tmp_path: Path) -> None:
    (tmp_path / "sessions").write_text("something else")
    with pytest.raises(StoreDown, match="is no cache; expected the file of a cache"):
        open_store(f"cache:{tmp_path}/sessions").load(any_key())


def test_a_size_that_cannot_be_is_no_session_that_is_too_large(tmp_path: Path) -> None:
    store = CacheStore(f"{tmp_path}/sessions", size=5)
    with pytest.raises(ValueError, match="the size of a cache is 5; expected 1048576 to"):
        store.load(any_key())
