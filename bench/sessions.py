"""What a session costs a page of the dispatch table, in each store.

Knows the stores' rows and what the figures may be. Each store has its real server, which stands on the load's core. A
page is asked for without session, with one that is read, and with one that is read and written, in turns. Numbers are
microseconds for each request, beyond those of the page without session.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from bench import launch, record, scenario
from bench.client import Failure, Missing
from bench.launch import LOAD_CORE, Setting
from bench.scenario import Scenario
from bench.stores import STORES, Redis, Served, Store
from bench.table import FULL, QUICK, TABLE, Size, added, middles, served, take_turns, with_cookie
from bench.workloads import Target

__all__ = ["FULL", "QUICK", "SCENARIOS", "rows", "targets"]

# Few clients: the answers that are due when a turn is over cost CPU, and are not counted.
PLAIN = replace(TABLE, name="plain", connections=4)


def session(kind: type[Store], setting: Setting, size: Size) -> dict[str, object]:
    """Reading, and reading and writing; of Redis also one GET by its library, for comparison."""
    ensure_library(kind, setting)
    try:
        with launch.pinned({LOAD_CORE}):
            store = kind()
    except (RuntimeError, subprocess.SubprocessError) as error:
        raise Failure(f"no server: {error}") from error
    asking = {"REDIS": store.address} if kind is Redis else {}
    try:
        with ExitStack() as stack:
            plain = served(stack, PLAIN, setting, asking)
            kept = served(stack, replace(PLAIN, name="kept"), setting, {"SESSIONS": store.address})
            pages = {"plain": plain, "read": with_cookie(kept, "/read"), "write": with_cookie(kept, "/write")}
            if asking:
                pages["get"] = replace(plain, workload=replace(plain.workload, path="/get"))
            turns = take_turns(pages, size)
    finally:
        store.stop()
    beyond = {f"{name} {column}": added(turns, name, "plain", column)
              for name in pages if name != "plain" for column in ("cpu", "wall")}  # fmt: skip
    version = record.said([store.command[0], "--version"]) if isinstance(store, Served) else ""
    if asking:
        beyond |= {f"{name} times": beyond[f"{name} cpu"] / beyond["get cpu"] for name in ("read", "write")}
    return {"plain": middles(turns)["plain"], **beyond, "remark": version}


def ensure_library(kind: type[Store], setting: Setting) -> None:
    """Raise Missing if the interpreter that runs poorhttp lacks the library of the store."""
    if kind.library:
        importing = [setting.python, "-c", f"import {kind.library}"]
        done = subprocess.run(importing, capture_output=True, timeout=60, check=False)
        if done.returncode:
            raise Missing(kind.library, f"pip install 'poorhttp[{kind.extra}]'")


# fmt: off
ALL = (
    Scenario("sessions", "what a session adds to a page of the dispatch table, in each store", session, (),
             {"page CPU µs": "plain", "read CPU µs": "read cpu", "± read": "~read cpu", "read wall µs": "read wall",
              "read and write CPU µs": "write cpu", "± write": "~write cpu", "read and write wall µs": "write wall",
              "one GET CPU µs": "get cpu", "read / GET": "read times", "read and write / GET": "write times"},
             tuple(STORES)),
)
# fmt: on
SCENARIOS = {each.name: each for each in ALL}
rows = partial(scenario.rows, ALL, servers=STORES)


def targets() -> Iterator[Target]:
    row, unit = ("sessions", "redis"), "x"
    yield Target("Redis, CPU of reading a session: / one GET by redis-py", row, "read times", "<=", 1.3, unit)
    yield Target("Redis, CPU of reading and writing: / one GET by redis-py", row, "write times", "<=", 2.5, unit)
