"""Records in a cache that processes share (`poorhttp.cache`), the version in the first 16 bytes of each.

If the cache is full, sessions end before their time; if the machine starts again, all do.
"""

from __future__ import annotations

from poorhttp.cache.cache import SIZE, Cache
from poorhttp.sessions.errors import Conflict, StoreDown, TooLarge
from poorhttp.sessions.store import TIMEOUT, VERSION_LENGTH, Store, new_version

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    R = TypeVar("R")


class CacheStore(Store):
    def __init__(self, path: str, timeout: float = TIMEOUT, size: int = SIZE) -> None:
        """path: of a file that only sessions use. size: bytes, of all of them."""
        self._path = path
        self._timeout = timeout
        self._size = size
        self._cache: Cache | None = None

    def load(self, key: str) -> tuple[bytes, str] | None:
        found = self._use(lambda cache: cache.load(key))
        if not isinstance(found, bytes):
            return None
        return found[VERSION_LENGTH:], found[:VERSION_LENGTH].decode("latin-1")

    def save(self, key: str, data: bytes, ttl: float, version: str | None) -> str:
        fresh = new_version()
        record = fresh.encode() + data
        if version is None:
            is_saved = self._use(lambda cache: cache.add(key, record, ttl))
        else:
            is_saved = self._use(lambda cache: cache.replace(key, version.encode(), record, ttl))
        if not is_saved:
            raise Conflict(key)
        return fresh

    def touch(self, key: str, ttl: float) -> bool:
        return self._use(lambda cache: cache.touch(key, ttl))

    def delete(self, key: str) -> None:
        self._use(lambda cache: cache.delete(key))

    def purge(self) -> int:
        return 0

    def close(self) -> None:
        self._cache = None

    def _use(self, do: Callable[[Cache], R]) -> R:
        try:
            cache = self._cache
            if cache is None:
                cache = self._cache = Cache(self._path, self._size, patience=self._timeout)
            try:
                return do(cache)
            except ValueError as error:
                raise TooLarge(f"the cache {self._path}: {error}") from None
        except (OSError, RuntimeError) as error:
            raise StoreDown(f"the cache {self._path}: {error}") from error
