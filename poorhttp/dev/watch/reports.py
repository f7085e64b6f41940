"""The messages of a process to its supervisor: which files the application reads and writes, and how its start goes.

Knows the audit events of Python (PEP 578) and the form of a message. Does not know what the supervisor makes of it. A
file is reported before it is read, with its signature at that time, so that an edit between the two is seen.
"""

from __future__ import annotations

import contextlib
import struct
import sys
from importlib import _bootstrap_external as external

from poorhttp.app.places import PYTHON, SERVER
from poorhttp.dev.watch.paths import COMMAND, absolute, identity, is_authors, is_special, signature
from poorhttp.stdlib import os, socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# The first byte of a message; its fields are separated by zero bytes.
READ, WROTE, LISTED, ENTERED = b"r", b"w", b"l", b"e"  # a file or a directory: its path; READ and ENTERED: what it was
LOADING, LOADED, READY, PROBLEM = b"i", b"d", b"1", b"p"  # how the start goes
IMPORTED, COLD, NEEDY = b"m", b"c", b"n"  # what can be imported in advance the next time
FORKED, CHECKPOINT, UNFIT = b"f", b"k", b"u"  # processes that wait for the next save
OPENED = b"o"  # a breakpoint, with the other end of its link

MODULES = "/*.py"
"""Stands behind a directory that is reported as listed because modules are looked for in it."""

_IMPORTLIB = "<frozen importlib"
_LIST_FOR_THEMSELVES = os.path.join(PYTHON, "importlib", ""), SERVER
"""Code that lists directories for its own purposes."""


class Reporter:
    """The application's end of the link. writes: how many files the application has written."""

    def __init__(self, link: int) -> None:
        self._link = link
        self._reported: dict[tuple[bytes, str], bytes] = {}
        self._module_places: set[str] = set()  # directories that are watched because a module of theirs was read
        self._debugger_is_made: Callable[[Reporter], None] | None = None
        self.writes = 0

    def tell(self, kind: bytes, *fields: bytes) -> None:
        """Send one message. The application goes on if the supervisor is gone."""
        with contextlib.suppress(OSError):
            os.write(self._link, b"\0".join((kind, *fields)))

    def pass_descriptors(self, kind: bytes, paths: list[str], *descriptors: int) -> None:
        """Send a message with descriptors. Raises OSError."""
        send_descriptors(self._link, b"\0".join((kind, *map(os.fsencode, paths))), *descriptors)

    def await_watch(self, is_supervised: bool) -> None:
        """Report that the application is loaded; return when the supervisor watches all files reported so far.
        is_supervised: whether this process will have workers.
        """
        self.tell(LOADED, b"1" if is_supervised else b"")
        with contextlib.suppress(OSError):
            os.read(self._link, 1)

    def repeat(self) -> None:
        """Report all files again, as those of this process, which was forked."""
        for message in list(self._reported.values()):
            self.tell(message)

    def read(self, path: str) -> None:
        if self._is_new(READ, path) and not is_special(path):
            found = signature(path)
            if found is not None and path.endswith(".py"):
                self._module_places.add(os.path.dirname(path))
            self._report(READ, path, _numbers(found))

    def wrote(self, path: str) -> None:
        if self._is_new(WROTE, path):
            self.writes += 1
            self._report(WROTE, path)

    def listed(self, path: str) -> None:
        if self._is_new(LISTED, path):
            self._report(LISTED, path)

    def entered(self, path: str) -> None:
        """This process is about to make this its working directory."""
        self._report(ENTERED, path, _numbers(identity(path)))

    def searched(self, place: str) -> None:
        """A module is about to be looked for in a directory, or was just not found there."""
        directory = absolute(place or ".")
        path = directory + MODULES
        is_commands = COMMAND and directory == os.path.dirname(COMMAND)  # Python puts it into sys.path
        is_known = is_commands or directory in self._module_places
        if not is_known and self._is_new(LISTED, path) and os.path.isdir(directory):
            self._report(LISTED, path)

    def _report(self, kind: bytes, path: str, *fields: bytes) -> None:
        message = self._reported[kind, path] = b"\0".join((kind, os.fsencode(path), *fields))
        self.tell(message)

    def _is_new(self, kind: bytes, path: str) -> bool:
        return is_authors(path) and (kind, path) not in self._reported

    def listen(self, debugger_is_made: Callable[[Reporter], None]) -> None:
        """Report every file that this process and its children open from now on. debugger_is_made: called before a
        debugger (pdb) is created.
        """
        self._debugger_is_made = debugger_is_made
        for place in sys.path:  # Python may have listed them already
            self.searched(place)
        _report_namespace_packages(self)
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        hear = _EVENTS.get(event)
        if hear is not None:
            try:
                hear(self, *arguments)
            except (AttributeError, OSError, TypeError, ValueError):
                return  # an argument that is no path, or a directory that is gone

    # Handlers of audit events, with the arguments of each

    def _opened(self, path: Any, mode: Any, flags: int) -> None:
        if type(path) is int:
            return
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC):
            self.wrote(absolute(path))
        else:
            self.read(absolute(path))

    def _listed(self, path: Any = None) -> None:
        if type(path) is int:
            return
        caller = sys._getframe(2).f_code.co_filename
        if caller.startswith(_IMPORTLIB):
            self.searched(os.fsdecode(path or "."))
        elif not caller.startswith(_LIST_FOR_THEMSELVES):
            self.listed(absolute(path or "."))

    def _renamed(self, source: Any, target: Any, source_directory: int = -1, target_directory: int = -1) -> None:
        self.wrote(absolute(source, source_directory))
        self.wrote(absolute(target, target_directory))

    def _removed(self, path: Any, directory: int = -1) -> None:
        self.wrote(absolute(path, directory))

    def _truncated(self, path: Any, length: int) -> None:
        self.wrote(absolute(path))

    def _made(self, path: Any, directory: int = -1) -> None:
        whole = absolute(path, directory)
        if not os.path.lexists(whole) and is_authors(os.path.join(whole, "")):  # `__pycache__` is not
            self.wrote(whole)

    def _made_directory(self, path: Any, mode: int, directory: int = -1) -> None:
        self._made(path, directory)

    def _made_link(self, source: Any, target: Any, *directories: int) -> None:
        self._made(target, directories[-1])

    def _imported(self, module: Any, path: Any, *_: Any) -> None:
        if path:  # a compiled module, for which there is no event of opening
            self.read(absolute(path))

    def _linked(self, name: Any) -> None:
        if name and os.sep in os.fsdecode(name):  # else the linker looks for it in the system's directories
            self.read(absolute(name))

    def _connected(self, database: Any) -> None:
        path = absolute(database)
        for suffix in "", "-journal", "-wal", "-shm":
            self.wrote(path + suffix)

    def _debugged(self) -> None:
        if self._debugger_is_made is not None:
            self._debugger_is_made(self)


_EVENTS: dict[str, Any] = {
    "open": Reporter._opened,
    "os.listdir": Reporter._listed,
    "os.scandir": Reporter._listed,
    "os.rename": Reporter._renamed,
    "os.remove": Reporter._removed,
    "os.rmdir": Reporter._removed,
    "os.mkdir": Reporter._made_directory,
    "os.symlink": Reporter._made_link,
    "os.link": Reporter._made_link,
    "os.truncate": Reporter._truncated,
    "import": Reporter._imported,
    "ctypes.dlopen": Reporter._linked,
    "sqlite3.connect": Reporter._connected,
    "pdb.Pdb": Reporter._debugged,
}


def send_descriptors(link: int, message: bytes, *descriptors: int) -> None:
    """Send a message with descriptors over a link (SCM_RIGHTS). Raises OSError."""
    sock = socket.socket(fileno=os.dup(link))
    raw = struct.pack(f"{len(descriptors)}i", *descriptors)
    try:
        sock.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, raw)])
    finally:
        sock.close()


def _report_namespace_packages(reporter: Reporter) -> None:
    """Report the directories of packages without `__init__.py` (PEP 420): importing one raises no audit event."""
    namespace: Any = getattr(external, "_NamespacePath", None)
    if namespace is None:
        return  # this Python has another name for the class
    ordinary = namespace.__init__

    def begin(self: Any, name: str, places: Any, *rest: Any) -> None:
        for place in places:
            reporter.searched(place)
        ordinary(self, name, places, *rest)

    namespace.__init__ = begin


def _numbers(found: tuple[int, ...] | None) -> bytes:
    """A signature or an identity as a field; empty where nothing was there."""
    return b" ".join(b"%d" % each for each in found or ())
