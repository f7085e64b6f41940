"""Threads and connections that an application began while it was loaded: its workers lack or share them.

Knows threads of the interpreter and the descriptors of this process. Does not know when a worker is forked.
Contract: nothing of it is touched, but for the first bytes of files. A connection without a descriptor, and a thread of
a library that the interpreter does not know, are not reported.
"""

from __future__ import annotations

import stat
import sys

from poorhttp.stdlib import os, socket, thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    T = TypeVar("T")

DESCRIPTORS = "/proc/self/fd"

DATABASE = b"SQLite format 3\0"
"""How a file of SQLite begins (https://www.sqlite.org/fileformat.html, 1.3)."""

REMEDY = "begin it in each worker (os.register_at_fork, or at its first request), or load there: --preload=no"


def watched(load: Callable[[], T], warn: Callable[[str], None], is_loaded: bool) -> T:
    """Load, and warn of threads and connections that workers will lack or share. is_loaded: it was loaded before."""
    before = {"0", "1", "2"} if is_loaded else descriptors()
    loaded = load()
    text = warning(before)
    if text:
        warn(text)
    return loaded


def descriptors() -> set[str]:
    """The numbers of those that are open; none where /proc does not show them."""
    try:
        seen = os.listdir(DESCRIPTORS)
    except OSError:
        return set()
    return {each for each in seen if os.path.lexists(f"{DESCRIPTORS}/{each}")}  # without the one of the listing


def warning(before: set[str]) -> str:
    """The warning before workers are forked, "" for none; before: the descriptors before the application was
    loaded.
    """
    threads = ", ".join(_threads())
    places = ", ".join(filter(None, map(_connection, sorted(map(int, descriptors() - before)))))
    lacking = f"they lack the thread {threads}" if threads else ""
    shared = f"they share {places}" if places else ""
    text = "; ".join(filter(None, (lacking, shared)))
    return f"the workers do not get all that the application began when it was loaded: {text}; {REMEDY}" if text else ""


def _threads() -> list[str]:
    """The names of the threads that run Python code, but for this one."""
    names = {}
    if "threading" in sys.modules:
        from poorhttp.stdlib import threading

        names = {each.ident: each.name for each in threading.enumerate()}
    others = sorted(each for each in sys._current_frames() if each != thread.get_ident())
    return [repr(names.get(each, "without a name")) for each in others]


def _connection(descriptor: int) -> str:
    """Which connection or database it is, "" for another descriptor."""
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISREG(mode):
            is_database = os.pread(descriptor, len(DATABASE), 0) == DATABASE
            return f"the database {os.readlink(f'{DESCRIPTORS}/{descriptor}')}" if is_database else ""
        return f"the connection to {_peer(descriptor)}" if stat.S_ISSOCK(mode) and _peer(descriptor) else ""
    except OSError:
        return ""


def _peer(descriptor: int) -> str:
    """Where a socket is connected to that carries a stream; "" for one without a name, as of a pair. Raises OSError."""
    timeout = socket.getdefaulttimeout()
    socket.setdefaulttimeout(None)  # with one the descriptor would not block any more
    sock = socket.socket(fileno=descriptor)
    try:
        peer: Any = sock.getpeername() if sock.type == socket.SOCK_STREAM else ""
    finally:
        sock.detach()
        socket.setdefaulttimeout(timeout)
    if isinstance(peer, tuple):
        return f"{peer[0]}:{peer[1]}"
    return os.fsdecode(peer).replace("\0", "@")
