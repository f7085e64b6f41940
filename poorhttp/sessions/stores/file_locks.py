"""A lock on a file among processes (flock), which is waited for until a timeout and no longer."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager, suppress
from time import monotonic, sleep

from poorhttp.sessions.errors import StoreDown
from poorhttp.sessions.stores.private_files import create

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def locked(path: str, timeout: float, like: str) -> Iterator[None]:
    """Hold the lock of a file, which is made if it is not there; `like` as in `create`. Raises StoreDown, OSError."""
    descriptor = _opened(path, like)
    try:
        _take(descriptor, path, timeout)
        try:
            yield
        finally:
            # A child that was forked meanwhile has the same lock; closing would leave it with the child.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)


def _opened(path: str, like: str) -> int:
    while True:
        try:
            return os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            with suppress(FileExistsError):  # another process was faster
                return create(path, like)


def _take(descriptor: int, path: str, timeout: float) -> None:
    deadline = monotonic() + timeout
    pause = 0.0005
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if monotonic() >= deadline:
                raise StoreDown(f"{path}: another process has held the lock for {timeout:g} seconds") from None
            sleep(pause)
            pause = min(pause * 2, 0.02)
        else:
            return
