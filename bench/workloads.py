"""What is asked of the servers, and what the answers must cost. Data only."""

from __future__ import annotations

from dataclasses import dataclass, replace

HELLO = b"Hello, World!"
# fmt: off
ONE_THREAD = ("bare", "single", "bjoern", "fastwsgi", "granian", "waitress", "cheroot", "gunicorn", "pyuwsgi",
              "peregrine", "freastal", "fastpysgi", "weft", "m0serve")
MANY_THREADS = ("threading", "granian", "waitress", "gthread", "cheroot", "peregrine", "m0serve")
THREADED_PEERS = ("pyuwsgi", "granian", "gthread", "waitress", "cheroot", "peregrine", "m0serve")
COMPUTING = ("single", "threading", *THREADED_PEERS)
FAST = ("bare", "single", "bjoern", "fastwsgi", "granian", "waitress")
# fmt: on


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
    processes: int = 1  # of the servers with a supervisor; poorhttp's `forking` has 4
    pipeline: int = 1
    close: bool = False
    request_body: int = 0  # bytes
    cookie: str = ""  # that the client sends
    probe: bool = False  # not wrk, but single requests while all threads but one are blocked
    tally: bool = False  # not wrk, but tally.c, which counts what each client gets
    long: int = 0  # more clients, that ask for /long (with tally)

    def terms(self) -> str:
        """The conditions, for the heading of a table."""
        keep = "`Connection: close` on each request" if self.close else "keep-alive"
        answer = "a page" if self.answer is None else f"{len(self.answer):,} bytes of answer"
        ours = f" (poorhttp's threading with {self.our_threads})" if self.our_threads else ""
        return (
            f"{keep}, {self.connections} connections, {self.pipeline} in flight on each, servers with "
            f"{self.threads} thread{'s' * (self.threads > 1)}{ours}, {self.request_body:,} bytes of request body, "
            f"{answer}"
        )


# fmt: off
ALL = (
    Workload("hello", "a fixed answer", ONE_THREAD),
    Workload("threads", "the same with 32 threads", ("bare", *MANY_THREADS), threads=32),
    Workload("light", "the article's light page through the dispatch table", ONE_THREAD, module="dispatched",
             app="application", directory="examples", path="/light", answer=None),
    Workload("pipelined", "16 requests at a time", FAST, pipeline=16),
    Workload("close", "a new connection for each request", ONE_THREAD, close=True),
    Workload("sleep", "an application that sleeps 10 ms", MANY_THREADS, app="sleep10", threads=32),
    Workload("blocked", "one request every 2 ms while 31 of 32 threads are blocked for a second", MANY_THREADS,
             app="block", threads=32, connections=8, probe=True),
    Workload("answer10k", "10 KB of answer", FAST, module="bodies", app="big10k", answer=b"x" * 10_240),
    Workload("answer1m", "1 MB of answer", FAST, module="bodies", app="big1m", answer=b"x" * 1_048_576),
    Workload("post10k", "10 KB of request body, read by the application", FAST, module="bodies", app="post",
             request_body=10_240),
    *(replace(workload, connections=16, threads=8, our_threads=16, tally=True) for workload in (
        Workload("flask", "Flask, a template of 20 rows", (*COMPUTING, "bjoern"), module="flask_page",
                 app="application", path="/rows", answer=None),
        Workload("django", "Django with its admin, one query in sqlite, a template of 20 rows", COMPUTING,
                 module="django_page", app="application", answer=None),
        Workload("compute", "a millisecond of plain Python", COMPUTING, app="compute"),
        Workload("mixed", "short requests beside 8 more clients, each of whose calls is 20 ms of Python", COMPUTING,
                 app="mixed", long=8),
    )),
)

# fmt: on
WORKLOADS = {workload.name: workload for workload in ALL}
# fmt: off
START = Workload("start", "from exec to the first answer of the examples",
                 ("single", "threading", "forking", "bjoern", "fastwsgi", "granian", "waitress", "cheroot", "gunicorn",
                  "pyuwsgi"),
                 module="dispatched", app="application", directory="examples", path="/light", answer=None)
FRONTED = ("single", "bjoern", "gunicorn", "waitress", "pyuwsgi")  # behind lighttpd
TCP, UNIX = "TCP", "unix sockets"

# fmt: on
Row = tuple[str, str]  # workload, server


@dataclass(frozen=True)
class Target:
    """`column` of `row`, divided by the smallest of `over` in the same round, is `sense` `limit`."""

    text: str
    row: Row
    column: str
    sense: str  # "<=", "<" or ">="
    limit: float
    unit: str = "x"
    over: tuple[Row, ...] = ()


# fmt: off
COST = (
    Target("hello, CPU per request: single / bare loop", ("hello", "single"), "cpu", "<=", 1.12,
           over=(("hello", "bare"),)),
    Target("hello, CPU per request: single / the better of Peregrine and freastal", ("hello", "single"), "cpu", "<=",
           0.90, over=(("hello", "peregrine"), ("hello", "freastal"))),
    Target("hello, CPU per request: single / the better of bjoern and FastWSGI", ("hello", "single"), "cpu", "<", 1.0,
           over=(("hello", "bjoern"), ("hello", "fastwsgi"))),
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
             over=tuple((name, peer) for peer in THREADED_PEERS))
      for what, name, limit in (
          ("Flask", "flask", 0.8), ("Django", "django", 0.8), ("1 ms of Python", "compute", 1.0))),
    *(Target(f"{what}, {column}: threading / the build before", (name, "threading"), column, "<=", limit,
             over=((name, "threading-before"),))
      for what, name, column, limit in (
          ("1 ms of Python", "compute", "p50", 1.0),
          ("short beside 20 ms", "mixed", "p50", 1.1), ("short beside 20 ms", "mixed", "p99", 1.1),
          ("31 of 32 threads blocked", "blocked", "p50", 1.1), ("31 of 32 threads blocked", "blocked", "p99", 1.1))),
)
FRONT = tuple(
    Target(f"behind lighttpd over {over}, {name}, CPU per request: single / the better of bjoern and uWSGI",
           (f"{name}, {over}", "single"), "cpu", "<=", 1.0,
           over=((f"{name}, {over}", "bjoern"), (f"{name}, {over}", "pyuwsgi")))
    for name in ("hello", "light") for over in (TCP, UNIX)
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
STARTING = (Target("exec to the first answer of the examples, single, median", ("start", "single"), "first", "<=",
                   100, "ms"),)
