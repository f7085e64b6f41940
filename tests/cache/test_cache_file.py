"""The file of a cache: made, shared, replaced, refused; on a full file system, and damaged."""

from __future__ import annotations

import math
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import warnings
from pathlib import Path

import pytest

from poorhttp.cache import Cache, file

MIB = 1 << 20
SIZE = 4 * MIB

UNSHARE = ["unshare", "--mount", "--map-root-user"]
MAY_MOUNT = shutil.which("unshare") and not subprocess.call([*UNSHARE, "true"], stderr=subprocess.DEVNULL)


def test_it_is_for_its_owner_alone_and_nothing_is_left_beside_it(path: str) -> None:
    before = os.umask(0)
    try:
        Cache(path, SIZE)
    finally:
        os.umask(before)
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert os.listdir(os.path.dirname(path)) == ["cache"]


def test_what_another_one_has_put_there_is_found(path: str) -> None:
    Cache(path, SIZE).set("key", "value")
    again = Cache(Path(path), SIZE)
    assert again.get("key") == "value" and again.path == path
    code = "import sys; from poorhttp.cache import Cache; print(Cache(sys.argv[1], int(sys.argv[2])).get('key'))"
    done = subprocess.run([sys.executable, "-c", code, path, str(SIZE)], capture_output=True, text=True, check=True)
    assert done.stdout == "value\n"


def test_descriptors_are_closed(path: str) -> None:
    before = os.listdir("/proc/self/fd")
    for _ in range(3):
        Cache(path, SIZE).set("key", 1)
        Cache(size=SIZE)
    assert os.listdir("/proc/self/fd") == before


def test_all_who_start_at_once_get_the_same_file(path: str) -> None:
    """Also where each has to replace an old one."""
    code = """
import sys, warnings
from poorhttp.cache import Cache
warnings.simplefilter("ignore")
sys.stdin.readline()
print(Cache(sys.argv[1], int(sys.argv[2])).incr("count", default=0))
"""
    for size in SIZE, 2 * SIZE:
        command = [sys.executable, "-c", code, path, str(size)]
        started = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(8)
        ]
        for each in started:
            assert each.stdin
            each.stdin.write("\n")
            each.stdin.flush()
        counted = [int(each.communicate(timeout=50)[0]) for each in started]
        assert sorted(counted) == list(range(1, 9))
    assert os.listdir(os.path.dirname(path)) == ["cache"]


def changed(path: str, offset: int, content: bytes) -> None:
    with open(path, "r+b") as opened:
        opened.seek(offset)
        opened.write(content)


@pytest.mark.parametrize(
    ("offset", "content", "told"),
    [
        (16, struct.pack("=Q", 1), "made by another release"),
        (
            file.HEAD.size - file.MACHINE,
            b"x" * file.MACHINE,
            "before this machine was started, or in another container",
        ),
    ],
)
def test_a_file_that_does_not_fit_is_replaced(path: str, offset: int, content: bytes, told: str) -> None:
    old = Cache(path, SIZE)
    old.set("key", "value")
    changed(path, offset, content)
    with pytest.warns(RuntimeWarning, match=f"{path} is made anew, and what it held is dropped: it was .*{told}"):
        new = Cache(path, SIZE)
    assert new.get("key") is None and old.get("key") == "value"
    new.set("key", "new")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Cache(path, SIZE).get("key") == "new"


def test_a_file_of_another_size_is_replaced(path: str) -> None:
    Cache(path, SIZE).set("key", "value")
    with pytest.warns(RuntimeWarning, match="made with a size of 4194304 bytes, and is opened with 8388608"):
        assert Cache(path, 2 * SIZE).get("key") is None


def test_a_file_that_was_cut_is_replaced(path: str) -> None:
    Cache(path, SIZE)
    os.truncate(path, MIB)
    with pytest.warns(RuntimeWarning, match="it has 1048576 bytes instead of 4214784: something has cut it"):
        Cache(path, SIZE).set("key", 1)


def test_the_head_is_on_the_disk_before_the_file_has_its_name(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a machine that loses its power may leave a file that is no cache, and is refused for ever."""
    heads = []

    def synced(descriptor: int) -> None:
        heads.append(os.pread(descriptor, 16, 0))
        assert not os.path.exists(path)

    monkeypatch.setattr(os, "fsync", synced)
    Cache(path, SIZE).set("key", "value")
    assert heads == [file.MAGIC] and Cache(path, SIZE).get("key") == "value"


@pytest.mark.parametrize("content", [b"", b"x", b"poorhttp.cache", b"SQLite format 3\0" * 1000, os.urandom(SIZE)])
def test_a_file_that_is_no_cache_is_left_alone(path: str, content: bytes) -> None:
    Path(path).write_bytes(content)
    with pytest.raises(OSError, match=r"cache is no cache; expected .*: name another file, or remove this one"):
        Cache(path, SIZE)
    assert Path(path).read_bytes() == content


def test_a_symbolic_link_is_refused(path: str) -> None:
    Cache(f"{path}.target", SIZE)
    for target in f"{path}.target", f"{path}.nowhere":
        os.symlink(target, path)
        with pytest.raises(OSError, match="is a symbolic link"):
            Cache(path, SIZE)
        os.unlink(path)
    assert not os.path.exists(f"{path}.nowhere")


def test_what_is_no_file_is_refused(path: str) -> None:
    os.mkfifo(path)
    with pytest.raises(OSError, match="is no regular file"):
        Cache(path, SIZE)
    with pytest.raises(OSError, match=r"is a directory; .*: name a file in it"):
        Cache(os.path.dirname(path), SIZE)
    with pytest.raises(OSError, match="is to be in a directory that is not there"):
        Cache(f"{path}.none/cache", SIZE)
    with pytest.raises(ValueError, match="null"):
        Cache(f"{path}\0", SIZE)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_of_another_user_is_refused(path: str) -> None:
    Cache(path, SIZE)
    os.chown(path, 65534, 65534)
    with pytest.raises(OSError, match=r"belongs to the user 65534, and this process runs as 0.*run this as the same"):
        Cache(path, SIZE)


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666, 0o777])
@pytest.mark.parametrize("pickle", [False, True])
def test_a_file_that_others_may_write_is_refused(path: str, mode: int, pickle: bool) -> None:
    Cache(path, SIZE)
    os.chmod(path, mode)
    told = f"{path} may be written by others \\(its mode is {mode:o}\\).*: remove it, or name another file"
    with pytest.raises(OSError, match=told):
        Cache(path, SIZE, pickle=pickle)
    os.chmod(path, 0o644)
    assert Cache(path, SIZE, pickle=pickle).get("key") is None


def test_a_path_of_bytes(path: str) -> None:
    Cache(path, SIZE).set("key", "value")
    assert Cache(path.encode(), SIZE).get("key") == "value"
    odd = Cache(path.encode() + b"\xff", SIZE)
    odd.set("key", "odd")
    assert odd.path == path + "\udcff" and Cache(odd.path, SIZE).get("key") == "odd"
    assert sorted(os.listdir(os.path.dirname(path))) == ["cache", "cache\udcff"]


def test_what_cannot_be_opened_leaves_nothing(path: str) -> None:
    before = os.listdir("/proc/self/fd")
    for size in 4e6, "4194304", None:
        for where in path, None:
            with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
                Cache(where, size)  # type: ignore[arg-type]
    for patience in -1, -0.001, math.nan, math.inf, 1e9:
        with pytest.raises(ValueError, match=r"the patience of a cache is .*; expected 0 to 3600 seconds"):
            Cache(path, SIZE, patience=patience)
    assert not os.listdir(os.path.dirname(path)) and os.listdir("/proc/self/fd") == before
    assert Cache(path, SIZE, patience=0).get("key") is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_is_told_whose_file_it_is() -> None:
    place = Path(tempfile.mkdtemp())
    try:
        place.chmod(0o711)
        Cache(place / "cache", SIZE)
        (place / "closed").mkdir(mode=0o700)
        os.seteuid(65534)
        try:
            with pytest.raises(
                OSError, match=r"belongs to the user 0, and this process runs as 65534.*run this as the"
            ):
                Cache(place / "cache", SIZE)
            with pytest.raises(PermissionError):
                Cache(place / "closed" / "cache", SIZE)
        finally:
            os.seteuid(0)
    finally:
        shutil.rmtree(place)


def test_locks_that_are_damaged_are_noticed(path: str) -> None:
    Cache(path, SIZE)
    changed(path, 4096, random.Random(1).randbytes(4096))
    with pytest.raises(OSError, match=f"the cache {path} is damaged: remove its file"):
        Cache(path, SIZE)


def test_damage_is_a_miss_and_never_a_wrong_value(path: str) -> None:
    """Of a file that something writes into while it is used."""
    chance = random.Random(2)
    misses = 0
    cache = Cache(path, SIZE)
    length = cache.stats()["memory"]
    for turn in range(300):
        for number in range(50):
            cache.set(f"{number}", f"value of {number} in {turn}" * chance.randrange(1, 50))
        for _ in range(chance.randrange(1, 30)):
            where = Cache.OVERHEAD + chance.randrange(chance.choice([64, 20_000, length]))
            changed(path, where, chance.randbytes(chance.randrange(1, 9)))
        for number in range(50):
            found = cache.get(f"{number}")
            assert found is None or not found.replace(f"value of {number} in {turn}", "")
            misses += found is None
        cache.incr("count", default=0)
        cache.stats()
    assert 0 < misses < 15_000
    cache.clear()
    cache.set("key", "value")
    assert cache.get("key") == "value"


def test_a_number_that_another_file_has_now_is_left_alone(path: str, tmp_path: Path) -> None:
    """A program that makes itself a daemon closes all descriptors."""
    before = set(os.listdir("/proc/self/fd"))
    cache = Cache(path, SIZE)
    (number,) = {
        int(each) for each in set(os.listdir("/proc/self/fd")) - before if os.path.lexists(f"/proc/self/fd/{each}")
    }
    other = os.open(tmp_path / "other", os.O_CREAT | os.O_RDWR)
    os.dup2(other, number)
    for each in range(3000):
        cache.set(f"{each}", b"x" * 1000)
    assert cache.get("2999") == b"x" * 1000 and cache.stats()["evictions"] > 0
    del cache
    assert os.fstat(other).st_size == os.fstat(other).st_blocks == 0
    assert os.path.samestat(os.fstat(other), os.fstat(number))
    os.close(other)
    os.close(number)


FULL = """\
import contextlib, os, sys
from poorhttp.cache import Cache

place = sys.argv[1]

def fill():
    with open(place + "/filler", "ab", buffering=0) as filler, contextlib.suppress(OSError):
        while True:
            filler.write(b"x" * 4096)

cache = Cache(place + "/cache", 64 << 20)
for number in range(200):
    cache.set(f"{number}", f"{number}" * 1000)
fill()
for number in range(20_000):
    cache.set(f"{number}", f"{number}" * 1000)
    assert cache.get(f"{number}") == f"{number}" * 1000
cache.set("large", b"x" * 1_000_000)
assert cache.get("large") in (None, b"x" * 1_000_000)
assert cache.stats()["evictions"] > 10_000
before = cache.stats()["memory"]
os.unlink(place + "/filler")
for number in range(5000):
    cache.set(f"{number}", f"{number}" * 1000)
assert cache.stats()["memory"] > before
fill()
try:
    Cache(place + "/other", 64 << 20)
except OSError as error:
    print(error.errno, error)
print(sorted(os.listdir(place)))
"""


@pytest.mark.skipif(not MAY_MOUNT, reason="needs `unshare --mount --map-root-user`")
def test_a_full_file_system_means_eviction(tmp_path: Path) -> None:
    mounted = 'mount -t tmpfs -o size=24m none "$1" && shift && exec "$@"'
    command = [*UNSHARE, "sh", "-c", mounted, "sh", str(tmp_path), sys.executable, "-c", FULL, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr
    told, left = done.stdout.splitlines()
    assert told.startswith("28 [Errno 28] No space left on device") and "a cache of 67108864 bytes at /" in told
    assert left == "['cache', 'filler']"


def test_threads_that_open_at_once(path: str) -> None:
    counted: list[int] = []

    def count() -> None:
        counted.append(Cache(path, SIZE).incr("count", default=0))

    threads = [threading.Thread(target=count) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(counted) == list(range(1, 9))
