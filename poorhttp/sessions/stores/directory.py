"""Records in a directory, one file each: `ab/ab12...`, which holds the version and the data, and ends at its mtime.

A record is replaced by renaming, so that a reader sees the old or the new one, and a full disk leaves the old one. The
256 directories have a lock each. Nothing is synced: after a power failure the last changes may be lost.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress

from poorhttp.sessions.errors import Conflict, StoreDown
from poorhttp.sessions.store import TIMEOUT, VERSION_LENGTH, Store, new_version, now
from poorhttp.sessions.stores.file_locks import locked
from poorhttp.sessions.stores.private_files import write_new

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

LOCK, FRESH = "lock", "new"
"""The lock of a directory, and the file that is about to replace another; neither is a key."""


class DirectoryStore(Store):
    def __init__(self, path: str, timeout: float = TIMEOUT) -> None:
        """path: made if it is not there, for its owner alone."""
        self._path = path
        self._timeout = timeout

    def load(self, key: str) -> tuple[bytes, str] | None:
        with self._failing():
            return self._read(key)

    def save(self, key: str, data: bytes, ttl: float, version: str | None) -> str:
        with self._failing():
            for path in (self._path, os.path.join(self._path, key[:2])):  # the mode is that of the last one only
                os.makedirs(path, 0o700, exist_ok=True)
            with self._locked(key):
                found = self._read(key)
                if (None if found is None else found[1]) != version:
                    raise Conflict(key)
                fresh = new_version()
                self._replace(key, fresh.encode() + data, now() + ttl)
            return fresh

    def touch(self, key: str, ttl: float) -> bool:
        with self._failing():
            try:
                with self._locked(key):
                    if self._read(key) is None:
                        return False
                    end = now() + ttl
                    os.utime(self._file(key), (end, end))
            except FileNotFoundError:
                return False
            return True

    def delete(self, key: str) -> None:
        with self._failing(), suppress(FileNotFoundError), self._locked(key):
            os.unlink(self._file(key))

    def purge(self) -> int:
        count = 0
        with self._failing():
            for part in os.listdir(self._path) if os.path.isdir(self._path) else []:
                folder = os.path.join(self._path, part)
                if len(part) != 2 or not os.path.isdir(folder) or os.path.islink(folder):
                    continue
                with locked(os.path.join(folder, LOCK), self._timeout, folder), os.scandir(folder) as entries:
                    over = [each.path for each in entries if each.name != LOCK and each.stat().st_mtime <= now()]
                    for path in over:
                        os.unlink(path)
                    count += sum(not path.endswith(FRESH) for path in over)
        return count

    def _read(self, key: str) -> tuple[bytes, str] | None:
        try:
            with open(self._file(key), "rb") as file:
                if os.fstat(file.fileno()).st_mtime <= now():
                    return None
                content = file.read()
        except FileNotFoundError:
            return None
        return content[VERSION_LENGTH:], content[:VERSION_LENGTH].decode("latin-1")

    def _replace(self, key: str, content: bytes, end: float) -> None:
        path = self._file(key)
        fresh = os.path.join(os.path.dirname(path), FRESH)
        write_new(fresh, content, path)
        os.utime(fresh, (end, end))
        os.rename(fresh, path)

    def _file(self, key: str) -> str:
        return os.path.join(self._path, key[:2], key)

    def _locked(self, key: str) -> AbstractContextManager[None]:
        folder = os.path.join(self._path, key[:2])
        return locked(os.path.join(folder, LOCK), self._timeout, folder)

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StoreDown(f"sessions in {self._path}: {error}") from error
