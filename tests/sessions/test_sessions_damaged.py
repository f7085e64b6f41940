"""Records and files of stores with any bytes in them: no session, or an error of the store, and never another exception."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from session_client import Client, Noting, get, put
from session_suite import operations

from poorhttp.sessions import Conflict, StoreDown, open_store

KEY = "a" * 64
NUMBERS = st.sampled_from([b"1", b"2", b"9e9", b"nan", b"inf", b"-1", b"", b"\xff", b"1_0", b"9" * 5000])
TEXTS = st.sampled_from([b"{}", b'{"a": 1}', b"[]", b'{"a":', b'{"a": ' * 100_000, b"9" * 5000, b"\xff"])
RECORDS = st.tuples(NUMBERS, NUMBERS, NUMBERS, TEXTS).map(b" ".join) | st.binary(max_size=60)


@given(RECORDS)
@example(b"1 0 9e9 " + b'{"a":' * 100_000)
@example(b"2 0 9e9 \xff {}")
def test_no_record_is_an_error(record: bytes) -> None:
    store = Noting()
    client = Client(store, rotation_grace=5)
    for handle in get("a"), put("b", 1), lambda session: session.rotate(), lambda session: session.invalidate():
        client.do(put("a", 1))
        for key in list(store.keys()):
            store.delete(key)
            store.save(key, record, 60, None)
        client.do(handle)
        assert client.status.startswith("200") and client.log.count("\n") <= 1
        client.jar.clear()
        for key in list(store.keys()):
            store.delete(key)


LINES = st.sampled_from(
    [
        b'["' + KEY.encode() + b'", "v", 9e9, "x"]',
        b'["' + KEY.encode() + b'", 1, null, []]',
        b'["',
        b"[[[",
        b"\xff",
        b"\0" * 50,
    ]
)
CONTENTS = st.lists(LINES | st.binary(max_size=30), max_size=5).map(b"\n".join) | st.just(
    b"SQLite format 3\0" + b"\xff" * 200
)
PLACES = {"file": "sessions", "directory": f"sessions/aa/{KEY}", "sqlite": "sessions", "diskcache": "sessions/cache.db"}


@pytest.mark.usefixtures("careless")
@pytest.mark.parametrize("kind", PLACES)
@given(CONTENTS)
def test_no_content_of_a_file_is_another_error(kind: str, content: bytes) -> None:
    if kind == "diskcache":
        pytest.importorskip("diskcache")
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory, PLACES[kind])
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
        store = open_store(f"{kind}:{directory}/sessions?timeout=1")
        for do in *operations(store, KEY), store.purge:
            with contextlib.suppress(Conflict, StoreDown):
                do()
        store.close()
