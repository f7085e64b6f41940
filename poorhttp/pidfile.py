"""The file with the number of this process: written whole, replaced where it is stale, removed only where it is ours.

Knows one path. Does not know who is looked for by it (`poorhttp.control`).
"""

from __future__ import annotations

import errno
import os
import time

from poorhttp.errors import ConfigError, say

LIMIT = 1 << 22
"""Process numbers are smaller (PID_MAX_LIMIT of Linux)."""


_ANOTHER = "choose another pidfile, or remove it"


def write(path: str) -> str:
    """Write this process's number, whole or not at all, and lock the file until this process ends; return the path.

    Raises ConfigError if another one lives.
    """
    draft = f"{path}.{os.getpid()}"
    try:
        while not _is_ours(path):  # it is where the image before this one wrote it
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
            try:
                os.write(descriptor, b"%d\n" % os.getpid())
                if _placed(draft, path):
                    break
            finally:
                os.close(descriptor)
                if os.path.lexists(draft):
                    os.unlink(draft)
    except OSError as error:
        hint = "is its directory there, and may this user write in it?"
        raise ConfigError(f"cannot write the pidfile {path}: {error.strerror}", hint) from None
    # Never closed: the lock tells this process from another one that has its number later, whatever the clock says.
    descriptor = _open(path)
    if descriptor >= 0:
        _lock(descriptor)
    return path


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
        if path and _read(path) == str(pid or os.getpid()):
            os.unlink(path)
    except OSError as error:
        say(f"note: cannot remove the pidfile {path}: {error.strerror}")


def check(path: str) -> None:
    """Whether `write` could write it, if no server lived. Raises ConfigError."""
    try:
        _number(path, _read(path) or "")
    except OSError as error:
        raise ConfigError(f"cannot read the pidfile {path}: {error.strerror}", "ask its owner") from None
    if not os.access(os.path.dirname(path), os.W_OK | os.X_OK):
        hint = "is its directory there, and may this user write in it?"
        raise ConfigError(f"cannot write the pidfile {path}", hint)


def _is_ours(path: str) -> bool:
    """Whether it is this process's already; if not, there is none any more. Raises ConfigError where it is another
    living one's, or no pidfile.
    """
    from poorhttp import control

    descriptor = _open(path)
    if descriptor < 0:
        return False
    try:
        text, seen = _text(descriptor), os.fstat(descriptor)
        pid = _number(path, text)
        if pid == os.getpid():
            return True
        if text and control.wrote(pid, seen.st_mtime, seen.st_ino):
            hint = f"stop it first: kill {pid}" if control.is_server(pid) else f"that is no poorhttp; {_ANOTHER}"
            raise ConfigError(f"the pidfile {path} names process {pid}, which is alive", hint)
        _lock(descriptor)
        if os.path.samestat(seen, os.lstat(path)):  # else another start has replaced it
            os.unlink(path)
            say(f"note: replaced the stale pidfile {path}")
    except FileNotFoundError:
        pass
    finally:
        os.close(descriptor)
    return False


def _lock(descriptor: int) -> None:
    """Wait until no other start replaces this file. Who locks it for a second is none, and keeps nobody from it."""
    from fcntl import LOCK_EX, LOCK_NB, flock

    for _ in range(100):
        try:
            flock(descriptor, LOCK_EX | LOCK_NB)
            break
        except OSError:
            time.sleep(0.01)


def _number(path: str, text: str) -> int:
    pid = int(text) if text.isdecimal() and len(text) < 9 else LIMIT
    if pid == 0 or (pid >= LIMIT and text):
        raise ConfigError(f"{path} is there and is no pidfile", _ANOTHER)
    return pid


def _read(path: str) -> str | None:
    """What is in it; None where there is none."""
    descriptor = _open(path)
    if descriptor < 0:
        return None
    try:
        return _text(descriptor)
    finally:
        os.close(descriptor)


def _open(path: str) -> int:
    """Open to be read; -1 where there is none. A link is not followed (ConfigError). Raises OSError."""
    try:
        return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return -1
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ConfigError(f"{path} is a symbolic link, which is not followed", _ANOTHER) from None
        raise


def _text(descriptor: int) -> str:
    """The text, "?" of what is no regular file."""
    return os.read(descriptor, 64).decode("latin-1").strip() if os.path.isfile(descriptor) else "?"
