"""What a process under development tells its supervisor: the files that it reads and writes, how its start went.

Knows the audit events of Python, the one step of an import that raises none, and the form of a message. Does not know
what becomes of it.
Contract: a file is told before it is read, with what it looked like then, so that an edit which comes between the two
is seen as one. What lies in the directories of Python and of installed packages is not told, but for what is only
linked there.
"""

from __future__ import annotations

import contextlib
import stat
import struct
import sys
from functools import lru_cache
from importlib import _bootstrap_external as external

from poorhttp.stdlib import os, socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

READ, WROTE, LISTED, LOADING, READY, PROBLEM = b"r", b"w", b"l", b"i", b"1", b"p"
IMPORTED, COLD, FORKED, CHECKPOINT, UNFIT, OPENED, NEEDY, LOADED = b"m", b"c", b"f", b"k", b"u", b"o", b"n", b"d"
ENTERED = b"e"
"""The first byte of a message; fields are separated by zero bytes."""

NOT_THEIRS = (
    os.path.join(os.path.dirname(os.__file__), ""),
    os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(__file__))), ""),
    "/proc/",
    "/sys/",
    "/usr/share/",
    "/usr/lib/",
    "/lib/",
)
IMPORTLIB = "<frozen importlib"
NOBODY = (os.path.join(NOT_THEIRS[0], "importlib", ""), NOT_THEIRS[1])
"""Who lists directories for reasons of his own: `importlib.metadata`, which looks for packages, and this one."""
MODULES = "/*.py"
"""After a directory that is told as listed: for the sake of its modules alone."""
PACKAGES = ("/site-packages/", "/dist-packages/")
NOT_IN = (*PACKAGES, "/__pycache__/", "/.git/")
CACHE = "/.cache/"
"""Where installers keep packages to which they may link."""

Identity = tuple[int, int]
"""Which directory it is: device and inode."""

Signature = tuple[int, int, int]
"""Time of the last change (ns), size, inode."""
DIRECTORY: Signature = 0, -1, 0
"""That of a directory in the place of a file, whatever is in it."""


COMMAND = getattr(sys.modules["__main__"], "__file__", None) and os.path.abspath(str(sys.modules["__main__"].__file__))
"""Which Python runs: the script `poorhttp` that was installed beside it."""


def is_theirs(path: str) -> bool:
    """Whether this absolute path is the author's, rather than Python's or a package's."""
    if path.startswith("/dev/"):
        return path.startswith("/dev/shm/")
    if not _is_others(path):
        return path != COMMAND
    return any(each in path for each in PACKAGES) and _is_linked_from_packages(path)


def _is_others(path: str) -> bool:
    return path.startswith(NOT_THEIRS) or any(each in path for each in NOT_IN)


def _is_linked_from_packages(path: str) -> bool:
    """Whether this is among the packages by a link alone, as editable installs may be."""
    directory, name = os.path.split(path)
    real = os.path.join(_real(directory), name)
    if os.path.islink(real):
        real = os.path.realpath(real)
    return not _is_others(real) and CACHE not in real


@lru_cache
def _real(directory: str) -> str:
    return os.path.realpath(directory)


def signature(path: str, is_directory: bool = False) -> Signature | None:
    """What a file looks like, or one of a directory; None where there is none."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    if stat.S_ISDIR(status.st_mode) != is_directory:
        return None if is_directory else DIRECTORY
    return status.st_mtime_ns, status.st_size, status.st_ino


def identity(path: str) -> Identity | None:
    """Which directory this is now; None where there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def way(path: str) -> Iterator[str]:
    """The symbolic links by which a path leads to a file, then the file, unless it is there by its own name."""
    for _ in range(40):  # as many as the kernel follows
        parts = path.split(os.sep)
        places = (os.sep.join(parts[:count]) for count in range(2, len(parts) + 1))
        link = next((place for place in places if os.path.islink(place)), "")
        if not link:
            break
        yield link
        rest = path[len(link) :].lstrip(os.sep)
        path = _straight(os.path.join(os.path.dirname(link), os.readlink(link), rest))
    yield path


def _straight(path: str) -> str:
    """An absolute path without `..`, which the kernel follows from where a link leads."""
    done = ""
    for part in path.split(os.sep):
        if part == "..":
            done = os.path.dirname(os.path.realpath(done) if os.path.islink(done) else done).rstrip(os.sep)
        elif part not in ("", "."):
            done = f"{done}{os.sep}{part}"
    return done or os.sep


class Teller:
    """The end of the link that is here."""

    def __init__(self, link: int) -> None:
        self._link = link
        self._told: dict[tuple[bytes, str], bytes] = {}
        self._places: set[str] = set()  # where modules were read, which are watched for that
        self.writes = 0
        """How many files were written."""

    def tell(self, kind: bytes, *fields: bytes) -> None:
        """Send one message. A supervisor that is gone is no reason for an application to fail."""
        try:
            os.write(self._link, b"\0".join((kind, *fields)))
        except OSError:
            return

    def pass_on(self, kind: bytes, paths: list[str], *descriptors: int) -> None:
        """Send a message with descriptors. Raises OSError."""
        sock = socket.socket(fileno=os.dup(self._link))
        raw = struct.pack(f"{len(descriptors)}i", *descriptors)
        try:
            sock.sendmsg([b"\0".join((kind, *map(os.fsencode, paths)))], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, raw)])
        finally:
            sock.close()

    def await_watch(self, is_supervised: bool) -> None:
        """The application is loaded: return when all that was told until now is watched, so that every save after the
        first answer is heard of. is_supervised: see `processes.Process`.
        """
        self.tell(LOADED, b"1" if is_supervised else b"")
        with contextlib.suppress(OSError):  # a supervisor that is gone
            os.read(self._link, 1)

    def repeat(self) -> None:
        """Tell of all files again: who heard of them then was told of another process."""
        for message in list(self._told.values()):
            self.tell(message)

    def read(self, path: str) -> None:
        """A file is about to be read."""
        if self._is_new(READ, path) and not _is_special(path):
            found = signature(path)
            if found is not None and path.endswith(".py"):
                self._places.add(os.path.dirname(path))
            self._note(READ, path, b" ".join(b"%d" % each for each in found or ()))

    def wrote(self, path: str) -> None:
        """A file is about to be written."""
        if self._is_new(WROTE, path):
            self.writes += 1
            self._note(WROTE, path)

    def listed(self, path: str) -> None:
        """A directory is about to be listed."""
        if self._is_new(LISTED, path):
            self._note(LISTED, path)

    def entered(self, path: str) -> None:
        """This process is about to go to a directory of this name."""
        self._note(ENTERED, path, b" ".join(b"%d" % each for each in identity(path) or ()))

    def searched(self, place: str) -> None:
        """A module is about to be looked for in a directory, or was just found to have no file in it."""
        directory = _absolute(place or ".")
        path = directory + MODULES
        is_command = COMMAND and directory == os.path.dirname(COMMAND)  # it is Python's
        is_known = is_command or directory in self._places
        if not is_known and self._is_new(LISTED, path) and os.path.isdir(directory):
            self._note(LISTED, path)

    def _note(self, kind: bytes, path: str, *fields: bytes) -> None:
        message = self._told[kind, path] = b"\0".join((kind, os.fsencode(path), *fields))
        self.tell(message)

    def listen(self) -> None:
        """Hear of every file that this process opens from now on, and its children too."""
        for place in sys.path:  # Python may know already what is there
            self.searched(place)
        _hear_of_namespaces(self)
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        hear = _EVENTS.get(event)
        if hear is not None:
            try:
                hear(self, *arguments)
            except (AttributeError, OSError, TypeError, ValueError):
                return  # something that is no path, or a directory that is gone

    def _is_new(self, kind: bytes, path: str) -> bool:
        return is_theirs(path) and (kind, path) not in self._told

    def _opened(self, path: Any, mode: Any, flags: int) -> None:
        if type(path) is int:
            return
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC):
            self.wrote(_absolute(path))
        else:
            self.read(_absolute(path))

    def _listed(self, path: Any = None) -> None:
        if type(path) is int:
            return
        who = sys._getframe(2).f_code.co_filename
        if who.startswith(IMPORTLIB):
            self.searched(os.fsdecode(path or "."))
        elif not who.startswith(NOBODY):
            self.listed(_absolute(path or "."))

    def _renamed(self, source: Any, target: Any, source_place: int = -1, target_place: int = -1) -> None:
        self.wrote(_absolute(source, source_place))
        self.wrote(_absolute(target, target_place))

    def _removed(self, path: Any, place: int = -1) -> None:
        self.wrote(_absolute(path, place))

    def _truncated(self, path: Any, length: int) -> None:
        self.wrote(_absolute(path))

    def _made(self, path: Any, place: int = -1) -> None:
        whole = _absolute(path, place)
        if not os.path.lexists(whole) and is_theirs(os.path.join(whole, "")):  # `__pycache__` is not
            self.wrote(whole)

    def _made_directory(self, path: Any, mode: int, place: int = -1) -> None:
        self._made(path, place)

    def _made_link(self, source: Any, target: Any, *places: int) -> None:
        self._made(target, places[-1])

    def _imported(self, module: Any, path: Any, *_: Any) -> None:
        if path:  # a compiled module: nobody opens it by name
            self.read(_absolute(path))

    def _linked(self, name: Any) -> None:
        if name and os.sep in os.fsdecode(name):  # else the linker looks for it elsewhere
            self.read(_absolute(name))

    def _connected(self, database: Any) -> None:
        path = _absolute(database)
        for suffix in "", "-journal", "-wal", "-shm":
            self.wrote(path + suffix)

    def _debugged(self) -> None:
        from poorhttp.dev.page.breakpoints import attend

        attend(self)


_EVENTS: dict[str, Any] = {
    "open": Teller._opened,
    "os.listdir": Teller._listed,
    "os.scandir": Teller._listed,
    "os.rename": Teller._renamed,
    "os.remove": Teller._removed,
    "os.rmdir": Teller._removed,
    "os.mkdir": Teller._made_directory,
    "os.symlink": Teller._made_link,
    "os.link": Teller._made_link,
    "os.truncate": Teller._truncated,
    "import": Teller._imported,
    "ctypes.dlopen": Teller._linked,
    "sqlite3.connect": Teller._connected,
    "pdb.Pdb": Teller._debugged,
}


def _hear_of_namespaces(teller: Teller) -> None:
    """Directories that are modules without a file are not listed by who finds them."""
    namespace: Any = getattr(external, "_NamespacePath", None)
    if namespace is None:
        return  # a Python that has another name for them
    ordinary = namespace.__init__

    def begin(self: Any, name: str, places: Any, *rest: Any) -> None:
        for place in places:
            teller.searched(place)
        ordinary(self, name, places, *rest)

    namespace.__init__ = begin


def _absolute(path: Any, place: int = -1) -> str:
    """place: descriptor of the directory from which it is seen; -1: from the current one."""
    near = os.path.join(os.readlink(f"/proc/self/fd/{place}"), os.fsdecode(path)) if place >= 0 else os.fsdecode(path)
    return _straight(os.path.join(os.getcwd(), near)) if ".." in near else os.path.abspath(near)


def _is_special(path: str) -> bool:
    """Whether it is there, and neither a file nor in the place of one: a pipe, which others read empty."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
