"""Which process holds an address: the sockets in the tables of the kernel, and the process that has them open.

Knows /proc/net and /proc/PID/fd (proc(5)). If /proc is not there or hides a process from this user, nobody is named.
"""

from __future__ import annotations

import sys

from poorhttp.errors import InUseError
from poorhttp.stdlib import os, socket
from poorhttp.system import procfs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LISTENING = "0A"
"""State of a socket in /proc/net/tcp (include/net/tcp_states.h)."""

COMMAND_LIMIT = 80
"""Characters of a command line that are shown."""


def in_use(what: str, inodes: Iterable[str], hint: str) -> InUseError:
    """Return the error for an address that other processes have, which it names. inodes: of the sockets there."""
    owners = _owners(set(inodes))
    by = f" by {', '.join(f'pid {pid} ({_command(pid)})' for pid in owners)}" if owners else ""
    others = [each for each in owners if each != os.getppid()]  # the parent of a trial is the server itself
    stop = f", or stop the process that has this one: kill {' '.join(map(str, others))}" if others else ""
    return InUseError(f"{what} is in use{by}", f"{hint}{stop}")


def tcp_inodes(family: int, host: str, port: int, every: Iterable[str]) -> Iterator[str]:
    """Yield the inodes of the sockets that listen on this port and address, or on every address (the hosts `every`)."""
    packed = socket.inet_pton(family, host.partition("%")[0])
    words = (int.from_bytes(packed[start : start + 4], sys.byteorder) for start in range(0, len(packed), 4))
    wanted = {"".join(f"{word:08X}" for word in words), "0" * 8, "0" * 32}
    for table in "/proc/net/tcp", "/proc/net/tcp6":
        for fields in _rows(table):
            local, _, number = fields[1].partition(":")
            if fields[3] == LISTENING and int(number, 16) == port and (local in wanted or host in every):
                yield fields[9]


def unix_inodes(path: str) -> Iterator[str]:
    """Yield the inodes of the unix sockets of this path."""
    return (fields[6] for fields in _rows("/proc/net/unix") if fields[7:] == [path])


def socket_inodes(pid: int) -> set[str]:
    """Return the inodes of the sockets of a process; none if it is gone or may not be looked at."""
    found = set()
    try:
        for descriptor in os.listdir(f"/proc/{pid}/fd"):
            target = os.readlink(f"/proc/{pid}/fd/{descriptor}")
            if target.startswith("socket:["):
                found.add(target[len("socket:[") : -1])
    except OSError:
        pass
    return found


def _owners(inodes: set[str]) -> list[int]:
    """Return the processes that have these sockets, without those whose parent has them: they end with the parent."""
    owners = [pid for pid in sorted(procfs.numbers()) if inodes & socket_inodes(pid)] if inodes else []
    return [pid for pid in owners if _parent(pid) not in owners]


def _parent(pid: int) -> int:
    """Return the parent of a process; 0 if the process is gone."""
    return int((procfs.stat(pid) or [b"", b"0"])[1])


def _rows(table: str) -> list[list[str]]:
    """Return the fields of each row of a table of the kernel, without its head; none if it is not there."""
    try:
        with open(table, encoding="utf-8", errors="surrogateescape") as lines:
            return [line.split() for line in lines.readlines()[1:]]
    except OSError:
        return []


def _command(pid: int) -> str:
    """Return the program of a process, without its directory, and its first arguments; "" if it is gone."""
    program, *arguments = procfs.read(pid, "cmdline").decode("utf-8", "replace").rstrip("\0").split("\0")
    if program.startswith("/"):
        program = os.path.basename(program)
    text = " ".join([program, *arguments]) or procfs.read(pid, "comm").decode("utf-8", "replace").strip()
    return text if len(text) <= COMMAND_LIMIT else f"{text[: COMMAND_LIMIT - 3]}..."
