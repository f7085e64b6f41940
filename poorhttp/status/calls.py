"""One call into the application, read from the cell of its thread on the scoreboard.

Knows the words of a cell, which the engine writes. Does not know whose cell it is. Another process wrote these bytes,
and they hold what clients sent: a cell that does not fit is no call, and no decision rests on a call.
"""

from __future__ import annotations

from poorhttp.status.layout import CELL, ROW, WORD, numbers
from poorhttp.stdlib import socket, time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

TEXTS = 12 * WORD
"""The offset of the texts in a cell. Each of them begins at a whole word."""

CLOCK = getattr(time, "CLOCK_MONOTONIC_COARSE", time.CLOCK_MONOTONIC)
"""The clock of the engine."""


class Call:
    """A call that goes on, or went on when its process died. began: ms of `CLOCK`. client: its address, or "". method,
    target, host, request_id: as they were sent, a character for each byte, cut at the end of the cell. version: of
    HTTP, such as 1.1. is_given_up: the client was answered 504, though the call has not returned.
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
        return max(int(time.clock_gettime(CLOCK) * 1000) - self.began, 0) / 1000

    def about(self) -> str:
        """The request, for the error log."""
        return f"{self.method} {self.target}" + (f" (request id {self.request_id})" if self.request_id else "")

    def path(self) -> str:
        """The path of the target, without its query."""
        path = self.target.partition("?")[0]
        if not path.startswith("/"):  # a whole URI (RFC 9112 section 3.2.2)
            path = path.partition("://")[2]
            path = path[len(path.partition("/")[0]) :]
        return path

    def head(self) -> bytes:
        """The head of the request, as much of it as is known."""
        host = f"Host: {self.host}\r\n" if self.host else ""
        return f"{self.method} {self.target} HTTP/{self.version}\r\n{host}\r\n".encode("latin-1")


def of_row(row: bytes) -> Iterator[Call]:
    """The calls in the row of a process that has ended."""
    for start in range(ROW, len(row), CELL):
        call = of_cell(row[start : start + CELL])
        if call is not None:
            yield call


def of_cell(cell: bytes) -> Call | None:
    """The call in a cell; None if its thread is in no call, or is writing the cell."""
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


def _address(octets: bytes) -> str:
    if not any(octets):
        return ""
    if octets.startswith(b"\0" * 10 + b"\xff\xff"):
        return socket.inet_ntop(socket.AF_INET, octets[12:])
    return socket.inet_ntop(socket.AF_INET6, octets)
