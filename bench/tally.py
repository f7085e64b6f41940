"""A load that counts for each client: so many connections, each asking again as soon as it has its answer.

wrk tells nothing of single connections. Some clients may ask for `/long` instead, and are counted apart. One thread
with epoll; a request takes some 30 µs of Python, so this is a load for servers that answer a few thousand a second.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Sequence
from contextlib import ExitStack
from selectors import EVENT_READ, DefaultSelector

from bench.client import PATIENCE, Failure, compare, connect, request
from bench.report import percentile
from bench.workloads import Workload

HEAD = re.compile(rb"HTTP/1\.1 200 .*\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE | re.DOTALL)
CLOSES = re.compile(rb"\r\nconnection: *close\r\n", re.IGNORECASE)


class Client:
    """Asks one request at a time, on a kept connection, or on a new one where the last answer announced its close."""

    def __init__(self, port: int, ready: DefaultSelector, asks: bytes, answer: bytes) -> None:
        self.port, self.ready, self.asks, self.answer = port, ready, asks, answer
        self.times: list[float] = []  # seconds, of each request that was answered
        self.sock: socket.socket | None = None

    def ask(self) -> None:
        self.asked, self.data = time.perf_counter(), b""
        if self.sock is None:
            self.sock = connect(self.port)
            self.ready.register(self.sock, EVENT_READ, self)
        self.sock.sendall(self.asks)

    def read(self) -> bool:
        """Take what has come; true when the answer is whole. Raises Failure where it is not the right one."""
        assert self.sock
        part = self.sock.recv(1 << 16)
        self.data += part
        if not is_whole(self.data):
            if not part:
                raise Failure(f"closed after {len(self.data)} bytes of an answer")
            return False
        self.times.append(time.perf_counter() - self.asked)
        head, _, body = self.data.partition(b"\r\n\r\n")
        if body != self.answer:
            compare(body, self.answer)
        if CLOSES.search(head + b"\r\n"):
            self.close()
        return True

    def close(self) -> None:
        if self.sock:
            self.ready.unregister(self.sock)
            self.sock.close()
            self.sock = None


def run(port: int, workload: Workload, answer: bytes, seconds: float) -> dict[str, float]:
    """Load for `seconds`, then wait for the answers that are due: a request that waits until then has its time too."""
    with ExitStack() as stack:
        ready = stack.enter_context(DefaultSelector())
        paths = [""] * workload.connections + ["/long"] * workload.long
        clients = [Client(port, ready, request(workload, path), answer) for path in paths]
        for client in clients:
            stack.callback(client.close)
        try:
            counts = _load(clients, ready, seconds)
        except OSError as error:
            raise Failure(f"a client's connection: {error}") from error
    short = clients[: workload.connections]
    times = [taken for client in short for taken in client.times]
    return figures(counts[: len(short)], counts[len(short) :], times, seconds)


def _load(clients: Sequence[Client], ready: DefaultSelector, seconds: float) -> list[int]:
    """Returns how many answers each client got within the time."""
    begin = time.perf_counter()
    for client in clients:
        client.ask()
    while (left := begin + seconds - time.perf_counter()) > 0:
        for key, _ in ready.select(left):
            if key.data.read():
                key.data.ask()
    counts = [len(client.times) for client in clients]
    waiting = {id(client) for client in clients}
    while waiting:
        if not (events := ready.select(PATIENCE)):
            raise Failure(f"{len(waiting)} clients got no answer for {PATIENCE:g} s")
        for key, _ in events:
            if key.data.read():
                waiting.remove(id(key.data))
                key.data.close()
    return counts


def is_whole(data: bytes) -> bool:
    """Whether the bytes hold a whole answer. Raises Failure where its head is not that of 200 with a Content-Length."""
    head, mark, body = data.partition(b"\r\n\r\n")
    if not mark:
        return False
    if not (match := HEAD.match(head + b"\r\n")):
        raise Failure(f"answered {head[:80]!r}, not 200 with a Content-Length")
    return len(body) >= int(match[1])


def figures(counts: Sequence[int], long: Sequence[int], times: Sequence[float], seconds: float) -> dict[str, float]:
    """`least` is what the client that was served least got, in percent of what clients got on the average.

    counts: answers of each client that is judged, within `seconds`; long: of each other one; times: seconds that the
    judged requests took. `p50`, `p99` and `p99.9` are milliseconds.
    """
    total = sum(counts)
    if not total:
        raise Failure("no client got an answer within the time")
    result = {"requests": total, "rate": total / seconds, "least": 100 * min(counts) * len(counts) / total}
    if long:
        result["long"] = sum(long) / seconds
    return result | {f"p{percent:g}": percentile(times, percent) * 1e3 for percent in (50, 99, 99.9)}
