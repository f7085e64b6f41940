"""What a cache of Django costs each operation: the workload of DiskCache's article, and the listing of its directory.

Knows the caches, how each is configured, and what the figures may be. A cache has its real server where it needs one,
and its data in a temporary directory. Times are microseconds, totals seconds, by the clock of each process around each
operation; everything may use all cores. `caches_report` shows the figures.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from bench import launch, record, scenario, scratch, stores
from bench.caches_article import OPERATIONS, PROCESSES, WARM_UP
from bench.caches_processes import Place, Seen, fill, look, work
from bench.caches_workload import (
    ACTIONS,
    KEYS,
    NOTHING,
    ensure_known,
    ensure_right,
    lost,
    timed,
    written,
)
from bench.client import Failure
from bench.launch import APPS, ENDS_WITH_US, Setting, environment, last_line
from bench.report import percentile
from bench.scenario import Scenario
from bench.workloads import Row, Target

SHARED = "shared"  # the row of poorhttp's own cache
INSTALL = "pip install -e '.[bench]'"
MEBIBYTE = 1 << 20
PATIENCE = 600  # seconds, with a listing
DJANGO = "django.core.cache.backends"
# What the article gave those that can be told how many entries they keep.
ENTRIES = {"OPTIONS": {"MAX_ENTRIES": 1000, "CULL_FREQUENCY": 10}}
PERCENTILES = {"median": 50, "p90": 90, "p99": 99, "max": 100}


@dataclass(frozen=True)
class Size:
    processes: int
    operations: int  # of each process
    warm_up: int  # the first ones of each process, which are not timed
    calls: int  # of a listing


FULL = Size(PROCESSES, OPERATIONS, WARM_UP, 100)
QUICK = Size(PROCESSES, 3_000, 101, 1)


class Redis(stores.RedisCache):
    """Redis that keeps nothing on disk."""

    def prepared(self) -> list[str]:
        return [*super().prepared(), "--save", ""]


class InMemory(stores.Store):
    """A file that is never written to a disk, where the machine has a place for such."""

    def __init__(self) -> None:
        self._scratch = scratch.Scratch(scratch.MEMORY if os.access(scratch.MEMORY, os.W_OK) else None)
        self.directory = self._scratch.path

    def stop(self) -> None:
        self._scratch.remove()


@dataclass(frozen=True)
class Cache:
    """location: Django's LOCATION, of the running store. needs: what it imports, as pip knows it."""

    title: str
    backend: str
    location: Callable[[Any], str] = lambda store: str(store.directory / "data")
    store: type[stores.Store] = stores.Store
    needs: tuple[str, ...] = ()
    more: Mapping[str, Any] = field(default_factory=dict)  # of its entry in CACHES

    @property
    def has_server(self) -> bool:
        return issubclass(self.store, stores.Served)

    def settings(self, store: stores.Store) -> dict[str, Any]:
        """Its entry in CACHES."""
        return {"BACKEND": self.backend, "LOCATION": self.location(store), **self.more}


def host_and_port(store: stores.Served) -> str:
    return f"127.0.0.1:{store.port}"


CACHES = {
    "locmem": Cache("Django's memory", f"{DJANGO}.locmem.LocMemCache", more=ENTRIES),
    "memcached": Cache("Memcached", f"{DJANGO}.memcached.PyMemcacheCache", host_and_port, stores.Memcached,
                       ("pymemcache",)),
    "pylibmc": Cache("Memcached (pylibmc)", f"{DJANGO}.memcached.PyLibMCCache", host_and_port, stores.Memcached,
                     ("pylibmc",)),  # has no wheels above CPython 3.11; there pip needs libmemcached-dev
    "redis": Cache("Redis", f"{DJANGO}.redis.RedisCache", lambda store: store.address, Redis, ("redis",)),
    "diskcache": Cache("DiskCache", "diskcache.DjangoCache", needs=("diskcache",)),
    "filebased": Cache("Django's files", f"{DJANGO}.filebased.FileBasedCache", more=ENTRIES),
    # As much as memcached takes by default.
    SHARED: Cache("poorhttp.cache", "poorhttp.cache.django.SharedCache", store=InMemory,
                  more={"OPTIONS": {"size": 64 * MEBIBYTE}}),
}  # fmt: skip
LISTINGS = {str(10**power): 10**power for power in range(6)}


def together(cache: Cache, setting: Setting, size: Size) -> dict[str, object]:
    """The figures of all processes at once."""
    return measure(cache, setting, size, size.processes)


def alone(cache: Cache, setting: Setting, size: Size) -> dict[str, object]:
    """The figures of one process, and how many gets found nothing though a value was there."""
    return measure(cache, setting, size, 1)


def measure(cache: Cache, setting: Setting, size: Size, processes: int) -> dict[str, object]:
    """Fill the cache, let the processes ask it, and look what is in it. Raises Failure where a value is wrong."""
    launch.raise_if_missing(setting.python, ("django", *cache.needs), INSTALL)
    with ExitStack() as stack:
        stack.enter_context(launch.pinned(all_cores()))
        store = stack.enter_context(stores.opened(cache.store, all_cores()))
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="caches-"))
        place = Place(setting.python, cache.settings(store), Path(directory))
        fill(place)
        before = look(place)
        seen = work(place, processes, size.operations, size.warm_up)
        after = look(place)
    known = written(processes, size.operations)
    ensure_known(before, written(0, 0))
    ensure_known(after, known)
    for number, each in enumerate(seen):
        ensure_right(number, each.seen, known)
    numbers: dict[str, object] = {**figures(seen), "kept": sum(found != NOTHING for found in before)}
    counted = {action: numbers[f"{action} count"] for action in ACTIONS}
    if counted != timed(processes, size.operations, size.warm_up):
        raise Failure(f"other operations were timed than the workload has: {counted}")
    if processes == 1:
        numbers["lost"] = lost(seen[0].seen)
    return {**numbers, "remark": store.version()}


def figures(seen: list[Seen]) -> dict[str, float]:
    """The article's figures of each action, over the operations of all processes: `get median`, `set total`, ..."""
    numbers: dict[str, float] = {}
    for action in ACTIONS:
        times = sorted(nanoseconds for each in seen for nanoseconds in each.times[action])
        if not times:
            raise Failure(f"no {action} was timed")
        numbers |= {f"{action} count": len(times), f"{action} miss": sum(each.misses[action] for each in seen)}
        numbers |= {f"{action} {name}": percentile(times, percent) / 1e3 for name, percent in PERCENTILES.items()}
        numbers[f"{action} total"] = sum(times) / 1e9
    seconds = (max(each.ended for each in seen) - min(each.began for each in seen)) / 1e9
    return {
        **numbers,
        "count": sum(numbers[f"{action} count"] for action in ACTIONS),
        "total": sum(numbers[f"{action} total"] for action in ACTIONS),
        "rate": sum(len(each.seen) for each in seen) / seconds,
        "clock": median(each.clock for each in seen) / 1e3,
    }


def listing(count: int, setting: Setting, size: Size) -> dict[str, object]:
    """Microseconds of listing a directory of so many files, and of a set into a filebased cache that has them."""
    launch.raise_if_missing(setting.python, ("django",), INSTALL)
    with tempfile.TemporaryDirectory(prefix="listing-") as directory, launch.pinned(all_cores()):
        words = [setting.python, str(APPS / "listing.py"), directory, str(count), str(size.calls)]
        command = [*ENDS_WITH_US, *words]
        try:
            done = subprocess.run(
                command, env=environment(ours=True), cwd=APPS, capture_output=True, timeout=PATIENCE, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise Failure(f"listing {count:,} files {size.calls} times takes more than {PATIENCE} s") from error
    if done.returncode:
        raise Failure(f"listing: {last_line(done.stderr)}")
    numbers: dict[str, object] = json.loads(done.stdout)
    return numbers


def all_cores() -> range:
    """Those of the machine; the kernel leaves out what a process may not have."""
    return range(os.cpu_count() or 1)


def facts(setting: Setting) -> dict[str, object]:
    """What else stands in a record: the versions of what is measured."""
    servers = {name: record.version_of(partial(stores.program, name, package), "--version")
               for name, package in (("memcached", "memcached"), ("redis-server", "redis-server"))}  # fmt: skip
    packages = ("poorhttp", "django", "diskcache", "pymemcache", "pylibmc", "redis")
    return {**record.versions(setting.python, packages), **servers}


# fmt: off
ALL = (
    Scenario("djangocache", f"{PROCESSES} processes at once, {KEYS:,} keys; 90 gets, 9 sets and a delete in a hundred",
             together, (), {}, tuple(CACHES)),
    Scenario("alone", "one process, which does what the first of the others does", alone, (), {}, tuple(CACHES)),
    Scenario("listing", "how long listing a directory takes, and a set of Django's filebased cache, which lists it",
             listing, (), {}, tuple(LISTINGS)),
)
# fmt: on
SCENARIOS = {each.name: each for each in ALL}
rows = partial(scenario.rows, ALL, servers={**CACHES, **LISTINGS})


def targets() -> Iterator[Target]:
    def rows_of(*names: str) -> tuple[Row, ...]:
        return tuple(("djangocache", name) for name in names)

    (ours,) = rows_of(SHARED)
    memcached = rows_of("memcached", "pylibmc")
    for action, other, over, limit in (
        ("get", "DiskCache", rows_of("diskcache"), 0.2), ("get", "Memcached, the faster client", memcached, 0.1),
        ("set", "DiskCache", rows_of("diskcache"), 0.1), ("set", "Memcached, the faster client", memcached, 0.12),
    ):  # fmt: skip
        text = f"{action}, median, {PROCESSES} processes: poorhttp.cache / {other}"
        yield Target(text, ours, f"{action} median", "<=", limit, over=over)
    # Which process comes first decides how many gets come between a delete and the next set of a key: a cache that
    # throws nothing away misses 3 % more in one round than in another.
    yield Target(f"get, misses, {PROCESSES} processes: poorhttp.cache / Memcached", ours, "get miss", "<=", 1.05,
                 over=rows_of("memcached"))  # fmt: skip
    yield Target("get, misses, one process, always in the same order: poorhttp.cache / Memcached", ("alone", SHARED),
                 "get miss", "<=", 1.0, over=(("alone", "memcached"),))  # fmt: skip
