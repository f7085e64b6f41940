"""Runs the clients of the article of 2010 (visits.c): one request after another, and many at once each second.

Knows what their numbers mean and when they are no result; knows no server. The bench itself is pinned to the load's
core, and so is what it starts here.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence

from bench.client import CHANGING, Failure
from bench.launch import BUILD, ENDS_WITH_US, last_line
from bench.load import TOLERATED

EACH, LIMIT = 100, 600  # requests that start each second; requests without an answer that end the parallel test
PATIENCE = 60.0  # seconds beyond those of the test; a request waits for 30
FAULTS = ("refused", "reset", "silent", "status", "wrong")


def serial(port: int, path: str, page: bytes, seconds: float) -> dict[str, float]:
    """One request after another for so many seconds; the numbers of `parse`."""
    return parse(_run(["serial", str(port), path, str(seconds)], page, seconds))


def parallel(
    port: int,
    path: str,
    page: bytes,
    seconds: float,
    each: int = EACH,
    limit: int = LIMIT,
) -> dict[str, float]:
    """`each` requests at once every second, each in a thread; the numbers of `parse`. seconds: rounded to full ones."""
    whole = max(1, round(seconds))
    return parse(_run(["parallel", str(port), path, str(whole), str(each), str(limit)], page, whole))


def burst(port: int, path: str, page: bytes, count: int) -> dict[str, float]:
    """So many requests at once; waits for all of them. The numbers of `parse`."""
    return parse(_run(["burst", str(port), path, str(count)], page, 0))


def parse(text: str) -> dict[str, float]:
    """What a client printed, by the article's names: `ans t` and `res t` in seconds, and `ans/s`, `res/s`, `real/s`.

    `arrived` is `ans t` without the client's wait for its own core, in seconds; `client us` the client's CPU for a
    request, in microseconds; `p50` and `p99` percentiles of the times whose mean is `ans t`, in milliseconds. Raises
    Failure where no answer was right, and where more than one in a thousand was a fault.
    """
    data = json.loads(text)
    right, kinds = data["right"], {kind: data[kind] for kind in FAULTS if data[kind]}
    errors = sum(kinds.values())
    if not right or errors > right * TOLERATED:
        told = ", ".join(f"{count:,} {kind}" for kind, count in (kinds | {"unfinished": data["unfinished"]}).items())
        raise Failure(f"{right:,} of {data['started']:,} answers were right; {told}")
    return {
        "ans t": data["ans"], "res t": data["res"], "ans/s": 1 / data["ans"], "res/s": 1 / data["res"],
        "real/s": right / data["seconds"], "arrived": data["arrived"], "client us": 1e6 * data["cpu"] / data["started"],
        "p50": data["p50"] * 1e3, "p99": data["p99"] * 1e3, "requests": right, "errors": errors, **kinds,
        "unfinished": data["unfinished"], "stopped": data["stopped"], "seconds": data["seconds"],
    }  # fmt: skip


def masked(page: bytes) -> bytes:
    """The page for visits.c: a byte 0 in place of each one that depends on the time of day."""
    return CHANGING.sub(lambda found: bytes(len(found[0])), page)


def _run(arguments: Sequence[str], page: bytes, seconds: float) -> str:
    process = subprocess.Popen(
        [*ENDS_WITH_US, str(BUILD / "visits"), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        output, errors = process.communicate(masked(page), timeout=seconds + PATIENCE)
    except subprocess.TimeoutExpired as error:
        raise Failure(f"the client did not end within {seconds + PATIENCE:.0f} s") from error
    finally:
        process.kill()
        process.wait()
    if process.returncode:
        raise Failure(f"the client ended: {last_line(errors)}")
    return output.decode()
