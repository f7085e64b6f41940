"""The loads: wrk, ab, tally.c, and a prober that looks at other requests while threads are blocked.

Each takes a port, or but for wrk and ab the path of a unix socket, and gives numbers in seconds and requests per
second, or raises Failure; it knows no server. The bench itself is pinned to the load's core, and so is what it starts
here.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.client import (
    Failure,
    Missing,
    Unable,
    compare,
    connect,
    read_answer,
    read_answer_and_end,
    request,
)
from bench.launch import BUILD, ENDS_WITH_US, HERE, Where, last_line
from bench.report import percentile
from bench.workloads import Workload

TOLERATED = 0.001  # faults per answer; more make the measurement void
BLOCKED_SECONDS, PROBE_SECONDS, PROBE_EVERY = 1.0, 0.9, 0.002
AB_WAITS, AB_ENDS = 60, 900  # seconds that ab waits for an answer, and after which it is ended
AB_LINE = re.compile(r"^([A-Z][^:\n]*): +(\d+(?:\.\d+)?)(?: |$)", re.MULTILINE)
AB_SHARE = re.compile(r"^ +(\d+)% +(\d+)", re.MULTILINE)  # of the answers, and milliseconds


def run(port: Where, workload: Workload, answer: bytes, seconds: float) -> dict[str, float]:
    """Load the server for about `seconds`; gives `requests`, `rate`, `p50`, `p99`, and what else the load knows."""
    load = probe if workload.probe else tally if workload.tally else wrk
    return load(port, workload, answer, seconds)


def wrk(port: Where, workload: Workload, answer: bytes, seconds: float) -> dict[str, float]:
    """One run of wrk with one thread; whole seconds only."""
    whole = max(1, round(seconds))
    command = wrk_command(port, workload, whole)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=whole + 15, check=False)
    except subprocess.TimeoutExpired as error:
        raise Failure(f"wrk did not end within {whole + 15} s") from error
    return parse_wrk(done.stdout + done.stderr, workload, len(answer))


def wrk_command(
    port: Where, workload: Workload, seconds: int, threads: int = 1, timeout: int = 2, cookies: Path | None = None
) -> list[str]:
    """Raises Missing. timeout: seconds after which an answer is an error for wrk, and not in its percentiles.

    cookies: a file with one on each line. Each request takes the next one, and has its own number behind the path.
    """
    if not shutil.which("wrk"):
        raise Missing("wrk", "apt-get install wrk")
    command = [*ENDS_WITH_US, "wrk", f"-t{threads}", f"-c{workload.connections}", f"-d{seconds}s"]
    command += ["--timeout", f"{timeout}s", "-s", str(HERE / "wrk.lua")]
    command += ["-H", "Connection: close"] * workload.close
    command += ["-H", f"Cookie: {workload.cookie}"] * bool(workload.cookie)
    url = f"http://127.0.0.1:{port}{workload.path}"
    command += [url, "--", str(workload.pipeline), str(workload.request_body)]
    return command if cookies is None else [*command, str(cookies)]


def parse_wrk(text: str, workload: Workload, answer_bytes: int) -> dict[str, float]:
    """What the last line of wrk.lua says; raises Failure where it shows that requests went unanswered."""
    data = result_of_wrk(text)
    errors = {name: count for name, count in data["errors"].items() if count}
    if sum(errors.values()) > data["requests"] * TOLERATED or not data["requests"]:
        raise Failure(f"{data['requests']} answers and {errors or 'nothing else'}")
    if data["bytes"] < data["requests"] * answer_bytes:
        raise Failure(f"{data['bytes']} bytes for {data['requests']} answers of {answer_bytes}")
    result = {"requests": data["requests"], "rate": data["requests"] / data["seconds"], "errors": sum(errors.values())}
    if workload.pipeline == 1:  # wrk 4.1 has no right percentiles for pipelined requests
        result |= {"p50": data["p50"] * 1e3, "p99": data["p99"] * 1e3}
    return result


def result_of_wrk(text: str) -> dict[str, Any]:
    """The last line of wrk.lua; raises Failure where there is none."""
    line = next((line for line in text.splitlines() if line.startswith("BENCH ")), None)
    if line is None:
        raise Failure(f"wrk gave no result: {text.strip()[-200:]}")
    found: dict[str, Any] = json.loads(line.removeprefix("BENCH "))
    return found


def ab(port: Where, workload: Workload, answer: bytes, requests: int) -> dict[str, float]:
    """So many requests by ab, each on a connection of its own, by as many clients as the workload has connections."""
    if not shutil.which("ab"):
        raise Missing("ab", "apt-get install apache2-utils")
    command = [*ENDS_WITH_US, "ab", "-q", "-n", str(requests), "-c", str(workload.connections), "-s", str(AB_WAITS)]
    command += ["-C", workload.cookie] * bool(workload.cookie)
    url = f"http://127.0.0.1:{port}{workload.path}"
    try:
        done = subprocess.run([*command, url], capture_output=True, text=True, timeout=AB_ENDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise Failure(f"ab did not end within {AB_ENDS} s") from error
    if done.returncode:
        raise Failure(f"ab gave up: {last_line(done.stderr.encode())}")
    return parse_ab(done.stdout, requests, len(answer))


def parse_ab(text: str, requests: int, answer_bytes: int) -> dict[str, float]:
    """What ab printed; raises Failure unless each request had an answer of 2xx that was whole.

    ab takes an answer that was cut off for a whole one, so the bytes of all bodies are compared too.
    """
    told = {name: float(value) for name, value in AB_LINE.findall(text)}
    shares = {int(share): float(late) for share, late in AB_SHARE.findall(text)}
    seconds, answered = told.get("Time taken for tests", 0.0), told.get("Complete requests", 0.0)
    if not seconds or 99 not in shares:
        raise Failure(f"ab gave no result: {text.strip()[-200:]}")
    faults = {name: told.get(name, 0.0) for name in ("Failed requests", "Non-2xx responses", "Write errors")}
    if answered != requests or any(faults.values()):
        kinds = ", ".join(f"{count:,.0f} {name.lower()}" for name, count in faults.items() if count)
        raise Failure(f"ab had {answered:,.0f} answers to {requests:,} requests; {kinds or 'no faults'}")
    if (size := told.get("HTML transferred", 0.0)) != requests * answer_bytes:
        raise Failure(f"ab had {size:,.0f} bytes for {requests:,} answers of {answer_bytes}")
    return {"requests": requests, "rate": requests / seconds, "p50": shares[50], "p99": shares[99]}


def tally(
    port: Where, workload: Workload, answer: bytes, seconds: float, in_turn: Path | None = None
) -> dict[str, float]:
    """One run of tally.c: besides what wrk gives `p99.9`, how the clients shared (`least`), and `long` requests.

    in_turn: a file of requests, each ended by a zero byte, that the clients send in turn instead of the workload's.
    """
    asked = f"@{in_turn}" if in_turn else request(workload)
    asks = (str(workload.connections), asked, str(workload.long), request(workload, "/long"))
    try:
        done = subprocess.run(
            [*ENDS_WITH_US, str(BUILD / "tally"), str(port), str(seconds), *asks],
            input=answer, capture_output=True, timeout=seconds + 15, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise Failure(f"the load did not end within {seconds + 15:.0f} s") from error
    if done.returncode:
        raise Failure(last_line(done.stderr))
    return parse_tally(done.stdout.decode(), seconds)


def parse_tally(text: str, seconds: float) -> dict[str, float]:
    """The numbers of one run. `least`: what the least served client got, in percent of the mean of all clients."""
    data = json.loads(text)
    answers, others = data.pop("answers"), data.pop("others")
    if not (total := sum(answers)):
        raise Failure("no client got an answer within the time")
    result = {"requests": total, "rate": total / seconds, "least": 100 * min(answers) * len(answers) / total}
    if others:
        result["long"] = sum(others) / seconds
    return result | data


def probe(port: Where, workload: Workload, answer: bytes, seconds: float) -> dict[str, float]:
    """Block all threads but one for a second, ask on a fixed schedule meanwhile; several times over.

    A late answer delays the next question but not its place in the schedule, from which its time counts.
    """
    times: list[float] = []
    for _ in range(max(1, round(seconds / BLOCKED_SECONDS))):
        times += _probe_once(port, workload, answer)
    return {"requests": len(times), "p50": percentile(times, 50) * 1e3, "p99": percentile(times, 99) * 1e3}


def _probe_once(port: Where, workload: Workload, answer: bytes) -> list[float]:
    with ExitStack() as stack:
        try:
            return _block_and_ask(stack, port, workload, answer)
        except (OSError, EOFError) as error:
            raise Failure(f"while threads are blocked: {error or type(error).__name__}") from error


def _block_and_ask(stack: ExitStack, port: Where, workload: Workload, answer: bytes) -> list[float]:
    def opened(count: int) -> list[tuple]:
        socks = [stack.enter_context(connect(port)) for _ in range(count)]
        return [(sock, stack.enter_context(sock.makefile("rb"))) for sock in socks]

    blockers, askers = opened(workload.threads - 1), opened(workload.connections)
    begin = time.perf_counter()
    for sock, _ in blockers:
        sock.sendall(request(workload, "/block"))
    times = []
    for number in range(int(PROBE_SECONDS / PROBE_EVERY)):
        sock, stream = askers[number % len(askers)]
        due = begin + number * PROBE_EVERY
        time.sleep(max(0.0, due - time.perf_counter()))
        sock.sendall(request(workload))
        body, is_last = read_answer_and_end(stream)
        compare(body, answer)
        if is_last:
            raise Unable("closes each connection")
        times.append(time.perf_counter() - due)
    for _, stream in blockers:
        compare(read_answer(stream), answer)
    if (took := time.perf_counter() - begin) > BLOCKED_SECONDS * 1.8:
        raise Failure(f"{len(blockers)} blocked requests took {took:.1f} s: they did not run at once")
    return times
