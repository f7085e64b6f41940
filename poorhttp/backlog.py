"""The queues of connections that wait to be accepted: how long they are, and how long they can be.

Knows what Linux tells of a listening TCP socket; of a unix socket it tells nothing. Does not know who accepts.
Contract: looked at only while nobody can accept; a queue that is nearly full is told once a minute at most.
"""

from __future__ import annotations

from poorhttp.lean import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from poorhttp.log import ErrorLog

NEARLY = 0.75
"""The share of the bound from which on a queue is told."""

REMINDER = 60.0
"""Seconds between two lines about it."""

UNACKED, SACKED = 24, 28
"""Where struct tcp_info (linux/tcp.h) has the length and the bound of the queue of a socket that listens: 32 bits."""

BOUND = "/proc/sys/net/core/somaxconn"


class Backlog:
    """Says when a queue is nearly full."""

    def __init__(self, error_log: ErrorLog) -> None:
        self._error_log = error_log
        self._told = float("-inf")

    def look(self, socks: Iterable[socket.socket], now: float) -> None:
        """Look at these listening sockets; now: seconds of any steady clock."""
        for sock in socks:
            if now < self._told + REMINDER:
                return
            waiting, bound = queue(sock)
            if bound and waiting >= NEARLY * bound:
                self._told = now
                self._error_log.write(
                    "W",
                    f"{waiting} connections wait to be accepted, of {bound} that may (backlog); then none is taken in",
                )


def queue(sock: socket.socket) -> tuple[int, int]:
    """How many connections wait at a listening socket, and how many may; 0, 0 where that is not known."""
    try:
        if sock.family == socket.AF_UNIX:
            return 0, 0
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, SACKED + 4)
    except OSError:
        return 0, 0  # it was closed meanwhile
    from sys import byteorder

    return int.from_bytes(info[UNACKED:SACKED], byteorder), int.from_bytes(info[SACKED:], byteorder)


def note(backlog: int) -> str:
    """What to tell at the start of a backlog that the kernel cuts, "" where it does not."""
    try:
        with open(BOUND, encoding="ascii") as file:
            bound = int(file.read())
    except (OSError, ValueError):
        return ""
    return f"net.core.somaxconn is {bound}: it cuts backlog = {backlog}" if bound < backlog else ""
