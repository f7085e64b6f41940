"""Temporary directories of the bench, which do not outlive its runs: if one is killed, the next one removes them.

Each holds a file that the process which made it keeps locked (flock(2)); the kernel lets the lock go when that process
ends, however that came about. Knows nothing of what lies in them. What has no such file, or belongs to another user, is
left alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

PREFIX, LOCK = "bench-", "lock"
MEMORY = Path("/dev/shm")


class Scratch:
    """A directory that is there until `remove`, and belongs to this process alone."""

    def __init__(self, place: Path | None = None) -> None:
        """place: the directory in which it is made, by default that for temporary files."""
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
        fresh = self.path / f"{LOCK}.new"  # gets its name when it is locked, so that no other run finds it unlocked
        self._lock = os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_RDONLY, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        fresh.rename(self.path / LOCK)

    def remove(self) -> None:
        _remove(self.path)
        os.close(self._lock)


@contextlib.contextmanager
def directory() -> Iterator[Path]:
    """A directory in which all temporary files of this process are made until the block ends; then it is gone."""
    before = tempfile.tempdir
    scratch = Scratch()
    tempfile.tempdir = str(scratch.path)
    try:
        yield scratch.path
    finally:
        tempfile.tempdir = before
        scratch.remove()


def remove_abandoned() -> None:
    """Remove what killed runs of this user have left, and say so on stderr."""
    for place in {Path(tempfile.gettempdir()), MEMORY}:
        for path in place.glob(f"{PREFIX}*"):
            with contextlib.suppress(OSError), _abandoned(path):
                _remove(path)
                print(f"removed {path}, which a run of the bench left when it was killed", file=sys.stderr)


@contextlib.contextmanager
def _abandoned(path: Path) -> Iterator[None]:
    """Hold the lock of a directory whose process has ended. Raises OSError if it is none, or if the process lives."""
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise FileNotFoundError(path)
    lock = os.open(path / LOCK, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(lock)


def _remove(path: Path) -> None:
    """Remove the directory, the lock last: if something cannot be removed now, the next run tries it again."""
    for entry in path.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        elif entry.name != LOCK:
            entry.unlink(missing_ok=True)
    if [entry.name for entry in path.iterdir()] == [LOCK]:
        shutil.rmtree(path, ignore_errors=True)
