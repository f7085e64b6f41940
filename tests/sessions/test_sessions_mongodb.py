"""MongoDB's wire protocol: the whole suite on FerretDB 1.24.0 with SQLite, which is not MongoDB itself.

Besides it: what FerretDB is asked, and claims that their processes have left behind.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from session_engines import Ferretdb
from session_suite import TestOutage as TestOutage
from session_suite import TestRaces as TestRaces
from session_suite import TestStore as TestStore
from session_suite import any_key

from poorhttp.sessions import Conflict, Store, open_store

ENGINE = Ferretdb


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The filters of all commands that stores send which are opened from now on."""
    pymongo = pytest.importorskip("pymongo")
    filters = []

    class Listener(pymongo.monitoring.CommandListener):
        def started(self, event: Any) -> None:
            command = event.command
            parts = [command, *command.get("updates", ()), *command.get("deletes", ())]
            filters.extend(part[name] for part in parts for name in ("filter", "q") if name in part)

        def succeeded(self, event: Any) -> None: ...

        def failed(self, event: Any) -> None: ...

    client = functools.partial(pymongo.MongoClient, event_listeners=[Listener()])
    monkeypatch.setattr("poorhttp.sessions.stores.mongodb.pymongo.MongoClient", client)
    return filters


@pytest.fixture
def documents(engine) -> Iterator[Any]:
    with pytest.importorskip("pymongo").MongoClient(engine.server.address) as client:
        yield client.get_default_database()["sessions"]


def test_ferretdb_is_asked_for_an_id_and_nothing_else(engine, asked: list[dict[str, Any]]) -> None:
    store, key = open_store(engine.address), any_key()
    version = store.save(key, b"1", 60, None)
    store.save(key, b"2", 60, version)
    with pytest.raises(Conflict):
        store.save(key, b"3", 60, version)
    assert store.touch(key, 60) and store.load(key)[0] == b"2"
    store.delete(key)
    store.close()
    assert asked and all(set(each) == {"_id"} for each in asked), asked


def test_a_claim_that_its_process_left_is_void_at_its_end_and_not_before(store: Store, documents) -> None:
    key = any_key()
    version = store.save(key, b"1", 60, None)
    start = time.monotonic()
    end = datetime.now(timezone.utc) + timedelta(seconds=1)
    documents.insert_one({"_id": f"{key} claim", "expires": end})
    store.save(key, b"2", 60, version)
    assert time.monotonic() > start + 0.9
    assert store.load(key)[0] == b"2"
    assert documents.find_one({"_id": f"{key} claim"}) is None
