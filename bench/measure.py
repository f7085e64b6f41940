"""The measurements: what a request costs, what a server weighs and does when idle, how long it takes to start.

Each measurement starts its own server, checks it, measures, and gives one dict of numbers; `take_turns` calls them so
that the servers of a workload follow one another in every round. Times are seconds unless a name says otherwise
(`p50`, `p99`, `first`: milliseconds), sizes bytes.
"""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import psutil

from bench import load, proc
from bench.client import Failure, Missing, Unable, check, compare, connect, read_answer, request
from bench.front import lighttpd
from bench.launch import APPS, LOAD_CORE, Running, Setting, environment, expected, running, started
from bench.progress import Progress
from bench.report import Result
from bench.servers import OURS, SERVERS, Server, members
from bench.workloads import START, UNIX, WORKLOADS, Row, Workload

WARM_UP, SETTLE = 1.0, 3.0  # seconds
BATCH = 500  # connections opened and asked together
# Options with which a server closes no connection before the idle measurement is over.
KEEPS = {**dict.fromkeys(OURS, ("--keepalive-timeout", "600")), "gthread": ("--keep-alive", "600")}
Measurement = Callable[[], dict[str, float]]
Order = Callable[[int, Sequence[tuple[Row, Measurement]]], Sequence[tuple[Row, Measurement]]]


def in_order(_: int, rows: Sequence[tuple[Row, Measurement]]) -> Sequence[tuple[Row, Measurement]]:
    """Each round as the rows are given."""
    return rows


def take_turns(
    rows: Iterable[tuple[Row, Measurement]],
    rounds: int,
    results: dict[Row, Result] | None = None,
    order: Order = in_order,
) -> dict[Row, Result]:
    """Measure each row once in each round; a failure is kept as a failure.

    results: of the rounds that were measured before; what is found is added there, so that it is not lost if the run is
    interrupted. order: gives the rows of a round in their order, by the round's number from 1 on.
    """
    rows = list(rows)
    results = {} if results is None else results
    for row, _ in rows:
        results.setdefault(row, Result())
    turns = [(turn, row, measurement) for turn in range(1, rounds + 1) for row, measurement in order(turn, rows)
             if results[row].turns() < turn]  # fmt: skip
    progress = Progress([row for _, row, _ in turns])
    try:
        for turn, row, measurement in turns:
            with progress.measuring(f"round {turn} of {rounds}: {', '.join(row)}"):
                _measure(measurement, results[row])
    finally:
        progress.end()
    return results


def _measure(measurement: Measurement, result: Result) -> None:
    try:
        numbers = measurement()
    except (Missing, Unable) as reason:
        result.remark = str(reason)
    except (Failure, OSError, EOFError, ValueError, subprocess.SubprocessError, psutil.Error) as failure:
        result.failures.append(str(failure) or type(failure).__name__)
    else:
        result.remark = str(numbers.pop("remark", "")) or result.remark  # of an earlier round
        result.rounds.append(numbers)


def cost(server: Server, workload: Workload, setting: Setting, seconds: float) -> dict[str, float]:
    """Requests per second, CPU seconds per request of the whole tree, latencies, memory after the load."""
    if workload.probe and server.name in members("one thread only"):
        raise Unable("has one thread")
    answer = expected(workload, setting)
    where = str(setting.work / f"{server.name}.sock") if workload.unix else 0
    with running(server, workload, setting, where=where) as run:
        root = run.process.pid
        load.run(run.port, workload, answer, min(WARM_UP, seconds))
        before, begin = proc.cpu(root), time.perf_counter()
        numbers: dict[str, float] = load.run(run.port, workload, answer, seconds)
        spent = proc.cpu(root) - before
        numbers["core"] = 100 * spent / (time.perf_counter() - begin)
        processes, threads = proc.shape(root)
        weight = proc.memory(root)
        check(run.port, workload, answer)
        if not (workload.probe or workload.long):  # else there is more than one kind of request
            numbers["cpu"] = positive(spent, "CPU time") / numbers["requests"]
    size = {"processes": processes, "threads": threads, "pss": positive(weight["pss"], "PSS")}
    return {**numbers, **size, "alone": weight["alone"], "remark": run.remark}


def cost_behind(server: Server, workload: Workload, setting: Setting, seconds: float, over: str) -> dict[str, float]:
    """Requests per second behind lighttpd; CPU seconds per request, `cpu` of the server's tree and `front` of lighttpd.

    over: TCP or unix sockets. lighttpd stands on the load's core and opens a connection for each request.
    """
    answer = expected(workload, setting)
    where = str(setting.work / f"{server.name}.sock") if over == UNIX else 0
    with running(server, workload, setting, where=where) as run, lighttpd([run.port], setting, LOAD_CORE) as through:
        check(through.port, workload, answer)
        load.run(through.port, workload, answer, min(WARM_UP, seconds))
        before, of_front = proc.cpu(run.process.pid), proc.cpu(through.process.pid)
        numbers: dict[str, float] = load.run(through.port, workload, answer, seconds)
        spent, of_front = proc.cpu(run.process.pid) - before, proc.cpu(through.process.pid) - of_front
        check(through.port, workload, answer)
    numbers["cpu"] = positive(spent, "CPU time") / numbers["requests"]
    numbers["front"] = positive(of_front, "CPU time of lighttpd") / numbers["requests"]
    return numbers


def weight(server: Server, setting: Setting) -> dict[str, float]:
    """PSS of the tree after a few answers; `judged` is `alone` where other processes lower the PSS by sharing."""
    workload = threaded(WORKLOADS["hello"], server)
    with running(server, workload, setting) as run:
        for _ in range(20):
            check(run.port, workload, expected(workload, setting))
        numbers = proc.memory(run.process.pid)
        shared = proc.strangers(run.process.pid)
        processes, threads = proc.shape(run.process.pid)
    judged = numbers["alone"] if shared else positive(numbers["pss"], "PSS")
    note = f"judged by `alone`: {shared} other processes run the same interpreter file" if shared else ""
    return {**numbers, "judged": judged, "processes": processes, "threads": threads, "remark": note}


def idle(server: Server, setting: Setting, seconds: float, count: int) -> dict[str, float]:
    """Context switches when idle, without and with `count` idle connections, and the user memory of each of these.

    Raises Failure where the server does not hold all of them to the end.
    """
    workload = threaded(replace(WORKLOADS["hello"], name="idle"), server)
    allow_descriptors(count + 200)
    with running(server, workload, setting, KEEPS.get(server.name, ())) as run, ExitStack() as stack:
        switches = _switches_over(run, seconds)
        before = proc.memory(run.process.pid)["dirty"]
        open_idle(stack, run.port, workload, count)
        connected = _switches_over(run, seconds)
        each = (proc.memory(run.process.pid)["dirty"] - before) / count
        if (held := proc.accepted(int(run.port), "127.0.0.1")) < count:
            raise Failure(f"holds only {held:,} of {count:,} idle connections")
    return {"switches": switches, "connected": connected, "each": each, "count": count}


def threaded(workload: Workload, server: Server) -> Workload:
    """The workload with 32 threads for the servers that are there to have threads."""
    return replace(workload, threads=32) if server.name in members("32 threads") else workload


def open_idle(stack: ExitStack, port: int, workload: Workload, count: int) -> None:
    """Open `count` connections, each with one answered request; they stay open until the stack closes."""
    try:
        for begin in range(0, count, BATCH):
            socks = [stack.enter_context(connect(port)) for _ in range(min(BATCH, count - begin))]
            for sock in socks:
                sock.sendall(request(workload))
            for sock in socks:
                with sock.makefile("rb") as stream:
                    compare(read_answer(stream), workload.answer or b"")
    except (OSError, EOFError) as error:
        raise Failure(f"cannot hold {count} connections: {error}") from error


def allow_descriptors(count: int) -> int:
    """Raise the limit of open files, which the server inherits, as far as we may; returns it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        raise Failure(f"needs {count} open files, the limit is {hard}: raise it with `ulimit -Hn`")
    limit = hard if hard != resource.RLIM_INFINITY else count
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    return limit


def installed(setting: Setting) -> dict[str, float]:
    """Bytes of all files of the package, as the measured interpreter imports it; compiled Python files included."""
    command = [setting.python, "-c", "import poorhttp, poorhttp._engine; print(poorhttp.__path__[0])"]
    environ = environment(ours=True)
    done = subprocess.run(command, cwd=APPS, env=environ, capture_output=True, text=True, timeout=30, check=False)
    if done.returncode:
        raise Failure(f"poorhttp with its engine cannot be imported: {done.stderr.strip()[-200:]}")
    return {"size": sum(path.stat().st_size for path in Path(done.stdout.strip()).rglob("*") if path.is_file())}


def first_answer(server: Server, setting: Setting, workload: Workload = START) -> dict[str, float]:
    """Milliseconds from just before the fork to the last byte of the first right answer."""
    workload = threaded(workload, server)
    answer = expected(workload, setting)
    begin = time.perf_counter()
    with started(server, workload, setting) as run, _connected(run) as sock, sock.makefile("rb") as stream:
        sock.sendall(request(workload))
        compare(_answer(stream), answer)
        return {"first": (time.perf_counter() - begin) * 1e3}


def _answer(stream: BinaryIO) -> bytes:
    try:
        return read_answer(stream)
    except (OSError, EOFError) as error:
        raise Failure(f"no first answer: {error}") from error


def _connected(run: Running) -> socket.socket:
    deadline = time.perf_counter() + 10
    while time.perf_counter() < deadline and run.process.poll() is None:
        try:
            return connect(run.port)
        except OSError:
            time.sleep(0.0002)
    raise Failure(f"not reachable; status {run.process.returncode}")


def _switches_over(run: Running, seconds: float) -> int:
    time.sleep(SETTLE)
    before = proc.switches(run.process.pid)
    time.sleep(seconds)
    return proc.switches(run.process.pid) - before


def positive(value: float, what: str) -> float:
    """The value; raises Failure where it is 0 or less, which is what processes give that cannot be read."""
    if value <= 0:
        raise Failure(f"{what} could not be read from /proc")
    return value


def pin_to(core: int) -> None:
    """Pin the bench, and so the load that it starts, to one core."""
    try:
        os.sched_setaffinity(0, {core})
    except OSError as error:
        raise Failure("needs two cores: 0 for the server, 1 for the load") from error


def named(names: Iterable[str] | None, among: Iterable[str]) -> list[Server]:
    """The servers among those given that were asked for; all where none were."""
    return [SERVERS[name] for name in among if not names or name in names]


def chosen(names: Iterable[str] | None, *sorts: Iterable[str]) -> list[list[str]]:
    """Of each sort of names those that were asked for; all of it where none were."""
    asked = set(names or ())
    return [[name for name in sort if name in asked] or list(sort) for sort in sorts]
