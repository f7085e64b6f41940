"""DiskCache: the whole suite."""

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
