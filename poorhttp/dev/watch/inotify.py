"""What Python does not have of Linux: inotify(7) and statfs(2), that is what changes in directories and whether to
believe it, and a few calls about this very process.

Knows the system calls and their structures. Does not know which directory or file matters.
Contract: events come in the order in which they happened. Where the kernel cannot watch, the caller is told and has to
look by himself.
"""

from __future__ import annotations

import ctypes
import struct

from poorhttp.stdlib import os

_LIBC = ctypes.CDLL(None, use_errno=True)

MODIFY, CLOSE_WRITE, MOVED_FROM, MOVED_TO, CREATE, DELETE = 0x2, 0x8, 0x40, 0x80, 0x100, 0x200
DELETE_SELF, MOVE_SELF, OVERFLOW, IGNORED, IS_DIRECTORY = 0x400, 0x800, 0x4000, 0x8000, 0x40000000
_ONLY_DIRECTORIES, _IN_ADDITION = 0x01000000, 0x20000000
COMING, GOING = CREATE | MOVED_TO, DELETE_SELF | MOVE_SELF
ALL = MODIFY | CLOSE_WRITE | MOVED_FROM | DELETE | COMING | GOING
KINDS = COMING, DELETE, GOING, ALL
"""What to hear of a directory: what comes into it, what is removed from it, that it goes itself, all that matters."""

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

    def add(self, directory: str, what: int = ALL) -> None:
        """Watch a directory, for this too, once more if it is another one now. Raises OSError."""
        mask = what | _ONLY_DIRECTORIES | _IN_ADDITION
        number = _checked(_LIBC.inotify_add_watch(self._descriptor, os.fsencode(directory), mask), directory)
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


def adopt_orphans() -> None:
    """Let the kernel give this process the descendants whose parents end."""
    _LIBC.prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
    return result
