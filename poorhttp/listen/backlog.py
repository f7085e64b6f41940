"""The listen queues: how many connections wait to be accepted, and how many may wait.

Knows where Linux shows it: for a TCP socket an option, for a unix socket netlink (sock_diag(7)), which a sandbox may
forbid. Does not know which process accepts.
"""

from __future__ import annotations

from sys import byteorder

from poorhttp.stdlib import os, socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from poorhttp.logs.log import ErrorLog

NEARLY = 0.75
"""The share of its limit from which on a queue is logged."""

REMINDER = 60.0
"""Seconds between two lines in the log."""

UNACKED, SACKED = 24, 28
"""Offsets in struct tcp_info (linux/tcp.h) of length and limit of the queue of a listening socket: 32 bits each."""

NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST = 4, 20, 1
HEADERS = 16 + 16
"""Bytes of struct nlmsghdr and struct unix_diag_msg, before the attributes of an answer."""

ANY = 0xFFFFFFFF
"""All states; and any cookie, which would tell a socket from a later one with the same inode."""

UDIAG_SHOW_RQLEN, UNIX_DIAG_RQLEN = 0x10, 4
"""The flag that asks for the two lengths, and the attribute that has them."""

BOUND = "/proc/sys/net/core/somaxconn"


class Backlog:
    """Logs that a queue is nearly full."""

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
                    f"{waiting} connections wait to be accepted; at {bound} (backlog) the kernel takes no more",
                )


def queue(sock: socket.socket) -> tuple[int, int]:
    """Return how many connections wait at a listening socket, and how many may; 0, 0 if that is not known."""
    try:
        if sock.family == socket.AF_UNIX:
            return _unix_queue(os.fstat(sock.fileno()).st_ino)
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, SACKED + 4)
    except OSError:
        return 0, 0  # the socket was closed meanwhile, or this process may not use netlink
    return _number(info[UNACKED:SACKED]), _number(info[SACKED:])


def _unix_queue(inode: int) -> tuple[int, int]:
    """Return both numbers for the unix socket with this inode. Raises OSError."""
    header = (4, 16 + 24), (2, SOCK_DIAG_BY_FAMILY), (2, NLM_F_REQUEST), (4, 0), (4, 0)
    of = (1, socket.AF_UNIX), (1, 0), (2, 0), (4, ANY), (4, inode), (4, UDIAG_SHOW_RQLEN), (4, ANY), (4, ANY)
    question = b"".join(number.to_bytes(size, byteorder) for size, number in header + of)
    asking = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG)
    try:
        asking.setblocking(False)  # the answer is there as soon as the question is sent
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
    """Return the note about a backlog that the kernel cuts; "" if it does not."""
    try:
        with open(BOUND, encoding="ascii") as file:
            bound = int(file.read())
    except (OSError, ValueError):
        return ""
    return f"backlog = {backlog} is cut to {bound} by the kernel; raise net.core.somaxconn" if bound < backlog else ""
