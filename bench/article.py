"""The comparison that poorhttp was made for in 2010, run again: its types, Apache with mod_python, and lighttpd.

Knows the configurations, how each is started and measured, and what the figures may be; `article_report` shows them.
In 2010 the servers had one machine and the client another; here the servers have core 0, lighttpd among them, and the
client core 1. Times are seconds, and sizes bytes, but for those by ps, which are KiB as in the article.
"""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from bench import apache, article_memory, front, measure, proc, record, visits
from bench.client import check
from bench.launch import SERVER_CORE, Running, Setting, expected, running, wait_until_right
from bench.servers import OURS, SERVERS
from bench.workloads import Row, Target, Workload

SECONDS = 60.0
BURSTS, SETTLE = (10, 100), 1.0  # parallel requests before memory is read, and seconds until it is
TESTS = ("serial", "parallel", "memory")
PAGES = {
    name: Workload(name, f"the article's {name} page", OURS, module="dispatched", app="application",
                   directory="examples", path=path, answer=None, close=True, threads=16, processes=4)
    for name, path in (("light", "/"), ("heavy", "/heavy"))
}  # fmt: skip


@dataclass(frozen=True)
class Configuration:
    name: str
    title: str
    server: str  # one of SERVERS, or `apache`
    backends: int = 0  # behind lighttpd; 0: no lighttpd
    workers: int = 1  # in the column `4 x size`
    warm_up: float = 1.0  # seconds of the serial client, and again of the test's own client, that do not count
    tests: tuple[str, ...] = TESTS


ALL = (
    Configuration("single", "Single", "single"),
    Configuration("forking", "Forking", "forking", workers=4),
    Configuration("threading", "Threading", "threading"),
    Configuration("apache", "Apache prefork", "apache", workers=4, warm_up=10.0),  # each child imports for itself
    Configuration("lighttpd-1", "Lighttpd + Single", "single", 1, tests=("serial", "parallel")),
    Configuration("lighttpd-2", "Lighttpd + 2 x Single", "single", 2, tests=("serial", "parallel")),
    Configuration("lighttpd-4", "Lighttpd + 4 x Single", "single", 4, workers=4),
    Configuration("apache-kept", "Apache, children kept", "apache", warm_up=10.0, tests=("serial", "parallel")),
    Configuration("apache-plain", "Apache, plain handler", "apache", warm_up=10.0, tests=("serial", "parallel")),
    Configuration("bare", "Bare loop (the limit)", "bare", tests=("serial", "parallel")),
    Configuration("lighttpd", "Lighttpd", "single", 1, tests=("memory",)),
)
CONFIGURATIONS = {each.name: each for each in ALL}
APACHES = {"apache": apache.AS_THEN, "apache-kept": apache.KEPT, "apache-plain": apache.PLAIN}
MEMORY_ORDER = ("lighttpd", "single", "lighttpd-4", "forking", "threading", "apache")
NAMES = (*TESTS, *PAGES, *CONFIGURATIONS)
TARGETS = (
    *(Target(f"parallel {page}, {name}: ended early, at {visits.LIMIT} requests without an answer",
             (f"parallel {page}", name), "stopped", "<=", 0, "") for page in PAGES for name in OURS),
    # The Apache with the plain handler is left out: it does not serve by the dispatch table.
    *(Target(f"parallel {page}, ans t: {name} / the better Apache", (f"parallel {page}", name), "ans t", "<=", 0.5,
             over=((f"parallel {page}", "apache"), (f"parallel {page}", "apache-kept")))
      for page in PAGES for name in OURS),
    # Most of a serial request is the kernel and the client: even the bare loop takes half as long as the Apache that
    # keeps its children. So this is the Apache of 2010.
    *(Target(f"serial {page}, ans t: {name} / Apache", (f"serial {page}", name), "ans t", "<=", 0.5,
             over=((f"serial {page}", "apache"),)) for page in PAGES for name in OURS),
)  # fmt: skip


class Served(NamedTuple):
    asked: Running  # where the client asks: lighttpd, or else the only server
    servers: list[int]  # the first process of each server
    front: int  # the process of lighttpd, or 0

    def cpu(self) -> float:
        """CPU seconds of all processes so far."""
        return sum(map(proc.cpu, filter(None, (*self.servers, self.front))))


def rows(arguments: argparse.Namespace, setting: Setting) -> Iterator[tuple[Row, measure.Measurement]]:
    """The measurements of the tests, pages and configurations that are named; of all of them where none is named."""
    tests, pages, configurations = (
        [name for name in sort if name in (arguments.only or ())] or list(sort)
        for sort in (TESTS, PAGES, CONFIGURATIONS)
    )
    for test in tests:
        if test == "memory":
            for name in MEMORY_ORDER:
                if name in configurations:
                    yield ("memory", name), partial(weight, CONFIGURATIONS[name], setting)
            continue
        for page in pages:
            for name in configurations:
                if test in CONFIGURATIONS[name].tests:
                    measurement = partial(speed, CONFIGURATIONS[name], test, PAGES[page], setting, arguments.seconds)
                    yield (f"{test} {page}", name), measurement


def speed(
    configuration: Configuration, test: str, page: Workload, setting: Setting, seconds: float
) -> dict[str, float]:
    """The numbers of the serial or the parallel test (see `visits.parse`), and `cpu`: seconds of all servers a request.

    `cpu` is absent where less than its step of 10 ms was spent, as in a short parallel test.
    """
    setting = _of(configuration, setting)
    answer = expected(page, setting)
    client = visits.serial if test == "serial" else visits.parallel
    with serving(configuration, page, setting) as served:
        port = int(served.asked.port)
        # The serial client first: Apache's children cannot import the application while a hundred clients wait.
        for warm in (visits.serial, client):
            warm(port, page.path, answer, min(configuration.warm_up, seconds))
            wait_until_right(served.asked, page, answer)  # it may still be busy with requests that were given up
        before = served.cpu()
        numbers = client(port, page.path, answer, seconds)
        spent = served.cpu() - before
        wait_until_right(served.asked, page, answer)  # a server that hangs has no result
    told = f"ended after {numbers['seconds']:.0f} s: {visits.LIMIT} requests had no answer" * bool(numbers["stopped"])
    return {**numbers, **({"cpu": spent / numbers["requests"]} if spent else {}), "remark": told}


def weight(configuration: Configuration, setting: Setting) -> dict[str, float]:
    """The numbers of `article_memory.weigh` after 10 and then 100 parallel requests for the light page."""
    setting = _of(configuration, setting)
    page = PAGES["light"]
    answer = expected(page, setting)
    sizes = []
    with serving(configuration, page, setting) as served:
        for burst in BURSTS:
            visits.burst(int(served.asked.port), page.path, answer, burst)
            time.sleep(SETTLE)
            servers = [] if configuration.name == "lighttpd" else served.servers
            sizes.append(article_memory.weigh(servers, served.front, configuration.workers))
    return {**sizes[-1], "size after 10": sizes[0]["size"]}


@contextlib.contextmanager
def serving(configuration: Configuration, page: Workload, setting: Setting) -> Iterator[Served]:
    """The configuration's servers, ready and giving the right page; afterwards nothing is left of them."""
    with contextlib.ExitStack() as stack:
        if configuration.server == "apache":
            runs = [stack.enter_context(apache.apache(page, setting, APACHES[configuration.name]))]
        else:
            numbered = [replace(page, name=f"{page.name}-{i}") for i in range(max(1, configuration.backends))]
            server = SERVERS[configuration.server]
            runs = [stack.enter_context(running(server, each, setting)) for each in numbered]
        servers = [run.process.pid for run in runs]
        if not configuration.backends:
            yield Served(runs[0], servers, 0)
            return
        # By default a client that waits for each answer would only ever meet the first backend.
        balance = 'proxy.balance = "round-robin"'
        through = stack.enter_context(front.lighttpd([run.port for run in runs], setting, SERVER_CORE, balance))
        check(through.port, page, expected(page, setting))
        yield Served(through, servers, through.process.pid)


def _of(configuration: Configuration, setting: Setting) -> Setting:
    """The setting with the interpreter that runs the application: the heavy page shows its version."""
    if configuration.server != "apache":
        return setting
    return replace(setting, python=apache.PYTHON, answers={})


def facts() -> dict[str, object]:
    """What else stands in a record: the versions of what is not poorhttp."""
    versions: dict[str, object] = {
        "apache": record.version_of(apache.program, "-v"),
        "lighttpd": record.version_of(front.program, "-v"),
    }
    versions["mod_python"] = record.said(["dpkg-query", "-W", "-f", "${Version}", "libapache2-mod-python"])
    versions["python of mod_python"] = record.said([apache.PYTHON, *record.INTERPRETER])
    versions["ps"] = record.said(["ps", "--version"])
    return versions
