"""System calls of Linux that Python lacks: inotify(7), statfs(2) and prctl(2).

Knows the calls and their structures. Does not know which directory or file matters.
Contract: events come in the order in which they happened. Where the kernel cannot watch, OSError says so.
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
"""The sets of events that a directory is watched for: names that come, names that are removed, that it goes itself,
all."""

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
"""Magic numbers (statfs(2)) of file systems whose files change without an event: on another machine, or in a layer
below."""


class Inotify:
    """One queue of events, and the directories that are watched. Raises OSError where the kernel gives none."""

    def __init__(self) -> None:
        self._descriptor = _checked(_LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC), "inotify")
        self._directories: dict[int, set[str]] = {}
        """Number of a watch -> names of the directory, which may have several."""
        self._numbers: dict[str, int] = {}

    def fileno(self) -> int:
        return self._descriptor

    def add(self, directory: str, what: int = ALL) -> None:
        """Watch a directory for these events too; anew if another directory has this name now. Raises OSError."""
        mask = what | _ONLY_DIRECTORIES | _IN_ADDITION
        number = _checked(_LIBC.inotify_add_watch(self._descriptor, os.fsencode(directory), mask), directory)
        self._directories.get(self._numbers.get(directory, -1), set()).discard(directory)
        self._numbers[directory] = number
        self._directories.setdefault(number, set()).add(directory)

    def read(self) -> list[tuple[str, str, int]]:
        """The events since the last call: directory, name in it ("" for the directory itself), what happened. An
        overflow has neither directory nor name.
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
    """The kind of file system, where inotify misses changes on it; "" where it does not."""
    status = (ctypes.c_long * 64)()  # more than struct statfs of any machine; its first word is the type
    if _LIBC.statfs(os.fsencode(path), ctypes.byref(status)):
        return ""
    return _DISTANT.get(status[0] & 0xFFFFFFFF, "")


def adopt_orphans() -> None:
    """Become the parent of all descendants whose own parents end."""
    _LIBC.prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
    return result
