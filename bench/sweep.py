"""wrk with more and more connections against all servers, as in an article that compared six of them.

Some of the servers are started as in that article, faults included; all others so that they do well. wrk 4.1 counts
clients that wait for an answer in vain neither as errors nor in its percentiles, so the kernel is asked for them. Knows
how a run is made and when it is none; `sweep_report` shows it.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from bench import confine, load, proc
from bench.client import Failure
from bench.launch import Running, Setting, expected, pinned, started, wait_until_right
from bench.measure import Measurement, allow_descriptors, named, positive
from bench.servers import Server, members
from bench.workloads import WORKLOADS, Row, Workload

CONNECTIONS = (100, 200, 500, 1000, 2000, 5000, 10_000)
QUICK = JUDGED = (100, 1000, 10_000)
SECONDS, MANY = 5.0, 2500  # of load, with up to so many connections
KEPT, CLOSED = "kept", "closed"
CPUS = (0, 1)  # of the servers, as many as in the article
SPARE = 1000  # descriptors beyond the connections
LOOK = 0.5  # seconds between looks at the server's memory
MARGIN = 0.3  # seconds before wrk's end at which the kernel is asked for its clients
PATIENCE = 20.0  # seconds beyond its time within which wrk must end
PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")
QUEUE = Path("/proc/sys/net/core/somaxconn")
BY_ARTICLE = members("as in the article")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    counts = " ".join(map(str, CONNECTIONS))
    what = f"of load with up to {MANY:,} connections, and in proportion with more; default {SECONDS:g}"
    parser.add_argument("--seconds", type=float, default=SECONDS, help=what)
    parser.add_argument("--connections", nargs="+", type=number_of_connections, metavar="N", help=f"default {counts}")
    parser.add_argument("--mode", nargs="+", choices=[KEPT, CLOSED], help="of the connections, default both")
    parser.add_argument("--seed", type=int, default=1, help="of the order of servers in each round, default 1")


def number_of_connections(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 2 <= int(text) <= 60_000):
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number from 2 to 60000, as so many ports there are")
    return int(text)


def rows(arguments: argparse.Namespace, setting: Setting) -> Iterator[tuple[Row, Measurement]]:
    counts = arguments.connections or (QUICK if arguments.quick else CONNECTIONS)
    setting = replace(setting, cores=frozenset(CPUS))
    for mode in dict.fromkeys(arguments.mode or (KEPT, CLOSED)):
        for count in dict.fromkeys(counts):
            workload = replace(
                WORKLOADS["hello"], name=row_name(mode, count), connections=count, close=mode == CLOSED,
                processes=len(CPUS), our_threads=4,
            )  # fmt: skip
            seconds = longer(arguments.seconds, count)
            for server in named(arguments.only, members("sweep")):
                yield (workload.name, server.name), partial(measure, server, workload, setting, seconds)


def row_name(mode: str, count: int) -> str:
    return f"{mode} {count}"


def longer(seconds: float, count: int) -> float:
    """The time for so many connections: it takes seconds to open thousands, which would be most of a short run."""
    return seconds * max(1.0, count / MANY)


def shuffled(seed: int, turn: int, rows: Sequence[tuple[Row, Measurement]]) -> list[tuple[Row, Measurement]]:
    """The rows of a round: numbers of connections as they come, for each of them the servers in random order."""
    by_workload: dict[str, list[tuple[Row, Measurement]]] = {}
    for each in rows:
        by_workload.setdefault(each[0][0], []).append(each)
    for workload, some in by_workload.items():
        random.Random(f"{seed} {turn} {workload}").shuffle(some)
    return [each for some in by_workload.values() for each in some]


def facts(arguments: argparse.Namespace) -> dict[str, object]:
    """What the record needs beside the surroundings."""
    cores = load_cores()
    return {
        "seed of the order": arguments.seed,
        "CPUs of the servers": " and ".join(map(str, CPUS)),
        "CPUs of wrk": " and ".join(map(str, cores)) + ", which the servers use too" * (cores == CPUS[1:]),
        "memory of the servers": confine.fact(),
        "open files": f"at most {allow_descriptors(SPARE)} for each process",
        "ports of clients": " to ".join(PORTS.read_text().split()),
        "queue of a listener": f"at most {QUEUE.read_text().strip()}",
    }


def load_cores() -> tuple[int, ...]:
    """Two CPUs besides those of the servers, or one; where the machine has no more, the second one of the servers."""
    others = sorted(set(range(os.cpu_count() or 1)) - set(CPUS))
    return tuple(others[:2]) or CPUS[1:]


def measure(server: Server, workload: Workload, setting: Setting, seconds: float) -> dict[str, Any]:
    """Load a fresh server; numbers of wrk, of the kernel about wrk's clients, and of the server's process tree."""
    answer = expected(workload, setting)
    allow_descriptors(workload.connections + SPARE)
    # A server that is started as in the article may leave a connection open and never answer on it again.
    asked = replace(workload, close=True) if server.name in BY_ARTICLE else workload
    with pinned(load_cores()), confine.limited() as group:
        setting = replace(setting, inside=group.command() if group else ())
        with started(server, workload, setting) as run:
            note = wait_until_right(run, asked, answer)
            try:
                numbers = under_load(run, workload, answer, seconds)
                wait_until_right(run, asked, answer)  # it may still be busy with clients that are gone
            except Failure:
                confine.ensure_enough(group)
                if run.process.poll() is not None:
                    raise Failure(f"ended under load with status {run.process.returncode}") from None
                raise
            confine.ensure_enough(group)  # a supervisor may have replaced what was killed
    remark = "; ".join(filter(None, (note, numbers.pop("remark"))))
    short = {name: float(f"{each:.6g}") if isinstance(each, float) else each for name, each in numbers.items()}
    return {**short, "remark": remark}


def under_load(run: Running, workload: Workload, answer: bytes, seconds: float) -> dict[str, Any]:
    """The numbers of `judged`; CPU seconds for a right answer, CPU in percent of one, memory and shape of the tree."""
    root = run.process.pid
    whole = max(1, round(seconds))
    before, begin = proc.cpu(root), time.perf_counter()
    command = load.wrk_command(run.port, workload, whole, threads=len(load_cores()), timeout=whole + 10)
    wrk = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        sizes = look_until(root, begin + whole - MARGIN)
        waited = time.perf_counter() - begin
        silences = proc.silences(int(run.port))
        is_late = wrk.poll() is not None
        sizes.append(proc.memory(root))
        text, _ = wrk.communicate(timeout=whole + PATIENCE)
        data = load.result_of_wrk(text)
        if is_late:
            late = waited - whole + MARGIN
            raise Failure(f"wrk had ended before the kernel was asked for its clients, which was {late:.1f} s late")
    except subprocess.TimeoutExpired as error:
        raise Failure(f"wrk did not end within {PATIENCE:.0f} s after its time") from error
    finally:
        wrk.kill()
        wrk.communicate()
    spent, elapsed = proc.cpu(root) - before, time.perf_counter() - begin
    numbers = judged(data, silences, workload, len(answer), waited)
    processes, threads = proc.shape(root)
    weights = {name: positive(max(size[name] for size in sizes), name) for name in ("pss", "alone")}
    of_cpu = {"cpu": positive(spent, "CPU time") / numbers.pop("requests"), "core": 100 * spent / elapsed}
    return {**numbers, **weights, **of_cpu, "processes": processes, "threads": threads}


def look_until(root: int, until: float) -> list[dict[str, int]]:
    """The memory of the tree, every `LOOK` seconds until this moment of `perf_counter`."""
    sizes = []
    while (left := until - time.perf_counter()) > 0:
        time.sleep(min(LOOK, left))
        if time.perf_counter() < until:
            sizes.append(proc.memory(root))
    return sizes


def judged(
    data: dict[str, Any], silences: Sequence[float], workload: Workload, answer_bytes: int, waited: float
) -> dict[str, Any]:
    """The numbers of a run; raises Failure where it gave no right answer, or none to anybody in its second half.

    data: what wrk.lua prints. silences: for how many seconds each client had received nothing, shortly before the end.
    waited: how many seconds after wrk's start that was. A client is unserved if it had received nothing for half of
    that time, or if wrk could not open a connection for it.
    """
    count, errors = workload.connections, data["errors"]
    right = data["requests"] - errors["status"]
    silent = [each for each in silences if each >= waited / 2]
    silent += [waited] * min(errors["connect"], max(0, count - len(silences)))
    kinds = ", ".join(f"{kind} {number:,}" for kind, number in errors.items() if number)
    told = f"{right:,} right answers, {len(silent):,} of {count:,} clients wait for one, errors: {kinds or 'none'}"
    if right <= 0:
        raise Failure(f"no right answer: {told}")
    if len(silent) >= count:
        raise Failure(f"no answer in the last {waited / 2:.1f} s: {told}")
    if data["bytes"] < right * answer_bytes:
        raise Failure(f"{data['bytes']:,} bytes are too few for the answers: {told}")
    return {
        "requests": right, "rate": right / data["seconds"], "p50": data["p50"] * 1e3,
        "p99": percentile_99(data["tail"], data["requests"], silent) * 1e3,
        "errors": sum(errors.values()), "unserved": len(silent),
        "remark": ", ".join(f"{kind} errors" for kind, number in errors.items() if number),
    }  # fmt: skip


def percentile_99(tail: Sequence[float], answered: int, silent: Sequence[float]) -> float:
    """The 99th percentile of all requests; one without an answer counts with the time that it has waited so far.

    tail: the percentiles 99.00, 99.01, ... 100.00 of the answered ones.
    """
    may_be_above = (answered + len(silent)) / 100
    for i, value in enumerate(tail):
        above = answered * (100 - i) / 10_000 + sum(each > value for each in silent)
        if above <= may_be_above:
            return value
    return sorted(silent)[-1 - int(may_be_above)]
