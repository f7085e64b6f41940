"""A process that is killed while it saves: the record is the old one or the new one, and no lock is left."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from poorhttp.sessions import open_store

KEY = "a" * 64
SIZE = 200_000
SAVING = f"""\
import sys
from poorhttp.sessions import open_store
store = open_store(sys.argv[1])
_, version = store.load("{KEY}")
print("saving", flush=True)
while True:
    for letter in b"abcdefgh":
        version = store.save("{KEY}", bytes([letter]) * {SIZE}, 60, version)
"""
KILLS = 10

pytestmark = pytest.mark.usefixtures("careless")


@pytest.mark.parametrize("kind", ["file", "directory", "sqlite", "diskcache"])
def test_a_record_is_whole_after_its_process_was_killed(kind: str, tmp_path: Path) -> None:
    if kind == "diskcache":
        pytest.importorskip("diskcache")
    address = f"{kind}:{tmp_path}/sessions?timeout=30"
    store, chance, found = open_store(address), random.Random(1), set()
    store.save(KEY, b"0" * SIZE, 60, None)
    for _ in range(KILLS):
        store.close()
        with subprocess.Popen([sys.executable, "-c", SAVING, address], stdout=subprocess.PIPE) as process:
            try:
                assert process.stdout is not None and process.stdout.readline() == b"saving\n"
                time.sleep(chance.uniform(0, 0.02))
            finally:
                process.kill()
        start = time.monotonic()
        record = store.load(KEY)
        assert record is not None and len(record[0]) == SIZE and len(set(record[0])) == 1
        found.add(record[0][:1])
        store.save(KEY, record[0], 60, record[1])
        assert time.monotonic() - start < 20  # a lock of the dead process would last until the timeout
    assert found - {b"0"}, "no process has saved anything"
    store.close()
