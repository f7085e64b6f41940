"""Clients that ask until they are told to stop, check each answer, and keep account of what went wrong.

Each client is a thread: it asks, waits for the answer, asks again; some keep their connection, some open a new one for
each request. A request that fails is tried once more, on a new connection, at once or after a pause. An answer is right
if it is whole, has status 200 and repeats the question, which no other request has. Knows no server; times are those of
`time.monotonic`.
"""

from __future__ import annotations

import gc
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

from bench.client import connect, read_response

PATIENCE = 20.0  # seconds until an answer that does not come has failed
PAUSE = 0.1  # seconds that a client waits after a retry that failed too, so that it does not storm
KINDS = ("refused", "reset", "silent", "5xx", "wrong")


class Answer(NamedTuple):
    sent: float
    read: float
    process: int
    loaded: float  # when the code was loaded that gave it


class Fault(NamedTuple):
    sent: float
    failed: float
    kind: str  # of KINDS
    is_retry: bool
    kept_since: float | None  # when the last request was sent that the connection answered; None for a new one


class Clients:
    """`keeping` clients with kept connections and `opening` ones with new ones, asking while the block runs.

    milliseconds: how long the application is to take for each. until_refused: a client that is refused asks no more,
    and the last gap is that before the last answer. before_again: called before a request is tried once more. enter:
    called by each client's thread before it asks. body: bytes that each request posts; 0 is a GET.
    """

    def __init__(
        self,
        port: int,
        keeping: int,
        opening: int,
        milliseconds: int = 0,
        *,
        until_refused: bool = False,
        before_again: Callable[[], object] = bool,
        enter: Callable[[], object] = bool,
        body: int = 0,
    ) -> None:
        self.over = threading.Event()
        self.begin = self.end = time.monotonic()
        self._until_refused = until_refused
        self._clients = [
            _Client(
                port, f"{milliseconds}-{number}", number < keeping, until_refused, before_again, enter, body, self.over
            )
            for number in range(keeping + opening)
        ]

    def __enter__(self) -> Clients:
        gc.disable()  # hundreds of thousands of answers are kept: looking through them stops all clients for 0.3 s
        for client in self._clients:
            client.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        for client in self._clients:
            client.join(PATIENCE + 5)
        self.end = time.monotonic()
        gc.enable()

    def answers(self) -> list[Answer]:
        """In the order in which they were read."""
        return sorted((answer for client in self._clients for answer in client.answers), key=lambda each: each.read)

    def faults(self) -> list[Fault]:
        return [fault for client in self._clients for fault in client.faults]

    def recent(self, seconds: float) -> Iterator[Answer]:
        """The last answer of each client, if it is not older than so many seconds."""
        since = time.monotonic() - seconds
        for client in self._clients:
            if client.answers and client.answers[-1].read > since:
                yield client.answers[-1]

    def numbers(self) -> dict[str, float]:
        """The account: `sent` and what failed count requests, `retried` and `lost` those that were tried twice; `gap`
        is the longest time without a good answer, in milliseconds. Only after the block.
        """
        faults = [fault for fault in self.faults() if not fault.is_retry]
        lost = sum(fault.is_retry for fault in self.faults())
        kinds = Counter(fault.kind for fault in faults)
        read = [answer.read for answer in self.answers()]
        moments = [self.begin, *read] if self._until_refused else [self.begin, *read, self.end]
        return {
            # A retry that succeeds is an answer to a request that was counted as a fault.
            "sent": len(read) + lost + sum(client.unretried for client in self._clients), "failed": len(faults),
            **{kind: kinds[kind] for kind in KINDS}, "retried": sum(client.retried for client in self._clients),
            "lost": lost, "gap": max((b - a for a, b in pairwise(moments)), default=0.0) * 1e3,
        }  # fmt: skip


class _Client(threading.Thread):
    def __init__(
        self,
        port: int,
        name: str,
        keeps: bool,
        until_refused: bool,
        before_again: Callable[[], object],
        enter: Callable[[], object],
        body: int,
        over: threading.Event,
    ) -> None:
        super().__init__(name=name, daemon=True)
        self.answers: list[Answer] = []
        self.faults: list[Fault] = []
        self.retried = self.unretried = 0
        self._port = port
        self._keeps = keeps
        self._until_refused = until_refused
        self._before_again = before_again
        self._enter = enter
        self._body = body
        self._over = over
        self._sock: socket.socket | None = None

    def run(self) -> None:
        self._enter()
        number = 0
        while not self._over.is_set():
            number += 1
            if self._ask(f"{self.name}-{number}", is_retry=False):
                continue
            if self._is_dismissed():
                self.unretried += 1
                break
            self.retried += 1
            self._before_again()
            if not self._ask(f"{self.name}-{number}-again", is_retry=True):
                if self._is_dismissed():
                    break
                self._over.wait(PAUSE)
        self._close()

    def _is_dismissed(self) -> bool:
        return self._until_refused and self.faults[-1].kind == "refused"

    def _ask(self, question: str, is_retry: bool) -> bool:
        sent = time.monotonic()
        kept_since = self.answers[-1].sent if self._sock is not None else None
        try:
            process, loaded = self._answer(question)
        except _Bad as bad:
            self._close()
            self.faults.append(Fault(sent, time.monotonic(), str(bad), is_retry, kept_since))
            return False
        self.answers.append(Answer(sent, time.monotonic(), process, loaded))
        return True

    def _answer(self, question: str) -> tuple[int, float]:
        """The process that answered and when its code was loaded; raises _Bad with one of KINDS."""
        lines = f"{'POST' if self._body else 'GET'} /ask?{question} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        lines += f"Content-Length: {self._body}\r\n" if self._body else ""
        lines += "" if self._keeps else "Connection: close\r\n"
        try:
            if self._sock is None:
                self._sock = connect(self._port)
                self._sock.settimeout(PATIENCE)
            self._sock.sendall(lines.encode() + b"\r\n" + b"x" * self._body)
            with self._sock.makefile("rb") as stream:
                status, fields, body = read_response(stream)
        except TimeoutError:
            raise _Bad("silent") from None
        except ConnectionRefusedError:
            raise _Bad("refused") from None
        except (OSError, EOFError):
            raise _Bad("reset") from None
        except ValueError:
            raise _Bad("wrong") from None
        if not self._keeps or fields.get(b"connection") == b"close" or status.startswith(b"HTTP/1.0"):
            self._close()
        words = body.decode("latin-1").split()
        if status.split()[1:2] != [b"200"]:
            raise _Bad("5xx" if status.split()[1:2] and status.split()[1].startswith(b"5") else "wrong")
        if len(words) != 3 or words[0] != question:
            raise _Bad("wrong")
        return int(words[1]), float(words[2])

    def _close(self) -> None:
        if self._sock is not None:
            self._sock.close()
            self._sock = None


class _Bad(Exception):
    """What kind of fault it was."""
