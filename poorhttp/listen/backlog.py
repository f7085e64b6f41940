"""The queues of connections that wait to be accepted: how long they are, and how long they can be.

Knows how Linux tells it: of a TCP socket by an option, of a unix socket by netlink (sock_diag(7)), as to `ss`, unless a
sandbox keeps that away. Does not know who accepts.
Contract: looked at only while nobody can accept; a queue that is nearly full is told once a minute at most.
"""

from __future__ import annotations

from sys import byteorder

from poorhttp.stdlib import os, socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from poorhttp.logs.log import ErrorLog

NEARLY = 0.75
"""The share of the bound from which on a queue is told."""

REMINDER = 60.0
"""Seconds between two lines about it."""

UNACKED, SACKED = 24, 28
"""Where struct tcp_info (linux/tcp.h) has the length and the bound of the queue of a socket that listens: 32 bits."""

NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST = 4, 20, 1
HEADERS = 16 + 16
"""Bytes of struct nlmsghdr and struct unix_diag_msg (linux/unix_diag.h), before the attributes of an answer."""

ANY = 0xFFFFFFFF
"""Of all states; and in place of a cookie, which would tell a socket from a later one of the same number."""

UDIAG_SHOW_RQLEN, UNIX_DIAG_RQLEN = 0x10, 4
"""How the two lengths are asked for, and the attribute in which they come."""

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
            return _unix_queue(os.fstat(sock.fileno()).st_ino)
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, SACKED + 4)
    except OSError:
        return 0, 0  # it was closed meanwhile, or netlink is not for this process
    return _number(info[UNACKED:SACKED]), _number(info[SACKED:])


def _unix_queue(inode: int) -> tuple[int, int]:
    """The same of the unix socket of this number. Raises OSError."""
    header = (4, 16 + 24), (2, SOCK_DIAG_BY_FAMILY), (2, NLM_F_REQUEST), (4, 0), (4, 0)
    of = (1, socket.AF_UNIX), (1, 0), (2, 0), (4, ANY), (4, inode), (4, UDIAG_SHOW_RQLEN), (4, ANY), (4, ANY)
    question = b"".join(number.to_bytes(size, byteorder) for size, number in header + of)
    asking = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG)
    try:
        asking.setblocking(False)  # the answer is there when the question was sent
        asking.send(question)
        answer = asking.recv(4096)
    finally:
        asking.close()
    if _number(answer[4:6]) != SOCK_DIAG_BY_FAMILY:
        return 0, 0  # an error: there is no such socket here
    attributes = answer[HEADERS : _number(answer[:4])]
    while len(attributes) >= 4:
        size, kind = _number(attributes[:2]), _number(attributes[2:4])
        if kind == UNIX_DIAG_RQLEN:
            return _number(attributes[4:8]), _number(attributes[8:12])
        attributes = attributes[max(size + 3 & ~3, 4) :]
    return 0, 0


def _number(data: bytes) -> int:
    return int.from_bytes(data, byteorder)


def note(backlog: int) -> str:
    """What to tell at the start of a backlog that the kernel cuts, "" where it does not."""
    try:
        with open(BOUND, encoding="ascii") as file:
            bound = int(file.read())
    except (OSError, ValueError):
        return ""
    return f"net.core.somaxconn is {bound}: it cuts backlog = {backlog}" if bound < backlog else ""
