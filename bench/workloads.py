"""What is asked of the servers, as `workloads.ini` describes it, and what the answers must cost.

A target is a formula over rows, so targets are Python: a test checks that the rows which they name are measured.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from bench import ini
from bench.servers import OURS, members

HELLO = b"Hello, World!"
FILE = Path(__file__).with_name("workloads.ini")


@dataclass(frozen=True)
class Workload:
    name: str
    what: str
    servers: tuple[str, ...]
    module: str = "pages"
    app: str = "hello"
    directory: str = ""  # given to poorhttp instead of module:app
    path: str = "/"
    answer: bytes | None = HELLO  # None: what the application gives when called without a server
    connections: int = 64
    threads: int = 1
    our_threads: int = 0  # of poorhttp's `threading`, where it has another number
    processes: int = 1  # of the servers that can start several; poorhttp's `forking` has 4
    pipeline: int = 1
    close: bool = False
    request_body: int = 0  # bytes
    cookie: str = ""  # which the client sends
    probe: bool = False  # not wrk, but single requests while all threads but one are blocked
    tally: bool = False  # not wrk, but tally.c, which counts what each client gets
    unix: bool = False  # over a unix socket (with tally)
    long: int = 0  # more clients, that ask for /long (with tally)
    needs: tuple[str, ...] = ()  # packages that the application imports, by pip's names
    paths: tuple[str, ...] = ()  # that `memory --app` asks for

    def terms(self) -> str:
        """The conditions, for the heading of a table."""
        keep = "`Connection: close` on each request" if self.close else "keep-alive"
        keep += " over a unix socket" if self.unix else ""
        answer = "a page" if self.answer is None else f"{len(self.answer):,} bytes of answer"
        ours = f" (poorhttp's threading with {self.our_threads})" if self.our_threads else ""
        return (
            f"{keep}, {self.connections} connections, {self.pipeline} in flight on each, servers with "
            f"{self.threads} thread{'s' * (self.threads > 1)}{ours}, {self.request_body:,} bytes of request body, "
            f"{answer}"
        )


def read(path: Path = FILE) -> dict[str, Workload]:
    """The workloads by name; raises BadFile."""
    kinds = {"int": ini.whole_number, "bool": ini.yes_or_no, "str": str, "bytes | None": answer,
             "tuple[str, ...]": ini.names}  # fmt: skip
    by_key = {field.name: kinds[str(field.type)] for field in fields(Workload) if field.name != "name"}
    by_key["servers"] = lambda text: members(*ini.names(text))
    return {
        section: Workload(section, **ini.values(path, section, texts, by_key, ("what", "servers")))
        for section, texts in ini.sections(path).items()
    }


def answer(text: str) -> bytes | None:
    """The body that the key `answer` means; None: what the application gives."""
    if found := re.fullmatch(r"(.) \* (\d+)", text):
        return found[1].encode() * int(found[2])
    return None if text == "of the application" else text.encode()


WORKLOADS = read()
START = WORKLOADS.pop("start")  # of the command `start`; all others are of `cost`
THREADED_PEERS = tuple(name for name in members("computing") if name not in OURS)
PEERS = ("bjoern", "waitress", "pyuwsgi")  # which can do every row that they are compared in
TCP, UNIX = "TCP", "unix sockets"
APPLICATIONS = tuple(name for name, workload in WORKLOADS.items() if workload.paths)  # of `memory --app`
WORKERS = {"one": 1, "four": 4}  # of a server in `memory --app`
Row = tuple[str, str]  # workload, server


def weighed(application: str, workers: str, server: str) -> Row:
    """The row of `memory --app` with so many workers, a key of WORKERS."""
    return f"{application}, {workers}", server


@dataclass(frozen=True)
class Target:
    """`column` of `row`, divided by the best of `over` in the same round, is `sense` `limit`.

    The best is the smallest; where more is better (`>=`), the largest.
    """

    text: str
    row: Row
    column: str
    sense: str  # "<=", "<" or ">="
    limit: float
    unit: str = "x"
    over: tuple[Row, ...] = ()
    leaves_out_failed: bool = False  # ignore rows of `over` that have no number; else the target has no number either
    serves: Callable[[Mapping[str, float]], bool] | None = None  # ignore rows of `over` with a round that does not
    why: str = ""  # the reason if it is missed, as far as it is known; shown only then
    needs: str = ""  # a column of `row`; the target has no number where a round lacks it or has 0 there


LEANER = "these peers check less of a request, and have fewer deadlines or none"
IN_TURN = "the build before served some clients at once while others waited long: its p99 is far larger"
# Workload -> why a peer may be ahead; the manual's chapter on bias says more.
AHEAD = {
    "json1k": "a client is woken for each answer; bjoern sends those of a batch together, after its last call",
    "post10m": "the application is called when the whole body is there, and a large one goes through a file",
}

# fmt: off
COST = (
    Target("hello, CPU per request: single / bare loop", ("hello", "single"), "cpu", "<=", 1.12,
           over=(("hello", "bare"),), why="the loop reads no request, and has neither limits nor deadlines"),
    Target("hello, CPU per request: single / the better of Peregrine and freastal", ("hello", "single"), "cpu", "<=",
           0.90, over=(("hello", "peregrine"), ("hello", "freastal")), why=LEANER),
    Target("hello, CPU per request: single / the better of bjoern and FastWSGI", ("hello", "single"), "cpu", "<", 1.0,
           over=(("hello", "bjoern"), ("hello", "fastwsgi")), why=LEANER),
    Target("hello, CPU per request: threading with 32 threads / bare loop", ("threads", "threading"), "cpu", "<=",
           1.15, over=(("threads", "bare"),)),
    Target("light, CPU per request: single / bjoern", ("light", "single"), "cpu", "<=", 0.85,
           over=(("light", "bjoern"),)),
    Target("16 pipelined, requests per second: single / single unpipelined", ("pipelined", "single"), "rate", ">=",
           6.0, over=(("hello", "single"),)),
    Target("Connection: close, CPU per request: single / bjoern", ("close", "single"), "cpu", "<=", 1.0,
           over=(("close", "bjoern"),)),
    Target("10 ms of sleep, 32 threads: requests per second", ("sleep", "threading"), "rate", ">=", 2880, "/s"),
    Target("31 of 32 threads blocked: p99 of the others", ("blocked", "threading"), "p99", "<", 10.0, "ms"),
    Target("Flask, requests per second: threading / single", ("flask", "threading"), "rate", ">=", 0.97,
           over=(("flask", "single"),)),
    Target("Flask, p99: threading / single", ("flask", "threading"), "p99", "<=", 1.4, over=(("flask", "single"),)),
    *(Target(f"{what}, p99: threading / the best threaded peer", (name, "threading"), "p99", "<=", limit,
             over=tuple((name, peer) for peer in THREADED_PEERS), leaves_out_failed=True)
      for what, name, limit in (
          ("Flask", "flask", 0.8), ("Django", "django", 0.8), ("1 ms of Python", "compute", 1.0))),
    *(Target(f"{what}, CPU per request: single / the best of {', '.join(PEERS)}", (name, "single"), "cpu", "<=", 1.0,
             over=tuple((name, peer) for peer in PEERS), why=AHEAD.get(name, ""))
      for what, name in (
          ("1 KB of JSON", "json1k"), ("POST of 1 KB", "post1k"), ("POST of 100 KB", "post100k"),
          ("POST of 10 MB", "post10m"), ("a file of 100 KB", "file"), ("100 blocks of 1 KB", "stream"),
          ("over a unix socket", "unix"))),
    *(Target(f"{what}, {column}: threading / the build before", (name, "threading"), column, "<=", limit,
             over=((name, "threading-before"),), why=IN_TURN if (name, column) == ("compute", "p50") else "")
      for what, name, column, limit in (
          ("1 ms of Python", "compute", "p50", 1.0),
          ("short beside 20 ms", "mixed", "p50", 1.1), ("short beside 20 ms", "mixed", "p99", 1.1),
          ("31 of 32 threads blocked", "blocked", "p50", 1.1), ("31 of 32 threads blocked", "blocked", "p99", 1.1))),
)
FRONT = tuple(
    Target(f"behind lighttpd over {over}, {name}, CPU per request: single / the better of bjoern and uWSGI",
           (f"{name}, {over}", "single"), "cpu", "<=", limit,
           over=((f"{name}, {over}", "bjoern"), (f"{name}, {over}", "pyuwsgi")))
    for name in ("hello", "light") for over, limit in ((TCP, 1.0), (UNIX, 0.95))
)
MEMORY = (
    Target("hello: memory of single", ("hello", "single"), "judged", "<=", 10.0, "MiB"),
    Target("hello: memory of forking x 4 with its supervisor / single", ("hello", "forking"), "judged", "<=", 2.0,
           over=(("hello", "single"),)),
    Target("10,000 idle connections: user memory of each", ("idle", "single"), "each", "<=", 1024, "bytes"),
    *(Target(f"idle for 10 s: context switches of {name}", ("idle", name), "switches", "<=", 0, "")
      for name in ("single", "threading", "forking")),
    *(Target(f"idle for 10 s with 10,000 connections: context switches of {name}", ("idle", name), "connected", "<=",
             0, "") for name in ("single", "threading", "forking")),
    Target("installed size of the package", ("installed", "poorhttp"), "size", "<=", 3.0, "MiB"),
)
# Of four workers, and only where the application is immortal.
WORKERS_MEMORY = tuple(
    Target(f"{application}, four workers, {what}", weighed(application, "four", ours), column, sense, limit,
           over=(weighed(application, *over),), needs="immortal")
    for application, what, ours, over, column, sense, limit in (
        ("django", "memory after load: forking, warmed / gunicorn --preload", "forking-warm", ("four", "gunicorn"),
         "pss after", "<=", 0.65),
        ("django", "memory after load: forking / gunicorn --preload", "forking", ("four", "gunicorn"),
         "pss after", "<=", 0.80),
        ("django", "memory after load: forking, warmed / single", "forking-warm", ("one", "single"),
         "pss after", "<=", 1.65),
        ("flask", "memory after load: forking, warmed / single", "forking-warm", ("one", "single"),
         "pss after", "<=", 1.40),
        ("hello", "memory after load: forking / single", "forking", ("one", "single"), "pss after", "<=", 1.60),
        *((name, f"requests per second of {path}: forking, warmed / neither warmed nor immortal", "forking-warm",
           ("four", "forking-mortal"), f"rate {number}", ">=", 0.97)
          for name in APPLICATIONS for number, path in enumerate(WORKLOADS[name].paths, 1)),
        # Loading takes four fifths of that time, and freezing may take a tenth of loading.
        ("django", "exec to the first answer: forking / not immortal", "forking", ("four", "forking-mortal"),
         "first", "<=", 1.08),
    )
)
STARTING = (Target("exec to the first answer of the examples, single, median", ("start", "single"), "first", "<=",
                   100, "ms"),)
