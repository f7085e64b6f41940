"""Paths: whose file it is, whether its name matters, what it looks like, and the symbolic links that lead to it.

Knows where Python, installed packages and this server keep their files, and which names editors make for themselves.
Does not know what the application has read, nor what has changed.
"""

from __future__ import annotations

import stat
import sys
from functools import lru_cache

from poorhttp.app.places import PYTHON, SERVER
from poorhttp.stdlib import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_NOT_AUTHORS = PYTHON, SERVER, "/proc/", "/sys/", "/usr/share/", "/usr/lib/", "/lib/"
_PACKAGES = "/site-packages/", "/dist-packages/"
_NOT_IN = *_PACKAGES, "/__pycache__/", "/.git/"
_CACHE = "/.cache/"
"""Installers keep packages there, and may install them as links."""

COMMAND = getattr(sys.modules["__main__"], "__file__", None) and os.path.abspath(str(sys.modules["__main__"].__file__))
"""The file that Python runs: the installed script `poorhttp`."""

_MOST_LINKS = 40
"""Symbolic links that the kernel follows in one path."""

Identity = tuple[int, int]
"""Device and inode of a directory."""

Signature = tuple[int, int, int]
"""Time of the last change (ns), size and inode of a file."""

DIRECTORY: Signature = 0, -1, 0
"""The signature of a directory where a file was expected."""


def is_authors(path: str) -> bool:
    """Whether this absolute path is the author's, rather than Python's, a package's or the system's."""
    if path.startswith("/dev/"):
        return path.startswith("/dev/shm/")
    if not _is_others(path):
        return path != COMMAND
    return any(each in path for each in _PACKAGES) and _is_linked_from_packages(path)


def _is_others(path: str) -> bool:
    return path.startswith(_NOT_AUTHORS) or any(each in path for each in _NOT_IN)


def _is_linked_from_packages(path: str) -> bool:
    """Whether this path among the packages is a link to the author's files, as in an editable install."""
    directory, name = os.path.split(path)
    real = os.path.join(_real(directory), name)
    if os.path.islink(real):
        real = os.path.realpath(real)
    return not _is_others(real) and _CACHE not in real


@lru_cache
def _real(directory: str) -> str:
    return os.path.realpath(directory)


def signature(path: str, is_directory: bool = False) -> Signature | None:
    """The signature of a file, or of a directory where one is asked for; None if it does not exist."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    if stat.S_ISDIR(status.st_mode) != is_directory:
        return None if is_directory else DIRECTORY
    return status.st_mtime_ns, status.st_size, status.st_ino


def identity(path: str) -> Identity | None:
    """Which directory this is now; None if it does not exist."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def is_special(path: str) -> bool:
    """Whether it is neither a file nor a directory: reading a pipe would take data from its reader."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def absolute(path: str | bytes, directory: int = -1) -> str:
    """The absolute path. directory: the descriptor that a relative path starts from; -1: the current directory."""
    near = os.fsdecode(path)
    if directory >= 0:
        near = os.path.join(os.readlink(f"/proc/self/fd/{directory}"), near)
    return _without_dots(os.path.join(os.getcwd(), near)) if ".." in near else os.path.abspath(near)


def links_to(path: str) -> Iterator[str]:
    """The symbolic links that the kernel follows to open this path, in order; then the real path of the file."""
    for _ in range(_MOST_LINKS):
        parts = path.split(os.sep)
        places = (os.sep.join(parts[:count]) for count in range(2, len(parts) + 1))
        link = next((place for place in places if os.path.islink(place)), "")
        if not link:
            break
        yield link
        rest = path[len(link) :].lstrip(os.sep)
        path = _without_dots(os.path.join(os.path.dirname(link), os.readlink(link), rest))
    yield path


def _without_dots(path: str) -> str:
    """An absolute path without `..`, which the kernel applies to the target of a link, not to its name."""
    done = ""
    for part in path.split(os.sep):
        if part == "..":
            done = os.path.dirname(os.path.realpath(done) if os.path.islink(done) else done).rstrip(os.sep)
        elif part not in ("", "."):
            done = f"{done}{os.sep}{part}"
    return done or os.sep


def listing(directory: str) -> frozenset[str]:
    """The names in a directory, without those that editors make for themselves; none where it cannot be read."""
    try:
        return frozenset(name for name in os.listdir(directory) if is_plain(name) or is_environment(name))
    except OSError:
        return frozenset()


def is_plain(name: str) -> bool:
    """Whether the author may have given this name, rather than an editor or Python."""
    return name[0] not in ".#" and name[-1] not in "~#" and "___jb_" not in name and name != "__pycache__"


def is_environment(name: str) -> bool:
    """Whether it is `.env`, `.env.local`, `my.env` or `.flaskenv`: libraries only look whether these exist."""
    is_named_so = name == ".flaskenv" or name.startswith(".env.") or name.endswith(".env")
    return is_named_so and name[:2] != ".#" and name[-1] != "~" and name[-3:-1] != "sw" and "___jb_" not in name


def may_hold_modules(directory: str) -> bool:
    """Whether the author may keep modules in this directory."""
    return is_plain(os.path.basename(directory)) and is_authors(os.path.join(directory, ""))
