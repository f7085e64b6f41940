"""A lock on a file among processes (flock), which is waited for until a timeout and no longer."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from time import monotonic, sleep

from poorhttp.sessions.errors import StoreDown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def locked(path: str, timeout: float) -> Iterator[None]:
    """Hold the lock of a file, which is made if it is not there. Raises StoreDown, OSError."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _take(descriptor, path, timeout)
        try:
            yield
        finally:
            # A child that was forked meanwhile has the same lock; closing would leave it with the child.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)


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


def write_new(path: str, content: bytes) -> None:
    """Write a file that only its owner can read. Raises OSError; a part of it may be left then."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(content)
