"""`sessions --suite django`: what Django's session engines cost a small page, as an article of 2015 measured them.

Knows the engines, the rows, how a row is measured, and how it is checked that a session is read back as it was written;
`sessions_django_report` shows what was found. A row is an engine with sessions of one size. poorhttp (forking) and
gunicorn serve it with four workers each, on core 0; the load, and the server of the store, stand on core 1.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial

from bench import load, proc, record, stores
from bench.client import Failure, Unable, get, request
from bench.launch import APPS, Running, Setting, environment, last_line, python_of, raise_if_missing, running
from bench.measure import Measurement, chosen
from bench.servers import SERVERS
from bench.sessions_django_report import kilobytes, sections
from bench.workloads import Row, Target, Workload

__all__ = ["NAMES", "PROGRAMS", "ROUNDS", "SERVED_BY", "facts", "rows", "sections", "targets"]

ROUNDS = 1
PROGRAMS = ("tally",)
SERVED_BY = ("forking", "gunicorn")
CLIENTS, WORKERS = 20, 4
COOKIE, COOKIE_BYTES, COOKIE_KB = "sessionid", 4096, 4  # a browser keeps no larger cookie, its name counted
SAMPLE = 10  # sessions of a thousand that are looked at before and after a load
MODES = ("read", "write")
COUNTS = ("one", "thousand")
SIZES = ("0KB", "4KB", "32KB", "256KB")
LARGE_KB = 32  # fewer of these are asked for, or a row would take a minute
LIBRARY = "pip install -e '.[bench]'"


@dataclass(frozen=True)
class Engine:
    """One way to keep sessions. backend: the module of Django's; kind: where that keeps them."""

    backend: str
    kind: type[stores.Store] = stores.Cookie
    needs: tuple[str, ...] = ()  # client libraries, as pip knows them
    variables: tuple[tuple[str, str], ...] = ()
    modes: tuple[str, ...] = MODES


def database(kept: str, synchronous: str, modes: tuple[str, ...] = MODES) -> Engine:
    variables = (("KEPT", kept), ("SYNCHRONOUS", synchronous))
    return Engine("db", stores.Postgresql, ("psycopg",), variables, modes)


ENGINES = {
    "none": Engine("none"),
    "cookie": Engine("signed_cookies"),
    "file": Engine("file", stores.Directory),
    "cache": Engine("cache", stores.RedisCache, ("redis",)),
    "db": database("0", "on"),
    "db-kept": database("1", "on"),
    "db-async": database("0", "off", ("write",)),  # reading commits nothing
    "db-kept-async": database("1", "off", ("write",)),
}
NAMES = (*MODES, *COUNTS, *SERVED_BY, *SIZES, *ENGINES)


@dataclass(frozen=True)
class Amount:
    requests: int  # of ab
    large: int  # the same, for large sessions
    seconds: float  # of a load by tally, and the most for warming up
    sessions: int  # a thousand of them

    def of(self, size: str) -> int:
        return self.large if kilobytes(size) >= LARGE_KB else self.requests


FULL = Amount(4000, 1000, 3.0, 1000)
QUICK = Amount(200, 200, 1.0, 40)


@dataclass(frozen=True)
class Case:
    """What is asked of an engine."""

    web: str
    engine: str
    mode: str
    count: str
    size: str

    @property
    def row(self) -> Row:
        return f"{self.mode} {self.count} {self.web}", f"{self.engine} {self.size}"

    @property
    def path(self) -> str:
        return "/none" if self.engine == "none" else f"/{self.mode}"


def rows(arguments: argparse.Namespace, setting: Setting) -> Iterator[tuple[Row, Measurement]]:
    """The measurements that names of each sort choose; all where none of its sort is named.

    The page without session is measured beside each size, whatever is named. Both servers follow one another.
    """
    modes, counts, webs, sizes, engines = chosen(arguments.only, MODES, COUNTS, SERVED_BY, SIZES, ENGINES)
    amount = QUICK if arguments.quick else FULL
    for size in sizes:
        for engine in ENGINES:
            for mode in modes:
                if engine == "none" or (engine in engines and mode in ENGINES[engine].modes):
                    for case in (Case(web, engine, mode, count, size) for count in counts for web in webs):
                        yield case.row, partial(cost, case, setting, amount)


def cost(case: Case, setting: Setting, amount: Amount) -> dict[str, object]:
    """`rate` (1/s), `ms`, `p50` and `p99` of a request, and the CPU that it takes: `cpu`, seconds of the web server's
    processes, and `store`, microseconds of the store's.

    Where sessions are written on a server, `lost` is the share of writes, in percent, that another one has undone.
    """
    engine = ENGINES[case.engine]
    with ExitStack() as stack:
        store = stack.enter_context(stores.opened(engine.kind))
        setting = replace(setting, variables=variables(case, store))
        is_tried = case.engine == "cookie" and kilobytes(case.size) > COOKIE_KB  # one tells how large it is
        sessions = filled(case, setting, 1 if case.count == "one" or is_tried else amount.sessions)
        page = Workload(
            f"sessions-{case.engine}", "a page with a session", SERVED_BY, module="django_sessions", app="application",
            path="/none" if case.engine == "none" else "/read", answer=sessions.page, connections=CLIENTS,
            processes=WORKERS, close=True, cookie=sessions.cookies[0] if sessions.cookies else "", tally=True,
            needs=("django", *engine.needs),
        )  # fmt: skip
        run = stack.enter_context(running(SERVERS[case.web], page, setting))
        visitors = Visitors(run, sessions)
        visitors.keep("before the load")
        load.tally(run.port, page, sessions.page, min(1.0, amount.seconds))
        roots = [run.process.pid, *([store.process.pid] if isinstance(store, stores.Served) and store.process else [])]
        before = [proc.cpu(root) for root in roots]
        numbers = under_load(run, replace(page, path=case.path), sessions, setting, amount, case)
        spent = [proc.cpu(root) - earlier for root, earlier in zip(roots, before, strict=True)]
        visitors.find("before the load")
        visitors.keep("after the load")
        if case.mode == "write" and case.engine not in ("none", "cookie"):
            numbers["lost"] = lost(visitors.visits(), numbers["written"])
    if not spent[0]:
        raise Failure("CPU time could not be read from /proc")
    numbers["cpu"] = spent[0] / numbers["requests"]
    if len(spent) > 1:
        numbers["store"] = 1e6 * spent[1] / numbers["requests"]
    return {**numbers, "remark": remark(case, setting, sessions)}


def remark(case: Case, setting: Setting, sessions: Sessions) -> str:
    """How large a cookie is; and beside the page without session, which versions of libraries serve the others."""
    if case.engine == "cookie":
        return f"cookie of {len(sessions.cookies[0]):,} bytes"
    if case.engine != "none":
        return ""
    found = record.versions(python_of(SERVERS[case.web], setting), ("django", "psycopg", "redis"))
    return ", ".join(f"{package} {version}" for package, version in found.items())


def variables(case: Case, store: stores.Store) -> dict[str, str]:
    """What the site is told of its engine."""
    engine = ENGINES[case.engine]
    where = store.address
    if isinstance(store, stores.Directory):
        store.path.mkdir()
        where = str(store.path)
    return {"ENGINE": engine.backend, "STORE": where, "SIZE": str(kilobytes(case.size)), **dict(engine.variables)}


@dataclass(frozen=True)
class Sessions:
    """What lies in a store: a cookie (`name=value`) and the digest of its basket for each session."""

    page: bytes  # that each of them gives
    cookies: Sequence[str]
    digests: Sequence[str]


def filled(case: Case, setting: Setting, count: int) -> Sessions:
    """Put so many sessions into the store; raises Unable if one does not fit."""
    try:
        done = subprocess.run(
            [setting.python, "fill_django_sessions.py", str(count)], cwd=APPS,
            env=environment(ours=True) | setting.variables, capture_output=True, timeout=300, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise Failure(f"{count:,} sessions could not be made within {error.timeout:.0f} s") from error
    if done.returncode:
        raise_if_missing(setting.python, ("django", *ENGINES[case.engine].needs), LIBRARY)
        raise Failure(f"no sessions in the store: {last_line(done.stderr)}")
    told = json.loads(done.stdout)
    cookies = [f"{COOKIE}={each['cookie']}" for each in told["sessions"]]
    if len(max(cookies, key=len, default="")) > COOKIE_BYTES:
        raise Unable(f"does not fit: a cookie of {len(max(cookies, key=len)):,} bytes, of {COOKIE_BYTES:,}")
    return Sessions(told["page"].encode(), cookies, [each["digest"] for each in told["sessions"]])


def under_load(
    run: Running, page: Workload, sessions: Sessions, setting: Setting, amount: Amount, case: Case
) -> dict[str, float]:
    """What the page is like when it is asked for by ab with one cookie, or by tally with those of all sessions in turn.

    `written` is how many requests the server has answered, those after the time of tally too.
    """
    if case.count == "one":
        numbers = load.ab(run.port, page, sessions.page, amount.of(case.size))
        answered = numbers["requests"]
    else:
        in_turn = setting.work / "requests"
        requests = [request(replace(page, cookie=cookie)) for cookie in sessions.cookies or [""]]
        in_turn.write_bytes(b"".join(each + b"\0" for each in requests))
        told = load.tally(run.port, page, sessions.page, amount.seconds, in_turn)
        numbers = {name: told[name] for name in ("requests", "rate", "p50", "p99")}
        answered = numbers["requests"] + CLIENTS
    return {**numbers, "ms": 1e3 * CLIENTS / numbers["rate"], "written": answered}


def lost(visits: int, written: float) -> float:
    """The share of the writes that are not in the sessions, in percent; raises Failure where none is."""
    if not 0 < visits <= written:
        raise Failure(f"{visits:,} visits are in the sessions, but {written:,.0f} requests wrote one each")
    return 100 * (1 - visits / written)


class Visitors:
    """Some of the visitors. They look whether the site gives back what they told it. Each method raises Failure."""

    def __init__(self, run: Running, sessions: Sessions) -> None:
        assert isinstance(run.port, int)
        self._port, self._sessions = run.port, sessions
        count = len(sessions.cookies)
        self._cookies = {number: sessions.cookies[number] for number in range(0, count, max(1, count // SAMPLE))}

    def keep(self, word: str) -> None:
        """Tell the site a word, and find it there."""
        for number in self._cookies:
            self._ask(number, f"/put?token={word.replace(' ', '+')}")
        self.find(word)

    def find(self, word: str) -> None:
        """Find the session as it was made, and the word in it."""
        for number in self._cookies:
            told = self._ask(number, "/check")
            due = {"number": number, "token": word, "digest": self._sessions.digests[number]}
            if wrong := [name for name in due if told[name] != due[name]]:
                raise Failure(f"session {number} is not read back as it was written: {wrong[0]} is "
                              f"{told[wrong[0]]!r} and not {due[wrong[0]]!r}")  # fmt: skip

    def visits(self) -> int:
        """How many visits all sessions have counted."""
        return sum(_told(self._port, "/visits", cookie)[0]["visits"] for cookie in self._sessions.cookies)

    def _ask(self, number: int, path: str) -> dict[str, object]:
        told, self._cookies[number] = _told(self._port, path, self._cookies[number])
        return told


def _told(port: int, path: str, cookie: str) -> tuple[dict, str]:
    """What the site answers to the visitor with this cookie, and the cookie to go on with."""
    body, given = get(port, path, cookie)
    return json.loads(body), given or cookie


def targets() -> Iterator[Target]:
    """With each engine that holds 4 KB, the page is no dearer under poorhttp than under gunicorn."""
    for mode in MODES:
        for count in COUNTS:
            for name, engine in ENGINES.items():
                if mode in engine.modes:
                    ours, theirs = (Case(web, name, mode, count, "4KB").row for web in SERVED_BY)
                    text = f"{mode}, {count}, {name} 4KB, CPU per request: forking / gunicorn"
                    yield Target(text, ours, "cpu", "<=", 1.0, over=(theirs,))


def facts() -> dict[str, object]:
    """The versions of the stores and of ab, and the file system that the data lie on."""
    return {
        "postgresql": record.version_of(stores.postgres, "--version"),
        "redis": record.version_of(partial(stores.program, "redis-server", "redis-server"), "--version"),
        "ab": record.said(["ab", "-V"]),
        "file system of the data": record.file_system_of_data(),
    }
