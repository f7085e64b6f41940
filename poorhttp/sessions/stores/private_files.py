"""Files of stores, which only their owner can read: how they are made, also by a command that root runs.

Knows owners, modes and links. Contract: a new file is never one that somebody has put there, and what is behind a
symbolic link is never written. A file that was made elsewhere, as by the shell, is closed to others when it is used.
"""

from __future__ import annotations

import os
from contextlib import suppress
from stat import S_IMODE
from threading import Lock

_making = Lock()
os.register_at_fork(before=_making.acquire, after_in_parent=_making.release, after_in_child=_making.release)


def create(path: str, like: str) -> int:
    """Make a file, for its owner alone, and return a descriptor for writing. If root makes it, it gets the owner of
    `like`, so that the site can still use its files after a command of root. Raises OSError.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    try:
        if os.geteuid() == 0:
            with suppress(FileNotFoundError):
                found = os.stat(like)
                os.fchown(descriptor, found.st_uid, found.st_gid)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def write_new(path: str, content: bytes, replaced: str) -> None:
    """Write the file that is about to replace another, with its owner and mode, but closed to others; for the owner
    alone if there is none. Raises OSError; then nothing is left of the file, which would take room on a full disk.
    """
    with suppress(FileNotFoundError):
        os.unlink(path)
    try:
        with open(create(path, replaced), "wb") as file:
            with suppress(FileNotFoundError):
                os.fchmod(file.fileno(), closed(S_IMODE(os.stat(replaced).st_mode)))
            file.write(content)
    except OSError:
        with suppress(OSError):
            os.unlink(path)
        raise


def make_empty(path: str) -> None:
    """Make an empty file for its owner alone, unless there is one. Raises OSError.

    A file that is there is not opened: SQLite holds POSIX locks, and a process loses all of its own on a file when it
    closes any descriptor of the file (fcntl(2)). The lock lets no other thread use a file before it is closed here.
    """
    with suppress(FileExistsError), _making:
        os.close(os.open(os.path.realpath(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def close_to_others(path: str) -> None:
    """Take the rights of others (`closed`) from a file of SQLite, and from those that SQLite keeps beside it."""
    for each in (path, f"{path}-wal", f"{path}-shm"):
        with suppress(OSError):  # another user's file is his to change; SQLite says what else is wrong with it
            mode = S_IMODE(os.stat(each).st_mode)
            if closed(mode) != mode:
                os.chmod(each, closed(mode))


def closed(mode: int) -> int:
    """The mode of a file without the rights of others. If they have any, a group that can only read loses its right
    too, for such is a file by default (0644); a group that can write was chosen by somebody.
    """
    if not mode & 0o007:
        return mode
    return mode & ~0o007 if mode & 0o020 else mode & ~0o077
