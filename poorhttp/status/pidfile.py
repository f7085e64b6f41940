"""The file with the number of this process: written whole, replaced where it is stale, removed only where it is ours.

Knows one path. Does not know who is looked for by it (`poorhttp.operate.control`).
"""

from __future__ import annotations

import errno

from poorhttp.errors import ConfigError, say
from poorhttp.stdlib import os, time
from poorhttp.system import procfs

LIMIT = 1 << 22
"""Process numbers are smaller (PID_MAX_LIMIT of Linux)."""

MODE = 0o644
"""Whatever the umask: who serves may be another user than who began it (`user`), and looks into it at a reload."""

_ANOTHER = "choose another pidfile, or remove it"

SKEW = 2.0
"""Seconds by which a process may seem younger than the pidfile that it wrote."""

EXEC = 0.5
"""Seconds that one may be without a command line: for a moment it is, while a reload makes it another image."""


def write(path: str, lock: int = -1) -> int:
    """Write this process's number, whole or not at all, and lock the file; return the descriptor that holds the lock.

    Who keeps it open until this process ends is told from another process that has the number later, whatever the
    clock says. lock: what the image before this one had, -1 for none; it is returned where the file is still the same
    one. Raises ConfigError if another process lives.
    """
    draft = f"{path}.{os.getpid()}"
    try:
        while not _is_ours(path):
            _discard(draft)  # of one that had this number, and was killed
            # Nobody else can open, and so lock, what is not locked yet.
            descriptor = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            is_placed = False
            try:
                os.write(descriptor, b"%d\n" % os.getpid())
                _lock(descriptor)
                os.fchmod(descriptor, MODE)
                is_placed = _placed(draft, path)
            finally:
                if not is_placed:
                    os.close(descriptor)
                _discard(draft)
            if is_placed:
                return descriptor
        # It is where the image before this one wrote it.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError as error:
        hint = "is its directory there, and may this user write in it?"
        raise ConfigError(f"cannot write the pidfile {path}: {error.strerror}", hint) from None
    if lock >= 0 and os.path.samestat(os.fstat(lock), os.fstat(descriptor)):
        os.close(descriptor)
        return lock
    _lock(descriptor)
    return descriptor


def _discard(draft: str) -> None:
    try:
        os.unlink(draft)
    except FileNotFoundError:
        return  # contextlib.suppress would say it, but with what that imports it weighs half a megabyte


def _placed(draft: str, path: str) -> bool:
    """Whether it has this name now: not where another start was quicker."""
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    except OSError:  # a file system without links
        os.replace(draft, path)
    return True


def remove(path: str, pid: int = 0) -> None:
    """Remove it if it names this process: neither a forked child nor a server that was replaced removes another's.

    pid: of a process that is gone, in whose place this is done.
    """
    try:
        if path and _look(path) == (pid or os.getpid()):
            os.unlink(path)
    except ConfigError:
        return  # what is there now is no pidfile
    except OSError as error:
        say(f"note: cannot remove the pidfile {path}: {error.strerror}")


def check(path: str) -> None:
    """Whether `write` could write it, if no server lived. Raises ConfigError."""
    try:
        _look(path)
    except OSError as error:
        raise ConfigError(f"cannot read the pidfile {path}: {error.strerror}", "ask its owner") from None
    if not os.access(os.path.dirname(path), os.W_OK | os.X_OK):
        hint = "is its directory there, and may this user write in it?"
        raise ConfigError(f"cannot write the pidfile {path}", hint)


def names(path: str, pid: int) -> bool:
    """Whether it is there, can be read and names this process. Raises ConfigError where it is no pidfile."""
    try:
        return _look(path) == pid
    except OSError:
        return False  # `write` tells why


def _look(path: str) -> int:
    """The number in it, 0 where there is none, -1 in an empty one. Raises ConfigError, OSError."""
    descriptor = open_(path)
    if descriptor < 0:
        return 0
    try:
        return number(path, descriptor)
    finally:
        os.close(descriptor)


def _is_ours(path: str) -> bool:
    """Whether it is this process's already; if not, there is none any more. Raises ConfigError where it is another
    living one's, or no pidfile.
    """
    descriptor = open_(path)
    if descriptor < 0:
        return False
    try:
        pid = number(path, descriptor)
        if pid == os.getpid():
            return True
        if pid > 0 and wrote(pid, descriptor):
            hint = f"stop it first: kill {pid}" if is_server(pid) else f"that is no poorhttp; {_ANOTHER}"
            raise ConfigError(f"the pidfile {path} names process {pid}, which is alive", hint)
        _lock(descriptor)
        if os.path.samestat(os.fstat(descriptor), os.lstat(path)):  # else another start has replaced it
            os.unlink(path)
            say(f"note: replaced the stale pidfile {path}")
    except FileNotFoundError:
        pass
    finally:
        os.close(descriptor)
    return False


def _lock(descriptor: int) -> None:
    """Wait until no other start replaces this file. Who locks it for a second is none, and keeps nobody from it."""
    from poorhttp.stdlib import fcntl

    for _ in range(100):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except OSError:
            time.sleep(0.01)


def open_(path: str) -> int:
    """Open to be read; -1 where there is none. It may be a pipe, or a link that somebody put there, which is not
    followed. Raises ConfigError, OSError.
    """
    try:
        return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return -1
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ConfigError(f"{path} is a symbolic link, which is not followed", _ANOTHER) from None
        raise


def number(path: str, descriptor: int) -> int:
    """The number in an open pidfile, -1 in an empty one, as a loss of power leaves it. Raises ConfigError, OSError."""
    text = os.read(descriptor, 64).decode("latin-1").strip() if os.path.isfile(descriptor) else "?"
    pid = int(text) if text.isdecimal() and text.isascii() and len(text) < 9 else -1
    if text and not 0 < pid < LIMIT:
        raise ConfigError(f"{path} is there and is no pidfile", _ANOTHER)
    return pid


def wrote(pid: int, descriptor: int) -> bool:
    """Whether the process of this number lives and wrote this open pidfile; a worker writes none.

    A poorhttp locks it until its end. Where that cannot be told, and of other programs, one that is older than the file
    may have written it: two do not have the same number at a time. Raises ConfigError where that cannot be told either.
    """
    if not procfs.lives(pid):
        return False
    holders, seconds = _holders(descriptor, pid) if is_server(pid) else None, procfs.age(pid)
    if holders is None and seconds is None:
        raise ConfigError(f"whether process {pid} has written the pidfile is not known: {procfs.HIDDEN}", "mount /proc")
    is_older = time.time() - (seconds or 0.0) < os.fstat(descriptor).st_mtime + SKEW
    if not (is_older if holders is None else pid in holders):
        return False
    from poorhttp.status import reader  # which few starts need

    return reader.main_of(pid) in (0, pid)


def _holders(descriptor: int, pid: int) -> set[int] | None:
    """The processes that lock this file; None where that cannot be told. Without /proc it is this one, if any does."""
    from poorhttp.stdlib import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        return set()
    except BlockingIOError:
        pass
    except OSError:  # a file system without locks
        return None
    try:
        with open("/proc/locks", "rb") as file:  # proc_locks(5)
            locks = [line.split() for line in file]
    except OSError:
        return None if procfs.stat(pid) else {pid}
    # The device is left out: a file system may show another one there than stat(2) does, and even another inode.
    end = b":%d" % os.fstat(descriptor).st_ino
    return {int(each[4]) for each in locks if each[1] == b"FLOCK" and each[5].endswith(end)} or None


def is_server(pid: int) -> bool:
    """Whether it was started as the command, or has the engine in its memory, as a program that calls `poorhttp.run()`;
    also where this user may not look there.
    """
    end = time.monotonic() + EXEC
    while not (line := procfs.read(pid, "cmdline")) and procfs.stat(pid)[:1] not in procfs.ENDED:
        if time.monotonic() > end:
            break
        time.sleep(0.002)
    _, *words = line.split(b"\0")
    if words[:2] == [b"-m", b"poorhttp"] or os.path.basename(b"".join(words[:1])) == b"poorhttp":
        return True
    try:
        with open(f"/proc/{pid}/maps", "rb") as file:
            return b"/poorhttp/_engine." in file.read()
    except OSError:
        return True
