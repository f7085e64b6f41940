"""A server for the tests of what is served: its application, its settings, its logs, and how it must end.

Contract: at the end it gets TERM, must exit with 0, leave no process behind, and must have logged neither a panic nor a
traceback that was not declared.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import socket
import tempfile
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest
from client import Client, Response
from processes import PATIENCE, Started, package_home, wait_for

Shape = tuple[int, int]
SHAPES: list[Shape] = [(1, 4), (2, 1)]

GATE = '''
"""For applications under test: wait for a gate that the test opens, and note what happened."""
import os, time

HERE = os.environ["TEST_DIRECTORY"]


def opened(name):
    return os.path.exists(os.path.join(HERE, "gate." + name))


def wait(name, seconds=20.0):
    end = time.monotonic() + seconds
    while not opened(name):
        if time.monotonic() > end:
            raise RuntimeError("gate " + name + " was not opened")
        time.sleep(0.002)


def note(text):
    with open(os.path.join(HERE, "notes"), "a", buffering=1) as file:
        file.write(str(text) + "\\n")
'''

# Answers with all it was told, and records each call.
ECHO = """
import json
from gate import note


def application(environ, start_response):
    body = environ["wsgi.input"].read()
    told = {name: value for name, value in environ.items() if isinstance(value, str)}
    record = json.dumps({"environ": told, "body": body.decode("latin-1")})
    note(record)
    answer = record.encode()
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(answer)))])
    return [answer]
"""

HELLO = """
from gate import note


def application(environ, start_response):
    note(environ["PATH_INFO"])
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "5")])
    return [b"hello"]
"""

APPLICATIONS = {"echo": ECHO, "hello": HELLO}


class Lines:
    """The lines of a file that others append to. What was read is kept, so that each look costs no more than what is new."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._inode = self._read = 0
        self._lines: list[str] = []
        self._rest = b""  # of a line that has no end yet

    def __call__(self) -> list[str]:
        try:
            file = self._path.open("rb")
        except FileNotFoundError:
            return []
        with file:
            status = os.fstat(file.fileno())
            if status.st_ino != self._inode or status.st_size < self._read:
                self._inode, self._read, self._lines, self._rest = status.st_ino, 0, [], b""
            file.seek(self._read)
            data = file.read()
        self._read += len(data)
        *whole, self._rest = (self._rest + data).split(b"\n")
        self._lines += [line.decode(errors="replace") for line in whole]
        return [*self._lines, *([self._rest.decode(errors="replace")] if self._rest else [])]


class Server(Started):
    """A running poorhttp: `process`, `directory` (its files), `address` ((host, port) or a path), `url`, `shape`."""

    def __init__(
        self,
        app: str,
        shape: Shape,
        settings: dict[str, Any],
        *,
        errors: Sequence[str] = (),
        environment: dict[str, str] | None = None,
        descriptors: int | None = None,
        ini: str = "",
        preface: bytes = b"",
    ) -> None:
        self.shape = shape
        self.preface = preface
        self.declared = tuple(errors)
        directory = self.directory = Path(tempfile.mkdtemp(prefix="poorhttp-test-"))
        self.clients: list[Client] = []
        self.exit_code: int | None = None
        self._error_log = self.directory / "error.log"
        self._access_log = self.directory / "access.log"
        self._output = self.directory / "output"
        self._error_lines = Lines(self._error_log)
        self._request_lines = Lines(self._access_log)
        self.notes = Lines(self.directory / "notes")
        arguments = self._arguments(self._application(app), settings)
        if ini:
            (self.directory / "poorhttp.ini").write_text(ini)
            arguments.append("--config=poorhttp.ini")
        limits = (
            (lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))) if descriptors else None
        )
        with self._output.open("wb") as output:
            super().__init__(
                arguments,
                directory,
                self._environment(environment or {}),
                stdout=output,
                stderr=output,
                preexec_fn=limits,
            )
        try:
            self._await_address()
            wait_for(self._answers, f"{self.url} answers")
        except BaseException:
            self.kill()
            raise

    def _application(self, app: str) -> str:
        (self.directory / "gate.py").write_text(GATE)
        source = APPLICATIONS.get(app, app)
        if "\n" not in source:
            return source
        (self.directory / "app.py").write_text(textwrap.dedent(source))
        return "app.py"

    def _arguments(self, application: str, settings: dict[str, Any]) -> list[str]:
        told = {
            "type": "single",
            "processes": self.shape[0],
            "threads": self.shape[1],
            "errorlog": self._error_log,
            "accesslog": self._access_log,
        }
        if "bind" not in settings:
            told["bind"] = "127.0.0.1:0"
        told |= settings
        flags: list[str] = []
        for name, value in told.items():
            for one in value if isinstance(value, list | tuple) else [value]:
                text = {True: "yes", False: "no"}[one] if isinstance(one, bool) else str(one)
                flags.append(f"--{name.replace('_', '-')}={text.replace('DIRECTORY', str(self.directory))}")
        return [application, *flags]

    def _environment(self, extra: dict[str, str]) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("POORHTTP_")}
        paths = [str(self.directory), package_home()]
        return (
            kept
            | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONWARNINGS": "error", "TEST_DIRECTORY": str(self.directory)}
            | extra
        )

    def _await_address(self) -> None:
        def found() -> re.Match[str] | None:
            text = self.output()
            if self.process.poll() is not None:
                pytest.fail(f"the server ended with {self.process.returncode}:\n{text}\n{self.errors()}")
            return re.search(r"http://(\[[0-9a-f:]+\]|[0-9a-z.-]+):([0-9]+)/|unix:(/[^\s,]+)", text)

        match = wait_for(found, f"an address in the start lines of {self.process.args}")
        self.url = match[0]
        self.address: tuple[str, int] | str = match[3] if match[3] else (match[1].strip("[]"), int(match[2]))

    def _answers(self) -> bool:
        """Asked with OPTIONS *, which no application hears of; and all workers serve."""
        if list(self.states().values()).count("serving") < self.shape[0]:
            return False
        try:
            with self.connect() as client:
                return client.request("*", "Connection: close", method="OPTIONS").status in (200, 204)
        except (ConnectionError, EOFError, FileNotFoundError):
            return False

    def connect(
        self,
        *,
        receive_buffer: int = 0,
        address: tuple[str, int] | str | None = None,
        preface: bytes | None = None,
    ) -> Client:
        address = address or self.address
        if isinstance(address, str):
            sock = socket.socket(socket.AF_UNIX)
        else:
            sock = socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if receive_buffer:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        sock.settimeout(PATIENCE)
        try:
            sock.connect(address)
        except BaseException:
            sock.close()
            raise
        client = Client(sock)
        self.clients.append(client)
        return client.send(self.preface if preface is None else preface)

    def get(self, target: str = "/", *lines: str, **keywords: Any) -> Response:
        """One request on a connection of its own."""
        with self.connect() as client:
            return client.request(target, "Connection: close", *lines, **keywords)

    def output(self) -> str:
        return self._output.read_text(encoding="utf-8", errors="replace")

    def errors(self) -> str:
        return self._error_log.read_text(encoding="utf-8", errors="replace") if self._error_log.exists() else ""

    def error_lines(self) -> list[str]:
        """The lines of the error log but those of start and stop."""
        return [line for line in self._error_lines() if " [S] " not in line]

    def requests(self) -> str:
        return self._access_log.read_text(encoding="utf-8", errors="replace") if self._access_log.exists() else ""

    def request_lines(self, at_least: int = 0) -> list[str]:
        wait_for(lambda: len(self._request_lines()) >= at_least, f"{at_least} lines in the access log")
        return self._request_lines()

    def await_note(self, text: str, times: int = 1) -> None:
        wait_for(
            lambda: self.notes().count(text) >= times,
            f"the application notes {text!r} {times} times; notes: {self.notes()[-10:]}",
        )

    def open_gate(self, name: str) -> None:
        (self.directory / f"gate.{name}").touch()

    def close_gate(self, name: str) -> None:
        (self.directory / f"gate.{name}").unlink(missing_ok=True)

    def pids(self) -> list[int]:
        """The serving processes: the workers, or this very process."""
        children = [child.pid for child in psutil.Process(self.pid).children()]
        return sorted(children) or [self.pid]

    def cpu_seconds(self) -> float:
        """CPU time of the serving processes so far."""
        times = [psutil.Process(pid).cpu_times() for pid in self.pids()]
        return float(sum(one.user + one.system for one in times))

    def context_switches(self) -> int:
        """How often its threads were switched to or from so far."""
        total = 0
        for pid in {self.pid, *self.pids()}:
            for thread in psutil.Process(pid).threads():
                status = Path(f"/proc/{pid}/task/{thread.id}/status").read_text(encoding="ascii")
                total += sum(int(line.split()[1]) for line in status.splitlines() if "ctxt_switches" in line)
        return total

    def memory(self) -> int:
        """Bytes resident in all its processes together."""
        return sum(psutil.Process(pid).memory_info().rss for pid in {self.pid, *self.pids()})

    def descriptors(self) -> int:
        return sum(psutil.Process(pid).num_fds() for pid in self.pids())

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def wait(self, patience: float = PATIENCE) -> int:
        self.exit_code = self.process.wait(patience)
        return self.exit_code

    def stop(self) -> None:
        """TERM, and everything that must hold at the end."""
        for client in self.clients:
            client.close()
        try:
            self.know(recursive=True)
            if self.process.poll() is None:
                self.signal(signal.SIGTERM)
            code = self.wait()
            assert code == 0, f"exit code {code}:\n{self.output()}\n{self.errors()[-3000:]}"
            wait_for(lambda: not self.left(), "no process is left")
            self.check_log()
        finally:
            self.kill()

    def check_log(self) -> None:
        """No panic; no traceback, nor a warning on the way out; but with a declared text, which for a panic names it."""
        may_panic = [name for name in self.declared if "panic" in name.lower()]
        for text in (self.errors(), self.output()):
            panics = [line for line in text.splitlines() if "panic" in line.lower()]
            assert all(any(name in line for name in may_panic) for line in panics), text[-3000:]
            for entry in re.split(r"^(?=\d{4}-\d\d-\d\d \d\d:\d\d:\d\d: \[)", text, flags=re.MULTILINE):
                alarming = "Traceback" in entry or "Warning:" in entry or re.search(r"\] \[E\] .*: \w+\n ", entry)
                assert not alarming or any(name in entry for name in self.declared), f"undeclared: {entry[:3000]}"

    def kill(self) -> None:
        """End what is left of this server without ado, and remove its files."""
        super().kill()
        shutil.rmtree(self.directory, ignore_errors=True)
