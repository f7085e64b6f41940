"""A file that something else writes into while a cache is open: misses and errors that name it, and no wrong value."""

from __future__ import annotations

import mmap
import os
import random
import re
import signal
import struct
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from processes import wait_for

from poorhttp.cache import Cache

SIZE = 1 << 20  # of one shard
LOCK = 4096
KIND = 16  # where glibc's mutex has it
HEAD, EXPIRES = 32, 24  # of a record: its size, and where in it is when it is over


def written(path: str, offset: int, content: bytes) -> None:
    with open(path, "r+b") as opened:
        opened.seek(offset)
        opened.write(content)


@contextmanager
def in_children(do: Callable[[int], None], count: int) -> Iterator[list[int]]:
    """Do something again and again, in processes. Their exit codes are in the list afterwards."""
    pids = []
    for number in range(count):
        pid = os.fork()
        if not pid:
            try:
                end = time.monotonic() + 3
                while time.monotonic() < end:
                    do(number)
                os._exit(0)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        pids.append(pid)
    codes: list[int] = []
    try:
        yield codes
    finally:
        codes += [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]


@pytest.fixture
def cache(path: str) -> Cache:
    return Cache(path, SIZE)


@pytest.mark.parametrize("kind", [b"\x42", b"\0"])
def test_a_lock_that_cannot_be_is_an_error_that_names_the_file(cache: Cache, kind: bytes) -> None:
    path = str(cache.path)
    cache.set("key", "value")
    written(path, LOCK + KIND, kind)
    assert cache.get("key", "none") == "none" and "key" not in cache
    told = f"the cache {re.escape(path)} is damaged: remove its file, and restart what uses it"
    for do in lambda: cache.set("key", 1), lambda: cache.incr("key"), lambda: cache.load("key"), cache.stats:
        start = time.monotonic()
        with pytest.raises(RuntimeError, match=told):
            do()
        assert time.monotonic() - start < 0.9, "there is nothing to wait for"


def test_a_cache_that_is_opened_with_damaged_locks_is_named(cache: Cache) -> None:
    written(str(cache.path), LOCK + KIND, b"\x42")
    with pytest.raises(OSError, match=f"the cache {re.escape(str(cache.path))} is damaged: remove its file"):
        Cache(cache.path, SIZE)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_value_that_changes_while_it_is_read_is_none(cache: Cache) -> None:
    values = {"text": "x" * 50_000, "unicode": "ř" * 25_000, "bytes": b"x" * 50_000}

    def use(number: int) -> None:
        for key, value in values.items():
            cache.set(f"{key} {number}", value)
            for _ in range(10):
                found = cache.get(f"{key} {number}")
                assert found is None or found == value

    with open(str(cache.path), "r+b") as file:
        memory = mmap.mmap(file.fileno(), 0)
    start, end = SIZE // 32 + Cache.OVERHEAD, Cache.OVERHEAD + 450_000
    chance = random.Random(1)
    with in_children(use, 2) as codes:
        until = time.monotonic() + 3
        while time.monotonic() < until:
            memory[chance.randrange(start, end)] ^= 1 << chance.randrange(8)
    assert codes == [0, 0]


def head_of(path: str, key: bytes) -> int:
    """Where in the file the record of a key begins."""
    with open(path, "rb") as file:
        return file.read().index(key) - HEAD


def test_a_time_that_is_damaged_lets_no_value_live_longer(cache: Cache) -> None:
    cache.set("the key", "value", timeout=0.3)
    assert cache.get("the key") == "value"
    written(str(cache.path), head_of(str(cache.path), b"the key") + EXPIRES, bytes(8))
    assert cache.get("the key") is None
    cache.set("the key", "new", timeout=60)
    assert cache.get("the key") == "new" and cache.touch("the key", 90) and cache.get("the key") == "new"


@pytest.mark.parametrize("seed", range(4))
def test_each_bit_of_a_record_and_of_the_state_may_be_another(path: str, seed: int) -> None:
    """One at a time; the cache is used by all its methods afterwards."""
    chance = random.Random(seed)
    cache = Cache(path, SIZE)
    length = 64 + HEAD + len("the key") + len("value")
    for bit in chance.sample(range(length * 8), 250):
        cache.clear()
        cache.set("the key", "value", timeout=60)
        cache.set("other", b"theirs")
        at = bit // 8
        place = Cache.OVERHEAD + at if at < 64 else head_of(path, b"the key") + at - 64
        with open(path, "r+b") as file:
            file.seek(place)
            (byte,) = file.read(1)
        written(path, place, bytes([byte ^ 1 << bit % 8]))
        signal.alarm(20)
        try:
            assert cache.get("the key") in (None, "value")
            assert cache.get("other") in (None, b"theirs")
            assert cache.add("new", 1) and cache.incr("new") == 2
            cache.touch("the key", 60)
            cache.replace("other", b"t", b"again")
            assert cache.get("other") in (None, b"again")
            for number in range(30):
                cache.set(f"{number}", f"{number}" * 10_000)
                assert cache.get(f"{number}") in (None, f"{number}" * 10_000)
            assert cache.get("the key") in (None, "value")
            assert cache.get("new") in (None, 2)
        finally:
            signal.alarm(0)


def test_the_lock_of_a_process_that_is_no_more(path: str) -> None:
    """It is as if one were stopped: nobody can know that there is none."""
    cache = Cache(path, SIZE, patience=0.05)
    written(str(cache.path), LOCK, struct.pack("=I", 2**22 - 1))
    assert cache.get("key") is None
    with pytest.raises(TimeoutError, match=f"a part of the cache {re.escape(str(cache.path))} locked for 50 ms"):
        cache.set("key", 1)
    written(str(cache.path), LOCK, bytes(4))
    wait_for(lambda: cache.add("key", 1), "the lock to be free")
