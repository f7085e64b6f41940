"""Apache Bench: so many requests at so many connections, a new one for each request, as articles of before measured.

Knows the words of ab and what they leave out: ab takes an answer that ends before its Content-Length for a good one,
and only counts how many answers had another length than the first. So the bytes of all answers are compared here.
The bench itself is pinned to the load's core, and so is ab.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from bench.client import Failure, Missing
from bench.launch import ENDS_WITH_US, last_line

PATIENCE = 900.0  # seconds for a run; ab itself waits for 30 without a byte


def program() -> str:
    """The path of ab; raises Missing where there is none."""
    found = shutil.which("ab")
    if found is None:
        raise Missing("ab", "apt-get install apache2-utils")
    return found


def run(
    port: int, path: str, answer: bytes, requests: int, clients: int, work: Path, cookie: str = ""
) -> dict[str, float]:
    """`ab -n REQUESTS -c CLIENTS`, all with the same cookie (`name=value`); gives what `parse` gives.

    work: a directory for a file of ab's.
    """
    percentiles = work / "ab.csv"
    command = [*ENDS_WITH_US, program(), "-q", "-n", str(requests), "-c", str(clients), "-e", str(percentiles)]
    command += ["-C", cookie] * bool(cookie)
    url = f"http://127.0.0.1:{port}{path}"
    try:
        done = subprocess.run([*command, url], capture_output=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired as error:
        raise Failure(f"ab did not end within {PATIENCE:.0f} s") from error
    if done.returncode:
        raise Failure(f"ab ended: {last_line(done.stderr) or last_line(done.stdout)}")
    return parse(done.stdout.decode(errors="replace"), percentiles.read_text(), requests, len(answer))


def parse(text: str, percentiles: str, requests: int, answer_bytes: int) -> dict[str, float]:
    """What ab printed: `requests`, `rate` (1/s), and `ms` (mean), `p50` and `p99` of a request in milliseconds.

    percentiles: the file that `-e` writes. Raises Failure unless each request had a whole answer of status 200 and of
    this length.
    """
    complete, failed, others, received = (
        int(_value(text, name) or 0)
        for name in ("Complete requests", "Failed requests", "Non-2xx responses", "HTML transferred")
    )
    if complete != requests or failed or others:
        kinds = re.search(r"\((Connect: .*)\)", text)
        told = f": {kinds[1]}" if kinds else ""
        raise Failure(f"ab: {complete:,} of {requests:,} answered, {failed:,} failed{told}; {others:,} with another "
                      "status than 2xx")  # fmt: skip
    if received != complete * answer_bytes:
        raise Failure(f"ab: {received:,} bytes for {complete:,} answers of {answer_bytes:,}")
    times = dict(line.split(",") for line in percentiles.splitlines()[1:] if line)
    rate, mean = _value(text, "Requests per second"), _value(text, "Time per request")
    if not rate or not mean:
        raise Failure(f"ab gave no result: {text.strip()[-200:]}")
    return {"requests": complete, "rate": rate, "ms": mean, "p50": float(times["50"]), "p99": float(times["99"])}


def _value(text: str, name: str) -> float | None:
    found = re.search(rf"(?m)^{name}:\s+([\d.]+)", text)
    return float(found[1]) if found else None
