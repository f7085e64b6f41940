"""What large bodies, heads and answers take while they are held, and that it is given back.

Knows the sizes that are sent, and the memory of processes from outside. Knows no allocator.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

APP = """
def application(environ, start_response):
    body = environ["wsgi.input"].read()
    start_response("200 OK", [("Content-Type", "text/plain")])
    if environ["PATH_INFO"] == "/page":
        return [b"x" * 1_000_000]
    if environ["PATH_INFO"] == "/stream":
        return (b"x" * 50_000 for _ in range(20))
    return [b"%d" % len(body)]
"""
MIB = 1 << 20
CLIENTS = 150
CHUNK = b"fa0\r\n" + b"x" * 4000 + b"\r\n"
FIELD = "X-Field: " + "y" * 980
REQUESTS = {
    "bodies": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n" + b"x" * 200_000,
    "chunks": b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNK * 50 + b"0\r\n\r\n",
    "heads": ("GET / HTTP/1.1\r\nHost: a\r\n" + f"{FIELD}\r\n" * 60 + "\r\n").encode(),
}


@pytest.fixture(params=[(1, 8)], ids=["1x8"])
def server(serve: Any, request: pytest.FixtureRequest) -> Any:
    return serve(APP, request.param)


BOTH = pytest.mark.parametrize("server", [(1, 1), (1, 8)], ids=["1x1", "1x8"], indirect=True)


@pytest.fixture
def before(server: Any) -> int:
    """The memory of a server that has answered once and nothing else."""
    if server.pid not in SIZES:
        assert server.get("/").status == 200
        SIZES[server.pid] = server.memory()
    return SIZES[server.pid]


SIZES: dict[int, int] = {}


def leave(server: Any, clients: list[Any]) -> None:
    for client in clients:
        client.close()
    server.clients.clear()


def is_given_back(server: Any, before: int) -> Callable[[], bool]:
    return lambda: server.memory() <= before + 8 * MIB


@BOTH
@pytest.mark.parametrize("what", REQUESTS)
def test_what_is_held_is_about_all_that_it_takes_and_is_given_back(
    server: Any, until: Any, before: int, what: str
) -> None:
    request = REQUESTS[what]
    live = CLIENTS * (len(request) - 1)
    sizes = []

    def has_received() -> bool:
        sizes.append(server.memory() - before)
        return sizes[-1] >= 0.9 * live

    for _ in range(3):
        clients = [server.connect() for _ in range(CLIENTS)]
        for at in range(0, len(request) - 1, 16_000):
            for client in clients:
                client.send(request[at : min(at + 16_000, len(request) - 1)])
        until(has_received, "all but the last bytes are held")
        for client in clients:
            client.send(request[-1:])
        for number, client in enumerate(clients):
            if number % 10 == 0:
                sizes.append(server.memory() - before)
            assert client.response().status == 200
        leave(server, clients)
    # Where it is little, what each thread and each connection needs beside it counts.
    assert max(sizes) <= 1.2 * live + 4 * MIB, f"{max(sizes) / MIB:.1f} MiB for {live / MIB:.1f} MiB"
    until(is_given_back(server, before), "the memory is given back")


@BOTH
def test_what_is_announced_and_not_sent_takes_nothing(server: Any, before: int) -> None:
    head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 60000000\r\n\r\n"
    clients = [server.connect() for _ in range(CLIENTS)]
    for part in (head, b"x" * 1000, b"x"):
        for client in clients:
            client.send(part)
        assert server.get("/").status == 200, "those before were read"
    assert server.memory() <= before + 4 * MIB


def page_faults(server: Any) -> int:
    """How often its processes touched pages that they did not have."""
    stats = [Path(f"/proc/{pid}/stat").read_text(encoding="ascii") for pid in server.pids()]
    return sum(int(text.rpartition(")")[2].split()[7]) for text in stats)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators give large blocks back at once")
def test_large_bodies_use_the_pages_of_those_before(server: Any) -> None:
    """A page that the kernel has to zero costs more than what is read into it."""
    body = b"x" * 100_000
    with server.connect() as client:
        for number in range(220):
            if number == 20:
                before = page_faults(server)
            assert client.request("/", method="POST", body=body).status == 200
    assert page_faults(server) - before < 200 * 5


@pytest.mark.parametrize("path", ["/page", "/stream"])
def test_what_waits_for_slow_clients_is_given_back(server: Any, until: Any, before: int, path: str) -> None:
    for is_taken in (False, True):
        clients = [server.connect(receive_buffer=65536) for _ in range(CLIENTS)]
        for client in clients:
            client.send(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")
        until(lambda: server.memory() >= before + 20 * MIB, "answers are held")
        for client in clients:
            if is_taken:
                client.response()
        leave(server, clients)
    until(is_given_back(server, before), "the memory is given back")


@BOTH
def test_what_is_broken_off_is_given_back(server: Any, until: Any, before: int) -> None:
    """Nobody calls the application for it."""
    request = REQUESTS["bodies"][:-1]
    for _ in range(2):
        clients = [server.connect() for _ in range(CLIENTS)]
        for client in clients:
            client.send(request)
        until(lambda: server.memory() >= before + 0.9 * CLIENTS * len(request), "bodies are held")
        leave(server, clients)
    until(is_given_back(server, before), "the memory is given back")
