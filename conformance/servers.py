"""The servers under test: how each is started with apps/echo.py, on which port, and which processes it has.

The command lines are the bench's (bench/servers.ini), which give the limits of each and what its own documents advise.
A server runs in a session of its own until the end of the `with` block; then its whole process group is gone.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from bench.launch import free_port
from bench.proc import tree
from bench.servers import SERVERS as COMMANDS
from conformance.download import HERE

APPS = HERE / "apps"
PEERS = Path(os.environ.get("PEERS", HERE.parent / "bench" / ".venv-peers")) / "bin" / "python"
READY, STOP = 15.0, 5.0  # seconds

# gunicorn's threaded worker keeps connections; its default one closes each. uWSGI gives a chunked body only through an
# interface of its own, so that a plain WSGI application sees none.
SERVERS = {
    "poorhttp": COMMANDS["single"], "gunicorn": COMMANDS["gthread"], "waitress": COMMANDS["waitress"],
    "cheroot": COMMANDS["cheroot"], "granian": COMMANDS["granian"], "bjoern": COMMANDS["bjoern"],
    "uwsgi": COMMANDS["pyuwsgi"],
}  # fmt: skip


class Dead(Exception):
    """The server does not start, or does not come back."""


class Server:
    """A started server: `port`, and `pids`, whose change means that a process ended.

    settings: options of poorhttp. preface: what each connection to it begins with. reading: a file that tells
    apps/echo.py how to read a body.
    """

    def __init__(
        self, name: str, log: IO[bytes], reading: Path, settings: Sequence[str] = (), preface: bytes = b""
    ) -> None:
        self.name, self.settings, self.preface = name, settings, preface
        self.log, self.reading = log, reading
        self.start()

    def start(self) -> None:
        self.port = free_port()
        self.process = subprocess.Popen(
            [*command(self.name, self.port), *self.settings], cwd=APPS,
            env={**os.environ, "PYTHONPATH": str(APPS), "ECHO_READING": str(self.reading)},
            start_new_session=True, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
        )  # fmt: skip
        deadline = time.monotonic() + READY
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise Dead(f"{self.name} does not start: {self.last_words()}")
            time.sleep(0.02)
        self.pids = tree(self.process.pid)

    def answers(self) -> bool:
        """Whether it answers a plain request; with it, all its processes are up."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as sock:
                sock.sendall(self.preface + b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                return sock.recv(12).startswith(b"HTTP/1.")
        except OSError:
            return False

    def died(self) -> bool:
        """Whether a process of it ended; the server is then started anew."""
        if self.process.poll() is None and all(map(runs, self.pids)):
            return False
        self.stop()
        self.start()
        return True

    def stop(self) -> None:
        """TERM to the process we started, then KILL to what is left of its own group."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.terminate()
            self.process.wait(STOP)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(STOP)

    def last_words(self) -> str:
        self.log.seek(0)
        lines = self.log.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it says nothing"


def runs(pid: int) -> bool:
    """Whether the process is there and no zombie: its state stands behind its name in parentheses (proc(5))."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(") ")[2][0] not in "ZX"
    except OSError:
        return False


@contextlib.contextmanager
def running(name: str, settings: Sequence[str] = (), preface: bytes = b"") -> Iterator[Server]:
    with tempfile.TemporaryFile() as log, tempfile.NamedTemporaryFile() as reading:
        server = Server(name, log, Path(reading.name), settings, preface)
        try:
            yield server
        finally:
            server.stop()


def command(name: str, port: int) -> list[str]:
    names = {
        "poorhttp": Path(sys.executable).parent / "poorhttp", "python": PEERS, "port": port, "module": "echo",
        "name": "application", "spec": "echo:application", "threads": 4, "processes": 1,
    }  # fmt: skip
    return [part.format_map(names) for part in SERVERS[name].command]


def python(name: str) -> str:
    return sys.executable if name == "poorhttp" else str(PEERS)


def version(name: str) -> str:
    """What the server says of itself; raises Dead where it is not installed."""
    words = [part.replace("{python}", python(name)) for part in SERVERS[name].version]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise Dead(f"{name} is not installed for {python(name)}: `make bench-peers` installs the peers") from error
    return done.stdout.strip().splitlines()[-1]
