"""The directories that the kernel watches for changes, also those that do not exist yet.

Knows inotify, its limits and the file systems on which it misses changes. Does not know which files matter, nor what an
event means.
Contract: where the kernel cannot watch, `sweeps` says that the caller has to look by itself, and `notes` says why,
once.
"""

from __future__ import annotations

import errno

from poorhttp.dev.watch import inotify
from poorhttp.stdlib import os

_LIMITS = {errno.EMFILE: "max_user_instances=1024", errno.ENOSPC: "max_user_watches=524288"}
"""The limit of the kernel that an error is about, and a value that is enough."""


class Directories:
    """The watched directories, by their names; one inotify queue for all.

    sweeps: whether changes may go unnoticed, so that the caller has to look too. is_new: whether a directory is
    watched that was not watched before the last look; what came between is seen by another look. awaited: the directory
    above -> names in it that do not exist, and are needed to reach a directory that matters.
    """

    def __init__(self) -> None:
        self.sweeps = self.is_new = False
        self.notes: list[str] = []
        self.awaited: dict[str, set[str]] = {}
        self._watched: set[tuple[str, int]] = set()  # directory, and the events that are watched for
        self._above: set[str] = set()  # parents of watched directories: if one goes, it takes the watched one with it
        self._missing: set[str] = set()  # directories that were not found since `begin_to_follow`
        self._inotify: inotify.Inotify | None = None
        try:
            self._inotify = inotify.Inotify()
        except OSError as error:
            self._give_up(error)

    def fileno(self) -> int:
        """The descriptor that is readable when something has happened; -1 for none."""
        return self._inotify.fileno() if self._inotify else -1

    def events(self) -> list[tuple[str, str, int]]:
        """As `Inotify.read`."""
        events = self._inotify.read() if self._inotify else []
        for directory, _, what in events:
            if what & inotify.IGNORED:
                self._watched.difference_update((directory, each) for each in inotify.KINDS)
            elif what & inotify.MOVE_SELF:
                self.forget(directory)
        return events

    def watch(self, directory: str, what: int = inotify.ALL) -> None:
        """Watch this directory for these events. If it does not exist, watch for its coming."""
        if (directory, what) in self._watched or self._inotify is None:
            return
        try:
            self._inotify.add(directory, what)
        except (FileNotFoundError, NotADirectoryError):
            if what not in (inotify.GOING, inotify.DELETE):
                self._await(directory)
            return
        except OSError as error:
            if what == inotify.ALL or error.errno != errno.EACCES:  # a directory above may be closed to this user
                self._give_up(error)
            return
        self._watched.add((directory, what))
        kind = inotify.distance(directory) if what == inotify.ALL else ""
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
            self.watch(directory, inotify.GOING)

    def begin_to_follow(self) -> None:
        """Look again for the directories that did not exist."""
        self._missing.clear()

    def retry(self) -> None:
        """Watch again those above, and the places where missing directories may come."""
        for directory in self._above:
            self.watch(directory, inotify.GOING)
        for directory in [*self.awaited]:
            self.watch(directory, inotify.COMING)

    def forget(self, directory: str) -> None:
        """Watch this one and those below it anew the next time: other directories may have their names now."""
        inside = os.path.join(directory, "")
        self._watched = {each for each in self._watched if each[0] != directory and not each[0].startswith(inside)}

    def forget_all(self) -> None:
        """As `forget`, for all of them."""
        self._watched.clear()

    def _await(self, directory: str) -> None:
        above, name = os.path.split(directory)
        self.awaited.setdefault(above, set()).add(name)
        self._missing.add(directory)
        if above not in self._missing:
            self.watch(above, inotify.COMING)
            self.is_new = self.is_new or os.path.isdir(directory)  # it came meanwhile

    def _give_up(self, error: OSError) -> None:
        if self.sweeps:
            return  # each look tries again, and is not to say so again
        self.sweeps = True
        setting = _LIMITS.get(error.errno or 0)
        hint = f"; sysctl fs.inotify.{setting} allows for more" if setting else ""
        self.notes.append(f"inotify: {error.strerror}{hint}; looking for changes all the time")
