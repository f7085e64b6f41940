"""Processes that use a cache of Django at the same time: starts them, lets them begin together, gathers what they saw.

Knows apps/cache_process.py and nothing of a cache but its settings. Every wait has an end, and nothing is left running.
"""

from __future__ import annotations

import contextlib
import json
import select
import subprocess
import time
from array import array
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.caches_workload import ACTIONS, KEYS, encoded
from bench.client import Failure
from bench.launch import APPS, ENDS_WITH_US, READY, environment, last_line

SCRIPT = APPS / "cache_process.py"
SLOWEST, BEYOND = 2e-3, 15.0  # seconds for each operation, and for all together, after which a cache is given up


@dataclass(frozen=True)
class Place:
    """Where processes are run: by which Python, with which entry of Django's CACHES, and where their files lie."""

    python: str
    settings: Mapping[str, Any]
    directory: Path

    def command(self, *words: str) -> list[str]:
        return [*ENDS_WITH_US, self.python, str(SCRIPT), json.dumps(self.settings), str(KEYS), *words]


@dataclass(frozen=True)
class Seen:
    """What one process saw. times: nanoseconds of each timed operation, by action."""

    times: dict[str, array[int]]
    misses: dict[str, int]
    seen: array[int]  # as `caches_workload.ensure_right` takes it
    began: int  # by CLOCK_MONOTONIC, nanoseconds
    ended: int
    clock: int  # what a look at the clock takes, nanoseconds


def fill(place: Place) -> None:
    """Write each key once."""
    _done(place, "fill")


def look(place: Place) -> list[int]:
    """What a process of its own finds: for each key a checksum, or NOTHING."""
    found: list[int] = json.loads(_done(place, "look"))
    return found


def _done(place: Place, command: str) -> bytes:
    limit = BEYOND + KEYS * 0.1
    try:
        done = subprocess.run(
            place.command(command), env=environment(ours=True), cwd=APPS, capture_output=True, timeout=limit,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise Failure(f"{command}: {KEYS:,} keys take more than {limit:.0f} s") from error
    if done.returncode:
        raise Failure(f"{command}: {last_line(done.stderr)}")
    return done.stdout


def work(place: Place, processes: int, operations: int, warm_up: int) -> list[Seen]:
    """Let so many processes ask the cache at once. Raises Failure if one of them fails, or if they do not end."""
    with ExitStack() as stack:
        started = [_started(stack, place, number, operations, warm_up) for number in range(processes)]
        deadline = time.monotonic() + READY + processes
        for number, process in enumerate(started):
            _wait_until_ready(place, number, process, deadline)
        for number, process in enumerate(started):
            _let_begin(place, number, process)
        deadline = time.monotonic() + BEYOND + processes * operations * SLOWEST
        return [_seen(place, number, process, deadline) for number, process in enumerate(started)]


def _started(stack: ExitStack, place: Place, number: int, operations: int, warm_up: int) -> subprocess.Popen[bytes]:
    listed = place.directory / f"{number}.operations"
    listed.write_bytes(encoded(number, operations))
    command = place.command("work", str(listed), str(place.directory / str(number)), str(warm_up))
    with _log(place, number).open("wb") as log:
        process = subprocess.Popen(
            command, env=environment(ours=True), cwd=APPS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
        )
    stack.callback(_end, process)
    return process


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    for stream in (process.stdin, process.stdout):
        if stream:
            with contextlib.suppress(OSError):
                stream.close()
    process.wait()


def _wait_until_ready(place: Place, number: int, process: subprocess.Popen[bytes], deadline: float) -> None:
    assert process.stdout is not None
    readable, _, _ = select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))
    if not readable or process.stdout.readline() != b"ready\n":
        raise _failure(place, number, "does not begin")


def _let_begin(place: Place, number: int, process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    try:
        process.stdin.write(b"begin\n")
        process.stdin.flush()
    except OSError as error:
        raise _failure(place, number, "ended before it began") from error


def _seen(place: Place, number: int, process: subprocess.Popen[bytes], deadline: float) -> Seen:
    try:
        output, _ = process.communicate(timeout=max(0.1, deadline - time.monotonic()))
    except subprocess.TimeoutExpired as error:
        raise _failure(place, number, f"does not end, at {SLOWEST * 1e3:g} ms for each operation") from error
    if process.returncode:
        raise _failure(place, number, f"ended with status {process.returncode}")
    told = json.loads(output)
    results = place.directory / str(number)
    return Seen(
        {action: array("q", results.with_suffix(f".{action}").read_bytes()) for action in ACTIONS},
        dict(zip(ACTIONS, told["misses"], strict=True)),
        array("I", results.with_suffix(".seen").read_bytes()),
        told["began"], told["ended"], told["clock"],
    )  # fmt: skip


def _failure(place: Place, number: int, what: str) -> Failure:
    return Failure(f"process {number} {what}: {last_line(_log(place, number).read_bytes()) or 'no word why'}")


def _log(place: Place, number: int) -> Path:
    return place.directory / f"{number}.log"
