"""What Python does not have of Linux: inotify(7) and statfs(2), that is what changes in directories and whether to
believe it, and a few calls about this very process.

Knows the system calls and their structures. Does not know which directory or file matters.
Contract: events come in the order in which they happened. Where the kernel cannot watch, the caller is told and has to
look by himself.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import struct

_LIBC = ctypes.CDLL(None, use_errno=True)

MODIFY, CLOSE_WRITE, MOVED_FROM, MOVED_TO, CREATE, DELETE = 0x2, 0x8, 0x40, 0x80, 0x100, 0x200
DELETE_SELF, MOVE_SELF, OVERFLOW, IGNORED, IS_DIRECTORY = 0x400, 0x800, 0x4000, 0x8000, 0x40000000
_ONLY_DIRECTORIES = 0x01000000
_MASK = MODIFY | CLOSE_WRITE | MOVED_FROM | MOVED_TO | CREATE | DELETE | DELETE_SELF | MOVE_SELF | _ONLY_DIRECTORIES

MOST_COPIED = 128 << 20
"""Bytes of memory that a fork copies in advance."""
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

_EVENT = struct.Struct("iIII")
_READ = 1 << 16

_DISTANT = {
    0x6969: "NFS",
    0x517B: "SMB",
    0xFE534D42: "SMB",
    0xFF534D42: "CIFS",
    0x01021997: "9p",
    0x65735546: "FUSE",
    0x794C7630: "overlay",
    0x786F4256: "vboxsf",
    0x00C36400: "Ceph",
    0x7C7C6673: "prl_fs",
    0x5346414F: "AFS",
    0x73757245: "Coda",
}
"""Magic numbers (statfs(2)) of file systems whose files others change without a word to this kernel, or beneath it."""


class Inotify:
    """One queue of events, and the directories that fill it. Raises OSError where there is none to be had."""

    def __init__(self) -> None:
        self._descriptor = _checked(_LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC), "inotify")
        self._directories: dict[int, set[str]] = {}
        """Number of a watch -> the directory; one may be known by several names."""
        self._numbers: dict[str, int] = {}

    def fileno(self) -> int:
        return self._descriptor

    def add(self, directory: str) -> None:
        """Watch a directory, once more if it is another one now. Raises OSError."""
        number = _checked(_LIBC.inotify_add_watch(self._descriptor, os.fsencode(directory), _MASK), directory)
        self._directories.get(self._numbers.get(directory, -1), set()).discard(directory)
        self._numbers[directory] = number
        self._directories.setdefault(number, set()).add(directory)

    def read(self) -> list[tuple[str, str, int]]:
        """The events since the last call: directory, name in it ("" for itself), what happened; an overflow has
        neither.
        """
        events: list[tuple[str, str, int]] = []
        while True:
            try:
                data = os.read(self._descriptor, _READ)
            except BlockingIOError:
                return events
            start = 0
            while start < len(data):
                number, mask, _, length = _EVENT.unpack_from(data, start)
                start += _EVENT.size
                name = os.fsdecode(data[start : start + length].rstrip(b"\0"))
                start += length
                if mask & OVERFLOW:
                    events.append(("", "", mask))
                events += ((directory, name, mask) for directory in self._directories.get(number, ()))
                if mask & IGNORED:
                    self._directories.pop(number, None)

    def close(self) -> None:
        os.close(self._descriptor)


def distance(path: str) -> str:
    """The kind of file system where inotify is not to be relied on, "" where it is."""
    told = (ctypes.c_long * 64)()  # more than struct statfs of any machine; its first word is the type
    if _LIBC.statfs(os.fsencode(path), ctypes.byref(told)):
        return ""
    return _DISTANT.get(told[0] & 0xFFFFFFFF, "")


def end_with_parent(parent: int, signum: int) -> None:
    """Let the kernel end this process with `parent`, whatever it is doing then."""
    _LIBC.prctl(1, signum, 0, 0, 0)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(1)


def adopt_orphans() -> None:
    """Let the kernel give this process the descendants whose parents end."""
    _LIBC.prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def copy_memory(until: int) -> None:
    """Let this fork have its own copy, now, of the memory that it shares with its parent: else each page is copied when
    it is first touched, which takes longer than loading a small application. Ends as soon as this descriptor is
    readable, as what is not touched is better not copied then; and never fails: the author's code may have replaced
    what it needs, or hear of it.
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


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
    return result
