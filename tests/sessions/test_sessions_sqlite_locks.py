"""The locks that SQLite holds between processes: neither a second connection nor a fork may lose them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from poorhttp.sessions import open_store

OTHER = """\
import sys
from poorhttp.sessions import open_store
store = open_store(sys.argv[1])
for command in sys.argv[2:]:
    print(store.purge() if command == "purge" else store.load(command * 64))
store.close()
"""

FORKING = """\
import os, sys
from poorhttp.sessions import open_store

store = open_store(sys.argv[1])
store.save("a" * 64, b"parent", 60, None)
told, go = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    store.save("b" * 64, b"child", 60, None)
    os.write(told[1], b".")
    os.read(go[0], 1)
    store.save("c" * 64, b"child", 60, None)
    os.write(told[1], b".")
    os.read(go[0], 1)
    os._exit(0)
os.read(told[0], 1)
store.close()  # the last process that has the file open would remove the WAL
os.write(go[1], b".")
os.read(told[0], 1)
print([store.load(key * 64) is not None for key in "abc"])
os.write(go[1], b".")
os.waitpid(child, 0)
print([store.load(key * 64) is not None for key in "abc"])
store.close()
"""

pytestmark = pytest.mark.usefixtures("careless")


def output(script: str, *arguments: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, timeout=50, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_second_connection_keeps_the_locks_of_the_first(tmp_path: Path) -> None:
    address = f"sqlite:{tmp_path}/sessions.db"
    store = open_store(address)
    store.save("a" * 64, b"1", 60, None)
    store._connections.use(lambda connection: store.load("a" * 64))  # type: ignore[attr-defined]  # as two threads do
    assert output(OTHER, address, "purge") == ["0"]
    assert (tmp_path / "sessions.db-wal").exists()
    store.save("b" * 64, b"2", 60, None)
    assert "None" not in output(OTHER, address, "a", "b")
    store.close()


@pytest.mark.parametrize("kind", ["sqlite", "diskcache"])
def test_a_child_does_not_take_the_locks_of_its_parent_for_its_own(kind: str, tmp_path: Path) -> None:
    if kind == "diskcache":
        pytest.importorskip("diskcache")
    assert output(FORKING, f"{kind}:{tmp_path}/sessions") == ["[True, True, True]"] * 2
