"""wrk with more and more connections against all servers, as in an article that compared six of them.

Some of the servers are started as in that article, faults included, all others so that they do well. What wrk does not
see is asked of the kernel: clients that wait for an answer in vain, which wrk 4.1 counts neither as errors nor in its
percentiles. Knows what a run of wrk is worth; starts nothing but wrk.
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
from bench.client import Failure, check
from bench.launch import Running, Setting, expected, pinned, started, wait_until_right
from bench.measure import Measurement, allow_descriptors, named
from bench.report import ABSENT, Result, Results, cell, middle, number, remark, table
from bench.servers import OURS, SERVERS, Server, members
from bench.workloads import WORKLOADS, Row, Target, Workload

CONNECTIONS = (100, 200, 500, 1000, 2000, 5000, 10_000)
QUICK = JUDGED = (100, 1000, 10_000)
SECONDS = 5.0
KEPT, CLOSED = "kept", "closed"
CPUS = (0, 1)  # of the servers, as many as in the article
SPARE = 1000  # descriptors beyond the connections
LOOK, MARGIN = 0.5, 0.3  # seconds between looks at the server; before wrk's end, when the clients are looked at
PATIENCE = 20.0  # seconds beyond its time until wrk has ended
PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")
QUEUE = Path("/proc/sys/net/core/somaxconn")
METRICS = {
    "requests per second": "rate", "p50, ms": "p50", "p99, ms": "p99", "errors": "errors",
    "clients that wait at the end": "unserved", "CPU of the server, %": "core", "CPU µs per request": "cpu",
    "memory, MiB, at most": "alone",
}  # fmt: skip
KINDS = ("connect", "read", "write", "status", "timeout")  # of errors, as wrk tells them apart
AHEAD = {
    "requests per second, single": ("rate", max), "p99, single": ("p99", min), "memory, single": ("alone", min),
    "clients that wait, single": ("unserved", min), "errors, single": ("errors", min),
}  # fmt: skip
BY_ARTICLE = members("as in the article")
PEERS = tuple(name for name in members("sweep") if name not in (*OURS, *BY_ARTICLE, "bare"))


def targets() -> Iterator[Target]:
    for mode in (KEPT, CLOSED):
        for count in JUDGED:
            name = row_name(mode, count)
            peers = tuple((name, peer) for peer in PEERS)
            for what, column, sense in (("requests per second", "rate", ">="), ("p99", "p99", "<="),
                                        ("memory", "alone", "<=")):  # fmt: skip
                yield Target(f"{name}, {what}: single / the best peer", (name, "single"), column, sense, 1.0,
                             over=peers, leaves_out_failed=True)  # fmt: skip
            yield Target(f"{name}: errors of single", (name, "single"), "errors", "<=", 0, "")
            yield Target(f"{name}: clients of single that wait in vain", (name, "single"), "unserved", "<=", 0, "")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    counts = ", ".join(map(str, CONNECTIONS))
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"of load in each round, default {SECONDS:g}")
    parser.add_argument("--connections", nargs="+", type=int, metavar="N", help=f"default {counts}")
    parser.add_argument("--mode", nargs="+", choices=[KEPT, CLOSED], help="of the connections, default both")
    parser.add_argument("--seed", type=int, default=1, help="of the order of servers in each round, default 1")


def rows(arguments: argparse.Namespace, setting: Setting) -> Iterator[tuple[Row, Measurement]]:
    counts = arguments.connections or (QUICK if arguments.quick else CONNECTIONS)
    confined = replace(setting, cores=frozenset(CPUS))
    for mode in arguments.mode or (KEPT, CLOSED):
        for count in counts:
            workload = replace(
                WORKLOADS["hello"], name=row_name(mode, count), connections=count, close=mode == CLOSED,
                processes=len(CPUS), our_threads=4,
            )  # fmt: skip
            for server in named(arguments.only, members("sweep")):
                yield (workload.name, server.name), partial(measure, server, workload, confined, longer(arguments.seconds, count))


def longer(seconds: float, count: int) -> float:
    """The time for so many connections: opening thousands takes seconds, and most of a short run."""
    return seconds * max(1.0, count / 2500)


def row_name(mode: str, count: int) -> str:
    return f"{mode} {count}"


def shuffled(
    seed: int, turn: int, rows: Sequence[tuple[Row, Measurement]]
) -> list[tuple[Row, Measurement]]:
    """The rows of a round: numbers of connections as they come, in each of them the servers in random order."""
    by_workload: dict[str, list[tuple[Row, Measurement]]] = {}
    for each in rows:
        by_workload.setdefault(each[0][0], []).append(each)
    for workload, some in by_workload.items():
        random.Random(f"{seed} {turn} {workload}").shuffle(some)
    return [each for some in by_workload.values() for each in some]


def facts(arguments: argparse.Namespace) -> dict[str, object]:
    """What the record needs beside the surroundings."""
    cores = load_cores()
    shared = sorted(set(cores) & set(CPUS))
    return {
        "seed of the order": arguments.seed,
        "seconds": arguments.seconds,
        "CPUs of the servers": " and ".join(map(str, CPUS)),
        "CPUs of wrk": " and ".join(map(str, cores)) + ", which the servers use too" * bool(shared),
        "memory of the servers": confine.fact(),
        "open files": f"at most {allow_descriptors(SPARE)} for each process",
        "ports of clients": " to ".join(PORTS.read_text().split()),
        "queue of a listener": f"at most {QUEUE.read_text().strip()}",
    }  # fmt: skip


def load_cores() -> tuple[int, ...]:
    """Two CPUs that the servers have not; the second one where the machine has only two."""
    others = sorted(set(range(os.cpu_count() or 1)) - set(CPUS))
    return tuple(others[:2]) or CPUS[1:]


def measure(server: Server, workload: Workload, setting: Setting, seconds: float) -> dict[str, Any]:
    """Load a fresh server; numbers of wrk, of the kernel about its clients, and of the server's process tree."""
    answer = expected(workload, setting)
    allow_descriptors(workload.connections + SPARE)
    # A server that is started as in the article must answer once: it may keep a connection and answer no more.
    asked = replace(workload, close=True) if server.name in BY_ARTICLE else workload
    with confine.limited() as group:
        setting = replace(setting, inside=group.command() if group else ())
        with started(server, workload, setting) as run:
            note = wait_until_right(run, asked, answer)
            try:
                numbers = under_load(run, workload, answer, seconds)
                check(run.port, asked, answer)
            except Failure:
                confine.ensure_enough(group)
                if run.process.poll() is not None:
                    raise Failure(f"ended under load with status {run.process.returncode}") from None
                raise
        return {**numbers, "remark": note}


def under_load(run: Running, workload: Workload, answer: bytes, seconds: float) -> dict[str, Any]:
    root = run.process.pid
    whole = max(1, round(seconds))
    before = proc.cpu(root)
    with pinned(load_cores()):
        wrk = subprocess.Popen(
            load.wrk_command(run.port, workload, whole, threads=len(load_cores()), timeout=whole + 10),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
    try:
        begin = time.perf_counter()
        sizes = look_until(root, begin + whole - MARGIN)
        waited = time.perf_counter() - begin
        silences = proc.silences(int(run.port))
        sizes.append(proc.memory(root))
        if wrk.poll() is not None and not silences:
            raise Failure(f"the machine was too busy to look at the clients in time: {waited - whole:.1f} s late")
        try:
            text, _ = wrk.communicate(timeout=whole + PATIENCE)
        except subprocess.TimeoutExpired as error:
            raise Failure(f"wrk did not end within {PATIENCE:.0f} s after its time") from error
    finally:
        wrk.kill()
        wrk.communicate()
    elapsed = time.perf_counter() - begin
    spent = proc.cpu(root) - before
    processes, threads = proc.shape(root)
    numbers = judged(load.result_of_wrk(text), silences, workload, len(answer), waited)
    return {
        **numbers, "cpu": spent / numbers["requests"], "core": 100 * spent / elapsed, "pss": max(each["pss"] for each in sizes),
        "alone": max(each["alone"] for each in sizes),
        "processes": processes, "threads": threads,
    }  # fmt: skip


def look_until(root: int, until: float) -> list[dict[str, int]]:
    """The memory of the tree, every half second until this moment of `perf_counter`."""
    sizes = []
    while (left := until - time.perf_counter()) > 0:
        time.sleep(min(LOOK, left))
        if time.perf_counter() < until:
            sizes.append(proc.memory(root))
    return sizes


def judged(
    data: dict[str, Any], silences: Sequence[float], workload: Workload, answer_bytes: int, waited: float
) -> dict[str, Any]:
    """The numbers of a run; raises Failure if it was none.

    data: of wrk.lua. silences: of the clients, shortly before the end. waited: for how long they had asked by then.
    A client waits in vain if it has had nothing for half of that time, or has no connection since it could not open
    one.
    """
    count, requests, errors = workload.connections, data["requests"], data["errors"]
    gone = min(errors["connect"], max(0, count - len(silences)))
    in_vain = sorted(each for each in silences if each >= waited / 2)
    unserved = len(in_vain) + gone
    right = requests - errors["status"]
    found = ", ".join(f"{number} of {kind}" for kind, number in errors.items() if number) or "none"
    told = f"{right:,} right answers, {unserved:,} of {count:,} clients wait for one; errors that wrk counts: {found}"
    if right <= 0:
        raise Failure(f"no right answer; {told}")
    if unserved >= count:
        raise Failure(f"no client has had an answer for the last {waited / 2:.1f} s; {told}")
    if data["bytes"] < right * answer_bytes:
        raise Failure(f"{data['bytes']} bytes for {right} answers of {answer_bytes}")
    late = in_vain + [waited] * gone
    return {
        "requests": right, "rate": right / data["seconds"], "p50": data["p50"] * 1e3,
        "p99": slowest_of_100(data["tail"], requests, late) * 1e3, "errors": sum(errors.values()),
        "unserved": unserved, **{f"{kind} errors": number for kind, number in errors.items()},
    }  # fmt: skip


def slowest_of_100(tail: Sequence[float], requests: int, late: Sequence[float]) -> float:
    """The 99th percentile of all requests, with those that have no answer: they count with the time so far.

    tail: the percentiles 99.00, 99.01, ... 100.00 of the `requests` that have one.
    """
    above = (requests + len(late)) / 100  # so many may be slower
    for i, value in enumerate(tail):
        answered_later = requests * (100 - i) / 10_000
        if answered_later + sum(each > value for each in late) <= above:
            return value
    return sorted(late)[max(0, len(late) - int(above) - 1)]


def sections(results: Results) -> Iterator[str]:
    for mode in (KEPT, CLOSED):
        names = [name for name in dict.fromkeys(row[0] for row in results) if name.split()[0] == mode]
        if not names:
            continue
        what = "kept connections" if mode == KEPT else "a new connection for each request"
        yield f"## {mode}: {what}\n\n{standing(names, results)}"
        for heading, column in METRICS.items():
            yield f"### {mode}: {heading}\n\n{matrix(names, column, results)}"
        if told := list(remarks(names, results)):
            yield f"### {mode}: remarks\n\n" + table(["server", "connections", "remark"], told)


def standing(names: Sequence[str], results: Results) -> str:
    """How many times the number of the best peer that of `single` is, and which peer that is."""
    lines = []
    for name in names:
        line = [name.split()[1]]
        for column, best in AHEAD.values():
            peers = {peer: value for peer in PEERS if (value := of(results, (name, peer), column)) is not None}
            mine = of(results, (name, "single"), column)
            if not peers or mine is None:
                line.append(ABSENT)
                continue
            peer = best(peers, key=peers.__getitem__)
            line.append(f"{number(mine / peers[peer])} x {peer}" if peers[peer] else f"{number(mine)}, {peer} 0")
        lines.append(line)
    return table(["connections", *AHEAD], lines)


def matrix(names: Sequence[str], column: str, results: Results) -> str:
    """A line for each server, a column for each number of connections."""
    servers = dict.fromkeys(server for name, server in results if name in names)
    lines = [[server, *(_cell(results, (name, server), column) for name in names)] for server in servers]
    return table(["server", *(name.split()[1] for name in names)], lines)


def _cell(results: Results, row: Row, column: str) -> str:
    if row in results and results[row].failures:
        return "failed"
    return cell(results, row, column) if row in results else ABSENT


def remarks(names: Sequence[str], results: Results) -> Iterator[list[str]]:
    """Server, numbers of connections, and what is to be said of them: most of all why a run failed."""
    where: dict[tuple[str, str], list[str]] = {}
    for (name, server), result in results.items():
        if name in names and (text := _remark(result)):
            where.setdefault((server, text), []).append(name.split()[1])
    yield from ([server, ", ".join(counts), text] for (server, text), counts in where.items())


def _remark(result: Result) -> str:
    if result.failures:
        return remark(result)
    kinds = {kind: sum(numbers.get(f"{kind} errors", 0) for numbers in result.rounds) for kind in KINDS}
    found = ", ".join(f"{kind} {count:,.0f}" for kind, count in kinds.items() if count)
    return "; ".join(filter(None, [result.remark, found and f"errors: {found}"]))


def of(results: Results, row: Row, column: str) -> float | None:
    return middle(results[row], column) if row in results else None
