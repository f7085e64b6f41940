"""What a session costs a page of the dispatch table, in each store; and what another suite of sessions must have.

Knows the stores' rows and what the figures may be. Each store has its real server, which stands on the load's core. A
page is asked for without session, with one that is read, and with one that is read and written, in turns. Numbers are
microseconds for each request, beyond those of the page without session.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Protocol

from bench import launch, record, scenario
from bench.client import Failure, Missing
from bench.launch import LOAD_CORE, Setting
from bench.measure import Measurement
from bench.report import Results
from bench.scenario import Scenario
from bench.stores import STORES, Redis, Served, Store
from bench.table import FULL, QUICK, TABLE, Size, added, middles, served, take_turns, with_cookie
from bench.workloads import Row, Target

__all__ = ["FULL", "NAMES", "OWN", "QUICK", "SCENARIOS", "Suite", "add_arguments", "key_of", "rows", "targets"]

OWN = "own"  # the suite that this module is

# Few clients: the answers that are due when a turn is over cost CPU, and are not counted.
PLAIN = replace(TABLE, name="plain", connections=4)


class Suite(Protocol):
    """A module that measures sessions in another way than this one, chosen by --suite.

    It has records, tables and targets of its own, under the name that `key_of` gives.
    """

    ROUNDS: int  # by default
    PROGRAMS: tuple[str, ...]  # in C, which are compiled before
    NAMES: tuple[str, ...]  # that --only takes
    SERVED_BY: tuple[str, ...]  # servers whose versions and command lines stand in the record

    def rows(self, arguments: argparse.Namespace, setting: Setting) -> Iterator[tuple[Row, Measurement]]: ...
    def sections(self, results: Results) -> Iterator[str]: ...
    def targets(self) -> Iterable[Target]: ...
    def facts(self) -> dict[str, object]: ...  # what else stands in the record, such as versions of programs


def key_of(suite: str) -> str:
    """The name of a suite among the commands of the bench, and of its records: `sessions`, `sessions-django`."""
    return "sessions" if suite == OWN else f"sessions-{suite}"


def add_arguments(command: argparse.ArgumentParser, own: Iterable[str], suites: Mapping[str, Suite]) -> str:
    """Add --suite; returns the help of --only. own: the names that the suite of this module has for it."""
    prefix = key_of("")
    names = [OWN, *(key.removeprefix(prefix) for key in suites)]
    command.add_argument("--suite", choices=names, default=OWN,
                         help="what is measured: what a session costs a page of the dispatch table in each store "
                         "(own, the default), or the sessions of another framework")  # fmt: skip
    others = (f"; {name}: {', '.join(suite.NAMES)}" for name, suite in zip(names[1:], suites.values(), strict=True))
    return f"of the suite {OWN}: {', '.join(own)}{''.join(others)}"


def session(kind: type[Store], setting: Setting, size: Size) -> dict[str, object]:
    """Reading, and reading and writing; of Redis also one GET by its library, for comparison."""
    ensure_library(kind, setting)
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
    version = record.said([store.command[0], "--version"]) if isinstance(store, Served) else ""
    if asking:
        beyond |= {f"{name} times": beyond[f"{name} cpu"] / beyond["get cpu"] for name in ("read", "write")}
    return {"plain": middles(turns)["plain"], **beyond, "remark": version}


@contextlib.contextmanager
def opened(kind: type[Store], cores: Collection[int] = (LOAD_CORE,)) -> Iterator[Store]:
    """A store whose server stands on these cores; ended and removed afterwards. Raises Missing, or Failure."""
    try:
        with launch.pinned(cores):
            store = kind()
    except (RuntimeError, subprocess.SubprocessError) as error:
        raise Failure(f"no server: {error}") from error
    try:
        yield store
    finally:
        store.stop()


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
NAMES = tuple(dict.fromkeys((*SCENARIOS, *STORES)))  # that --only takes
rows = partial(scenario.rows, ALL, servers=STORES)


def targets() -> Iterator[Target]:
    row, unit = ("sessions", "redis"), "x"
    yield Target("Redis, CPU of reading a session: / one GET by redis-py", row, "read times", "<=", 1.3, unit)
    yield Target("Redis, CPU of reading and writing: / one GET by redis-py", row, "write times", "<=", 2.5, unit)
