"""What a thread is about: one call into the application, read from its cell of the board.

Knows the words of a cell (`src/net/report/board.rs` writes them). Does not know whose cell it
is, nor how a call is shown.
Contract: the bytes are another process's, and what clients sent is in them: nothing is believed that does not fit. It
is for telling alone; nothing is decided by it.
"""

from __future__ import annotations

from sys import byteorder

from poorhttp.status.scoreboard import CELL, ROW, WORD
from poorhttp.stdlib import socket, time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

TEXTS = 12 * WORD
"""Where the texts of a cell begin; each begins with a word of its own."""

CLOCK = getattr(time, "CLOCK_MONOTONIC_COARSE", time.CLOCK_MONOTONIC)
"""That of the engine."""


class Call:
    """A call that goes on, or went on when its process died.

    began: ms of `CLOCK`. client: its address, "" where there is none. method, target, host, request_id: as they were
    sent, each byte as a character; what is too long for the cell is cut. version: of HTTP, as 1.1. is_given_up: its
    client was answered 504, though it did not return.
    """

    __slots__ = ("began", "client", "host", "is_given_up", "method", "request_id", "target", "version")

    def __init__(self, began: int, is_given_up: bool, client: str, version: str, texts: list[str]) -> None:
        self.began = began
        self.is_given_up = is_given_up
        self.client = client
        self.version = version
        line, self.host, self.request_id = texts
        self.method, _, self.target = line.partition(" ")

    def seconds(self) -> float:
        """For how long it has gone on."""
        return max(int(time.clock_gettime(CLOCK) * 1000) - self.began, 0) / 1000

    def about(self) -> str:
        """Which request it is, for the error log."""
        return f"{self.method} {self.target}" + (f" (request id {self.request_id})" if self.request_id else "")

    def path(self) -> str:
        """That of the target, without its query."""
        path = self.target.partition("?")[0]
        if not path.startswith("/"):  # a whole URI (RFC 9112 section 3.2.2)
            path = path.partition("://")[2]
            path = path[len(path.partition("/")[0]) :]
        return path

    def head(self) -> bytes:
        """As much of the request's head as is known."""
        host = f"Host: {self.host}\r\n" if self.host else ""
        return f"{self.method} {self.target} HTTP/{self.version}\r\n{host}\r\n".encode("latin-1")


def of_row(row: bytes) -> Iterator[Call]:
    """The calls of a process that writes nothing any more."""
    for start in range(ROW, len(row), CELL):
        call = of_cell(row[start : start + CELL])
        if call is not None:
            yield call


def of_cell(cell: bytes) -> Call | None:
    """The call of a thread; None where it is in none, or where it is just being written."""
    began, last, sequence, shown, _, given_up, _, _, is_newer, *lengths = numbers(cell[:TEXTS])
    if not last or sequence % 2 or shown != began:
        return None
    texts = []
    start = TEXTS
    for length in lengths:
        texts.append(cell[start : start + length].decode("latin-1"))
        start += (length + WORD - 1) // WORD * WORD
    if start > CELL:
        return None
    return Call(began, given_up == began, _address(cell[6 * WORD : 8 * WORD]), "1.1" if is_newer else "1.0", texts)


def numbers(data: bytes) -> tuple[int, ...]:
    """The words of these bytes."""
    return tuple(int.from_bytes(data[start : start + WORD], byteorder) for start in range(0, len(data), WORD))


def _address(octets: bytes) -> str:
    if not any(octets):
        return ""
    if octets.startswith(b"\0" * 10 + b"\xff\xff"):
        return socket.inet_ntop(socket.AF_INET, octets[12:])
    return socket.inet_ntop(socket.AF_INET6, octets)
