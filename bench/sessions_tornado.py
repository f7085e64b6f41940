"""The comparison of session engines for Tornado, run again with those of poorhttp: `bench sessions --suite tornado`.

Knows the engines, how nginx and four processes are started before a store, and when a run counts. The servers' machine
of then is core 0 here, with nginx and the store on it; the client's is core 1. `sessions_tornado_report` shows it.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from bench import front, load, proc, record
from bench.client import Failure, Missing, Unable, check, get
from bench.launch import APPS, Running, Setting, environment, last_line, running
from bench.measure import Measurement, chosen
from bench.servers import SERVERS
from bench.sessions_tornado_report import CASES, sections
from bench.stores import STORES, Ferretdb, Served, SingleFile, Store, ensure_library, opened
from bench.workloads import HELLO, Row, Target, Workload

__all__ = ["NAMES", "PROGRAMS", "ROUNDS", "SERVED_BY", "facts", "rows", "sections", "targets"]

PROCESSES = 4
PAGE = Workload("parameter", "stores a field of the query", ("single",), directory="bench/apps/parameter",
                path="/store?value=a", answer=HELLO, close=True)  # fmt: skip
CHANGING = "/store?value="  # a number follows


@dataclass(frozen=True)
class Size:
    """How many requests by how many clients; fewer of both for the engines that read all sessions for each request."""

    requests: int
    clients: int
    fewer_requests: int
    fewer_clients: int
    seconds: float  # of wrk, which counts no requests

    def of(self, engine: Engine) -> tuple[int, int]:
        if engine.is_read_whole:
            return self.fewer_requests, self.fewer_clients
        return self.requests, self.clients


FULL = Size(10_000, 300, 1_000, 10, 5.0)  # the article's, which asked less of its engine with one file
QUICK = Size(400, 40, 60, 4, 1.0)


@dataclass(frozen=True)
class Engine:
    name: str
    kind: type[Store] | None = None  # None: without sessions
    server: str = "single"

    @property
    def is_read_whole(self) -> bool:
        """Whether each request reads all sessions, so that it takes the longer the more there are."""
        return self.kind in (SingleFile, Ferretdb)


ENGINES = {
    each.name: each
    for each in (
        Engine("tornado", server="tornado"),
        Engine("none"),
        *(Engine(name, STORES[name]) for name in ("file", "directory", "mariadb", "memcached", "redis", "ferretdb")),
    )
}
TIMES = {"grown": 5}  # how often as many sessions are stored before the load
GROWING = tuple(name for name, engine in ENGINES.items() if engine.kind and not engine.is_read_whole)
NAMES = (*CASES, *ENGINES)
ROUNDS = 3  # the article's runs
PROGRAMS = ()
SERVED_BY = ("single", "tornado")


class Site(NamedTuple):
    """What runs: nginx, the processes behind it, and their store, if there is one."""

    port: int
    front: Running
    processes: Sequence[Running]
    store: Store | None

    def cpu(self) -> dict[str, float]:
        """Seconds that each part has taken so far."""
        spent = {
            "cpu": sum(proc.exact_cpu(run.process.pid) for run in self.processes),
            "front": proc.exact_cpu(self.front.process.pid),
        }
        if isinstance(self.store, Served) and self.store.process is not None:
            spent["store"] = proc.exact_cpu(self.store.process.pid)
        return spent


def rows(arguments: argparse.Namespace, setting: Setting) -> Iterator[tuple[Row, Measurement]]:
    """The measurements that names of cases and engines choose; all where none of its sort is named."""
    cases, engines = chosen(arguments.only, CASES, ENGINES)
    for case in cases:
        for name in engines if case != "grown" else filter(GROWING.__contains__, engines):
            yield (case, name), partial(measure, ENGINES[name], case, setting, QUICK if arguments.quick else FULL)


def targets() -> tuple[Target, ...]:
    """None: the shares tell what a store costs, which is no promise."""
    return ()


def facts() -> dict[str, object]:
    """The versions of nginx and of ab, and the file system that the data lie on."""
    return {
        "nginx": record.version_of(partial(front.program, "nginx"), "-v"),
        "ab": record.said(["ab", "-V"]),
        "file system of the data": record.file_system_of_data(),
    }


def measure(engine: Engine, case: str, setting: Setting, size: Size) -> dict[str, object]:
    """One run of a case against a store that holds as many sessions as the load has requests.

    `rate`, `p50`, `p99` and `requests` of the load; `cpu`, `front` and `store`: seconds for each request of the
    processes, of nginx and of the store; `older` sessions before the load, and how many it has `made`.
    """
    requests, clients = size.of(engine)
    page = replace(PAGE, connections=clients)
    with told_once(), serving(engine, page, setting) as site:
        for _ in range(TIMES.get(case, 1)):
            load.ab(site.port, page, HELLO, requests)
        cookies = visitors(site, clients if case == "changed" else 1)
        older = count(site, setting)
        before = site.cpu()
        if case == "changed":
            numbers = change(site, page, cookies, size.seconds, setting)
        else:
            cookie = cookies[0] if case == "cookie" else ""
            numbers = load.ab(site.port, replace(page, cookie=cookie), HELLO, requests)
        spent = {name: seconds - before[name] for name, seconds in site.cpu().items()}
        ensure_kept(site, case, cookies)  # which also waits for what wrk did not wait for
        made = count(site, setting) - older
        ensure_made(site, made, requests if case in ("new", "grown") else 0)
        check(site.port, page, HELLO)
        remark = site.store.version() if site.store else ""
    costs = {name: seconds / numbers["requests"] for name, seconds in spent.items()}
    counted = {"older": older, "made": made} if site.store else {}
    return {**numbers, **costs, **counted, "remark": remark}


@contextlib.contextmanager
def told_once() -> Iterator[None]:
    """A Failure in the block without repetitions: each process has added the last line of its log."""
    try:
        yield
    except (Missing, Unable):
        raise
    except Failure as failure:
        raise Failure("; ".join(dict.fromkeys(str(failure).split("; ")))) from failure


@contextlib.contextmanager
def serving(engine: Engine, page: Workload, setting: Setting) -> Iterator[Site]:
    """The store, the processes and nginx, ready and giving the right page; afterwards nothing is left of them."""
    with ExitStack() as stack:
        store = None
        if engine.kind:
            ensure_library(engine.kind, setting.python)
            store = stack.enter_context(opened(engine.kind, setting.cores))
            setting = replace(setting, variables={"SESSIONS": store.address})
        processes = [
            stack.enter_context(running(SERVERS[engine.server], replace(page, name=f"{page.name}-{i}"), setting))
            for i in range(PROCESSES)
        ]
        through = stack.enter_context(front.nginx_before([int(run.port) for run in processes], setting))
        check(through.port, page, HELLO)
        yield Site(int(through.port), through, processes, store)


def visitors(site: Site, number: int) -> list[str]:
    """Cookies of so many visitors, each of whom has stored a value that is read back; made up without a store."""
    if site.store is None:
        return [f"session={i:043}" for i in range(number)]
    cookies = []
    for i in range(number):
        body, cookie = ask(site.port, f"{CHANGING}first-{i}")
        if body != HELLO.decode() or not cookie:
            raise Failure(f"no session for a new visitor: {body[:60]!r}, cookie {cookie!r}")
        cookies.append(cookie)
        ensure_value(site, cookie, f"first-{i}")
    return cookies


def ensure_value(site: Site, cookie: str, value: str) -> None:
    """Raise Failure unless each of the processes, which nginx asks in turn, finds this value in the session."""
    for _ in range(PROCESSES):
        found, _ = ask(site.port, "/read", cookie)
        if found != value:
            raise Failure(f"stored {value!r}, but read {found[:60]!r}")


def change(site: Site, page: Workload, cookies: Sequence[str], seconds: float, setting: Setting) -> dict[str, float]:
    """The numbers of wrk, whose requests take the visitors in turns, and each of which stores its own number."""
    file = setting.work / "cookies"
    file.write_text("".join(f"{cookie}\n" for cookie in cookies))
    whole = max(1, round(seconds))
    command = load.wrk_command(site.port, replace(page, path=CHANGING), whole, timeout=load.AB_WAITS, cookies=file)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=whole + load.AB_WAITS, check=False)
    except subprocess.TimeoutExpired as error:
        raise Failure(f"wrk did not end within {whole + load.AB_WAITS} s") from error
    return load.parse_wrk(done.stdout + done.stderr, page, len(HELLO))


def ensure_kept(site: Site, case: str, cookies: Sequence[str]) -> None:
    """Raise Failure unless each visitor's session holds what it was given last, by the load or before it."""
    if site.store is None:
        return
    for i, cookie in enumerate(cookies):
        if case != "changed":
            ensure_value(site, cookie, "a" if case == "cookie" else f"first-{i}")
            continue
        value, _ = ask(site.port, "/read", cookie)
        if not value.isdigit() or int(value) % len(cookies) != i:
            raise Failure(f"visitor {i} of {len(cookies)} finds {value[:60]!r}, which is none of the numbers it stored")


def ensure_made(site: Site, made: int, expected: int) -> None:
    """Raise Failure unless the load has made so many sessions."""
    if site.store is not None and made != expected:
        raise Failure(f"the load should have made {expected:,} sessions; the store has {made:,} more than before")


def count(site: Site, setting: Setting) -> int:
    """How many sessions the store holds, as its own client library tells; 0 without a store."""
    if site.store is None:
        return 0
    command = [setting.python, str(APPS / "count_sessions.py"), site.store.address]
    done = subprocess.run(command, env=environment(ours=True), capture_output=True, timeout=60, check=False)
    if done.returncode:
        raise Failure(f"the sessions cannot be counted: {last_line(done.stderr)}")
    return int(done.stdout)


def ask(port: int, target: str, cookie: str = "") -> tuple[str, str]:
    """The text of an answer, and the cookie that it sets, or "". Raises Failure."""
    body, given = get(port, target, cookie)
    return body.decode("latin-1"), given
