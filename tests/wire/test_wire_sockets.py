"""Where a server listens: TCP, IPv6, unix sockets, several at once; and what the application is told of it.

Knows --bind; knows sockets.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import stat
import time
from pathlib import Path
from typing import Any

import pytest
from processes import suspend


def have_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as sock:
            sock.bind(("::1", 0))
        return True
    except OSError:
        return False


def test_tcp_names(serve: Any, any_shape: Any) -> None:
    server = serve("echo", any_shape)
    with server.connect() as client:
        environ = client.request("/").json()["environ"]
        host, port = client.sock.getsockname()
    assert (environ["REMOTE_ADDR"], environ["REMOTE_PORT"]) == (host, str(port))
    assert (environ["SERVER_NAME"], environ["SERVER_PORT"]) == (server.address[0], str(server.address[1]))


@pytest.mark.skipif(not have_ipv6(), reason="no IPv6 on this machine")
def test_ipv6(serve: Any, any_shape: Any) -> None:
    server = serve("echo", any_shape, bind="[::1]:0")
    assert server.url.startswith("http://[::1]:")
    with server.connect() as client:
        environ = client.request("/").json()["environ"]
        host, port, *_ = client.sock.getsockname()
    assert (environ["REMOTE_ADDR"], environ["REMOTE_PORT"]) == (host, str(port))
    assert environ["SERVER_NAME"] == "[::1]"
    assert environ["SERVER_PORT"] == str(server.address[1])


def test_unix_socket(serve: Any, any_shape: Any) -> None:
    server = serve("echo", any_shape, bind="unix:DIRECTORY/socket")
    with server.connect() as client:
        for _ in range(3):
            environ = client.request("/x").json()["environ"]
    assert environ["SERVER_NAME"], "never empty"
    assert environ["SERVER_PORT"], "never empty"
    assert isinstance(environ["REMOTE_ADDR"], str)
    assert server.request_lines(3)


def test_unix_socket_is_removed_at_the_end(start: Any) -> None:
    server = start("hello", bind="unix:DIRECTORY/socket")
    path = Path(server.address)
    assert stat.S_ISSOCK(os.stat(path).st_mode)
    assert server.get("/").body == b"hello"
    server.signal(15)
    assert server.wait() == 0
    assert not path.exists()


def test_unix_socket_refusal(serve: Any) -> None:
    server = serve("echo", bind="unix:DIRECTORY/socket")
    with server.connect() as client:
        client.send("BAD LINE\r\n")
        assert client.response().status == 400
        client.half_close()
        client.expect_close()


def test_several_addresses(serve: Any, any_shape: Any) -> None:
    server = serve("echo", any_shape, bind=["127.0.0.1:0", "127.0.0.2:0", "unix:DIRECTORY/socket"])
    for address in found_addresses(server):
        with server.connect(address=address) as client:
            environ = client.request("/x").json()["environ"]
            if not isinstance(address, str):
                assert (environ["SERVER_NAME"], environ["SERVER_PORT"]) == (address[0], str(address[1]))


def found_addresses(server: Any) -> list[Any]:
    import re

    text = server.output()
    tcp = [(host, int(port)) for host, port in re.findall(r"http://([0-9.]+):([0-9]+)/", text)]
    found = [*tcp, *re.findall(r"unix:(/[^\s,]+)", text)]
    assert len(found) == 3, text
    return found


def test_backlog_holds_a_burst(serve: Any, compose: Any) -> None:
    """Hundreds of connections at once are all answered."""
    server = serve("hello")
    clients = [server.connect().send(compose("/", "Connection: close")) for _ in range(500)]
    for client in clients:
        assert client.response().body == b"hello"
        client.close()


def test_clients_that_say_nothing_hold_up_nobody_behind_them(serve: Any, compose: Any) -> None:
    """A worker accepts one client at a time and waits a millisecond for its request, but not while others wait."""
    crowd = 500
    server = serve("hello", type="forking")
    (worker,) = server.pids()

    def waited() -> float:
        with contextlib.ExitStack() as stack:
            suspend(worker)
            for _ in range(crowd):
                stack.enter_context(contextlib.closing(socket.create_connection(server.address)))
            client = stack.enter_context(server.connect()).send(compose("/"))
            began = time.monotonic()
            os.kill(worker, signal.SIGCONT)
            assert client.response().body == b"hello"
            return time.monotonic() - began

    assert min(waited() for _ in range(5)) < crowd * 0.001 / 2
