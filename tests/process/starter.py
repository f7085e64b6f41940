"""A real `python -m poorhttp`, its processes, and the certainty that none of them outlives its test."""

import contextlib
import http.client
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import psutil
import pytest
from processes import PATIENCE, Started, lives, wait_for

ROOT = Path(__file__).parents[2]

SHAPES = {
    "1x1": ("--type=single",),
    "1x4": ("--type=threading", "--threads=4"),
    "2x1": ("--type=forking", "--processes=2"),
    "2x2": ("--type=forking", "--processes=2", "--threads=2"),
}
SUPERVISED = ("2x1", "2x2")
EVERY_SHAPE = pytest.mark.parametrize("shape", SHAPES)
"""For what processes and threads decide together; the fixture `shape` has two of them."""


MAY_MOUNT = shutil.which("unshare") and not subprocess.call(["unshare", "--mount", "true"], stderr=subprocess.DEVNULL)
mounts = pytest.mark.skipif(not MAY_MOUNT, reason="needs `unshare --mount`, which is root's")


NAMESPACE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
"""Runs what follows as the first process of a namespace, as in a container."""

MAY_CONTAIN = shutil.which("unshare") and not subprocess.call([*NAMESPACE, "true"], stderr=subprocess.DEVNULL)
contains = pytest.mark.skipif(
    not MAY_CONTAIN, reason=f"needs {' '.join(NAMESPACE)}, which is root's or not allowed here"
)


def without(*commands: str) -> tuple[str, ...]:
    """Run what follows in mounts of its own, after these commands."""
    return ("unshare", "--mount", "sh", "-c", " && ".join((*commands, 'cd "$PWD"', 'exec "$@"')), "sh")


def run(directory: Path, *arguments: str) -> tuple[int, str]:
    """Exit code and what was said, of a command that ends by itself."""
    done = subprocess.run(
        [sys.executable, "-m", "poorhttp", *arguments],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=PATIENCE,
        check=False,
    )
    return done.returncode, done.stdout.decode()


APPLICATION = '''
"""Does what its path says; tells the test what it is doing by files in the directory MARKS."""

import atexit
import ctypes
import os
import signal
import sys
import threading
import time

MARKS = os.environ["MARKS"]
os.environ["SERVER"] = str(os.getpid())


def mark(name):
    open(os.path.join(MARKS, name), "w").close()


def marked(name):
    return os.path.exists(os.path.join(MARKS, name))


atexit.register(lambda: mark(f"atexit-{os.getpid()}"))


def pid(environ):
    return str(os.getpid())


def seen(environ):
    """Append the number of the request to a file: the test knows then which requests reached the application."""
    descriptor = os.open(os.path.join(MARKS, "seen"), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, environ["QUERY_STRING"].encode() + b"\\n")
    os.close(descriptor)
    return environ["QUERY_STRING"]


def slow(environ):
    mark("slow")
    time.sleep(0.3)
    return "slow"


def held(environ):
    """Do not answer before the test says so."""
    mark("held")
    while not marked("release"):
        time.sleep(0.01)
    return "released"


def hang(environ):
    is_main = threading.current_thread() is threading.main_thread()
    mark(f"hang-{os.getpid()}")
    while True:
        time.sleep(0.2 if is_main else 60)  # a signal that comes right before it is heard behind it


def leave(environ):
    os._exit(9)


def segfault(environ):
    ctypes.string_at(0)


def deaf(environ):
    """Do as an asyncio loop does that had a signal handler and was closed, then ask for a stop."""
    if threading.current_thread() is threading.main_thread():
        signal.set_wakeup_fd(-1)
    os.kill(int(os.environ["SERVER"]), signal.SIGTERM)
    return "stopping"


def fail(environ):
    raise ValueError("failed as asked")


def complain(environ):
    environ["wsgi.errors"].write("complaint\\n")
    return "complained"


def application(environ, start_response):
    body = globals()[environ["PATH_INFO"].strip("/") or "pid"](environ).encode()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]
'''


PASS = """
import fcntl
import os
import sys

high = [fcntl.fcntl(int(each), fcntl.F_DUPFD, 100) for each in sys.argv[1].split(",")]
for number, each in enumerate(high, 3):
    os.dup2(each, number)
os.closerange(3 + len(high), 200)
os.environ.setdefault("LISTEN_PID", str(os.getpid()))
os.environ.setdefault("LISTEN_FDS", str(len(high)))
os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
"""
"""Hands sockets over as a service manager does, and becomes the server."""


def by_rename(path: Path, text: bytes) -> None:
    """Save a file as most editors do: nobody ever sees a part of it."""
    fresh = path.with_name("4913")
    fresh.write_bytes(text)
    fresh.rename(path)


class UnixConnection(http.client.HTTPConnection):
    """A client's connection to a unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=PATIENCE)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(str(self._path))


class Server(Started):
    """One started poorhttp and what it says."""

    def __init__(
        self,
        directory: Path,
        arguments: tuple[str, ...],
        environ: dict[str, str],
        inside: tuple[str, ...] = (),
        passed: Sequence[socket.socket] = (),
    ) -> None:
        self.marks = directory / "marks"
        self.marks.mkdir(exist_ok=True)
        self.port = 0
        self.is_unix = "--bind=unix:server.sock" in arguments
        self._said: list[str] = []
        search = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
        numbers = [sock.fileno() for sock in passed]
        wrapper = ["-c", PASS, ",".join(map(str, numbers))] if numbers else []
        super().__init__(
            arguments,
            directory,
            {**os.environ, "PYTHONPATH": search, "MARKS": str(self.marks), **environ},
            inside=inside,
            wrapper=wrapper,
            pass_fds=numbers,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    @property
    def said(self) -> str:
        """What was written to standard error so far."""
        return "".join(self._said)

    def await_address(self) -> None:
        """Wait until the address is printed."""
        pattern = re.compile(r"unix:\S+|http://127\.0\.0\.1:(\d+)/")
        wait_for(lambda: pattern.search(self.said) or self.process.poll() is not None, "an address or an end")
        found = pattern.search(self.said)
        assert found, f"ended with code {self.process.poll()} before serving:\n{self.said}"
        self.port = int(found[1] or 0)

    def await_text(self, text: str) -> None:
        wait_for(lambda: text in self.said, f"{text!r} on standard error")

    def await_mark(self, name: str) -> None:
        wait_for((self.marks / name).exists, f"the application to be in {name!r}")

    def workers(self) -> set[int]:
        """The pids of the children that live now."""
        return {child.pid for child in self.know() if lives(child)}

    def trials(self) -> list[psutil.Process]:
        """The children that try what a reload is to load."""
        with contextlib.suppress(psutil.NoSuchProcess):
            return [each for each in psutil.Process(self.process.pid).children() if "POORHTTP_TRIAL" in each.environ()]
        return []

    def connection(self) -> http.client.HTTPConnection:
        """A client's connection, to the unix socket `server.sock` if there is one; it connects when it is used."""
        if self.is_unix:
            return UnixConnection(self.directory / "server.sock")
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)

    def get(self, path: str = "/", is_patient: bool = True) -> tuple[int, str]:
        """Make one request on a connection of its own: status and body. Ask again, as a browser does by itself, where a
        load has taken more than five seconds: on a machine that is busy with other things it may.
        """
        end = time.monotonic() + PATIENCE
        while True:
            with contextlib.closing(self.connection()) as connection:
                connection.request("GET", path)
                answer = connection.getresponse()
                status, body = answer.status, answer.read().decode()
            is_early = status == 503 and "still importing" in body
            if not (is_early and is_patient and time.monotonic() < end):
                return status, body
            time.sleep(0.1)

    def refuses(self) -> bool:
        """Whether a new connection is refused."""
        try:
            with contextlib.closing(self.connection()) as connection:
                connection.timeout = 0.2
                connection.connect()
        except (ConnectionRefusedError, FileNotFoundError):
            return True
        except (ConnectionResetError, TimeoutError):
            return False  # the listener was closed in this very moment; the next one knows
        return False

    def send(self, signum: int) -> None:
        self.workers()  # to know them when the supervisor is gone
        self.process.send_signal(signum)

    def end(self, seconds: float = PATIENCE) -> int:
        """Wait for the end: the exit code. No process may be left then."""
        code = self.process.wait(seconds)
        wait_for(lambda: not self.left(), "the workers to be gone")
        self._reader.join(PATIENCE)
        return code

    def stop(self, signum: int = signal.SIGTERM) -> int:
        """Send a signal and wait for the end: the exit code."""
        self.send(signum)
        return self.end()

    def orphan(self) -> float:
        """Kill the server: seconds until none of its processes is left and its port is free."""
        self.workers()
        began = time.monotonic()
        self.process.kill()
        self.process.wait(PATIENCE)
        wait_for(lambda: not self.left(), "the workers to be gone")
        # A process is a zombie as soon as its first thread is gone, and has its sockets until the last one is.
        wait_for(lambda: can_listen(self.port), "the port to be free")
        return time.monotonic() - began

    def insist(self, signum: int = signal.SIGTERM) -> int:
        """Send the signal again and again until it is over, as somebody without patience does: the exit code."""
        for _ in range(30):
            self.send(signum)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(0.3)
                break
        return self.end()

    def clean_up(self) -> None:
        """End whatever is left."""
        if self.process.poll() is None and not self._reader.is_alive():
            self._said.append("(here ended what was read of its standard error, though it lives)\n")
        self.kill()
        self._reader.join(PATIENCE)
        assert self.process.stderr is not None
        assert not self._reader.is_alive(), "a process that nobody has ended holds its standard error"
        self.process.stderr.close()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._said.append(line.decode(errors="replace"))


@contextlib.contextmanager
def asking(place: "tuple[str, int] | Path", path: str = "/") -> Iterator[BinaryIO]:
    """A client that has asked, at an address or a unix socket: what it is answered, to the end of the connection."""
    is_unix = isinstance(place, Path)
    with socket.socket(socket.AF_UNIX if is_unix else socket.AF_INET) as client:
        client.settimeout(PATIENCE)
        client.connect(str(place) if is_unix else place)
        client.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        with client.makefile("rb") as answer:
            yield answer


def can_listen(port: int) -> bool:
    """Whether nobody else listens there."""
    with socket.socket() as again, contextlib.suppress(OSError):
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(("127.0.0.1", port))
        again.listen()
        return True
    return False


def within(seconds: float, trial: Callable[[], float], tries: int = 3) -> None:
    """Assert that a trial measures less than that, be it the last of some: any one may have waited for a core. What
    always takes longer fails; that it never does, on a machine that does nothing else, this does not show.
    """
    taken: list[float] = []
    while not taken or (taken[-1] >= seconds and len(taken) < tries):
        taken.append(trial())
    assert taken[-1] < seconds, taken


Start = Callable[..., Server]


def ask(server: Server, path: str, before: bytes = b"", host: str = "localhost", **fields: str) -> tuple[int, str, str]:
    """Status, type and body of an answer to a request with these fields. before: bytes in front of the request."""
    lines = [f"GET {path} HTTP/1.1", f"Host: {host}", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
    connection = server.connection()
    connection.connect()
    with contextlib.closing(connection):
        connection.sock.sendall(before + "\r\n".join([*lines, "", ""]).encode())
        answer = http.client.HTTPResponse(connection.sock)
        answer.begin()
        return answer.status, answer.getheader("Content-Type") or "", answer.read().decode()
