"""The directories that the kernel watches for changes, also those that do not exist yet; and the system calls for that.

Knows inotify(7), its limits, and the file systems on which it misses changes (statfs(2)). Does not know which files
matter, nor what an event means. Events come in the order in which they happened.
"""

from __future__ import annotations

import ctypes
import errno
import struct

from poorhttp.stdlib import os

_LIBC = ctypes.CDLL(None, use_errno=True)

MODIFY, CLOSE_WRITE, MOVED_FROM, MOVED_TO, CREATE, DELETE = 0x2, 0x8, 0x40, 0x80, 0x100, 0x200
DELETE_SELF, MOVE_SELF, OVERFLOW, IGNORED, IS_DIRECTORY = 0x400, 0x800, 0x4000, 0x8000, 0x40000000
_ONLY_DIRECTORIES, _IN_ADDITION = 0x01000000, 0x20000000
COMING, GOING = CREATE | MOVED_TO, DELETE_SELF | MOVE_SELF
ALL = MODIFY | CLOSE_WRITE | MOVED_FROM | DELETE | COMING | GOING
KINDS = COMING, DELETE, GOING, ALL
"""The sets of events: names that come, names that are removed, that the directory goes itself, all."""

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
"""Magic numbers (statfs(2)) of file systems whose files change without an event."""

_LIMITS = {errno.EMFILE: "max_user_instances=1024", errno.ENOSPC: "max_user_watches=524288"}
"""The limit of the kernel that an error is about, and a value that is enough."""


class Directories:
    """The watched directories, by their names. sweeps: whether changes may go unnoticed, so that the caller has to look
    too; `notes` says why, once. is_new: whether a directory is watched that was not watched before the last look.
    awaited: the directory above -> names in it that do not exist, and are needed to reach a directory that matters.
    """

    def __init__(self) -> None:
        self.sweeps = self.is_new = False
        self.notes: list[str] = []
        self.awaited: dict[str, set[str]] = {}
        self._watched: set[tuple[str, int]] = set()  # directory, and the events that are watched for
        self._above: set[str] = set()  # parents of watched directories: if one goes, it takes the watched one with it
        self._missing: set[str] = set()  # directories that were not found since `begin_to_follow`
        self._inotify: Inotify | None = None
        try:
            self._inotify = Inotify()
        except OSError as error:
            self._give_up(error)

    def fileno(self) -> int:
        """The descriptor that is readable when something has happened; -1 for none."""
        return self._inotify.fileno() if self._inotify else -1

    def events(self) -> list[tuple[str, str, int]]:
        """As `Inotify.read`."""
        events = self._inotify.read() if self._inotify else []
        for directory, _, what in events:
            if what & IGNORED:
                self._watched.difference_update((directory, each) for each in KINDS)
            elif what & MOVE_SELF:
                self.forget(directory)
        return events

    def watch(self, directory: str, what: int = ALL) -> None:
        """Watch this directory for these events. If it does not exist, watch for its coming."""
        if (directory, what) in self._watched or self._inotify is None:
            return
        try:
            self._inotify.add(directory, what)
        except (FileNotFoundError, NotADirectoryError):
            if what not in (GOING, DELETE):
                self._await(directory)
            return
        except OSError as error:
            if what == ALL or error.errno != errno.EACCES:  # a directory above may be closed to this user
                self._give_up(error)
            return
        self._watched.add((directory, what))
        kind = distance(directory) if what == ALL else ""
        if kind and not self.sweeps:
            self.sweeps = True
            self.notes.append(
                f"{directory} is on {kind}, where changes may go unnoticed: looking for them all the time"
            )

    def watch_above(self, directory: str) -> None:
        """Watch whether a directory above this one goes: another one may come in its place."""
        while directory != (above := os.path.dirname(directory)) and above not in self._above:
            directory = above
            self._above.add(directory)
            self.watch(directory, GOING)

    def begin_to_follow(self) -> None:
        """Look again for the directories that did not exist."""
        self._missing.clear()

    def retry(self) -> None:
        """Watch again those above, and the places where missing directories may come."""
        for directory in self._above:
            self.watch(directory, GOING)
        for directory in [*self.awaited]:
            self.watch(directory, COMING)

    def forget(self, directory: str) -> None:
        """Watch this one and those below it anew the next time: other directories may have their names now."""
        inside = os.path.join(directory, "")
        self._watched = {each for each in self._watched if each[0] != directory and not each[0].startswith(inside)}

    def forget_all(self) -> None:
        self._watched.clear()

    def _await(self, directory: str) -> None:
        above, name = os.path.split(directory)
        self.awaited.setdefault(above, set()).add(name)
        self._missing.add(directory)
        if above not in self._missing:
            self.watch(above, COMING)
            self.is_new = self.is_new or os.path.isdir(directory)  # it came meanwhile

    def _give_up(self, error: OSError) -> None:
        if self.sweeps:
            return  # each look tries again, and is not to say so again
        self.sweeps = True
        setting = _LIMITS.get(error.errno or 0)
        hint = f"; sysctl fs.inotify.{setting} allows for more" if setting else ""
        self.notes.append(f"inotify: {error.strerror}{hint}; looking for changes all the time")


class Inotify:
    """One queue of events. Raises OSError if the kernel gives none."""

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
        """The events since the last call: directory, name in it ("" for the directory itself), what happened."""
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


def distance(path: str) -> str:
    """The kind of file system, if inotify misses changes on it; else ""."""
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
