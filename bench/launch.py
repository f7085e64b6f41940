"""Starts a server for a measurement and ends it: command line, readiness, process group, log.

Knows how commands of servers.py are filled in and run; measures nothing. A server runs in a session of its own, on the
cores of the setting, until the end of the `with` block; then it is gone with all processes that it has started.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bench import proc
from bench.client import Failure, Missing, Unable, check
from bench.servers import BEFORE, Server
from bench.workloads import Workload

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
APPS = HERE / "apps"
PEERS_PYTHON = HERE / ".venv-peers" / "bin" / "python"
BUILD = HERE / "build"
SERVER_CORE, LOAD_CORE = 0, 1
READY, STOP = 15.0, 5.0  # seconds
# Before a command: the kernel ends it when the bench is gone, however that came about.
ENDS_WITH_US = ("setpriv", "--pdeathsig", "TERM", "--") if shutil.which("setpriv") else ()
Where = int | str  # a port of 127.0.0.1, or the path of a unix socket


@dataclass
class Setting:
    """What is the same for all measurements of one run of the bench."""

    python: str = sys.executable  # runs poorhttp
    before: str = ""  # runs another build of poorhttp, in turns with that one; may be absent
    peers: str = str(PEERS_PYTHON)  # runs all other servers
    work: Path = field(default_factory=Path)  # a temporary directory
    cores: frozenset[int] = frozenset({SERVER_CORE})  # where servers run
    answers: dict[str, bytes] = field(default_factory=dict)  # workload -> expected body
    variables: dict[str, str] = field(default_factory=dict)  # of the servers' environment, besides ours
    inside: tuple[str, ...] = ()  # stands before a server's command, goes into a control group, and executes it there


@dataclass
class Running:
    process: subprocess.Popen[bytes]
    port: Where
    remark: str = ""


def expected(workload: Workload, setting: Setting) -> bytes:
    """The answer that the workload must get."""
    if workload.answer is not None:
        return workload.answer
    if workload.name not in setting.answers:
        command = [setting.python, str(APPS / "reference.py"), f"{workload.module}:{workload.app}", workload.path]
        # It takes the application from this checkout, which needs no engine: a peer's Python has no poorhttp installed.
        done = subprocess.run(command, env=environment(ours=False), capture_output=True, timeout=30, check=False)
        if done.returncode or not done.stdout:
            raise_if_missing(setting.python, workload.needs, "pip install -e '.[bench]'")
            raise Failure(f"the application has no answer: {last_line(done.stderr)}")
        setting.answers[workload.name] = done.stdout
    return setting.answers[workload.name]


@contextlib.contextmanager
def running(
    server: Server, workload: Workload, setting: Setting, extra: tuple[str, ...] = (), where: Where = 0
) -> Iterator[Running]:
    """Start the server and wait until it gives the right answer; end it afterwards."""
    answer = expected(workload, setting)
    with started(server, workload, setting, extra, where) as run:
        run.remark = wait_until_right(run, workload, answer)
        yield run


@contextlib.contextmanager
def started(
    server: Server, workload: Workload, setting: Setting, extra: tuple[str, ...] = (), where: Where = 0
) -> Iterator[Running]:
    """Start the server, do not wait; end it afterwards. A Failure meanwhile gets the last line of its log."""
    log = setting.work / f"{server.name}-{workload.name}.log"
    with log.open("wb") as output:
        run = start(server, workload, setting, output.fileno(), extra, where)
    try:
        yield run
    except (Missing, Unable):
        raise
    except Failure as failure:
        ensure_installed(server, workload, setting)
        raise Failure(f"{failure}; log: {last_line(log.read_bytes()) or 'empty'}") from failure
    finally:
        stop(run.process)


def start(
    server: Server, workload: Workload, setting: Setting, log: int, extra: tuple[str, ...] = (), where: Where = 0
) -> Running:
    """Start the server at this place, or on a free port, and return at once."""
    where = where or free_port()
    if isinstance(where, str):
        Path(where).unlink(missing_ok=True)  # some leave it behind, and do not start where one is
    command = [*ENDS_WITH_US, *setting.inside, *fill(server, workload, setting, where), *extra]
    try:
        with pinned(setting.cores):
            process = subprocess.Popen(
                command, cwd=APPS, env=environment(server.is_ours()) | setting.variables, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
    except OSError as error:
        ensure_installed(server, workload, setting)
        raise Failure(f"cannot start: {error.strerror}") from error
    return Running(process, where)


def fill(server: Server, workload: Workload, setting: Setting, where: Where) -> list[str]:
    """The server's command line for the workload; raises Unable where it has none for a unix socket."""
    spec = str(ROOT / workload.directory) if workload.directory else f"{workload.module}:{workload.app}"
    body = setting.work / f"{workload.name}.body"
    if server.name == "bare":
        body.write_bytes(expected(workload, setting))
    python = python_of(server, setting)
    threads = (server.is_ours() and workload.our_threads) or workload.threads
    names = {
        "poorhttp": Path(python).parent / "poorhttp", "python": python, "port": where, "socket": where,
        "work": setting.work,
        "module": workload.module, "name": workload.app, "spec": spec, "threads": threads,
        "pool": threads if threads > 1 else 0,
        "processes": workload.processes, "bare": BUILD / "bare", "body": body, "request_body": workload.request_body,
        "mode": "close" if workload.close else "keep", "paths": ", ".join(workload.paths),
    }  # fmt: skip
    command = server.at_socket() if isinstance(where, str) else server.command
    if command is None:
        raise Unable("no unix sockets")
    return [part.format_map(names) for part in command]


def python_of(server: Server, setting: Setting) -> str:
    """The interpreter that runs the server."""
    if server.name in BEFORE:
        return setting.before
    return setting.python if server.is_ours() else setting.peers


def wait_until_right(started: Running, workload: Workload, answer: bytes) -> str:
    """Ask until the answer is right; returns the remark of `check`, raises its last Failure."""
    deadline = time.monotonic() + READY
    while True:
        if started.process.poll() is not None:
            raise Failure(f"ended with status {started.process.returncode}")
        try:
            return check(started.port, workload, answer)
        except Unable:
            raise
        except Failure:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.02)


def ensure_installed(server: Server, workload: Workload, setting: Setting) -> None:
    """Raise Missing if the server's interpreter, its package, or what the application imports is not there.

    Asked only after a failure, so that it takes no time of what is measured.
    """
    python = python_of(server, setting)
    if server.is_ours():
        raise_if_missing(python, workload.needs, "pip install -e '.[bench]'")
    elif any("{python}" in word for word in server.command):
        command = "make bench-peers"
        if not Path(python).exists():
            raise Missing(f"the Python of the peers, {python},", command)
        raise_if_missing(python, (*server.packages, *workload.needs), command)


def raise_if_missing(python: str, packages: Collection[str], command: str) -> None:
    """Raise Missing, with the command that installs it, for the first package that this Python does not have."""
    code = "import sys; from importlib.metadata import version; list(map(version, sys.argv[1:]))"
    for package in packages:
        done = subprocess.run([python, "-c", code, package], capture_output=True, timeout=30, check=False)
        if b"PackageNotFoundError" in done.stderr:
            raise Missing(package, command)


def stop(process: subprocess.Popen[bytes]) -> None:
    """End the server: TERM to the process we started, then KILL to what is left of its group and of its tree."""
    try:
        # The number of one that was waited for may be another process by now.
        family = proc.family(process.pid) if process.returncode is None else []
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.terminate()
                process.wait(STOP)
        finally:
            proc.end(family)
    finally:  # a second Ctrl-C leaves nothing behind either
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(STOP)


def environment(ours: bool) -> dict[str, str]:
    """The bench's variables, with the applications on Python's path; for peers, which lack poorhttp, this checkout too.

    What is measured as poorhttp is what is installed for its interpreter, which the checkout would hide. What else
    is set for Python stays behind: PYTHONDONTWRITEBYTECODE alone, for which all is compiled anew, weighs nearly 2 MiB.
    """
    paths = [APPS] if ours else [APPS, ROOT]
    others = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**others, "PYTHONPATH": os.pathsep.join(map(str, paths))}


@contextlib.contextmanager
def pinned(cores: Collection[int]) -> Iterator[None]:
    """Stand on these cores for a while; what is started there stays there."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def compile_c(name: str) -> None:
    """Compile NAME.c, which lies beside this file; raises Failure with the compiler's words."""
    BUILD.mkdir(exist_ok=True)
    fresh = BUILD / f"{name}.{os.getpid()}"  # another run may be executing the one of before
    command = ["cc", "-O2", "-Wall", "-o", str(fresh), str(HERE / f"{name}.c")]
    try:
        done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    except FileNotFoundError as error:
        raise Missing("a C compiler", "apt-get install gcc") from error
    if done.returncode:
        raise Failure(f"{name}.c does not compile: {last_line(done.stderr)}")
    fresh.replace(BUILD / name)


def free_port(host: str = "127.0.0.1") -> int:
    """A port for a server that must be told its number, and that no other program gets before it listens there.

    A connection that was closed from this side leaves the port in TIME_WAIT for a minute. Meanwhile the kernel gives it
    to no program that asks for any port, but to one that asks for this port with SO_REUSEADDR, as servers do.
    """
    with socket.create_server((host, 0)) as listener, socket.create_connection(listener.getsockname()) as client:
        listener.accept()[0].close()
        client.recv(1)
        return int(listener.getsockname()[1])


def last_line(text: bytes) -> str:
    lines = text.decode(errors="replace").strip().splitlines()
    return lines[-1][:200] if lines else ""
