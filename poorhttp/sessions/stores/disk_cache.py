"""Records in a directory of DiskCache, in its file of SQLite. Values are bytes; no pickle is ever read.

By itself DiskCache unpickles values that anybody with write access to the directory has put there (CVE-2025-69872).
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import contextmanager

import diskcache  # type: ignore[import-untyped]
from diskcache.core import DBNAME, MODE_PICKLE  # type: ignore[import-untyped]

from poorhttp.sessions.errors import Conflict, StoreDown
from poorhttp.sessions.store import TIMEOUT, VERSION_LENGTH, Store, new_version
from poorhttp.sessions.stores.connections import PerProcess, close_before_forks
from poorhttp.sessions.stores.private_files import close_to_others, make_empty

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


LARGEST = 2**31 - 1
"""Bytes of a value from which on DiskCache writes a file of its own, which others could read. SQLite holds no more."""


class _NoPickle(diskcache.Disk):  # type: ignore[misc]
    def fetch(self, mode: int, filename: str, value: object, read: bool) -> object:
        if mode == MODE_PICKLE:
            raise sqlite3.DataError("a value is a pickle, which sessions never are")
        return super().fetch(mode, filename, value, read)


class DiskCacheStore(Store):
    def __init__(self, path: str, timeout: float = TIMEOUT) -> None:
        """path: of a directory, made if it is not there, for its owner alone."""
        self._path = path
        self._timeout = timeout
        self._cache: PerProcess[Any] = PerProcess(self._open)
        close_before_forks(self)

    def load(self, key: str) -> tuple[bytes, str] | None:
        with self._failing():
            return self._read(self._cache.get(), key)

    def save(self, key: str, data: bytes, ttl: float, version: str | None) -> str:
        fresh = new_version()
        with self._failing():
            cache = self._cache.get()
            with cache.transact():
                found = self._read(cache, key)
                if (None if found is None else found[1]) != version:
                    raise Conflict(key)
                cache.set(key, fresh.encode() + data, expire=ttl)
        return fresh

    def touch(self, key: str, ttl: float) -> bool:
        with self._failing():
            return bool(self._cache.get().touch(key, expire=ttl))

    def delete(self, key: str) -> None:
        with self._failing():
            self._cache.get().delete(key)

    def purge(self) -> int:
        if not os.path.exists(os.path.join(self._path, DBNAME)):
            return 0
        with self._failing():
            return int(self._cache.get().expire())

    def close(self) -> None:
        cache = self._cache.take()
        if cache is not None:
            cache.close()

    def _open(self) -> Any:
        os.makedirs(self._path, 0o700, exist_ok=True)
        make_empty(os.path.join(self._path, DBNAME))  # SQLite gives its other files the same mode
        close_to_others(os.path.join(self._path, DBNAME))
        # By default DiskCache would throw records away at 1 GB, and look for expired ones with each write.
        settings = {"eviction_policy": "none", "cull_limit": 0, "disk_min_file_size": LARGEST}
        return diskcache.Cache(self._path, timeout=self._timeout, disk=_NoPickle, **settings)

    def _read(self, cache: Any, key: str) -> tuple[bytes, str] | None:
        found = cache.get(key)
        if not isinstance(found, bytes):
            return None
        return found[VERSION_LENGTH:], found[:VERSION_LENGTH].decode("latin-1")

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except (diskcache.Timeout, sqlite3.Error, OSError) as error:
            raise StoreDown(f"DiskCache in {self._path}: {type(error).__name__}: {error}") from error
