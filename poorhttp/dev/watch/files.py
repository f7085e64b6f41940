"""Which of the author's files have changed since the application read them.

Knows the files and directories that matter: those that the application has read, tried to read or listed; Python and
`.env` files beside them; and new directories beside modules. An event of the kernel is only a hint to look; `stat` and
the content decide. Does not know what follows from a change. No change of a file that was reported before it was read
is missed; the same content again is no change, nor is what a process of the application writes until it is gone.
"""

from __future__ import annotations

import contextlib
from hashlib import blake2b

from poorhttp.dev.watch import inotify
from poorhttp.dev.watch.paths import (
    DIRECTORY,
    Identity,
    Signature,
    identity,
    is_environment,
    is_plain,
    links_to,
    listing,
    may_hold_modules,
    signature,
)
from poorhttp.dev.watch.reports import MODULES
from poorhttp.stdlib import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LARGEST = 1 << 20
"""Bytes of the largest file whose content is compared, beyond its signature."""

SLICE = 20
"""Files whose content is noted at a time, so that an event does not wait for long."""

_PENDING = inotify.MODIFY | inotify.CREATE
_DONE = inotify.CLOSE_WRITE | inotify.MOVED_TO | inotify.MOVED_FROM | inotify.DELETE


class _File:
    """A file as the application has read it. signature: None for no file. content: its digest, once it is noted."""

    __slots__ = ("content", "signature")

    def __init__(self, found: Signature | None) -> None:
        self.signature = found
        self.content: bytes | None = None


class Watcher:
    """The files that matter, and what is known of them."""

    def __init__(self, roots: Iterable[str]) -> None:
        """roots: directories of the author's code, which are watched from the beginning."""
        self.directories = inotify.Directories()
        self._files: dict[str, _File] = {}
        self._contents: dict[str, frozenset[str]] = {}  # directory -> those of its names that matter
        self._module_places: set[str] = set()  # directories in which modules are, or are looked for
        self._listed: set[str] = set()  # directories that the application has listed: every name in them matters
        self._names: dict[str, set[str]] = {}  # directory -> names in it that matter, though no process has read them
        self._entered: dict[str, Identity | None] = {}  # working directories of processes, by the names they used
        self._written: dict[str, set[object]] = {}  # path -> the processes that have written it, and still run
        self._current: set[str] = set()  # files that were read by the process that serves, or loads
        self._suspects: set[str] = set()  # files that may have changed although their signature is the same
        self._unclosed: set[str] = set()  # files that are being written
        self._linked: dict[str, set[str]] = {}  # link or file -> the paths that lead through it
        self._is_loading = False
        self._roots = [os.path.abspath(root) for root in roots]
        self._module_places.update(self._roots)
        for root in self._roots:
            self._enter(root)

    def fileno(self) -> int:
        return self.directories.fileno()

    def names(self, places: Iterable[str] = ()) -> dict[str, frozenset[str]]:
        """All names in the watched directories, and in these. Comparing them shows what came or went, also if the
        application has asked only whether a file exists.
        """
        return {directory: listing(directory) for directory in {*self._contents, *self._names, *places}}

    def count(self) -> int:
        return sum(_is_file(each.signature) and path not in self._written for path, each in self._files.items())

    # The application

    def begin(self) -> None:
        """A process is about to load the application: the present files count as read, unless it reports otherwise."""
        self._current.clear()
        self._suspects.clear()
        self._is_loading = True
        self.directories.forget_all()  # other directories may have their names now
        self._watch_all()
        for path, file in self._files.items():
            file.signature, file.content = signature(path), None
        for directory in self._contents:
            self._contents[directory] = frozenset(self._matters(directory))
        for directory in self._entered:
            self._entered[directory] = identity(directory)

    def loaded(self) -> None:
        """The application is loaded, or failed to load."""
        self._is_loading = False

    def read(self, path: str, found: Signature | None) -> None:
        """A process reads a file, which has this signature."""
        if path in self._current:
            return
        self._current.add(path)
        file = self._files.get(path)
        if file is None or file.signature != found:
            self._files[path] = _File(found)
        directory = os.path.dirname(path)
        if found is not None or os.path.isdir(directory):
            self._enter(directory)
        if path.endswith(".py"):
            self._module_places.add(directory)
        self._follow(path, links_to(path))

    def entered(self, directory: str, which: Identity | None) -> None:
        """A process makes this its working directory (which: None for none). It is a change if another directory takes
        the name, as when a symbolic link is switched to another release.
        """
        self.directories.is_new |= directory not in self._entered
        self._entered[directory] = which
        *links, place = links_to(directory)
        self._follow(directory, links)  # what lies beside the directory itself does not matter
        if which is None:
            self.directories.watch(place)

    def listed(self, directory: str) -> None:
        """A process lists a directory; with MODULES behind it: it looks for modules there."""
        if directory.endswith(MODULES):
            directory = directory.removesuffix(MODULES)
            if os.path.isdir(directory):
                self._module_places.add(directory)
                self._enter(directory)
        elif directory not in self._listed and os.path.isdir(directory):
            self._listed.add(directory)
            self._module_places.add(directory)
            self._enter(directory)
            self._contents[directory] = frozenset(self._matters(directory))

    def wrote(self, path: str, writer: object) -> None:
        """A process writes a file. Until that process is gone no change of the file counts."""
        self._written.setdefault(path, set()).add(writer)
        self._suspects.discard(path)

    def writer_is_gone(self, writer: object) -> None:
        """A process is gone, and all its reports were heard: the files that it wrote count as it left them."""
        for path, writers in [*self._written.items()]:
            writers.discard(writer)
            if not writers:
                del self._written[path]
                self._accept(path)

    def ignore(self, paths: Iterable[str]) -> None:
        for path in paths:
            self._written.setdefault(path, set()).add(self)

    def _accept(self, path: str) -> None:
        """The present state of this file is no change, although events about it may be in the queue."""
        file = self._files.get(path)
        if file is not None:
            file.signature, file.content = signature(path), None
            if self._needs_content(path, file):
                file.content = _content(path)
        directory, name = os.path.split(path)
        if directory in self._contents:
            is_there = os.path.lexists(path) and self._is_of_interest(directory, name)
            entry = name + os.sep if os.path.isdir(path) and not os.path.islink(path) else name
            others = self._contents[directory] - {name, name + os.sep}
            self._contents[directory] = others | ({entry} if is_there else set())

    def _enter(self, directory: str) -> None:
        if directory not in self._contents:
            self.directories.is_new = True
            self._contents[directory] = frozenset()
            self.directories.watch(directory)
            self._contents[directory] = frozenset(self._matters(directory))
            for root in self._roots:  # a directory may go, and come again
                while directory.startswith(root + os.sep):
                    directory, name = os.path.split(directory)
                    self._names.setdefault(directory, set()).add(name)
                    self.directories.watch(directory)
            self.directories.watch_above(directory)

    def _follow(self, path: str, steps: Iterable[str]) -> None:
        """Watch the symbolic links on the way to this file. steps: see `links_to`."""
        self.directories.begin_to_follow()
        for step in steps:
            directory, name = os.path.split(step)
            self._names.setdefault(directory, set()).add(name)
            self._linked.setdefault(step, set()).add(path)
            self.directories.watch(directory)
            self.directories.watch_above(directory)

    # What happens

    def hear(self) -> bool:
        """Read the events of the kernel; whether one of them may concern the application."""
        is_any = False
        for directory, name, what in self.directories.events():
            if what & inotify.OVERFLOW:
                self._suspects.update(self._files)
                is_any = True
                continue
            if what & inotify.DELETE and os.path.join(directory, name) in self._roots:
                self.directories.forget(os.path.join(directory, name))
            if self._concerns(directory, name, what):
                is_any = True
                self._suspect(directory, name, what)
        return is_any

    def is_pending(self) -> bool:
        """Whether a file is being written, or has lost its content: another one may be about to come."""
        for path in [*self._unclosed]:
            if not _is_file(signature(path)):
                self._unclosed.discard(path)
        return bool(self._unclosed) or any(self._has_lost_content(path) for path in self._suspects)

    def forget_pending(self) -> None:
        self._unclosed.clear()

    def changes(self) -> list[str]:
        """The paths that have changed, after all reports were heard. While the application is loaded, a change is given
        once, and only if the process has read the file already.
        """
        self.directories.is_new = False
        self._watch_all()
        suspects, self._suspects = self._suspects, set()
        changed = [path for path, file in self._files.items() if self._has_changed(path, file, path in suspects)]
        for directory, before in self._contents.items():
            now = frozenset(self._matters(directory))
            changed += (os.path.join(directory, name).rstrip(os.sep) for name in now ^ before)
            if self._is_loading:
                self._contents[directory] = now
        changed += (directory for directory, which in self._entered.items() if identity(directory) != which)
        return sorted({path for path in changed if path not in self._written})

    def has_contents_to_note(self) -> bool:
        return any(self._needs_content(path, file) for path, file in self._files.items())

    def note_contents(self) -> bool:
        """Note the content of some files, when nothing else is to be done. Returns what `hear` does."""
        noted = [path for path, file in self._files.items() if self._needs_content(path, file)][:SLICE]
        for path in noted:
            file, content = self._files[path], _content(path)
            file.content = content if signature(path) == file.signature else b""
        if not self.hear():
            return False
        for path in self._suspects.intersection(noted):  # written since the application has read it
            self._files[path].content = b""
        return True

    def _needs_content(self, path: str, file: _File) -> bool:
        found = file.signature
        is_new = file.content is None and found is not None and 0 <= found[1] <= LARGEST
        return is_new and path not in self._written

    def _concerns(self, directory: str, name: str, what: int) -> bool:
        path = os.path.join(directory, name)
        if path in self._written:
            return False
        is_named = name in self._names.get(directory, ()) or name in self.directories.awaited.get(directory, ())
        if is_named or path in self._files or path in self._roots:
            return True
        if what & inotify.IS_DIRECTORY or (what & inotify.COMING and os.path.isdir(path)):
            return directory in self._module_places and may_hold_modules(path)
        is_looked_at = directory in self._contents and not what & inotify.MODIFY
        return not name or (is_looked_at and self._is_of_interest(directory, name))

    def _suspect(self, directory: str, name: str, what: int) -> None:
        path = os.path.join(directory, name)
        if what & inotify.IS_DIRECTORY:
            if what & inotify.COMING and os.path.isdir(path) and directory in self._module_places:
                self._arrive(path)
            return
        if what & inotify.COMING and os.path.isdir(path):  # a symbolic link
            if path in self._linked or path in self._contents:
                self.directories.forget(path)
            if directory in self._module_places and may_hold_modules(path):
                self._contents.setdefault(path, frozenset())  # without what is below, which may be the whole disk
        self._suspects.add(path)
        self._suspects.update(self._linked.get(path, ()))
        if what & _DONE or os.path.islink(path):
            self._unclosed.discard(path)
        elif what & _PENDING:
            self._unclosed.add(path)

    def _arrive(self, directory: str) -> None:
        """Watch a new directory, and those in it, which may have been made before it was watched."""
        self._module_places.add(directory)
        self._contents.setdefault(directory, frozenset())  # so whatever is in it is new
        self.directories.watch(directory)
        with contextlib.suppress(OSError), os.scandir(directory) as found:
            for each in found:
                if each.is_dir(follow_symlinks=False) and may_hold_modules(each.path):
                    self._arrive(each.path)

    def _has_lost_content(self, path: str) -> bool:
        file = self._files.get(path)
        if file is None or file.signature is None or file.signature[1] <= 0:
            return False
        now = signature(path)
        return now is None or now[1] <= 0

    def _has_changed(self, path: str, file: _File, is_suspect: bool) -> bool:
        if path in self._written:
            return False
        now = signature(path)
        if now == file.signature and not (is_suspect and _is_file(now)):
            return False
        if now is not None and file.content and _content(path) == file.content:
            file.signature = now
            return False
        if self._is_loading and path not in self._current:  # the process will read it as it is now
            if now != file.signature:
                file.signature, file.content = now, None
            return False
        return True

    def _matters(self, directory: str) -> Iterator[str]:
        """The names in a directory that matter when they come or go; that of a directory with a slash behind it, so
        that a file in its place is a change.
        """
        try:
            with os.scandir(directory) as found:
                names = {each.name: os.sep if each.is_dir(follow_symlinks=False) else "" for each in found}
        except OSError:
            return
        for name, slash in names.items():
            if self._is_of_interest(directory, name):
                yield name + slash

    def _is_of_interest(self, directory: str, name: str) -> bool:
        is_wanted = name.endswith(".py") or directory in self._listed
        if not (is_plain(name) and is_wanted) and not is_environment(name):
            return False
        return os.path.join(directory, name) not in self._written

    def _watch_all(self) -> None:
        self.directories.begin_to_follow()
        for directory in [*self._contents, *self._names]:
            self.directories.watch(directory)
        self.directories.retry()
        for root in self._roots:  # as a process may have it as working directory, the kernel does not tell of its end
            self.directories.watch(os.path.dirname(root), inotify.DELETE)


def _content(path: str) -> bytes:
    """The digest of a file's content; empty where it cannot be read."""
    if not os.path.isfile(path):
        return b""  # opening a pipe would wait for its writer
    try:
        with open(path, "rb") as file:
            return blake2b(file.read(LARGEST + 1), digest_size=16).digest()
    except OSError:
        return b""


def _is_file(found: Signature | None) -> bool:
    return found is not None and found != DIRECTORY
