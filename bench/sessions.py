"""What a session costs a page of the dispatch table, in each store.

Knows the stores' rows and what the figures may be. Each store has its real server, which stands on the load's core. A
page is asked for without session, with one that is read, and with one that is read and written, in turns. Numbers are
microseconds for each request, beyond those of the page without session.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from bench import scenario
from bench.launch import Setting
from bench.scenario import Scenario
from bench.stores import STORES, Redis, Store, ensure_library, opened
from bench.table import FULL, QUICK, TABLE, Size, added, middles, served, take_turns, with_cookie
from bench.workloads import Target

__all__ = ["FULL", "NAMES", "QUICK", "SCENARIOS", "rows", "targets"]

# Few clients: the answers that are due when a turn is over cost CPU, and are not counted.
PLAIN = replace(TABLE, name="plain", connections=4)


def session(kind: type[Store], setting: Setting, size: Size) -> dict[str, object]:
    """Reading, and reading and writing; of Redis also one GET by its library, for comparison."""
    ensure_library(kind, setting.python)
    with ExitStack() as stack:
        store = stack.enter_context(opened(kind))
        asking = {"REDIS": store.address} if kind is Redis else {}
        plain = served(stack, PLAIN, setting, asking)
        kept = served(stack, replace(PLAIN, name="kept"), setting, {"SESSIONS": store.address})
        pages = {"plain": plain, "read": with_cookie(kept, "/read"), "write": with_cookie(kept, "/write")}
        if asking:
            pages["get"] = replace(plain, workload=replace(plain.workload, path="/get"))
        turns = take_turns(pages, size)
    beyond = {f"{name} {column}": added(turns, name, "plain", column)
              for name in pages if name != "plain" for column in ("cpu", "wall")}  # fmt: skip
    if asking:
        beyond |= {f"{name} times": beyond[f"{name} cpu"] / beyond["get cpu"] for name in ("read", "write")}
    return {"plain": middles(turns)["plain"], **beyond, "remark": store.version()}


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
NAMES = tuple(dict.fromkeys((*SCENARIOS, *STORES)))  # that --only takes
rows = partial(scenario.rows, ALL, servers=STORES)


def targets() -> Iterator[Target]:
    row, unit = ("sessions", "redis"), "x"
    yield Target("Redis, CPU of reading a session: / one GET by redis-py", row, "read times", "<=", 1.3, unit)
    yield Target("Redis, CPU of reading and writing: / one GET by redis-py", row, "write times", "<=", 2.5, unit)
