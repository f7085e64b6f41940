"""A real server for the tests, and a strict client.

Knows the command line of poorhttp and its status, HTTP/1.1 as a careful client reads it, and processes. Knows nothing
of the inside.
Contract: `serve` gives a running server of the asked application, shape and settings; one server is shared by the tests
of a module that ask for the same. `start` gives one that belongs to a single test. At the end a server gets TERM, must
exit with 0, leave no process behind, and must have logged neither a panic nor a traceback that was not declared.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import HealthCheck, settings

from poorhttp.status import reader

# How long an example takes says something about the machine, not about what is tested.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

# The tests start some thousand interpreters. Without bytecode each of them would compile the package anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# In the background of a script it is ignored, and so it would be in all that is started here.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

Shape = tuple[int, int]
SHAPES: list[Shape] = [(1, 4), (2, 1)]
PATIENCE = 20.0  # seconds that a condition may take on a loaded machine; nothing waits this long on purpose

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


def lives(process: psutil.Process) -> bool:
    """Whether it runs; not where it only waits for its parent to look."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def until(condition: Callable[[], Any], what: str = "", patience: float = PATIENCE) -> Any:
    """Wait for `condition` to be true and return its value. It is looked at often in the beginning, and then as often as is
    noticed: looking, which may mean reading of /proc, takes time from what is waited for.
    """
    began = time.monotonic()
    while not (value := condition()):
        waited = time.monotonic() - began
        if waited > patience:
            pytest.fail(f"in vain for {patience} s: {what or condition}")
        time.sleep(min(0.002 + waited / 20, 0.05))
    return value


class Response:
    """One response as it was read.

    framing: none, length, chunked or close. complete: false where the body ended before its end. was_reset: the connection
    did so by a reset. interim: the statuses of the 1xx responses before it.
    """

    def __init__(self, status: int, reason: str, headers: list[tuple[str, str]]) -> None:
        self.status = status
        self.reason = reason
        self.headers = headers
        self.body = b""
        self.framing = "none"
        self.complete = True
        self.was_reset = False
        self.interim: list[int] = []

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name.lower()]

    def header(self, name: str) -> str | None:
        """The value of a field that comes at most once."""
        values = self.all(name)
        assert len(values) <= 1, f"{name} comes {len(values)} times: {values}"
        return values[0] if values else None

    @property
    def closes(self) -> bool:
        return (self.header("Connection") or "").lower() == "close"

    def json(self) -> Any:
        return json.loads(self.body)

    def __repr__(self) -> str:
        return f"<Response {self.status} {self.headers} {self.body[:80]!r} {self.framing}>"


STATUS_LINE = re.compile(rb"HTTP/1\.1 ([1-5][0-9][0-9]) ([\t \x21-\x7e\x80-\xff]*)")
FIELD_LINE = re.compile(
    rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+): ?([\x21-\x7e\x80-\xff](?:[\t \x21-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?|)"
)
CHUNK_LINE = re.compile(rb"[0-9A-Fa-f]{1,16}")


class Client:
    """A raw connection. Every read has a deadline; what is read must be HTTP/1.1 to the letter."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.buffer = b""
        self.sock.settimeout(PATIENCE)

    def send(self, data: bytes | str) -> Client:
        self.sock.sendall(data.encode("latin-1") if isinstance(data, str) else data)
        return self

    def send_split(self, *pieces: bytes) -> bool:
        """Send each piece by itself; False where the server has hung up before the end."""
        try:
            for piece in pieces:
                self.sock.sendall(piece)
        except (BrokenPipeError, ConnectionResetError):
            return False
        return True

    def request(
        self, target: str = "/", *lines: str, method: str = "GET", body: bytes = b"", version: str = "1.1"
    ) -> Response:
        """Send one request with a Host (and a Content-Length where there is a body) and read its response."""
        self.send(compose(target, *lines, method=method, body=body, version=version))
        return self.response(method, version)

    def response(self, method: str = "GET", version: str = "1.1", *, truncated: bool = False) -> Response:
        """Read one response; interim ones are noted in it. `truncated` allows the body to end before its end."""
        interim: list[int] = []
        while True:
            response = self._head(version)
            if response.status >= 200:
                break
            assert response.header("Content-Length") is None and response.header("Transfer-Encoding") is None
            interim.append(response.status)
        response.interim = interim
        try:
            self._body(response, method)
        except (EOFError, ConnectionResetError) as error:
            if not truncated:
                raise
            response.complete = False
            response.was_reset = isinstance(error, ConnectionResetError)
        return response

    def _head(self, version: str) -> Response:
        status_line = self._line()
        match = STATUS_LINE.fullmatch(status_line)
        assert match, f"not a status line: {status_line!r}"
        headers: list[tuple[str, str]] = []
        while line := self._line():
            field = FIELD_LINE.fullmatch(line)
            assert field, f"not a field line: {line!r}"
            headers.append((field[1].decode("latin-1"), field[2].decode("latin-1")))
        response = Response(int(match[1]), match[2].decode("latin-1"), headers)
        if response.status >= 200:
            assert len(response.all("Date")) == 1, headers
            assert len(response.all("Server")) <= 1, headers
        assert len(response.all("Connection")) <= 1, headers
        assert len(response.all("Content-Length")) <= 1, headers
        assert not (response.all("Content-Length") and response.all("Transfer-Encoding")), headers
        if version == "1.0":
            assert not response.all("Transfer-Encoding"), "no Transfer-Encoding to an HTTP/1.0 client"
        return response

    def _body(self, response: Response, method: str) -> None:
        coding, length = response.header("Transfer-Encoding"), response.header("Content-Length")
        if response.status == 204:
            assert coding is None and length is None, response.headers
        if method == "HEAD" or response.status in (204, 304):
            return
        if coding is not None:
            assert coding == "chunked"
            response.framing = "chunked"
            self._chunks(response)
        elif length is not None:
            assert re.fullmatch(r"[0-9]+", length)
            response.framing = "length"
            self._exactly(response, int(length))
        else:
            response.framing = "close"
            assert response.closes, "a body that ends with the connection needs Connection: close"
            try:
                response.body = self.rest()
            except ConnectionResetError:
                response.body, self.buffer = self.buffer, b""
                raise

    def _chunks(self, response: Response) -> None:
        body = bytearray()
        try:
            while size := self._chunk_size():
                self._take(size, body)
                assert self._line() == b"", "CRLF after a chunk"
            assert self._line() == b"", "no trailers are expected"
        finally:
            response.body = bytes(body)

    def _exactly(self, response: Response, size: int) -> None:
        body = bytearray()
        try:
            self._take(size, body)
        finally:
            response.body = bytes(body)

    def _chunk_size(self) -> int:
        line = self._line()
        assert CHUNK_LINE.fullmatch(line), f"not a chunk line: {line!r}"
        return int(line, 16)

    def _take(self, size: int, body: bytearray) -> None:
        """Move the next `size` bytes to `body`; as many as there are before EOFError."""
        end = len(body) + size
        while True:
            wanted = end - len(body)
            body += self.buffer[:wanted]
            self.buffer = self.buffer[wanted:]
            if len(body) == end:
                return
            self._more()

    def _line(self) -> bytes:
        while b"\n" not in self.buffer:
            assert len(self.buffer) < 1_000_000
            self._more()
        line, _, self.buffer = self.buffer.partition(b"\n")
        assert line.endswith(b"\r") and b"\r" not in line[:-1], f"a line ends with CRLF: {line!r}"
        return line[:-1]

    def _more(self) -> None:
        if not self._receive():
            raise EOFError(f"closed after {self.buffer!r}")

    def _receive(self) -> bytes:
        data = self.sock.recv(262144)
        self.buffer += data
        return data

    def body_piece(self) -> bytes:
        """The data of the next chunk, after `head_only`."""
        piece = bytearray()
        self._take(self._chunk_size(), piece)
        assert self._line() == b""
        return bytes(piece)

    def last_chunk(self) -> bool:
        return self._line() == b"0" and self._line() == b""

    def head_only(self, version: str = "1.1") -> Response:
        return self._head(version)

    def rest(self) -> bytes:
        """All bytes until the server closes in order; a reset is an error, and leaves in `buffer` what came before it."""
        body, self.buffer = bytearray(self.buffer), b""
        try:
            while data := self.sock.recv(262144):
                body += data
        except ConnectionResetError:
            self.buffer = bytes(body)
            raise
        return bytes(body)

    def rest_or_reset(self) -> bytes:
        try:
            return self.rest()
        except ConnectionResetError:
            data, self.buffer = self.buffer, b""
            return data

    def expect_close(self) -> None:
        """The server closes now, in order, and says nothing more."""
        rest = self.rest()
        assert rest == b"", f"unexpected bytes before the close: {rest[:300]!r}"

    def is_silent(self) -> bool:
        """True while there is nothing to read and the connection is open."""
        return not self.buffer and not select.select([self.sock], [], [], 0)[0]

    def half_close(self) -> Client:
        self.sock.shutdown(socket.SHUT_WR)
        return self

    def reset(self) -> None:
        """Close with RST."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.sock.close()

    def close(self) -> None:
        self.sock.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def compose(target: str = "/", *lines: str, method: str = "GET", body: bytes = b"", version: str = "1.1") -> bytes:
    """The bytes of one request."""
    fields = [f"{method} {target} HTTP/{version}", "Host: example.com", *lines]
    if body and not any(line.lower().startswith(("content-length:", "transfer-encoding:")) for line in lines):
        fields.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*fields, "", ""]).encode("latin-1") + body


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


class Server:
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
        self.directory = Path(tempfile.mkdtemp(prefix="poorhttp-test-"))
        self.clients: list[Client] = []
        self.exit_code: int | None = None
        self._error_log = self.directory / "error.log"
        self._access_log = self.directory / "access.log"
        self._output = self.directory / "output"
        self._error_lines = Lines(self._error_log)
        self._request_lines = Lines(self._access_log)
        self.notes = Lines(self.directory / "notes")
        command = self._command(self._application(app), settings)
        if ini:
            (self.directory / "poorhttp.ini").write_text(ini)
            command.append("--config=poorhttp.ini")
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                command,
                cwd=self.directory,
                env=self._environment(environment or {}),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                preexec_fn=(lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors)))
                if descriptors
                else None,
            )
        try:
            self._await_address()
            until(self._answers, f"{self.url} answers")
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

    def _command(self, application: str, settings: dict[str, Any]) -> list[str]:
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
        return [sys.executable, "-m", "poorhttp", application, *flags]

    def _environment(self, extra: dict[str, str]) -> dict[str, str]:
        spec = importlib.util.find_spec("poorhttp")
        assert spec and spec.origin, "poorhttp is not importable: install it, or run `python -m pytest` at the root"
        package_home = str(Path(spec.origin).parents[1])
        kept = {name: value for name, value in os.environ.items() if not name.startswith("POORHTTP_")}
        paths = [str(self.directory), package_home]
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

        match = until(found, f"an address in the start lines of {self.process.args}")
        self.url = match[0]
        self.address: tuple[str, int] | str = match[3] if match[3] else (match[1].strip("[]"), int(match[2]))

    def _answers(self) -> bool:
        """Asked with OPTIONS *, which no application hears of; and all workers serve."""
        facts = reader.of(self.pid) or {"processes": []}
        if [each["state"] for each in facts["processes"]].count("serving") < self.shape[0]:
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
        until(lambda: len(self._request_lines()) >= at_least, f"{at_least} lines in the access log")
        return self._request_lines()

    def await_note(self, text: str, times: int = 1) -> None:
        until(
            lambda: self.notes().count(text) >= times,
            f"the application notes {text!r} {times} times; notes: {self.notes()[-10:]}",
        )

    def open_gate(self, name: str) -> None:
        (self.directory / f"gate.{name}").touch()

    def close_gate(self, name: str) -> None:
        (self.directory / f"gate.{name}").unlink(missing_ok=True)

    @property
    def pid(self) -> int:
        return self.process.pid

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
            family = (
                [psutil.Process(self.pid), *psutil.Process(self.pid).children(recursive=True)]
                if self.process.poll() is None
                else []
            )
            if self.process.poll() is None:
                self.signal(signal.SIGTERM)
            code = self.wait()
            assert code == 0, f"exit code {code}:\n{self.output()}\n{self.errors()[-3000:]}"
            until(lambda: not any(map(lives, family)), "no process is left")
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
        if self.process.poll() is None:
            for member in psutil.Process(self.pid).children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):
                    member.kill()
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)


def required(report: Any) -> Any:
    """With REQUIRE=1 in the environment, as .ci/run has it, nothing is skipped that an installation would let run: such
    a skip says what to install, or which suite is not there. One for want of rights, or of the kernel's, stays.
    """
    reason = report.longrepr[2] if report.skipped and isinstance(report.longrepr, tuple) else ""
    if os.environ.get("REQUIRE") == "1" and re.search(r"\binstall|could not import|no suite", reason):
        report.outcome, report.longrepr = "failed", f"not to be skipped where REQUIRE=1: {reason}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Iterator[None]:
    return required((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Iterator[None]:
    return required((yield))


@pytest.fixture(params=SHAPES, ids=lambda shape: f"{shape[0]}x{shape[1]}")
def any_shape(request: pytest.FixtureRequest) -> Shape:
    """Threads in one process, and processes of one thread; most other tests are served by one thread of one process."""
    shape: Shape = request.param
    return shape


@pytest.fixture(scope="module")
def serve() -> Iterator[Callable[..., Server]]:
    """serve(app, shape=(1, 1), errors=(), environment={}, descriptors=0, ini="", **settings) -> Server of the module.

    app: a name of APPLICATIONS, the source text of a module with `application`, or what poorhttp takes as APP.
    errors: texts, one of which must be in every traceback that the error log holds.
    descriptors: the limit of open files. ini: the text of a configuration file. preface: what each connection begins with.
    settings: by name; in a value DIRECTORY stands for the directory of the server.
    """
    running: dict[str, Server] = {}

    def get(app: str, shape: Shape = (1, 1), **keywords: Any) -> Server:
        key = repr((app, shape, sorted(keywords.items(), key=lambda item: item[0])))
        if key not in running or running[key].process.poll() is not None:
            running[key] = launch(app, shape, **keywords)
        return running[key]

    yield get
    stop_all(list(running.values()))


@pytest.fixture
def start() -> Iterator[Callable[..., Server]]:
    """The same for one test alone."""
    running: list[Server] = []

    def get(app: str, shape: Shape = (1, 1), **keywords: Any) -> Server:
        running.append(launch(app, shape, **keywords))
        return running[-1]

    yield get
    stop_all(running)


def launch(
    app: str,
    shape: Shape,
    *,
    errors: Sequence[str] = (),
    environment: dict[str, str] | None = None,
    descriptors: int | None = None,
    ini: str = "",
    preface: bytes = b"",
    **settings: Any,
) -> Server:
    return Server(
        app,
        shape,
        settings,
        errors=errors,
        environment=environment,
        descriptors=descriptors,
        ini=ini,
        preface=preface,
    )


def stop_all(servers: list[Server]) -> None:
    """Stop each, also where another one fails."""
    with contextlib.ExitStack() as stack:
        for server in servers:
            stack.callback(server.stop)


# What test modules use without importing a conftest by name.
@pytest.fixture(name="until", scope="session")
def until_fixture() -> Callable[..., Any]:
    return until


@pytest.fixture(name="compose", scope="session")
def compose_fixture() -> Callable[..., bytes]:
    return compose


@pytest.fixture(scope="session")
def wrap() -> Callable[[socket.socket], Client]:
    """A strict client around any connected socket."""
    return Client
