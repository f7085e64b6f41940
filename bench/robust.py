"""The robustness figures: what a server does under clients that are slow, many, huge, tiny or rude.

Knows the scenarios, how each is brought about, what is counted and what the figures may be. Each measurement starts
its own server and gives one dict of numbers; in all of them the server must answer rightly before and afterwards, by
the same processes, and its log must tell of no panic. Times are seconds unless a name says otherwise (`p99` and its
like: milliseconds; `mcpu`: thousandths of a second of CPU), sizes bytes.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing.connection
import os
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import Any, BinaryIO

from bench import load, proc, scenario
from bench.client import Failure, Missing, check, compare, connect, read_answer, request
from bench.launch import APPS, ENDS_WITH_US, Running, Setting, environment, last_line, python_of, running
from bench.measure import allow_descriptors
from bench.report import percentile
from bench.scenario import Limit, Scenario
from bench.servers import OURS, Server
from bench.workloads import HELLO, Workload

HELLO_PAGE = Workload("robust", "small answers", OURS, module="robust", app="application", threads=16)
GET = b"GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
MIB = 1 << 20
PROCESSES = {"single": 1, "threading": 1, "forking": 5}  # the supervisor too
PROBE_EVERY, CALM, AFTERWARDS = 0.005, 2.0, 1.0  # seconds
QUIET = 10.0  # ms; a p99 above this without slow clients says that the machine does other things
PIECE_EVERY = 0.00003  # seconds
PROBE_PATIENCE = 2.0  # seconds until a probe has failed
ATTACKERS, PROBER = "127.0.0.1", "127.0.0.2"  # told apart by address where connections are counted
ATTACKING = 5  # processes
DESCRIPTORS, REST = 256, 100
BLOCK = b"x" * 65_536


@dataclass(frozen=True)
class Size:
    """How much of everything: all of it, or a little to see whether the bench works."""

    slow: dict[str, int]  # connections
    hold: float  # seconds that slow connections last
    connects: int
    transfer: int  # bytes
    stall: float  # seconds
    pieces: int
    requests: int
    resets: int


FULL = Size({"-H": 5000, "-B": 1000, "-X": 1000}, 13.0, 2000, 1 << 30, 5.0, 1 << 20, 1_000_000, 1000)
QUICK = Size({"-H": 300, "-B": 100, "-X": 100}, 4.0, 1200, 1 << 25, 1.0, 1 << 16, 20_000, 50)


# What every scenario does ---------------------------------------------------------------------------------------------


@contextlib.contextmanager
def serving(
    server: Server, setting: Setting, *options: str, name: str, workload: Workload = HELLO_PAGE
) -> Iterator[Running]:
    """A server that answers rightly before and after what is done to it, by the same processes and without a panic."""
    workload = replace(workload, name=name)
    with running(server, workload, setting, options) as run:
        # The first of several processes answers while the others are still starting.
        if not until(lambda: len(proc.tree(run.process.pid)) == PROCESSES[server.name], 10):
            raise Failure(f"has {len(proc.tree(run.process.pid))} processes, not {PROCESSES[server.name]}")
        processes = proc.tree(run.process.pid)
        yield run
        check(run.port, workload, HELLO)
        if proc.tree(run.process.pid) != processes:
            raise Failure("a process of the server ended, or is new")
        if b"panic" in (setting.work / f"{server.name}-{name}.log").read_bytes():
            raise Failure("a panic in the engine")


class Growth:
    """Watches the memory of a server, and tells how far it went above what it was at the beginning."""

    def __init__(self, run: Running) -> None:
        self._pid = run.process.pid
        self._base = self._most = proc.memory(self._pid)
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Growth:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self._look()

    def _watch(self) -> None:
        while not self._done.wait(0.05):
            self._look()

    def _look(self) -> None:
        now = proc.memory(self._pid)
        self._most = {name: max(size, self._most[name]) for name, size in now.items()}

    def numbers(self) -> dict[str, float]:
        """`growth` is judged: the larger of what private dirty memory and what `alone` grew by."""
        grown = {name: self._most[name] - self._base[name] for name in self._most}
        return {
            "growth": max(grown["dirty"], grown["alone"]), "grown dirty": grown["dirty"], "grown pss": grown["pss"],
            "base": self._base["pss"],
        }  # fmt: skip


def ask(port: int, message: bytes, patience: float = 60.0) -> bytes:
    """The body of the answer to a message on a connection of its own."""
    with connect(port) as sock, sock.makefile("rb") as stream:
        sock.settimeout(patience)
        sock.sendall(message)
        try:
            return read_answer(stream)
        except (OSError, EOFError) as error:
            raise Failure(f"no answer: {error or type(error).__name__}") from error


def until(condition: Callable[[], bool], seconds: float) -> bool:
    """Wait for a condition; tells whether it came true in time."""
    end = time.perf_counter() + seconds
    while not condition():
        if time.perf_counter() > end:
            return False
        time.sleep(0.01)
    return True


# Slow clients ---------------------------------------------------------------------------------------------------------


def slow(server: Server, setting: Setting, size: Size, kind: str) -> dict[str, float]:
    """Many slow connections by slowhttptest, while a probe with a new connection each time asks for a small answer."""
    wanted = size.slow[kind]
    allow_descriptors(wanted + 1000)
    with serving(server, setting, name=f"slow{kind}") as run:
        pid = run.process.pid
        before = proc.memory(pid)
        with probing(run.port) as calm:
            time.sleep(CALM)
        samples = []
        with probing(run.port) as probe:
            cpu, waited = proc.exact_cpu(pid), proc.waited(pid)
            with slowly(kind, run.port, wanted, setting) as attackers:
                end = time.perf_counter() + size.hold
                while time.perf_counter() < end and any(attacker.poll() is None for attacker in attackers):
                    samples.append((time.perf_counter(), proc.accepted(run.port, ATTACKERS)))
                    time.sleep(0.5)
                cpu, waited = proc.exact_cpu(pid) - cpu, proc.waited(pid) - waited
                grown = proc.memory(pid)["alone"] - before["alone"]
            time.sleep(AFTERWARDS)
    noise = calm.percentile(99)
    noisy = ["a noisy machine: see p99 before"] * (noise > QUIET)
    most = max((count for _, count in samples), default=0)
    full = [when for when, count in samples if count >= wanted]
    lasted = full[-1] - full[0] if full else 0.0
    crowded = [took for when, took in probe.times if full and full[0] <= when <= full[-1]]
    return {
        "held": most, "missing": max(0, wanted - most), "lasted": lasted, "probes": len(probe.times),
        "failed": len(probe.faults), "calm p99": noise, "p50": probe.percentile(50),
        "p99": max(probe.percentile(99), percentile(crowded, 99) * 1e3 if crowded else 0.0),
        "longest": probe.percentile(100), "load": cpu / size.hold * 100, "waited": waited / size.hold * 100,
        "each": grown / max(1, most), "remark": "; ".join(dict.fromkeys([*noisy, *probe.faults[:3]])),
    }  # fmt: skip


@contextlib.contextmanager
def slowly(kind: str, port: int, count: int, setting: Setting) -> Iterator[list[subprocess.Popen[bytes]]]:
    """`count` slow connections, by several processes, for each of them looks at all its connections in every turn."""
    page, seconds, options = {
        "-H": ("", 1, ["-i", "1", "-x", "24"]),
        "-B": ("upload", 1, ["-i", "1", "-x", "24", "-s", "1000000"]),
        # More than the kernel's buffers take, and not all in one second: that would be no slow load.
        "-X": (f"stream?{8 * MIB}", 5, ["-w", "512", "-y", "1024", "-n", "1", "-z", "64", "-k", "1"]),
    }[kind]
    if not shutil.which("slowhttptest"):
        raise Missing("slowhttptest", "apt-get install slowhttptest")
    # A few more than wanted: slowhttptest also asks by a connection of its own how the server does.
    each = count // ATTACKING + 10
    rate = max(1, each // seconds)
    # A nicer value is not enough: each of them would run its 4 ms out while the prober waits for the core.
    command = [*ENDS_WITH_US, "chrt", "--idle", "0", "slowhttptest", kind, *options, "-c", str(each), "-r", str(rate)]
    command += ["-l", "300", "-p", "60", "-v", "0", "-u", f"http://127.0.0.1:{port}/{page}"]
    with contextlib.ExitStack() as stack:
        attackers = []
        for _ in range(ATTACKING):
            attacker = subprocess.Popen(
                command, cwd=setting.work, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )  # fmt: skip
            stack.callback(end_process, attacker)
            attackers.append(attacker)
        yield attackers


def end_process(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


class Probe:
    """What a prober found: when each question was due and how long after that its answer was there, and the faults."""

    def __init__(self) -> None:
        self.times: list[tuple[float, float]] = []
        self.faults: list[str] = []

    def percentile(self, percent: float) -> float:
        """In milliseconds."""
        if not self.times:
            raise Failure("the prober asked nothing")
        return percentile([took for _, took in self.times], percent) * 1e3


@contextlib.contextmanager
def probing(port: int) -> Iterator[Probe]:
    """A process of its own that asks while the block runs; what it found is there afterwards."""
    result = Probe()
    context = multiprocessing.get_context("fork")
    ours, its = context.Pipe()
    process = context.Process(target=keep_asking, args=(port, its), daemon=True)
    process.start()
    try:
        yield result
        ours.send("enough")
        if not ours.poll(PROBE_PATIENCE + 10):
            raise Failure("the prober does not end")
        result.times, result.faults = ours.recv()
    finally:
        process.kill()
        process.join()


def keep_asking(port: int, pipe: multiprocessing.connection.Connection) -> None:
    """Ask on a fixed schedule; an answer that is late delays the next question but not its place in the schedule."""
    times, faults = [], []
    begin, number = time.perf_counter(), 0
    is_over, bench = False, os.getppid()
    while not is_over and os.getppid() == bench:  # it asks once at least
        due = begin + number * PROBE_EVERY
        number += 1
        time.sleep(max(0.0, due - time.perf_counter()))
        try:
            ask_and_compare(port)
        except (Failure, OSError, EOFError) as failure:
            faults.append(str(failure) or type(failure).__name__)
        times.append((due, time.perf_counter() - due))
        is_over = pipe.poll()
    pipe.send((times, faults))


def ask_and_compare(port: int) -> None:
    where, source = ("127.0.0.1", port), (PROBER, 0)
    with socket.create_connection(where, PROBE_PATIENCE, source) as sock, sock.makefile("rb") as stream:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        compare(read_answer(stream), HELLO)


# Descriptors ----------------------------------------------------------------------------------------------------------


def exhausted(server: Server, setting: Setting, size: Size, app: str) -> dict[str, float]:
    """More connections than descriptors: what the server spends meanwhile, whom it serves, how soon it recovers."""
    command = ("sh", "-c", f'ulimit -n {DESCRIPTORS}; exec "$@"', "sh", *server.command)
    allow_descriptors(size.connects + 200)
    workload = replace(HELLO_PAGE, app=app)
    name = f"exhausted-{app.strip('()')}"
    with serving(replace(server, command=command), setting, name=name, workload=workload) as run:
        clients = [connect(run.port) for _ in range(size.connects)]
        with contextlib.ExitStack() as stack:
            for client in clients:
                stack.callback(client.close)
                client.sendall(GET % b"/")
            time.sleep(1.0)
            served, waiting = apart(clients)
            cpu, switches, begin = proc.exact_cpu(run.process.pid), proc.switches(run.process.pid), time.perf_counter()
            time.sleep(3.0)
            took = time.perf_counter() - begin
            spent = proc.exact_cpu(run.process.pid) - cpu
            woken = proc.switches(run.process.pid) - switches
            unserved = still_unserved(served)
            rest = waiting[-REST:]
            for client in (*served, *waiting[:-REST]):
                client.close()
            begin = time.perf_counter()
            for client in rest:
                client.settimeout(PROBE_PATIENCE * 5)
                with client.makefile("rb") as stream:
                    compare(read_answer(stream), HELLO)
            recovered = time.perf_counter() - begin
        log = (setting.work / f"{server.name}-{name}.log").read_text(errors="replace")
    if not rest:
        raise Failure(f"all of {size.connects} connections were served: nothing was exhausted")
    if ("no descriptor is left" in log) != (app != HELLO_PAGE.app):
        raise Failure("the descriptors did not run out in the way that was to be tested")
    return {
        "through": len(served), "waiting": len(waiting), "unserved": unserved, "load": spent / took * 100,
        "switches": woken / took, "recovered": recovered,
    }  # fmt: skip


def apart(clients: Iterable[socket.socket]) -> tuple[list[socket.socket], list[socket.socket]]:
    """Those that have an answer, which is read and right, and those that wait."""
    clients = list(clients)
    poller = select.poll()
    for client in clients:
        poller.register(client, select.POLLIN)
    ready = {descriptor for descriptor, _ in poller.poll(0)}
    served = [client for client in clients if client.fileno() in ready]
    for client in served:
        with client.makefile("rb") as stream:
            compare(read_answer(stream), HELLO)
    return served, [client for client in clients if client.fileno() not in ready]


def still_unserved(clients: Iterable[socket.socket]) -> int:
    """How many of these connections, which had an answer before, get none to another request."""
    unserved = 0
    for client in clients:
        try:
            client.sendall(GET % b"/")
            with client.makefile("rb") as stream:
                compare(read_answer(stream), HELLO)
        except (Failure, OSError, EOFError):
            unserved += 1
    return unserved


def reset(server: Server, setting: Setting, size: Size) -> dict[str, float]:
    """Reset a connection at each point of a request, of each kind of request, and within its answer."""
    with serving(server, setting, name="reset") as run:
        pid = run.process.pid
        for message, _ in messages().values():
            ask(run.port, message)
        if not until(lambda: proc.accepted(run.port, ATTACKERS) == 0, 5):
            raise Failure("connections are left before the first reset")
        base, resets = proc.descriptors(pid), 0
        with Growth(run) as growth:
            for message, taken in messages().values():
                points = [*range(len(message) + 1)] if len(message) < 1000 else [*range(0, len(message) + 1, 4099)]
                # Behind the whole request: within the answer.
                cases = [(message[:point], 0) for point in points] + [(message, most) for most in taken]
                for number in range(size.resets):
                    begun, most = cases[number % len(cases)]
                    # Every other time so soon that the reset may overtake what was sent.
                    begin_and_reset(run.port, begun, most, 0.001 * (number % 2))
                    resets += 1
            until(lambda: proc.descriptors(pid) <= base, 10)
            left = proc.descriptors(pid) - base
    return {"resets": resets, "base": base, "left": left, **growth.numbers(), "base descriptors": base}


def messages() -> dict[str, tuple[bytes, tuple[int, ...]]]:
    """Requests of each kind, and after how many bytes of the answer to reset too."""
    post = b"POST /upload HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    body = b"x" * 400_000  # beyond body_memory: a temporary file
    return {
        "plain": (GET % b"/", (1, 10, 100)),
        "body": (post + b"Content-Length: 20\r\n\r\n" + body[:20], (1, 100)),
        "chunked": (post + b"Transfer-Encoding: chunked\r\n\r\n5;a=b\r\nxxxxx\r\n3\r\nxxx\r\n0\r\nT: v\r\n\r\n", (1,)),
        "spooled": (post + b"Content-Length: 400000\r\n\r\n" + body, (1, 100)),
        "large": (GET % b"/large", (1, 1000, 100_000)),
        "stream": (GET % b"/stream?6553600", (1, 1000, 100_000, 1_000_000)),
        "file": (GET % b"/file?6553600", (1, 1000, 100_000, 1_000_000)),
    }


def begin_and_reset(port: int, begun: bytes, most: int, pause: float) -> None:
    with connect(port) as sock:
        sock.sendall(begun)
        while most > 0 and (block := sock.recv(most)):
            most -= len(block)
        if pause:
            time.sleep(pause)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


# Large bodies ---------------------------------------------------------------------------------------------------------


def upload(server: Server, setting: Setting, size: Size, framing: str) -> dict[str, float]:
    """Send a body that is larger than memory should grow, and have it read."""
    with serving(server, setting, "--max-body", "2g", name=f"upload-{framing}") as run:
        send_upload(run.port, framing, 4 * MIB)
        begin = time.perf_counter()
        with Growth(run) as growth:
            send_upload(run.port, framing, size.transfer)
        return {**growth.numbers(), "rate": size.transfer / MIB / (time.perf_counter() - begin)}


def send_upload(port: int, framing: str, length: int) -> None:
    """Send `length` bytes; raises Failure unless the answer tells their number and their CRC-32."""
    head = b"POST /upload HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    head += b"Content-Length: %d\r\n\r\n" % length if framing == "length" else b"Transfer-Encoding: chunked\r\n\r\n"
    block = BLOCK if framing == "length" else b"%x\r\n%s\r\n" % (len(BLOCK), BLOCK)
    crc = 0
    with connect(port) as sock, sock.makefile("rb") as stream:
        sock.settimeout(60)
        sock.sendall(head)
        for _ in range(length // len(BLOCK)):
            crc = zlib.crc32(BLOCK, crc)
            sock.sendall(block)
        if framing != "length":
            sock.sendall(b"0\r\n\r\n")
        compare(read_answer(stream), b"%d %08x" % (length, crc))


def download(server: Server, setting: Setting, size: Size, page: str) -> dict[str, float]:
    """Take a part of a large body, nothing for a while, then the rest."""
    with serving(server, setting, name=f"download-{page}") as run:
        take_download(run.port, page, 4 * MIB, 0.0)
        begin = time.perf_counter()
        with Growth(run) as growth:
            take_download(run.port, page, size.transfer, size.stall)
        return {**growth.numbers(), "rate": size.transfer / MIB / (time.perf_counter() - begin - size.stall)}


def take_download(port: int, page: str, length: int, stall: float) -> None:
    byte = b"\0" if page == "file" else b"x"
    with connect(port) as sock, sock.makefile("rb", buffering=0) as stream:
        sock.sendall(GET % f"/{page}?{length}".encode())
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += stream.read(1) or b"\r\n\r\n"
        if not head.startswith(b"HTTP/1.1 200 "):
            raise Failure(f"answered {head[:60]!r}")
        taken, buffer = 0, memoryview(bytearray(MIB))
        while taken < length:
            count = sock.recv_into(buffer)
            if count == 0 or bytes(buffer[:count]).count(byte) != count:
                raise Failure(f"the download ends, or is wrong, within the MiB after {taken} of {length} bytes")
            if taken < length // 16 <= taken + count:
                time.sleep(stall)
            taken += count


def full_disk(server: Server, setting: Setting, size: Size) -> dict[str, float]:
    """A body larger than the disk of temporary files: a tmpfs of 4 MiB that only the server sees."""
    del size  # the same in a quick check
    with tempfile.TemporaryDirectory(dir=setting.work) as directory:
        mount = f'mount -t tmpfs -o size=4m tmpfs {directory} && export TMPDIR={directory} && exec "$@"'
        command = ("unshare", "--mount", "--map-root-user", "sh", "-c", mount, "sh", *server.command)
        server = replace(server, command=command)
        with contextlib.ExitStack() as stack:
            run = stack.enter_context(serving(server, setting, name="disk"))
            disk = open_directory(f"/proc/{run.process.pid}/root{directory}")
            stack.callback(os.close, disk)
            # The same mount, seen from outside; it stays after the server.
            statuses = [status_of(run.port, framing, 8 * MIB) for framing in ("length", "chunked") * 3]
            send_upload(run.port, "length", 2 * MIB)
            if not until(lambda: used(disk) == 0, 5):
                raise Failure(f"{used(disk)} bytes stay in use on the disk")
            left = len(os.listdir(disk))
        # Again, to be killed while a body is on the disk: such a server answers nothing afterwards.
        with contextlib.ExitStack() as stack:
            run = stack.enter_context(running(server, replace(HELLO_PAGE, name="kill"), setting))
            disk = open_directory(f"/proc/{run.process.pid}/root{directory}")
            stack.callback(os.close, disk)
            with connect(run.port) as sock:
                sock.sendall(b"POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 3000000\r\n\r\n" + BLOCK * 32)
                if not until(lambda: used(disk) >= 2 * MIB, 5):
                    raise Failure(f"the body is not on the disk: {used(disk)} bytes")
                killed = proc.tree(run.process.pid)
                for pid in killed:
                    os.kill(pid, signal.SIGKILL)
                until(lambda: used(disk) == 0, 5)
                after_kill = len(os.listdir(disk)) + (used(disk) > 0)
    wrong = [status for status in statuses if status not in (503, 507)]
    seen = ", ".join(str(status) for status in dict.fromkeys(statuses))
    return {
        "refused": len(statuses) - len(wrong), "wrong": len(wrong), "left": left, "after kill": after_kill,
        "remark": f"status {seen}",
    }  # fmt: skip


def open_directory(path: str) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY)


def used(disk: int) -> int:
    """Bytes in use on the file system of a directory."""
    facts = os.fstatvfs(disk)
    return (facts.f_blocks - facts.f_bfree) * facts.f_frsize


def status_of(port: int, framing: str, length: int) -> int:
    """The status that an upload is answered with, although the server may stop reading it."""
    head = b"POST /upload HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    head += b"Content-Length: %d\r\n\r\n" % length if framing == "length" else b"Transfer-Encoding: chunked\r\n\r\n"
    block = BLOCK if framing == "length" else b"%x\r\n%s\r\n" % (len(BLOCK), BLOCK)
    with connect(port) as sock, sock.makefile("rb") as stream:
        sock.sendall(head)
        with contextlib.suppress(OSError):
            for _ in range(length // len(BLOCK)):
                if select.select([sock], [], [], 0)[0]:
                    break
                sock.sendall(block)
        try:
            line = stream.readline().split()
        except OSError as error:
            raise Failure(f"no status: {error}") from error
    return int(line[1]) if len(line) > 1 else 0


# Many pieces ----------------------------------------------------------------------------------------------------------


def in_pieces(server: Server, setting: Setting, size: Size, kind: str) -> dict[str, float]:
    """The cost of n and of 2n pieces, one after the other five times, and the median of the ratios."""
    act, whole = {
        "chunks": (one_byte_chunks, size.pieces),
        "sent": (partial(one_byte_chunks, alone=True), size.pieces // 16),
        "head": (head_by_bytes, 64_000 if size is FULL else 8_000),
        "pipeline": (pipelined, size.requests // 10),
    }[kind]
    with serving(server, setting, name=f"pieces-{kind}") as run:
        pid = run.process.pid
        act(run.port, whole // 16)
        costs: dict[int, list[float]] = {whole // 2: [], whole: []}
        with Growth(run) as growth:
            for _ in range(5):
                for count, spent in costs.items():
                    cpu, switches = proc.exact_cpu(pid), proc.switches(pid)
                    act(run.port, count)
                    time.sleep(0.05)  # the server may be on its way to sleep
                    spent.append(proc.exact_cpu(pid) - cpu)
                    woken = proc.switches(pid) - switches
    half, full = median(costs[whole // 2]), median(costs[whole])
    grows = median(of_full / of_half for of_half, of_full in zip(*costs.values(), strict=True))
    return {
        "pieces": whole, "half": half * 1e3, "mcpu": full * 1e3, "grows": grows, "each": full / whole * 1e6,
        "switches": woken, **growth.numbers(),
    }  # fmt: skip


def parsing(server: Server, setting: Setting, size: Size) -> dict[str, Any]:
    """Hostile cookies, forms, uploads, JSON, ranges: the one whose time grows most with its size."""
    command = [python_of(server, setting), str(APPS / "parsing.py")]
    done = subprocess.run(
        command, cwd=setting.work, env=environment(ours=True), capture_output=True, timeout=300, check=False
    )
    if done.returncode:
        raise Failure(f"apps/parsing.py ended with {done.returncode}: {last_line(done.stderr)}")
    grows = json.loads(done.stdout)
    worst = max(grows, key=grows.__getitem__)
    return {"inputs": len(grows), "grows": grows[worst], "remark": f"most: {worst}"}


def one_byte_chunks(port: int, count: int, alone: bool = False) -> None:
    """A body of `count` chunks of one byte; alone: each sent by itself."""
    with connect(port) as sock, sock.makefile("rb") as stream:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.settimeout(30)
        sock.sendall(b"POST /upload HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n")
        if alone:
            send_apart(sock, [b"1\r\nx\r\n"] * count)
        else:
            sock.sendall(b"1\r\nx\r\n" * count)
        sock.sendall(b"0\r\n\r\n")
        compare(read_answer(stream), b"%d %08x" % (count, zlib.crc32(b"x" * count)))


def head_by_bytes(port: int, length: int) -> None:
    """A head of `length` bytes, each sent by itself."""
    with connect(port) as sock, sock.makefile("rb") as stream:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.settimeout(30)
        send_apart(sock, [bytes((byte,)) for byte in head_of(length)])
        compare(read_answer(stream), HELLO)


def send_apart(sock: socket.socket, pieces: Iterable[bytes]) -> None:
    """Send the pieces one by one, with time enough between them for the server to read each by itself."""
    due = time.perf_counter()
    for piece in pieces:
        while time.perf_counter() < due:
            pass
        sock.send(piece)
        due = max(due + PIECE_EVERY, time.perf_counter() + PIECE_EVERY / 2)


def head_of(length: int) -> bytes:
    """A request without a body, of exactly so many bytes in up to 90 fields."""
    head = (GET % b"/")[:-2]
    fields = 90 if length > 9000 else 9
    each = (length - len(head) - 2) // fields
    for number in range(fields):
        name = b"X-%02d: " % number
        size = each if number else length - len(head) - 2 - each * (fields - 1)
        head += name + b"v" * (size - len(name) - 2) + b"\r\n"
    return head + b"\r\n"


def pipelined(port: int, count: int) -> None:
    """`count` requests in one connection, sent while the answers are read."""
    with connect(port) as sock:
        sock.settimeout(30)
        sender = threading.Thread(target=sock.sendall, args=((GET % b"/") * count,), daemon=True)
        sender.start()
        read_answers(sock, count)
        sender.join()


def read_answers(sock: socket.socket, count: int) -> None:
    """Read `count` answers; raises Failure unless there are so many and all are alike but for the time of day."""
    size, buffer = 0, bytearray()
    while size == 0 or len(buffer) < size * count:
        try:
            block = sock.recv(MIB)
        except OSError as error:
            raise Failure(f"{buffer.count(HELLO)} of {count} answers: {error}") from error
        if not block:
            break
        buffer += block
        size = size or buffer.find(HELLO) + len(HELLO)
    answers = {re.sub(rb"Date: [^\r]*", b"", bytes(buffer[at : at + size])) for at in range(0, len(buffer), size)}
    if len(buffer) != size * count or len(answers) != 1:
        raise Failure(f"{buffer.count(HELLO)} of {count} answers, of {len(answers)} kinds")


def never_read(server: Server, setting: Setting, size: Size) -> dict[str, float]:
    """Pipelined requests whose answers nobody reads for a while; then all of them must come."""
    count = size.requests // 10
    with serving(server, setting, name="unread") as run, socket.socket() as sock:
        pid = run.process.pid
        pipelined(run.port, count // 16)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.settimeout(30)
        sock.connect(("127.0.0.1", run.port))
        sender = threading.Thread(target=sock.sendall, args=((GET % b"/") * count,), daemon=True)
        with Growth(run) as growth:
            sender.start()
            time.sleep(size.stall)
            cpu, waited = proc.exact_cpu(pid), proc.waited(pid)
            with probing(run.port) as probe:
                time.sleep(size.stall)
            spent = (proc.exact_cpu(pid) - cpu) / max(1, len(probe.times))
            waited = proc.waited(pid) - waited
            read_answers(sock, count)
            sender.join()
    return {
        **growth.numbers(), "pieces": count, "failed": len(probe.faults), "p99": probe.percentile(99),
        "each": spent * 1e6, "waited": waited / size.stall * 100,
    }  # fmt: skip


# A million requests ---------------------------------------------------------------------------------------------------


def million(server: Server, setting: Setting, size: Size) -> dict[str, float]:
    """Memory after a hundredth of the requests, and after all: kept connections, bodies, new connections in turns."""
    kinds = [
        (replace(HELLO_PAGE, name="million"), HELLO),
        (replace(HELLO_PAGE, path="/upload", request_body=10_240), b"10240 %08x" % zlib.crc32(b"x" * 10_240)),
        (replace(HELLO_PAGE, close=True), HELLO),
    ]
    with serving(server, setting, name="million") as run:
        for workload, answer in kinds:
            ask_many(run.port, workload, answer, size.requests // 100 // len(kinds))
        done = size.requests // 100
        first = proc.memory(run.process.pid)
        turn = 0
        while done < size.requests:
            workload, answer = kinds[turn % len(kinds)]
            done += int(load.wrk(run.port, workload, answer, 2.0)["requests"])
            turn += 1
        last = proc.memory(run.process.pid)
    grown = {name: last[name] - first[name] for name in first}
    return {
        "requests": done, "growth": max(grown["dirty"], grown["alone"]), "grown dirty": grown["dirty"],
        "grown pss": grown["pss"], "base": first["pss"],
    }  # fmt: skip


def ask_many(port: int, workload: Workload, answer: bytes, count: int) -> None:
    """Ask `count` times, on as many connections at a time as the workload has."""
    message, done = request(workload), 0
    while done < count:
        with contextlib.ExitStack() as stack:
            socks = [stack.enter_context(connect(port)) for _ in range(workload.connections)]
            streams: list[BinaryIO] = [stack.enter_context(sock.makefile("rb")) for sock in socks]
            while done < count:
                for sock in socks:
                    sock.sendall(message)
                for stream in streams:
                    compare(read_answer(stream), answer)
                done += len(socks)
                if workload.close:
                    break


# What is run, and what it may come to ---------------------------------------------------------------------------------


# fmt: off
MEMORY = {"growth MiB": "growth", "private dirty MiB": "grown dirty", "PSS MiB": "grown pss", "base PSS MiB": "base"}
AT_MOST_8 = Limit("memory above base", "growth", "<=", 8, "MiB")
LINEAR = Limit("CPU for 2n / for n", "grows", "<", 2.5, "x")
SLOW = (
    Limit("slow connections missing at the peak", "missing", "<=", 0),
    Limit("p99 of the probe", "p99", "<", 50, "ms"),
    Limit("probes failed", "failed", "<=", 0),
)
SLOW_COLUMNS = {
    "held": "held", "all there for s": "lasted", "probes": "probes", "failed": "failed", "p50 ms": "p50",
    "p99 ms": "p99", "longest ms": "longest", "p99 before ms": "calm p99", "CPU %": "load",
    "waits for CPU %": "waited", "bytes of each": "each",
}
EXHAUSTED = (
    Limit("CPU while exhausted", "load", "<=", 3, "%"),
    Limit("of those that got through, not served", "unserved", "<=", 0),
    Limit("until all are served, once the others are gone", "recovered", "<=", 1, "s"),
)
EXHAUSTED_COLUMNS = {
    "got through": "through", "wait": "waiting", "unserved": "unserved", "CPU %": "load",
    "context switches /s": "switches", "recovered after s": "recovered",
}
PIECES_COLUMNS = {
    "pieces": "pieces", "CPU ms for half": "half", "CPU ms": "mcpu", "ratio": "grows", "CPU µs each": "each",
    "context switches": "switches", **MEMORY,
}
ONE = ("single",)
ALL = (
    Scenario("heads", "5,000 slow heads (`slowhttptest -H`)", partial(slow, kind="-H"), SLOW, SLOW_COLUMNS,
             attempts=4),
    Scenario("bodies", "1,000 slow bodies (`slowhttptest -B`)", partial(slow, kind="-B"), SLOW, SLOW_COLUMNS,
             attempts=4),
    Scenario("readers", "1,000 slow readers of 8 MiB (`slowhttptest -X`)", partial(slow, kind="-X"), SLOW,
             SLOW_COLUMNS, attempts=4),
    Scenario("unread", "100,000 pipelined requests, no answer read", never_read,
             (AT_MOST_8, Limit("p99 of the probe", "p99", "<", 50, "ms"), Limit("probes failed", "failed", "<=", 0)),
             {"requests": "pieces", "failed": "failed", "p99 ms": "p99", "CPU µs per probe": "each",
              "waits for CPU %": "waited", **MEMORY}, attempts=4),
    Scenario("full", "`ulimit -n 256`, 2,000 connects: no place is left",
             partial(exhausted, app="application"), EXHAUSTED, EXHAUSTED_COLUMNS),
    Scenario("descriptors", "`ulimit -n 256`, 2,000 connects: no descriptor is left",
             partial(exhausted, app="scarce()"), EXHAUSTED, EXHAUSTED_COLUMNS),
    Scenario("reset", "a reset at each point, a thousand for each of 7 kinds of request", reset,
             (Limit("descriptors above base", "left", "<=", 0),),
             {"resets": "resets", "descriptors before": "base descriptors", "left": "left", **MEMORY}),
    Scenario("upload", "1 GiB by Content-Length", partial(upload, framing="length"), (AT_MOST_8,),
             {**MEMORY, "MiB/s": "rate"}),
    Scenario("chunked", "1 GiB by chunks", partial(upload, framing="chunked"), (AT_MOST_8,),
             {**MEMORY, "MiB/s": "rate"}),
    Scenario("download", "1 GiB in blocks to a reader that stalls", partial(download, page="stream"), (AT_MOST_8,),
             {**MEMORY, "MiB/s": "rate"}),
    Scenario("written", "1 GiB by `write()` to a reader that stalls", partial(download, page="write"), (AT_MOST_8,),
             {**MEMORY, "MiB/s": "rate"}),
    Scenario("file", "1 GiB from a file to a reader that stalls", partial(download, page="file"), (AT_MOST_8,),
             {**MEMORY, "MiB/s": "rate"}),
    Scenario("disk", "no room for temporary files", full_disk,
             (Limit("answers other than 503 or 507", "wrong", "<=", 0), Limit("files left behind", "left", "<=", 0),
              Limit("files left behind by kill -9", "after kill", "<=", 0)),
             {"refused": "refused", "answered otherwise": "wrong", "left": "left", "left by kill -9": "after kill"}),
    Scenario("chunks", "1,048,576 chunks of one byte", partial(in_pieces, kind="chunks"), (LINEAR, AT_MOST_8),
             PIECES_COLUMNS, ONE),
    Scenario("sent", "65,536 chunks of one byte, each sent by itself", partial(in_pieces, kind="sent"),
             (LINEAR, AT_MOST_8), PIECES_COLUMNS, ONE),
    Scenario("head", "a head of 64,000 bytes, byte by byte", partial(in_pieces, kind="head"), (LINEAR, AT_MOST_8),
             PIECES_COLUMNS, ONE),
    Scenario("pipeline", "100,000 pipelined requests", partial(in_pieces, kind="pipeline"), (LINEAR, AT_MOST_8),
             PIECES_COLUMNS),
    Scenario("parsing", "cookies, forms, uploads, JSON and ranges, 16 times as large", parsing,
             (Limit("CPU for 16n / for n", "grows", "<", 80, "x"),), {"inputs": "inputs", "at most": "grows"}, ONE),
    Scenario("million", "a million requests", million, (Limit("memory above that after 10,000", "growth", "<=", 2,
                                                              "MiB"),),
             {"requests": "requests", **MEMORY}, ("single", "threading")),
)
# fmt: on
SCENARIOS = {each.name: each for each in ALL}

targets = partial(scenario.targets, ALL)
rows = partial(scenario.rows, ALL)
