"""What a second process gives on two cores, and what several processes of one application weigh.

Knows the scenarios, how each is measured and what the figures may be. Unlike in `cost`, servers run on both cores, and
so does wrk, which takes a part of what a second process could have; how much is shown. `compute` leaves them the cores:
its load is tally, which takes some microseconds of one core for an answer that takes a server a millisecond. Sizes are
bytes.
"""

from __future__ import annotations

import resource
import time
from dataclasses import dataclass, replace
from functools import partial

from bench import launch, load, proc, scenario
from bench.client import check
from bench.launch import LOAD_CORE, SERVER_CORE, Setting, expected, running
from bench.memory_workers import under_load, until_at_rest
from bench.scenario import Limit, Scenario
from bench.servers import OURS, SERVERS, Server
from bench.workloads import HELLO, WORKLOADS, Workload

CORES = frozenset({SERVER_CORE, LOAD_CORE})
FLASK = Workload("flask", "a page of Flask", OURS, module="flask_page", app="application", close=True,
                 needs=("flask",))  # fmt: skip
COMPUTE = replace(WORKLOADS["compute"], threads=1)


@dataclass(frozen=True)
class Size:
    seconds: float  # of load


FULL = Size(5.0)
QUICK = Size(1.0)


def page(name: str) -> Workload:
    """A page of the examples."""
    return replace(WORKLOADS["light"], name=name, path=f"/{name}")


def speed(server: Server, setting: Setting, size: Size, asked: Workload) -> dict[str, float]:
    """Answers per second of one process and of two, on two cores that the load shares with them; tally has only one."""
    python = setting.python if server.name in OURS else str(launch.PEERS_PYTHON)
    # The heavy page names its Python, so each interpreter has an answer of its own.
    setting = replace(setting, cores=CORES, python=python, answers={})
    numbers: dict[str, float] = {}
    with launch.pinned(CORES):
        for count, name in ((1, "one"), (2, "two")):
            workload = replace(asked, processes=count)
            answer = expected(workload, setting)
            with (
                running(server, workload, setting, processes(server, count)) as run,
                launch.pinned({LOAD_CORE} if workload.tally else CORES),
            ):
                load.run(run.port, workload, answer, 1.0)
                before, ours, begin = proc.cpu_of_each(run.process.pid), own_cpu(), time.monotonic()
                done = load.run(run.port, workload, answer, size.seconds)
                spent = {pid: cpu - before.get(pid, 0) for pid, cpu in proc.cpu_of_each(run.process.pid).items()}
                took, load_cpu = time.monotonic() - begin, own_cpu() - ours
                check(run.port, workload, answer)
            total = sum(spent.values())
            numbers |= {
                name: done["rate"], f"{name} cpu": total / done["requests"] * 1e6, f"{name} p99": done["p99"],
                f"{name} load": load_cpu / took * 100, f"{name} busiest": max(spent.values()) / total * 100,
            }  # fmt: skip
    return {**numbers, "times": numbers["two"] / numbers["one"]}


def processes(server: Server, count: int) -> tuple[str, ...]:
    return ("--processes", str(count)) if server.name in OURS else ()


def own_cpu() -> float:
    """CPU seconds of the children that ended: of the load."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def weight(server: Server, setting: Setting, size: Size) -> dict[str, float]:
    """Memory of a Flask application after some thousand answers: one process, one worker and its supervisor, four.

    By `alone` (see `proc.memory`): PSS is lower by what strangers, the bench itself among them, have mapped too, and
    that is half of a library for one process but a sixth for five.
    """
    kinds = {"single": (SERVERS["single"], 0), "one": (server, 1), "four": (server, 4)}
    weighed = {}
    for name, (each, count) in kinds.items():
        workload = replace(FLASK, name=f"flask-{name}")
        with running(each, workload, setting, processes(each, count) if count else ()) as run:
            until_at_rest(run.process.pid, count + 1)
            under_load(run, [(workload, HELLO)], max(1, count), size.seconds)
            weighed[name] = proc.memory(run.process.pid)
    alone, pss = ({name: numbers[by] / 2**20 for name, numbers in weighed.items()} for by in ("alone", "pss"))
    return {
        **alone, "single pss": pss["single"], "four pss": pss["four"],
        "times single": alone["four"] / alone["single"], "times one": alone["four"] / alone["one"],
        "times pss": pss["four"] / pss["single"],
    }  # fmt: skip


# fmt: off
SPEED_COLUMNS = {
    "1 process /s": "one", "2 processes /s": "two", "times": "times", "± times": "~times",
    "CPU µs/req with 1": "one cpu", "with 2": "two cpu", "p99 ms with 1": "one p99", "p99 ms with 2": "two p99",
    "load's CPU % with 1": "one load", "load's CPU % with 2": "two load", "busier process's part %": "two busiest",
}
WORKERS = ("forking", "gunicorn", "granian", "uwsgi")
ONE_ONLY = {"threading": "one process: the interpreter lets one thread compute at a time"}
ALL = (
    Scenario("light", "the light page, 1 and 2 processes on 2 cores, 64 kept connections",
             partial(speed, asked=page("light")), (), SPEED_COLUMNS, WORKERS, ONE_ONLY),
    Scenario("heavy", "the heavy page, 1 and 2 processes on 2 cores, 64 kept connections",
             partial(speed, asked=page("heavy")), (), SPEED_COLUMNS, WORKERS, ONE_ONLY),
    Scenario("compute", "a millisecond of Python, 1 and 2 processes on 2 cores, 16 connections, kept by tally on one",
             partial(speed, asked=COMPUTE), (Limit("2 processes / 1", "times", ">=", 1.8, "x"),), SPEED_COLUMNS,
             WORKERS, ONE_ONLY),
    Scenario("memory", "a Flask application in 4 workers", weight,
             (Limit("with their supervisor / single", "times single", "<=", 1.6, "x"),),
             {"single MiB": "single", "1 worker and supervisor MiB": "one", "4 workers and supervisor MiB": "four",
              "/ single": "times single", "/ 1 worker and supervisor": "times one",
              "PSS of single": "single pss", "of 4 workers and supervisor": "four pss",
              "/ PSS of single": "times pss"},
             ("forking",)),
)
# fmt: on
SCENARIOS = {each.name: each for each in ALL}
targets = partial(scenario.targets, ALL)
rows = partial(scenario.rows, ALL)
