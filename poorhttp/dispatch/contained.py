"""Files below one directory, opened so that nothing outside of it can be reached.

Knows names, as bytes, and how Linux opens files. Knows nothing of requests. Contract: each name on the way is opened
without following a symbolic link (O_NOFOLLOW), in the directory that was opened before it. So what is open lies below
the root, and no change of the tree between a check and the opening can lead elsewhere. A path with symbolic links is
resolved to one without them, which is then opened in this way. /proc is not needed. Under poorhttp the engine opens all
of a path in one system call, by the same rule (openat2 with RESOLVE_NO_SYMLINKS).
"""

from __future__ import annotations

import os
import stat
import sys
from errno import ELOOP, ENOENT, ENOTDIR

from poorhttp.dispatch.file_slice import FileSlice

# A process of another server stays without the engine (poorhttp/dispatch/answer.py).
if sys.modules.get("poorhttp._engine"):
    from poorhttp._engine import OpenFile as EngineFile
else:
    EngineFile = None  # type: ignore[assignment,misc]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_PLACE = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
# O_NONBLOCK: to open a pipe that nobody writes to would wait for ever.
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_MAY_BE_LINKS = (ELOOP, ENOTDIR)  # O_NOFOLLOW gives the second one for a link where a directory is expected


class Root:
    """The directory. path: bytes, absolute, without symbolic links."""

    def __init__(self, directory: str, *, follows_links: bool) -> None:
        """follows_links: whether symbolic links may lead out of the directory. Raises OSError, ValueError."""
        self.path = os.path.realpath(os.fsencode(directory), strict=True)
        self._prefix = self.path.rstrip(b"/") + b"/"  # with its slash: /srv/www-private is not below /srv/www
        self._follow = 0 if follows_links else os.O_NOFOLLOW
        os.close(os.open(self.path, _PLACE))
        self._by_engine = _engine_file(self.path)

    def open(self, names: Sequence[bytes]) -> OpenFile | EngineFile:
        """Open the file or directory to which these names lead, at least one, each without a slash and not `..`.

        Raises OSError, FileNotFoundError also for what is not below the directory; ValueError for a NUL.
        """
        try:
            return self._open(names)
        except OSError as error:
            if error.errno not in _MAY_BE_LINKS or not self._follow:
                raise
        return self._open(self._resolved(names))

    def is_inside(self, names: Sequence[bytes]) -> bool:
        """Whether a file may be opened, as far as symbolic links are concerned."""
        return not self._follow or self._below(self._real(names)) is not None

    def scan(self, names: Sequence[bytes]) -> int:
        """Open a directory to list it; returns its descriptor. Raises OSError."""
        if not names:
            return os.open(self.path, _READ | os.O_DIRECTORY)
        opened = self.open(names)
        try:
            if not stat.S_ISDIR(opened.mode):
                raise FileNotFoundError(ENOENT, "not a directory")
            return opened.take()
        finally:
            opened.close()

    def _open(self, names: Sequence[bytes]) -> OpenFile | EngineFile:
        if self._by_engine is not None:
            path = self._prefix + b"/".join(names)
            sys.audit("open", path, None, _READ)  # as os.open: `poorhttp dev` reloads browsers when this file is saved
            return self._by_engine(path, not self._follow)
        place, path = None, self._prefix + names[0]
        try:
            for name in names[1:]:
                inner = os.open(path, _PLACE | self._follow, dir_fd=place)
                place, path, outer = inner, name, place
                if outer is not None:
                    os.close(outer)
            return OpenFile(place, path, os.open(path, _READ | self._follow, dir_fd=place), self._follow)
        except BaseException:
            if place is not None:
                os.close(place)
            raise

    def _resolved(self, names: Sequence[bytes]) -> list[bytes]:
        """The names that lead to the same file without symbolic links. Raises FileNotFoundError if it is not below."""
        below = self._below(self._real(names))
        if below is None:
            raise FileNotFoundError(ENOENT, "a symbolic link leads out of the directory")
        return below

    def _real(self, names: Sequence[bytes]) -> bytes:
        return os.path.realpath(b"/".join([self.path, *names]))

    def _below(self, path: bytes) -> list[bytes] | None:
        return path[len(self._prefix) :].split(b"/") if path.startswith(self._prefix) else None


def _engine_file(directory: bytes) -> type[EngineFile] | None:
    """The class of the engine, if there is one, and if kernel and sandbox let it open files."""
    if EngineFile is None:
        return None
    try:
        EngineFile(directory, False).close()
    except OSError:  # also in a directory that may be entered and not be read: then as under other servers
        return None
    return EngineFile


class OpenFile:
    """What is open, until `close`: see the class of this name in `poorhttp/_engine.pyi`, which does the same."""

    __slots__ = ("_descriptor", "_follow", "_place", "file_size", "mode", "modified_ns", "name")

    def __init__(self, place: int | None, name: bytes, descriptor: int, follow: int) -> None:
        self._place, self._follow = place, follow
        self.name = name
        self._note(descriptor, os.fstat(descriptor))

    def _note(self, descriptor: int, status: os.stat_result) -> None:
        self._descriptor = descriptor
        self.mode, self.file_size, self.modified_ns = status.st_mode, status.st_size, status.st_mtime_ns

    def take(self) -> int:
        descriptor, self._descriptor = self._descriptor, -1
        return descriptor

    def body(self, first: int, end: int) -> FileSlice:
        descriptor = self.take()
        if first:
            os.lseek(descriptor, first, os.SEEK_SET)
        return FileSlice(descriptor, end - first, to_end=end == self.file_size)

    def replace_by(self, suffix: bytes) -> bool:
        try:
            other = os.open(self.name + suffix, _READ | self._follow, dir_fd=self._place)
        except OSError:
            return False
        status = os.fstat(other)
        if not stat.S_ISREG(status.st_mode) or status.st_mtime_ns < self.modified_ns:
            os.close(other)
            return False
        os.close(self.take())
        self._note(other, status)
        return True

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        if self._place is not None:
            os.close(self._place)
        self._descriptor, self._place = -1, None
