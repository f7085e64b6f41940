"""Says the bytes of a case to a server over a socket, in pieces, and reads all that it answers.

The client keeps its side open until the answers that are due are there, or until the server was silent for `patience`:
what is wrong must be refused without waiting for more. Then it half-closes, and the server has to finish.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import itertools
import json
import random
import re
import socket
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from conformance.case import Case

HANG = 2.0  # seconds after the half-close in which a server must answer or close
LINGER = 0.3  # seconds for it to say more than was due
SINGLE = 5000  # bytes sent one by one; of longer cases the rest comes at once
PAUSE = 0.002  # seconds between two parts, for the server to read the first by itself
PAUSES = 0.01  # seconds at most between all parts of a case together
PIECES = 10  # the longest of the random pieces is this part of a case


@dataclass(frozen=True)
class Answer:
    status: int
    seen: dict[str, Any] | None = None  # what apps/echo.py saw
    closes: bool = False


@dataclass(frozen=True)
class Exchange:
    answers: tuple[Answer, ...]
    closed: bool  # by the server
    late: bool = False  # nothing that was due came before the half-close
    seconds: float = 0.0  # from the last byte sent to the last answer, or to the close where there is none


def ways(case: Case, cuts: int) -> Iterator[tuple[str, list[bytes]]]:
    """How the bytes are cut: whole, byte by byte, and in two at `cuts` places, random but always the same.

    The cases of gunicorn are cut in the other three ways of its own runner besides: in lines, in random pieces, and
    behind the first byte.
    """
    raw, dice = case.raw, random.Random(case.name)
    yield "whole", [raw]
    yield "byte by byte", [*(raw[i : i + 1] for i in range(len(raw[:SINGLE]))), raw[SINGLE:]]
    places = range(1, len(raw))
    for place in dice.sample(places, min(cuts, len(places))):
        yield f"cut at {place}", [raw[:place], raw[place:]]
    if case.suite == "gunicorn":
        yield "in lines", [line for line in re.split(rb"(?<=\r\n)", raw) if line]
        yield "in random pieces", list(random_pieces(raw, dice))
        yield "the first byte, the rest", [raw[:1], raw[1:]]


def random_pieces(raw: bytes, dice: random.Random) -> Iterator[bytes]:
    place = 0
    while place < len(raw):
        size = dice.randint(1, max(len(raw) // PIECES, 1))
        yield raw[place : place + size]
        place += size


def exchange(port: int, pieces: Sequence[bytes], case: Case, patience: float) -> Exchange:
    """One connection. Raises OSError only where none is to be had."""
    due = len(case.requests) + (case.end in ("refused", "either"))
    methods = [request.method if request else "GET" for request in case.requests]
    methods.append(case.raw.partition(b" ")[0].decode("latin-1") if not methods else "GET")
    with socket.create_connection(("127.0.0.1", port), timeout=HANG) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(OSError):  # it may have refused and closed before the end
            send(sock, pieces)
        sent = time.monotonic()
        data, last, closed, late, half = b"", sent, False, False, False
        deadline = sent + (patience if due else 0)
        while not closed:
            sock.settimeout(max(deadline - time.monotonic(), 0.0001))
            try:
                block = sock.recv(262_144)
            except TimeoutError:
                if half:
                    break
                late, half = bool(due), True
                deadline = time.monotonic() + HANG
                shut(sock)
                continue
            except OSError:  # a reset is a close
                block = b""
            closed = not block
            if block or not data:
                data, last = data + block, time.monotonic()
            if len(parse(data, methods, closed)) >= due and not half:
                half, deadline = True, time.monotonic() + LINGER
                shut(sock)
    return Exchange(tuple(parse(data, methods, closed)), closed, late, max(last - sent, 0.0))


def send(sock: socket.socket, pieces: Sequence[bytes]) -> None:
    pause = min(PAUSE, PAUSES / len(pieces))
    for number, piece in enumerate(pieces):
        if number and len(piece) > 1:
            time.sleep(pause)
        sock.sendall(piece)


def shut(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it has gone
        sock.shutdown(socket.SHUT_WR)


class Stream(io.BytesIO):
    """Answers one behind the other, where `http.client` would close after each."""

    def makefile(self, *_: object) -> Stream:
        return self

    def close(self) -> None:
        pass


def parse(data: bytes, methods: Iterable[str], closed: bool) -> list[Answer]:
    """The answers that are complete; bytes that are none are an answer with the status 0."""
    stream, answers = Stream(data), []
    for method in itertools.chain(methods, itertools.repeat("GET")):
        if stream.tell() == len(data):
            break
        response = http.client.HTTPResponse(stream, method=method)  # type: ignore[arg-type]
        try:
            response.begin()
            framed = response.length is not None or response.chunked
            body = response.read()
        except (http.client.HTTPException, ValueError):
            if closed:
                answers.append(Answer(0))
            break
        if not framed and not closed:
            break
        if method == "HEAD" and response.status >= 400 and not data[stream.tell() :].startswith(b"HTTP/"):
            stream.seek(len(data))  # a refusal whose server does not know yet that a HEAD gets no content
        closes = "close" in (response.getheader("Connection") or "").lower() or not framed
        answers.append(Answer(response.status, loaded(body), closes))
    return answers


def loaded(body: bytes) -> dict[str, Any] | None:
    """What the application saw; None where it was not the application that answered."""
    try:
        seen = json.loads(body)
    except ValueError:
        return None
    return seen if isinstance(seen, dict) else None
