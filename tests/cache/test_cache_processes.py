"""Several processes and threads with one cache: what they share, and what is left of one that is killed or stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from cache_locks import locked
from processes import suspend, wait_for

from poorhttp.cache import Cache

MIB = 1 << 20
SIZE = 4 * MIB


def in_child(do) -> None:  # type: ignore[no-untyped-def]
    """Do something in a forked child, which must not fail."""
    child = os.fork()
    if not child:
        try:
            do()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_without_a_path_forked_processes_share_it() -> None:
    cache = Cache(size=SIZE)
    cache.set("mine", [1])

    def change() -> None:
        assert cache.get("mine") == [1]
        cache.set("theirs", "value")
        in_child(lambda: cache.set("grandchild's", "other"))

    in_child(change)
    assert (cache.get("theirs"), cache.get("grandchild's")) == ("value", "other")
    assert Cache(size=SIZE).get("mine") is None


COUNTS = """
import sys, threading
from poorhttp.cache import Cache
cache = Cache(sys.argv[1], int(sys.argv[2]))
sys.setswitchinterval(0.0001)

def count():
    for number in range(5000):
        cache.incr(f"count {number % 3}", default=0)
        cache.set(f"{number % 100}", f"value of {number % 100} " * (1 + number % 37))
        found = cache.get(f"{(number * 7) % 100}", "")
        assert not found.replace(f"value of {(number * 7) % 100} ", ""), found

failures = []
threading.excepthook = failures.append
threads = [threading.Thread(target=count) for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert not failures, failures
"""


def test_processes_and_threads_count_together(path: str) -> None:
    command = [sys.executable, "-c", COUNTS, path, str(SIZE)]
    counters = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    failures = [each.communicate(timeout=55)[1] for each in counters]
    assert [each.returncode for each in counters] == [0, 0, 0], failures
    cache = Cache(path, SIZE)
    assert sum(cache.get(f"count {number}") for number in range(3)) == 3 * 3 * 5000


FORKS = """
import os, sys, threading
from poorhttp.cache import Cache
cache = Cache(sys.argv[1], 1 << 20)
value = b"x" * 100_000
is_over = False

def use(number):
    while not is_over:
        cache.set(f"{number}", value)
        assert cache.get(f"{number}") in (None, value)
        cache.incr("count", default=0)

threads = [threading.Thread(target=use, args=(number,)) for number in range(4)]
for thread in threads: thread.start()
for turn in range(60):
    child = os.fork()
    if not child:
        cache.set("child's", f"{turn}")
        os._exit(cache.get("child's") != f"{turn}")
    assert os.waitpid(child, 0) == (child, 0), turn
is_over = True
for thread in threads: thread.join()
cache.set("count", 0)
"""


def test_a_process_that_forks_while_its_threads_have_locks(path: str) -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORKS, path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=55, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert Cache(path, MIB).load("count") == 0


KILLED = """
import hashlib, os, random, signal, sys, time
from poorhttp.cache import Cache

KILLS, KEYS, WRITERS = 300, 40, 3
cache = Cache(sys.argv[1], 4 << 20)

def write(seed):
    chance = random.Random(seed)
    bodies = [chance.randbytes(size) for size in (0, 10, 100, 1000, 10_000, 60_000)]
    while True:
        key = f"{chance.randrange(KEYS)}"
        what = chance.randrange(10)
        if what < 6:
            body = chance.choice(bodies)
            cache.set(key, hashlib.sha1(key.encode() + body).digest() + body, 60)
        elif what == 6:
            cache.delete(key)
        elif what == 7:
            cache.touch(key, 60)
        else:
            cache.incr("count", default=0)

def begin():
    child = os.fork()
    if not child:
        write(os.getpid())
    return child

chance = random.Random(1)
writers = [begin() for _ in range(WRITERS)]
emptied, longest, found = 0, 0.0, 0
for turn in range(KILLS):
    time.sleep(chance.uniform(0, 0.006))
    killed = writers.pop(0)
    os.kill(killed, signal.SIGKILL)
    os.waitpid(killed, 0)
    for number in range(KEYS):
        start = time.monotonic()
        value = cache.load(f"{number}")
        longest = max(longest, time.monotonic() - start)
        if value is not None:
            found += 1
            assert hashlib.sha1(b"%d" % number + value[20:]).digest() == value[:20], "a wrong value"
    count = cache.load("count")
    assert count is None or count > 0
    emptied += cache.add("watched", "still there") and turn > 0
    assert cache.load("watched") == "still there"
    writers.append(begin())
for writer in writers:
    os.kill(writer, signal.SIGKILL)
    os.waitpid(writer, 0)
cache.stats(), cache.clear()
print(emptied, found, longest)
"""


def test_300_processes_that_are_killed_leave_no_lock_and_no_wrong_value(path: str) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, path], capture_output=True, text=True, timeout=58, check=False)
    assert done.returncode == 0, done.stderr
    emptied, found, longest = map(float, done.stdout.split())
    assert 0 < emptied < 250, "some were killed in the middle of a change"
    assert found > 500 and longest < 1


STOPPED = """
import sys
from poorhttp.cache import Cache
cache = Cache(sys.argv[1])
print("writing", flush=True)
value = b"x" * (1 << 20)
while True:
    cache.set("large", value)
    cache.delete("large")
"""


@contextmanager
def stopped_in_a_change(cache: Cache) -> Iterator[subprocess.Popen[bytes]]:
    """A process that was stopped while it had the lock of the shard of "large"."""
    command = [sys.executable, "-c", STOPPED, str(cache.path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == b"writing\n"
            for _ in range(500):
                suspend(process.pid)
                try:
                    cache.load("large")
                except TimeoutError:
                    break
                process.send_signal(signal.SIGCONT)
                time.sleep(0.001)
            else:
                pytest.fail("it was never stopped in a change")
            yield process
        finally:
            process.kill()


def elsewhere(cache: Cache) -> str:
    """A key of another shard."""
    for number in range(1000):
        try:
            cache.load(f"{number}")
        except TimeoutError:
            continue
        return f"{number}"
    pytest.fail("all shards are locked")


def test_a_process_that_is_stopped_costs_others_one_wait_and_no_more(path: str) -> None:
    cache = Cache(path, patience=0.3)
    with stopped_in_a_change(cache) as process:
        fresh, start = Cache(path, patience=0.3), time.monotonic()
        assert fresh.get("large", "none") == "none"
        assert 0.3 <= time.monotonic() - start < 5
        start = time.monotonic()
        for _ in range(10):
            assert fresh.get("large") is None and "large" not in fresh
        assert time.monotonic() - start < 3, "others do not wait again"
        told = rf"another process has kept a part of the cache {path} locked for 300 ms: is one stopped, or in a debugger\?"
        for do in (
            lambda: fresh.set("large", 1),
            lambda: fresh.add("large", 1),
            lambda: fresh.delete("large"),
            lambda: fresh.touch("large"),
            lambda: fresh.incr("large"),
            lambda: fresh.load("large"),
            fresh.clear,
            fresh.stats,
        ):
            with pytest.raises(TimeoutError, match=told):
                do()
        other = elsewhere(fresh)
        fresh.set(other, "value")
        assert fresh.get(other) == "value"
        process.send_signal(signal.SIGCONT)
        wait_for(lambda: is_free(fresh), "the lock to be given back")
        assert fresh.get(other) == "value"


def test_the_lock_of_a_process_that_is_killed_while_it_is_stopped_is_free(path: str) -> None:
    cache = Cache(path, patience=0.3)
    with stopped_in_a_change(cache) as process:
        process.kill()
        process.wait()
        start = time.monotonic()
        assert cache.load("large") in (None, b"x" * MIB)
        cache.set("large", "value")
        assert cache.load("large") == "value" and time.monotonic() - start < 0.2


def is_free(cache: Cache) -> bool:
    try:
        cache.set("large", 1)
    except TimeoutError:
        return False
    return True


def test_other_threads_go_on_while_one_waits(path: str) -> None:
    cache = Cache(path, SIZE)
    cache.set("key", "value")
    found = []
    with locked(path, 1):
        waiter = threading.Thread(target=lambda: found.append(cache.get("key", "none")))
        start = time.monotonic()
        waiter.start()
        turns = 0
        while waiter.is_alive():
            turns += 1
            time.sleep(0.001)
        assert turns > 50 and time.monotonic() - start >= 1
    assert found == ["none"]
    wait_for(lambda: cache.get("key") == "value", "the lock to be free")
