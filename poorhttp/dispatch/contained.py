"""Files below one directory, opened so that nothing outside of it can be reached.

Knows names, as bytes, and how Linux opens files. Knows nothing of requests. Contract: each name on the way is opened
without following a symbolic link (O_NOFOLLOW), in the directory that was opened before it. So what is open lies below
the root, and no change of the tree between a check and the opening can lead elsewhere. A path with symbolic links is
resolved to one without them, which is then opened in this way. /proc is not needed.
"""

from __future__ import annotations

import os
import stat
from errno import ELOOP, ENOENT, ENOTDIR

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

    def open(self, names: Sequence[bytes]) -> OpenFile:
        """Open the file or directory to which these names lead, at least one, each without a slash and not `..`.

        Raises OSError, FileNotFoundError also for what is not below the directory; ValueError for a NUL.
        """
        try:
            return self._open(names)
        except OSError as error:
            if error.errno not in _MAY_BE_LINKS:
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
            if not stat.S_ISDIR(opened.status.st_mode):
                raise FileNotFoundError(ENOENT, "not a directory")
            return opened.take()
        finally:
            opened.close()

    def _open(self, names: Sequence[bytes]) -> OpenFile:
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


class OpenFile:
    """What is open, until `close`. name: in its directory, or the whole path. status: as of fstat(2)."""

    __slots__ = ("_descriptor", "_follow", "_place", "name", "status")

    def __init__(self, place: int | None, name: bytes, descriptor: int, follow: int) -> None:
        self._place, self._descriptor, self._follow = place, descriptor, follow
        self.name = name
        self.status = os.fstat(descriptor)

    def take(self) -> int:
        """The descriptor, which the caller closes from now on."""
        descriptor, self._descriptor = self._descriptor, -1
        return descriptor

    def replace_by(self, suffix: bytes) -> bool:
        """Become the regular file whose name has this suffix, if there is one that is not older; returns whether."""
        try:
            other = os.open(self.name + suffix, _READ | self._follow, dir_fd=self._place)
        except OSError:
            return False
        status = os.fstat(other)
        if not stat.S_ISREG(status.st_mode) or status.st_mtime_ns < self.status.st_mtime_ns:
            os.close(other)
            return False
        self._descriptor, old = other, self._descriptor
        self.status = status
        os.close(old)
        return True

    def close(self) -> None:
        """Close what was not taken."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        if self._place is not None:
            os.close(self._place)
        self._descriptor, self._place = -1, None
