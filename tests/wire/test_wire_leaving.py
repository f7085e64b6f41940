"""Clients that leave: a reset and a half-close at every point of a request, a thousand times each over both shapes.

Knows the points, descriptors and memory from outside; knows no phase of the server. Contract: nothing that was begun is
left over: the same processes serve on, every iterable was closed once, descriptors and memory are where they were.
"""

from __future__ import annotations

import contextlib
import socket
from itertools import pairwise
from typing import Any, NamedTuple

import psutil
import pytest

SHAPES = [(1, 4), (2, 1)]
CROWD = 50  # clients at once
ROUNDS = 1000 // len(SHAPES) // CROWD  # of each point in each shape
WARM_UP = 2  # of them, after which memory is at its base
MEBIBYTE = 1024 * 1024

APP = """
import os
from gate import HERE

def count(what):
    # Appending one byte is atomic, whichever process does it.
    with open(os.path.join(HERE, "count." + what), "ab", buffering=0) as file:
        file.write(b"x")

class Blocks:
    def __init__(self, blocks):
        self.blocks = iter(blocks)
        count("begun")

    def __iter__(self):
        return self.blocks

    def close(self):
        count("closed")

class File:
    def __init__(self):
        self.file = open(os.path.join(HERE, "content"), "rb")
        self.read = self.file.read
        count("begun")

    def close(self):
        self.file.close()
        count("closed")

def application(environ, start_response):
    kind, _, size = environ["PATH_INFO"].strip("/").partition("/")
    blocks = int(size or 1)
    environ["wsgi.input"].read(10)
    if kind == "kernel":
        start_response("200 OK", [("Content-Length", str(blocks * 65536))])
        return environ["wsgi.file_wrapper"](open(os.path.join(HERE, "content"), "rb"))
    if kind == "file":
        start_response("200 OK", [("Content-Length", str(blocks * 65536))])
        return environ["wsgi.file_wrapper"](File())
    write = start_response("200 OK", [("Content-Type", "text/plain")])
    if kind == "write":
        for _ in range(blocks):
            write(b"w" * 65536)
        return Blocks([])
    return Blocks(b"x" * 65536 for _ in range(blocks))
"""


class Point(NamedTuple):
    """sent: what the client says before it leaves. first: bytes of answer that it waits for before it does.

    answers: whole answers that a half-close must still get. A last request that is not whole gets none, or a refusal.
    """

    sent: bytes
    first: int = 0
    answers: int = 0


def get(target: str) -> bytes:
    return f"GET {target} HTTP/1.1\r\nHost: a\r\n\r\n".encode()


POST = b"POST /size/1 HTTP/1.1\r\nHost: a\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
POINTS = {
    "before": Point(b""),
    "empty-line": Point(b"\r\n"),
    "method": Point(b"GE"),
    "target": Point(b"GET /si"),
    "line": Point(b"GET / HTTP/1.1\r\n"),
    "field": Point(b"GET / HTTP/1.1\r\nHost: exa"),
    "end-of-head": Point(b"GET / HTTP/1.1\r\nHost: a\r\n\r"),
    "between": Point(POST + b"Content-Length: 10\r\n\r\n"),
    "continue": Point(POST + b"Content-Length: 10\r\nExpect: 100-continue\r\n\r\n", first=12),
    "body": Point(POST + b"Content-Length: 10\r\n\r\n12345"),
    "spooled": Point(POST + b"Content-Length: 9000\r\n\r\n" + b"x" * 6000),
    "chunk-size": Point(CHUNKED + b"5"),
    "chunk-extension": Point(CHUNKED + b"5;a"),
    "chunk-data": Point(CHUNKED + b"5\r\nab"),
    "last-chunk": Point(CHUNKED + b"5\r\nhello\r\n0\r\n"),
    "trailer": Point(CHUNKED + b"0\r\nX-A: b"),
    "refused": Point(b"BAD LINE\r\n"),
    "refused-and-more": Point(b"BAD LINE\r\n" + b"x" * 5000, first=12),
    "called": Point(get("/size/1"), answers=1),
    "uploaded": Point(POST + b"Content-Length: 6000\r\n\r\n" + b"x" * 6000, answers=1),
    "answer": Point(get("/size/SIZE"), first=1, answers=1),
    "written": Point(get("/write/SIZE"), first=1, answers=1),
    "file": Point(get("/file/SIZE"), first=1, answers=1),
    "kernel": Point(get("/kernel/SIZE"), first=1, answers=1),
    "pipelined": Point(get("/size/1") * 8, first=1, answers=8),
    "pipelined-part": Point(get("/size/1") * 2 + b"GET /si", first=1, answers=2),
    "pipelined-refused": Point(get("/size/1") + b"BAD LINE\r\n", first=1, answers=1),
    "pipelined-body": Point(get("/size/1") + POST + b"Content-Length: 10\r\n\r\n123", first=1, answers=1),
    "answered": Point(get("/size/1"), first=65536, answers=1),
}
REFUSALS = (b"HTTP/1.1 400 ", b"HTTP/1.1 408 ")


@pytest.fixture(params=SHAPES, ids=lambda shape: f"{shape[0]}x{shape[1]}")
def server(request: pytest.FixtureRequest, serve: Any) -> Any:
    # The spool begins at 4096 bytes, so that points in a body hold a file, too.
    running = serve(APP, request.param, body_memory="4096")
    (running.directory / "content").write_bytes(bytes(100 * 65536))
    return running


def count(server: Any, what: str) -> int:
    path = server.directory / f"count.{what}"
    return path.stat().st_size if path.exists() else 0


def sent(point: Point, size: int) -> bytes:
    return point.sent.replace(b"SIZE", b"%d" % size)


def reset(server: Any, point: Point, times: int) -> None:
    """A crowd that says its piece and leaves with RST; where an answer is awaited first, one after the other."""
    # A body of six megabytes fits into no socket, so the answer is under way when the client leaves.
    said = sent(point, 100)
    if point.first:
        for _ in range(times):
            client = server.connect(receive_buffer=8192)
            client.send(said)
            client.sock.recv(min(point.first, 4096), socket.MSG_WAITALL)
            client.reset()
    else:
        clients = [server.connect().send(said) for _ in range(times)]
        for client in clients:
            client.reset()
    server.clients.clear()


def half_close(server: Any, point: Point, times: int) -> None:
    """A crowd that says its piece, then that it sends no more, and reads what it gets to the end."""
    said = sent(point, 2)
    clients = [server.connect().send(said) for _ in range(times)]
    for client in clients:
        with contextlib.suppress(OSError):  # a refused client may be gone already
            client.half_close()
    for client in clients:
        for _ in range(point.answers):
            answer = client.response()
            assert (answer.status, answer.complete) == (200, True)
            assert len(answer.body) in (65536, 2 * 65536)
        rest = client.rest().removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n")
        assert rest == b"" or rest.startswith(REFUSALS), rest[:200]
        assert rest.count(b"HTTP/1.1 ") <= 1
        client.close()
    server.clients.clear()


def descriptors(server: Any, until: Any) -> int:
    """How many there are once it stays so."""
    seen: list[int] = []

    def is_quiet() -> bool:
        seen.append(server.descriptors())
        return len(seen) > 20 and len(set(seen[-20:])) == 1

    until(is_quiet, "descriptors to settle")
    return seen[-1]


def memory(server: Any) -> int:
    return sum(int(psutil.Process(pid).memory_info().rss) for pid in server.pids())


def rounds(server: Any, leave: Any, points: list[str], times: int) -> None:
    for name in points * times:
        leave(server, POINTS[name], CROWD)


@pytest.mark.parametrize("leave", [reset, half_close])
def test_leaving_at_every_point_costs_nothing(server: Any, until: Any, leave: Any) -> None:
    base, pids = descriptors(server, until), server.pids()
    processes, threads = server.shape
    # What write() may have ahead of the client, a megabyte for each thread, stays in the heap: it is weighed by itself.
    quiet = [name for name in POINTS if name != "written"]
    rounds(server, leave, quiet, WARM_UP)
    weights = [memory(server)]
    for _ in range(10):
        rounds(server, leave, quiet, 1)
        until(lambda: server.descriptors() <= base, "the last of them to be gone")
        weights.append(memory(server))
    # The allocator keeps what the most at once took, by leaps; what is lost is lost in each part.
    growth = [after - before for before, after in pairwise(weights)]
    assert min(growth) < processes * MEBIBYTE / 2, "memory returns to its base"
    rounds(server, leave, ["written"], ROUNDS)
    assert memory(server) - weights[-1] < processes * (1 + threads) * 4 * MEBIBYTE, "it is bounded"
    assert server.get("/size/1").body == b"x" * 65536
    assert server.pids() == pids, "the same processes"
    until(lambda: server.descriptors() <= base, "descriptors to return to their base")
    until(lambda: count(server, "closed") == count(server, "begun"), "every iterable to be closed, once")
