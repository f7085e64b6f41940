"""`sessions --suite libraries`: the sessions of poorhttp by size, beside Flask-Session and Beaker in the same stores.

Knows the libraries, which stores they have, and how a row is measured: a store, with sessions of one size. Each library
has the page that its users write: one of the dispatch table, one of Flask, a WSGI function. Numbers are microseconds
for each request beyond those of the same page without sessions, unless a name says otherwise.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial

from bench import report
from bench.client import Failure, Unable, compare, connect, read_answer, request
from bench.launch import Setting, raise_if_missing
from bench.measure import Measurement, chosen
from bench.stores import STORES, Cookie, Memory, ensure_library, opened
from bench.table import FLASK, TABLE, Page, Size, added, served, take_turns, with_cookie
from bench.workloads import Row, Target, Workload

__all__ = ["NAMES", "PROGRAMS", "ROUNDS", "SERVED_BY", "facts", "rows", "sections", "targets"]

ROUNDS = 1
PROGRAMS = ("tally",)
SERVED_BY = ("single",)
SIZES = ("0KB", "1KB", "4KB", "64KB")
NAMES = (*SIZES, *STORES)
MANY = 4  # clients; with more the answers that are due when a turn is over would cost CPU that is not counted
FULL, QUICK = Size(3, 0.5), Size(1, 0.3)
COMPARED = ("directory", "memcached", "redis")  # stores that all of the libraries have
PARSED = "the session is JSON, which Python reads; Flask-Session's is msgpack, which a library in C reads"
COOKIE_KB = 4  # of data, which a cookie of 4 KB does not hold


@dataclass(frozen=True)
class Library:
    """Somebody's sessions. page: one without them; stores: the names of those that it has."""

    title: str
    page: Workload
    stores: tuple[str, ...]
    needs: tuple[str, ...] = ()  # as pip knows them


LIBRARIES = {
    "ours": Library("poorhttp", replace(TABLE, name="ours", connections=MANY), tuple(STORES)),
    "flask": Library(
        "Flask-Session", replace(FLASK, name="flask", module="flask_session_library", connections=MANY),
        COMPARED, ("flask", "flask-session", "cachelib"),
    ),
    "beaker": Library(
        "Beaker", replace(FLASK, name="beaker", module="beaker_sessions", needs=(), connections=MANY),
        ("cookie", "memory", *COMPARED), ("beaker", "python-memcached"),
    ),
}  # fmt: skip
COLUMNS = {
    "read": "read, CPU µs", "write": "read and written, CPU µs", "one": "read by one client, wall µs",
    "first": "first read of a process, ms",
}  # fmt: skip


def rows(arguments: argparse.Namespace, setting: Setting) -> Iterator[tuple[Row, Measurement]]:
    """The measurements that names of sizes and stores choose; all where none of its sort is named."""
    sizes, kinds = chosen(arguments.only, SIZES, STORES)
    for size in sizes:
        for name in kinds:
            yield (size, name), partial(measure, name, size, setting, QUICK if arguments.quick else FULL)


def measure(name: str, size: str, setting: Setting, amount: Size) -> dict[str, object]:
    """What a session in the store costs each library that has it: `ours read`, `flask write`, and so on.

    `times` is what reading costs poorhttp, divided by what it costs the better of the others.
    """
    kind, kilobytes = STORES[name], int(size.removesuffix("KB"))
    if kind is Cookie and kilobytes >= COOKIE_KB:
        raise Unable(f"a cookie does not hold {size}")
    having = {key: library for key, library in LIBRARIES.items() if name in library.stores}
    ensure_library(kind, setting.python)
    for library in having.values():
        raise_if_missing(setting.python, library.needs, "pip install -e '.[bench]'")
    numbers: dict[str, float] = {}
    with ExitStack() as stack:
        store = stack.enter_context(opened(kind))
        told = {"SESSIONS": store.address, "SIZE": str(kilobytes), "LOCKS": str(store.directory)}
        pages: dict[str, Page] = {}
        for key, library in having.items():
            pages |= pages_of(stack, key, library, setting, told)
        turns = take_turns(pages, amount)
        for key, library in having.items():
            numbers[f"{key} read"] = added(turns, f"{key} read", f"{key} plain")
            numbers[f"{key} write"] = added(turns, f"{key} write", f"{key} plain")
            numbers[f"{key} one"] = added(turns, f"{key} one", f"{key} plain one", "wall")
            if kind is not Cookie:  # which the load does not send back as it is given
                ensure_counted(pages[f"{key} write"])
            if kind is not Memory:  # which another process does not have
                numbers[f"{key} first"] = first(stack, library, pages[f"{key} read"], setting, told)
    if others := [numbers[f"{key} read"] for key in having if key != "ours"]:
        numbers["times"] = times(numbers["ours read"], min(others))
    return {**numbers, "remark": store.version()}


def times(ours: float, others: float) -> float:
    """How many times as much a session adds; raises Failure where the noise of the machine hides one of the two."""
    if min(ours, others) <= 0:
        raise Failure(f"a session adds {ours:.3g} and {others:.3g} µs: the machine did much else meanwhile")
    return ours / others


def pages_of(stack: ExitStack, key: str, library: Library, setting: Setting, told: dict[str, str]) -> dict[str, Page]:
    """The pages of a library that are asked for in turns: without sessions, read, written; and by one client.

    told: the environment of the pages with sessions.
    """
    plain = served(stack, library.page, setting)
    kept = served(stack, replace(library.page, name=f"{key}-kept"), setting, told)
    read, write = with_cookie(kept, "/read"), with_cookie(kept, "/write")
    return {
        f"{key} plain": plain, f"{key} read": read, f"{key} write": write,
        f"{key} plain one": by_one(plain), f"{key} one": by_one(read),
    }  # fmt: skip


def by_one(page: Page) -> Page:
    return replace(page, workload=replace(page.workload, connections=1))


def ensure_counted(page: Page) -> None:
    """Raise Failure unless the session has kept what the load has written."""
    count = asked(page, replace(page.workload, path="/count"))
    if not (count.isdigit() and int(count) > 0):
        raise Failure(f"the session has counted {count[:60]!r} after the writes, and not a number above 0")


def first(stack: ExitStack, library: Library, page: Page, setting: Setting, told: dict[str, str]) -> float:
    """Milliseconds of the first read of a session by a process that has only served the page without one."""
    fresh = served(stack, replace(library.page, name=f"{library.page.name}-fresh"), setting, told)
    begin = time.perf_counter()
    answer = asked(fresh, page.workload)
    took = time.perf_counter() - begin
    compare(answer.encode(), page.answer)
    return took * 1e3


def asked(page: Page, workload: Workload) -> str:
    """What the server of the page answers to a request of the workload."""
    try:
        with connect(page.run.port) as sock, sock.makefile("rb") as stream:
            sock.sendall(request(workload))
            return read_answer(stream).decode(errors="replace")
    except (OSError, EOFError) as error:
        raise Failure(f"no answer to {workload.path}: {error}") from error


def sections(results: report.Results) -> Iterator[str]:
    """For each size the figures of all libraries, then what reading costs poorhttp beside the better other one."""
    columns = {
        f"{library.title}: {what}": f"{key} {name}"
        for name, what in COLUMNS.items()
        for key, library in LIBRARIES.items()
    }
    columns |= {"read: poorhttp / the better other": "times", "± times": "~times"}
    for size in dict.fromkeys(row[0] for row in results):
        table = report.result_table(results, size, columns)
        yield f"## {size}: what a session of that size adds to a page, in each store and by each library\n\n{table}"


def targets() -> Iterator[Target]:
    """Reading a session costs no more than in the better of the other libraries, in each store that all have."""
    for size in SIZES:
        for name in COMPARED:
            text = f"{name}, {size}, CPU of reading a session: poorhttp / the better of Flask-Session and Beaker"
            yield Target(text, (size, name), "times", "<=", 1.0, why=PARSED if name == "directory" else "")


def facts() -> dict[str, object]:
    return {}
