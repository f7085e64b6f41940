"""DiskCache: the whole suite."""

import sqlite3

import pytest
from session_engines import DiskCache
from session_suite import TestOutage as TestOutage
from session_suite import TestRaces as TestRaces
from session_suite import TestStore as TestStore
from session_suite import any_key

from poorhttp.sessions import StoreDown, open_store

diskcache = pytest.importorskip("diskcache")

ENGINE = DiskCache

# DiskCache leaves the connection of a thread open when the thread ends.
pytestmark = pytest.mark.usefixtures("careless")


class Trap:
    """What runs code when it is unpickled."""

    def __reduce__(self):
        return print, ("unpickled",)


def test_a_pickle_that_somebody_put_there_is_not_read(tmp_path, capsys) -> None:
    store, key = open_store(f"diskcache:{tmp_path}/sessions"), any_key()
    store.save(any_key(), b"1", 60, None)
    with diskcache.Cache(f"{tmp_path}/sessions", disk=diskcache.Disk) as cache:
        cache.set(key, Trap())
    with pytest.raises(StoreDown, match="is a pickle"):
        store.load(key)
    store.close()
    assert capsys.readouterr().out == ""


def test_a_save_that_fails_midway_leaves_a_large_record_as_it_was(tmp_path, monkeypatch) -> None:
    """DiskCache removes the file of an old value before the transaction is over, so records may have no files."""
    store, key = open_store(f"diskcache:{tmp_path}/sessions"), any_key()
    version = store.save(key, b"old" * 100_000, 60, None)
    whole = diskcache.Cache.set

    def failing(cache, *args, **settings):
        whole(cache, *args, **settings)
        raise sqlite3.OperationalError("disk I/O error")

    with monkeypatch.context() as patch:
        patch.setattr(diskcache.Cache, "set", failing)
        with pytest.raises(StoreDown):
            store.save(key, b"new" * 100_000, 60, version)
    assert store.load(key) == (b"old" * 100_000, version)
    store.save(key, b"new", 60, version)
    store.close()
