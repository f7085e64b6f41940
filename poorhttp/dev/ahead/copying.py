"""The memory of a fork that waits for the next save: copied before it is needed, as far as there is room for it.

Knows what a process shares with its parent, and what is free on the machine. Does not know when a save comes.
Contract: it gives way to whatever else is to be done, and never fails, although the author's code may have replaced
what it needs, or hear of it.
"""

from __future__ import annotations

import contextlib
import ctypes

from poorhttp.stdlib import select

_LIBC = ctypes.CDLL(None)

MOST_COPIED = 128 << 20
"""Bytes that a fork copies in advance."""
PARTS = 4
"""It takes one of so many of the memory that is free, as several do so at the same time."""
MACHINE = "/proc/meminfo"
CONTAINER = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)
_AT_ONCE = 1 << 20
"""Bytes of it between two looks whether there is something better to do."""
_MADV_POPULATE_WRITE = 23  # since Linux 5.14; elsewhere it fails, and nothing is copied


def copy_memory(until: int) -> None:
    """Let this fork have its own copy, now, of the memory that it shares with its parent: else each page is copied when
    it is first touched, which takes longer than loading a small application. Ends as soon as this descriptor is
    readable, as what is not touched is better not copied then.
    """
    begin = size = 0
    rights = b""
    with contextlib.suppress(Exception), open("/proc/self/smaps", "rb") as maps:
        left = min(MOST_COPIED, _free_memory() // PARTS)
        poll = select.poll()
        poll.register(until, select.POLLIN)
        for line in maps:
            first, *rest = line.split()
            if not first.endswith(b":"):
                begin, end = (int(each, 16) for each in first.split(b"-"))
                size, rights = end - begin, rest[0]
            # What is mostly not there, as a stack is, would only become larger.
            elif first == b"Rss:" and rights == b"rw-p" and 1024 * int(rest[0]) > size / 2 and size <= left:
                left -= size
                for place in range(begin, begin + size, _AT_ONCE):
                    if poll.poll(0):
                        return
                    length = ctypes.c_size_t(min(_AT_ONCE, begin + size - place))
                    _LIBC.madvise(ctypes.c_void_p(place), length, _MADV_POPULATE_WRITE)


def _free_memory() -> int:
    """Bytes that the machine has left, or the container if that has less. Raises OSError and others."""
    with open(MACHINE, "rb") as file:
        free = min(1024 * int(line.split()[1]) for line in file if line.startswith(b"MemAvailable:"))
    for names in CONTAINER:
        with contextlib.suppress(OSError, ValueError):  # there is none, or it has no limit
            most, taken = (int(_text(name)) for name in names)
            free = min(free, most - taken)
    return free


def _text(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.read()
