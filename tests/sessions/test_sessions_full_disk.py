"""Stores in files on a disk that is full: an error that says so, no old record lost, no descriptor left open."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

UNSHARE = ["unshare", "--mount", "--map-root-user"]
MAY_MOUNT = shutil.which("unshare") and not subprocess.call([*UNSHARE, "true"], stderr=subprocess.DEVNULL)

pytestmark = pytest.mark.skipif(not MAY_MOUNT, reason="needs `unshare --mount --map-root-user`")

SCRIPT = """\
import contextlib, os, sys
from pathlib import Path
from poorhttp.sessions import StoreDown, open_store

address, place = sys.argv[1], Path(sys.argv[2])
KEPT, OTHER, FRESH = "a" * 64, "b" * 64, "c" * 64
LARGE = b"x" * 300_000

def fill():
    # What is saved has room for its start.
    with open(place / "filler", "ab", buffering=0) as filler:
        with contextlib.suppress(OSError):
            while True:
                filler.write(b"x" * 4096)
        filler.truncate(filler.tell() - 65536)

def descriptors():
    return len(os.listdir("/proc/self/fd"))

store = open_store(address)
version = store.save(KEPT, b"old", 60, None)
store.save(OTHER, b"other", 60, None)
fill()
before, files, told = descriptors(), set(place.rglob("*")), set()
for _ in range(5):
    for save in lambda: store.save(KEPT, LARGE, 60, version), lambda: store.save(FRESH, LARGE, 60, None):
        try:
            save()
        except StoreDown as error:
            told.add(str(error))
        else:
            raise AssertionError("300 KB on a full disk")
    assert store.load(KEPT) == (b"old", version)
    assert store.load(FRESH) is None
    store.touch(KEPT, 100)
assert descriptors() <= before, os.listdir("/proc/self/fd")  # fewer, if the connection was given up
assert not [path for path in set(place.rglob("*")) - files if path.is_file() and path.stat().st_size]
os.unlink(place / "filler")
store.close()
store = open_store(address)
assert store.load(KEPT)[0] == b"old" and store.load(OTHER)[0] == b"other"
fresh = store.save(KEPT, b"new", 60, store.load(KEPT)[1])
assert store.load(KEPT) == (b"new", fresh)
store.delete(OTHER)
assert store.load(OTHER) is None
store.close()
print(*told, sep="\\n")
"""


@pytest.mark.parametrize("kind", ["file", "directory", "sqlite", "diskcache"])
def test_a_full_disk_loses_nothing(kind: str, tmp_path: Path) -> None:
    if kind == "diskcache":
        pytest.importorskip("diskcache")
    mounted = 'mount -t tmpfs -o size=1m none "$1" && shift && exec "$@"'
    command = [sys.executable, "-c", SCRIPT, f"{kind}:{tmp_path}/sessions", str(tmp_path)]
    done = subprocess.run(
        [*UNSHARE, "sh", "-c", mounted, "sh", str(tmp_path), *command],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert 1 <= len(done.stdout.splitlines()) <= 2
    assert all("No space left on device" in line or "disk is full" in line for line in done.stdout.splitlines())
