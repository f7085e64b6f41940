"""Threads and connections that an application began while it was loaded or warmed up: its workers lack or share them.

Knows threads of the interpreter and the descriptors of this process. Does not know when a worker is forked.
Contract: nothing of it is touched, but for the first bytes of files. What the application ends or closes before a fork
(`os.register_at_fork`) is not reported; neither is a connection without a descriptor, nor a thread of a library that
the interpreter does not know.
"""

from __future__ import annotations

import stat
import sys

from poorhttp.process.fork_hooks import at_next_fork
from poorhttp.stdlib import maker_of_greenlets, os, socket, thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    T = TypeVar("T")

DESCRIPTORS = "/proc/self/fd"

DATABASE = b"SQLite format 3\0"
"""How a file of SQLite begins (https://www.sqlite.org/fileformat.html, 1.3)."""

EVENTS = "anon_inode:[eventpoll]"
"""What the descriptor of an epoll instance shows in /proc."""

REMEDY = (
    "begin it in each worker (os.register_at_fork, or at its first request), close it before the fork (the same, "
    "before=), or load there: --preload=no"
)


def watched(load: Callable[[], T], warn: Callable[[str], None], is_loaded: bool) -> T:
    """Load; when this process forks next, warn of the threads and connections from then that workers lack or share.

    is_loaded: the application was loaded before.
    """
    before = {"0", "1", "2"} if is_loaded else descriptors()
    loaded = load()
    threads, opened = _threads(), _files(descriptors() - before)

    def look() -> None:
        text = warning(threads, opened)
        if text:
            warn(text)

    if threads or opened:
        at_next_fork.append(look)
    return loaded


def descriptors() -> set[str]:
    """The numbers of those that are open; none where /proc does not show them."""
    try:
        seen = os.listdir(DESCRIPTORS)
    except OSError:
        return set()
    return {each for each in seen if os.path.lexists(f"{DESCRIPTORS}/{each}")}  # without the one of the listing


def warning(threads: dict[int, str], opened: dict[str, str]) -> str:
    """The warning about what is still there of these threads and files, "" for none."""
    running = sorted(name for ident, name in _threads().items() if ident in threads)
    still = [int(each) for each, file in _files(set(opened)).items() if file == opened[each]]
    places = ", ".join(filter(None, map(_connection, sorted(still))))
    lacking = f"they lack the thread {', '.join(running)}" if running else ""
    shared = f"they share {places}" if places else ""
    text = "; ".join(filter(None, (lacking, shared)))
    begun = "the workers do not get all that the application began when it was loaded or warmed up"
    return f"{begun}: {text}; {REMEDY}" if text else ""


def _threads() -> dict[int, str]:
    """The names of the threads that run Python code, but for this one, by their identifiers."""
    names = {}
    if "threading" in sys.modules:
        from poorhttp.stdlib import threading

        names = {each.ident: each.name for each in threading.enumerate()}
    others = [each for each in sys._current_frames() if each != thread.get_ident()]
    return {each: repr(names.get(each, "without a name")) for each in others}


def _files(numbers: set[str]) -> dict[str, str]:
    """What each of these descriptors shows in /proc, such as `socket:[1234]`; without those that are closed."""
    shown = {}
    for each in numbers:
        try:
            shown[each] = os.readlink(f"{DESCRIPTORS}/{each}")
        except OSError:
            continue
    return shown


def _connection(descriptor: int) -> str:
    """Which connection, database or event loop it is, "" for another descriptor."""
    try:
        mode, file = os.fstat(descriptor).st_mode, os.readlink(f"{DESCRIPTORS}/{descriptor}")
        if stat.S_ISREG(mode):
            is_database = os.pread(descriptor, len(DATABASE), 0) == DATABASE
            return f"the database {file}" if is_database else ""
        if file == EVENTS:
            return "" if maker_of_greenlets() else "an event loop (epoll)"  # gevent's begins anew in each worker
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
