"""What an application weighs in one process and in four workers, after one answer and after load.

Knows the applications, how a server is weighed and what is shown; what it may weigh is in `workloads`, and the servers
are the sections of servers.ini that begin with `memory/`. Memory is the PSS of the whole process tree; of a worker it
is the part that no other process shares (USS). Sizes are bytes.
"""

from __future__ import annotations

import argparse
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean, median
from typing import Any

from bench import load, proc, record
from bench.client import Failure, Unable, check
from bench.launch import Running, Setting, expected, running
from bench.measure import Measurement, first_answer, positive
from bench.report import Results, result_table
from bench.servers import WEIGHED, Server
from bench.workloads import WORKERS, WORKLOADS, Row, Workload, weighed

SECONDS = 6.0  # of load for each page
STARTS = 3  # from whose median the time to the first answer is taken
REST, STILL, PATIENCE = 0.5, 0.01, 20.0  # seconds: a tree rests if it takes less CPU than `STILL` in `REST`
CLIENTS = 16
LOADS = 5  # until each worker must have worked
# Names for --only: `forking` chooses the rows with other settings of it too.
NAMES = tuple(dict.fromkeys(name.partition("-")[0] for name in WEIGHED))
# fmt: off
COLUMNS = {
    "PSS MiB at rest": "pss before", "after load": "pss after", "± PSS": "~pss after", "alone MiB": "alone after",
    "private MiB of a worker at rest": "worker before", "private after load": "worker after", "processes": "processes",
    "first answer ms": "first",
}
# fmt: on


def rows(arguments: argparse.Namespace, setting: Setting) -> Iterator[tuple[Row, Measurement]]:
    """The rows of the applications and servers that were named; all servers where none were."""
    starts = 1 if arguments.quick else STARTS
    for name in dict.fromkeys(arguments.app):
        for count, processes in WORKERS.items():
            for server in WEIGHED.values():
                if not arguments.only or server.name.partition("-")[0] in arguments.only:
                    measurement = partial(weight, server, name, processes, setting, arguments.seconds, starts)
                    yield weighed(name, count, server.name), measurement


def facts(arguments: argparse.Namespace, setting: Setting) -> dict[str, object]:
    """The version of each library that the applications need; raises Failure where the peers have another one."""
    packages = list(dict.fromkeys(package for name in arguments.app for package in WORKLOADS[name].needs))
    ours, theirs = (record.versions(python, packages) for python in (setting.python, setting.peers))
    for package in packages:
        found = {ours[package], theirs[package]} - {record.ABSENT}
        if len(found) > 1:
            raise Failure(f"{package} is {ours[package]} beside poorhttp, {theirs[package]} beside the peers: "
                          f"pip install {package}=={theirs[package]} for {setting.python}")  # fmt: skip
    return {package: theirs[package] if ours[package] == record.ABSENT else ours[package] for package in packages}


def pages(name: str, processes: int) -> list[Workload]:
    """The pages of an application that are asked for, one after another; a server is started for the first.

    Each request has a new connection: kept ones may leave a worker without any.
    """
    of_cost = WORKLOADS[name]
    return [
        replace(of_cost, name=f"{name}-{number}", path=path, connections=CLIENTS, close=True, tally=False, threads=1,
                our_threads=0, processes=processes)
        for number, path in enumerate(of_cost.paths, 1)
    ]  # fmt: skip


def weight(server: Server, name: str, processes: int, setting: Setting, seconds: float, starts: int) -> dict[str, Any]:
    """Memory at rest and after load, requests per second of each page, milliseconds from exec to the first answer.

    At rest: after the one answer that shows that the server is ready.
    """
    is_supervised = any("{processes}" in word for word in server.command)
    if processes > 1 and not is_supervised:
        raise Unable("has one process only")
    immortal = {"immortal": int(has_immortal_objects(setting.python))} if server.is_ours() else {}
    if "mortal" in server.name and not immortal["immortal"]:
        raise Unable("no object is immortal in this Python: as the row without `mortal`")
    asked = [(page, expected(page, setting)) for page in pages(name, processes)]
    page, _ = asked[0]
    first = median(first_answer(server, setting, page)["first"] for _ in range(starts))
    with running(server, page, setting) as run:
        root = run.process.pid
        until_at_rest(root, processes + is_supervised)
        before, private_before = proc.memory(root), proc.private_of_each(root)
        rates, workers = under_load(run, asked, processes, seconds)
        until_at_rest(root, processes + is_supervised)
        after, private, strangers = proc.memory(root), proc.private_of_each(root), proc.strangers(root)
        for page, answer in asked:
            check(run.port, page, answer)
        if gone := [pid for pid in workers if pid not in private or pid not in private_before]:
            raise Failure(f"worker {gone[0]} began or ended under load")
        count, _ = proc.shape(root)
    return {
        "first": first, **{f"rate {number}": rate for number, rate in enumerate(rates, 1)},
        "pss before": positive(before["pss"], "PSS"), "pss after": positive(after["pss"], "PSS"),
        "alone after": after["alone"],
        "worker before": fmean(private_before[pid] for pid in workers),
        "worker after": fmean(private[pid] for pid in workers),
        "private": sum(private.values()), "processes": count, **immortal,
        "remark": f"PSS is too low: {strangers} other processes run the same interpreter file" if strangers else "",
    }  # fmt: skip


def has_immortal_objects(python: str) -> bool:
    """Whether poorhttp can make an application that this Python runs immortal (PEP 683), as its engine tells."""
    code = "from poorhttp._engine import make_immortal; print(make_immortal([], type('Empty', (), {})) is not None)"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    return done.stdout.strip() == "True"


def until_at_rest(root: int, processes: int) -> None:
    """Wait until the tree has so many processes, and none computes: each has loaded the application. Raises Failure."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        before = proc.exact_cpu(root)
        time.sleep(REST)
        if len(proc.tree(root)) >= processes and abs(proc.exact_cpu(root) - before) < STILL:
            return
    raise Failure(f"{len(proc.tree(root))} processes do not come to rest in {PATIENCE:g} s")


def under_load(
    run: Running, asked: Sequence[tuple[Workload, bytes]], processes: int, seconds: float
) -> tuple[list[float], list[int]]:
    """Requests per second of each page, and the processes that answered; raises Failure unless each worker did.

    The workers are the processes that took the most CPU: a server may have others beside its supervisor.
    """
    before = proc.cpu_of_each(run.process.pid)
    workers: list[int] = []
    for _ in range(LOADS):
        rates = [load.run(run.port, page, answer, seconds)["rate"] for page, answer in asked]
        spent = {pid: cpu - before.get(pid, 0) for pid, cpu in proc.cpu_of_each(run.process.pid).items()}
        workers = [pid for pid in sorted(spent, key=spent.__getitem__)[-processes:] if spent[pid] > 0]
        if len(workers) == processes:
            return rates, workers
    raise Failure(f"only {len(workers)} of {processes} workers did anything")


def sections(results: Results) -> Iterator[str]:
    for row in dict.fromkeys(row[0] for row in results):
        name, _, count = row.partition(", ")
        workload = WORKLOADS[name]
        columns = COLUMNS | {f"req/s of {path}": f"rate {number}" for number, path in enumerate(workload.paths, 1)}
        heading = f"## {row}: {workload.what}, {count} worker{'s' * (WORKERS[count] > 1)}"
        terms = f"{CLIENTS} clients, a new connection for each request of {' and then '.join(workload.paths)}."
        yield f"{heading}\n\n{terms}\n\n{result_table(results, row, columns)}"
