"""The queue of a listening socket, as the kernel tells it."""

import contextlib
import errno
import os
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from poorhttp.listen import backlog
from poorhttp.listen.backlog import REMINDER, Backlog, _unix_queue, note, queue
from poorhttp.logs.log import ErrorLog


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with closing(socket.create_server(("127.0.0.1", 0), backlog=8)) as made:
        yield made


@pytest.fixture
def log(tmp_path: Path) -> Iterator[ErrorLog]:
    made = ErrorLog(str(tmp_path / "error.log"), "info", False, "")
    yield made
    os.close(made.fileno())


def test_the_queue_is_counted(listener: socket.socket) -> None:
    assert queue(listener) == (0, 8)
    with closing(socket.create_connection(listener.getsockname())):
        assert queue(listener) == (1, 8)


@pytest.mark.parametrize("name", ["{path}/socket", "\0{path}/abstract"])
def test_the_queue_of_a_unix_socket_is_counted(tmp_path: Path, name: str) -> None:
    address = name.format(path=tmp_path)
    with closing(socket.socket(socket.AF_UNIX)) as unix, contextlib.ExitStack() as stack:
        unix.bind(address)
        unix.listen(8)
        for waiting in range(9):
            assert queue(unix) == (waiting, 8)
            client = stack.enter_context(closing(socket.socket(socket.AF_UNIX)))
            client.connect(address)
        unix.accept()[0].close()
        assert queue(unix) == (8, 8)


def test_nothing_is_known_of_a_closed_socket(listener: socket.socket, tmp_path: Path) -> None:
    unix = socket.socket(socket.AF_UNIX)
    unix.bind(str(tmp_path / "socket"))
    unix.listen(8)
    for each in listener, unix:
        each.close()
        assert queue(each) == (0, 0)
    assert _unix_queue(0xFFFFFFF0) == (0, 0), "no such socket"


def test_where_netlink_is_refused_nothing_is_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As by RestrictAddressFamilies=AF_UNIX AF_INET of systemd."""

    def refuse(*_: object) -> None:
        raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")

    with closing(socket.socket(socket.AF_UNIX)) as unix:
        unix.bind(str(tmp_path / "socket"))
        unix.listen(8)
        monkeypatch.setattr(backlog.socket, "socket", refuse)
        assert queue(unix) == (0, 0)


def test_a_queue_that_is_nearly_full_is_told_once_a_minute(
    listener: socket.socket, log: ErrorLog, tmp_path: Path
) -> None:
    watch, told = Backlog(log), tmp_path / "error.log"
    clients = [socket.create_connection(listener.getsockname()) for _ in range(5)]
    watch.look([listener], 0.0)
    assert told.read_text() == ""
    clients.append(socket.create_connection(listener.getsockname()))
    for now in (1.0, 2.0, REMINDER):
        watch.look([listener], now)
    assert told.read_text().count("[W] 6 connections wait to be accepted, of 8 that may (backlog)") == 1
    watch.look([listener], REMINDER + 1.0)
    assert told.read_text().count("wait to be accepted") == 2
    for client in clients:
        client.close()


@pytest.mark.parametrize(
    ("text", "expected"), [("128\n", "net.core.somaxconn is 128: it cuts backlog = 2048"), ("4096\n", ""), ("?", "")]
)
def test_a_kernel_that_cuts_the_backlog_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, expected: str
) -> None:
    (tmp_path / "somaxconn").write_text(text)
    monkeypatch.setattr(backlog, "BOUND", str(tmp_path / "somaxconn"))
    assert note(2048) == expected


def test_where_the_bound_is_not_told_nothing_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(backlog, "BOUND", str(tmp_path / "none"))
    assert note(2048) == ""
