"""What a kernel or a sandbox refuses, where it only makes things better, keeps nobody from serving."""

import contextlib
import fcntl
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import refusing
from starter import SHAPES, Server, Start, wait_for

pytestmark = pytest.mark.skipif(not refusing.can_refuse(), reason="the kernel has no seccomp")

APPLICATION = """
SIZE = 3_000_000
with open("file", "wb") as file:
    file.write(b"0123456789" * (SIZE // 10))

def application(environ, start_response):
    write = start_response("200 OK", [("Content-Type", "text/plain")])
    path = environ["PATH_INFO"]
    if path == "/write":
        write(b"x" * SIZE)
        open("written", "w").close()
        return []
    if path.startswith("/file"):
        file = open("file", "rb")
        file.seek(int(environ["QUERY_STRING"] or 0))
        return environ["wsgi.file_wrapper"](file)
    return [b"%d" % len(environ["wsgi.input"].read())]
"""
FILE = "0123456789" * 300_000

SO_ATTACH_FILTER, SIOCOUTQ = 26, 0x5411
OPTIONS = [
    (socket.SOL_SOCKET, socket.SO_REUSEADDR),
    (socket.SOL_SOCKET, socket.SO_LINGER),
    (socket.SOL_SOCKET, SO_ATTACH_FILTER),
    (socket.IPPROTO_TCP, socket.TCP_NODELAY),
    (socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT),
    (socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT),
]
DISPENSABLE = [
    "accept4:ENOSYS",
    "sendfile:ENOSYS",
    "memfd_create:ENOSYS",
    "epoll_pwait2:ENOSYS",
    "madvise:EINVAL",
    "prctl:EINVAL",
    f"ioctl:EINVAL:1={SIOCOUTQ}",
    f"socket:EPERM:0={socket.AF_NETLINK}",
    *(f"setsockopt:ENOPROTOOPT:1={level}:2={option}" for level, option in OPTIONS),
]


def without(*refused: str) -> tuple[str, ...]:
    return (sys.executable, refusing.__file__, *refused, "--")


@pytest.fixture
def begin(launch: Start, tmp_path: Path) -> Start:
    """Start the application above where the kernel refuses these."""

    def started(*refused: str, arguments: tuple[str, ...] = SHAPES["1x1"]) -> Server:
        (tmp_path / "app.py").write_text(APPLICATION)
        server = launch("app.py", "--bind=127.0.0.1:0", *arguments, inside=without(*refused))
        server.await_address()
        return server

    return started


def test_what_is_dispensable_may_be_refused(begin: Start, shape: str) -> None:
    server = begin(*DISPENSABLE, arguments=(*SHAPES[shape], "--body-memory=1000"))
    with contextlib.closing(server.connection()) as silent:
        silent.connect()
        assert server.get("/") == (200, "0"), "while another client says nothing"
        assert server.get("/file") == (200, FILE)
        assert server.get("/file?2999995") == (200, "56789")
        with contextlib.closing(server.connection()) as connection:
            connection.request("POST", "/", b"x" * 100_000)
            assert connection.getresponse().read() == b"100000", "by way of a file"
        with contextlib.closing(server.connection()) as connection:
            connection.request("GET", "/write")
            wait_for((server.directory / "written").exists, "write() to return, though nobody reads")
            assert connection.getresponse().read() == b"x" * 3_000_000
    server.send(signal.SIGHUP)
    server.await_text("] [S] reloaded: ")
    assert server.get("/file") == (200, FILE)
    assert server.stop() == 0


@pytest.mark.parametrize("command", [fcntl.F_ADD_SEALS, fcntl.F_GET_SEALS])
def test_nobody_has_to_see_what_it_does(begin: Start, command: int) -> None:
    server = begin(f"fcntl:EINVAL:1={command}")
    assert server.get("/") == (200, "0")
    assert server.stop() == 0


def test_dev_needs_no_more(begin: Start) -> None:
    server = begin(*DISPENSABLE, arguments=("--autoreload",))
    assert server.get("/file") == (200, FILE)
    (server.directory / "app.py").write_text(APPLICATION.replace('b"%d"', 'b"now %d"'))
    wait_for(lambda: server.get() == (200, "now 0"), "the new code")
    assert server.stop() == 0


@pytest.mark.parametrize("error", ["EINVAL", "EPERM", "EOPNOTSUPP"])
def test_a_file_that_the_kernel_does_not_send_is_read(begin: Start, error: str) -> None:
    server = begin(f"sendfile:{error}")
    with contextlib.closing(server.connection()) as connection:
        for _ in range(2):
            connection.request("GET", "/file")
            answer = connection.getresponse()
            assert answer.getheader("Content-Length") == str(len(FILE))
            assert answer.read().decode() == FILE
    assert server.stop() == 0


def test_a_connection_that_was_accepted_otherwise_is_the_same(begin: Start) -> None:
    server = begin("accept4:EPERM")
    with contextlib.closing(server.connection()) as silent:
        silent.connect()
        assert server.get("/") == (200, "0"), "it does not block"
        home = Path("/proc", str(server.process.pid))
        flags = []
        for each in (home / "fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed just now
                if str(each.readlink()).startswith("socket:"):
                    flags.append(int((home / "fdinfo" / each.name).read_text().split()[3], 8))
        assert len(flags) >= 2
        assert all(each & os.O_CLOEXEC and each & os.O_NONBLOCK for each in flags)
    assert server.stop() == 0


def test_a_client_that_cannot_be_accepted_is_told_of(begin: Start) -> None:
    server = begin("accept4:EPERM", "accept:EPERM")
    with contextlib.closing(server.connection()) as waiting:
        waiting.connect()
        server.await_text("] [E] no connection can be accepted: Operation not permitted")
    assert server.stop() == 0
    assert server.said.count("no connection can be accepted") == 1


def test_an_option_that_is_needed_is_named(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APPLICATION)
    refused = f"setsockopt:ENOPROTOOPT:1={socket.SOL_SOCKET}:2={socket.SO_REUSEPORT}"
    command = [*without(refused), sys.executable, "-m", "poorhttp", "app.py", "--bind=127.0.0.1:0", "--reuse-port"]
    done = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True, timeout=30)
    assert done.returncode == 4
    assert "this system lacks an option of sockets\nhint: set reuse_port = no" in done.stderr


def test_a_check_needs_no_memory_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APPLICATION)
    command = [*without("memfd_create:ENOSYS"), sys.executable, "-m", "poorhttp", "app.py", "--port=0"]
    command.append("--check-config")
    done = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr
