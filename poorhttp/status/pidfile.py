"""The pidfile: written whole, replaced if it is stale, removed only by the process that it names.

Knows one path, and how to tell the process that wrote a pidfile from a later one of the same number. Does not know what
is done with that process.
"""

from __future__ import annotations

import errno

from poorhttp.errors import ConfigError, say
from poorhttp.stdlib import os, time
from poorhttp.system import procfs

LIMIT = 1 << 22
"""Process numbers are smaller (PID_MAX_LIMIT of Linux)."""

MODE = 0o644
"""Whatever the umask: after `user` the server runs as another user, which reads the file at a reload."""

ANOTHER = "choose another pidfile, or remove it"
_UNWRITABLE = "is its directory there, and may this user write in it?"

SKEW = 2.0
"""Seconds by which a process may seem younger than the pidfile that it wrote."""

EXEC = 0.5
"""Seconds that a process may be without a command line, as for a moment of a reload."""


def write(path: str, lock: int = -1) -> int:
    """Write this process's number, whole or not at all, and lock the file; return the descriptor that holds the lock.

    The lock, which this process holds until its end, tells it from a later process of the same number, whatever the
    clock says. lock: the descriptor of the program before a reload, or -1; it is returned if the file is still the
    same. Raises ConfigError if the file names another process that lives.
    """
    fresh = f"{path}.{os.getpid()}"
    try:
        while not _is_ours(path):
            _discard(fresh)  # left by a killed process that had this number
            # With this mode no other user can open, and so lock, the file before it is locked.
            descriptor = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            is_placed = False
            try:
                os.write(descriptor, b"%d\n" % os.getpid())
                _lock(descriptor)
                os.fchmod(descriptor, MODE)
                is_placed = _placed(fresh, path)
            finally:
                if not is_placed:
                    os.close(descriptor)
                _discard(fresh)
            if is_placed:
                return descriptor
        # The program before this one wrote it.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError as error:
        raise ConfigError(f"cannot write the pidfile {path}: {error.strerror}", _UNWRITABLE) from None
    if lock >= 0 and os.path.samestat(os.fstat(lock), os.fstat(descriptor)):
        os.close(descriptor)
        return lock
    _lock(descriptor)
    return descriptor


def _discard(fresh: str) -> None:
    try:
        os.unlink(fresh)
    except FileNotFoundError:
        return  # contextlib.suppress would say it, but with what that imports it weighs half a megabyte


def _placed(fresh: str, path: str) -> bool:
    """Give the file its name; False if another start was quicker."""
    try:
        os.link(fresh, path)
    except FileExistsError:
        return False
    except OSError:  # a file system without links
        os.replace(fresh, path)
    return True


def remove(path: str, pid: int = 0) -> None:
    """Remove the file if it names this process, or `pid`, which has ended."""
    try:
        if path and _look(path) == (pid or os.getpid()):
            os.unlink(path)
    except ConfigError:
        return  # the file that is there now is no pidfile
    except OSError as error:
        say(f"note: cannot remove the pidfile {path}: {error.strerror}")


def check(path: str) -> None:
    """Raise ConfigError if `write` could not write the file, whether or not a server runs."""
    try:
        _look(path)
    except OSError as error:
        raise ConfigError(f"cannot read the pidfile {path}: {error.strerror}", "ask its owner") from None
    if not os.access(os.path.dirname(path), os.W_OK | os.X_OK):
        raise ConfigError(f"cannot write the pidfile {path}", _UNWRITABLE)


def names(path: str, pid: int) -> bool:
    """Whether the file can be read and names this process. Raises ConfigError if it is no pidfile."""
    try:
        return _look(path) == pid
    except OSError:
        return False  # `write` tells why


def _look(path: str) -> int:
    """The number in the file, 0 without a file, -1 in an empty one. Raises ConfigError, OSError."""
    descriptor = open_(path)
    if descriptor < 0:
        return 0
    try:
        return number(path, descriptor)
    finally:
        os.close(descriptor)


def _is_ours(path: str) -> bool:
    """Whether the file names this process already. If not, a stale file is removed. Raises ConfigError if another
    living process wrote it, or it is no pidfile.
    """
    descriptor = open_(path)
    if descriptor < 0:
        return False
    try:
        pid = number(path, descriptor)
        if pid == os.getpid():
            return True
        if pid > 0 and wrote(pid, descriptor):
            hint = f"stop it first: kill {pid}" if is_server(pid) else f"that is no poorhttp; {ANOTHER}"
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
    """Lock the file, which another start may hold for a moment. After a second go on without the lock."""
    from poorhttp.stdlib import fcntl

    for _ in range(100):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except OSError:
            time.sleep(0.01)


def open_(path: str) -> int:
    """Open the file for reading; -1 without a file. A symbolic link is not followed. Raises ConfigError, OSError."""
    try:
        return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return -1
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ConfigError(f"{path} is a symbolic link, which is not followed", ANOTHER) from None
        raise


def number(path: str, descriptor: int) -> int:
    """The number in an open pidfile, -1 in an empty one, as a power failure leaves it. Raises ConfigError, OSError."""
    text = os.read(descriptor, 64).decode("latin-1").strip() if os.path.isfile(descriptor) else "?"
    pid = int(text) if text.isdecimal() and text.isascii() and len(text) < 9 else -1
    if text and not 0 < pid < LIMIT:
        raise ConfigError(f"{path} is there and is no pidfile", ANOTHER)
    return pid


def wrote(pid: int, descriptor: int) -> bool:
    """Whether the process of this number lives and wrote this open pidfile; a worker never does.

    A poorhttp holds a lock on the file until its end. Of another program, or if locks cannot be seen, the ages decide.
    Raises ConfigError if neither can be seen.
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

    return reader.find_main_process(pid) in (0, pid)


def _holders(descriptor: int, pid: int) -> set[int] | None:
    """The processes that lock this file; None if that cannot be seen. Without /proc, any lock is that of `pid`."""
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
    # The device is not compared: some file systems show another device there than stat(2) does, or another inode.
    end = b":%d" % os.fstat(descriptor).st_ino
    return {int(each[4]) for each in locks if each[1] == b"FLOCK" and each[5].endswith(end)} or None


def is_server(pid: int) -> bool:
    """Whether the process is a poorhttp: the command, or a program that has loaded the engine; also if this user may
    not know.
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
