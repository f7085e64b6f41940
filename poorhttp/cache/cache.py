"""The cache that programs use. Knows the engine, whose `CacheTable` does the work, and how other values than bytes, str
and small ints are packed.
"""

from __future__ import annotations

import os
from operator import index

from poorhttp._engine import CacheTable
from poorhttp.cache.file import in_memory, opened
from poorhttp.cache.json_values import pack, unpack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

SIZE = 64 << 20

PATIENCE = 1.0
"""Seconds: much longer than anything that is done under a lock."""

MOST_PATIENCE = 3600.0

JSON, PICKLE = 3, 4
"""Kinds of values. The engine has the kinds up to 2."""


class Cache(CacheTable):
    path: str | None
    size: int
    _pickle: Any = None
    """The module, if the cache was opened for pickles. Others are spared its memory."""
    _hint = "convert it, or open the cache with pickle=True"
    """What to do with a value that JSON would alter."""

    def __new__(
        cls,
        path: str | bytes | os.PathLike[str] | None = None,
        size: int = SIZE,
        *,
        pickle: bool = False,
        patience: float = PATIENCE,
    ) -> Self:
        """path: of a file, made if it is not there; None for memory that forked processes share. size: bytes. pickle:
        for values that JSON would alter; then a program that can write the file can run code here. patience: seconds
        that a thread waits for a stopped process. Raises OSError, TypeError, ValueError.
        """
        size = index(size)
        least, most = cls.SIZES
        if not least <= size <= most:
            raise ValueError(f"the size of a cache is {size}; expected {least} to {most} bytes")
        if not 0 <= patience <= MOST_PATIENCE:
            raise ValueError(f"the patience of a cache is {patience}; expected 0 to {MOST_PATIENCE:g} seconds")
        name = None if path is None else os.path.abspath(os.fsdecode(path))
        descriptor, secret = in_memory(size) if name is None else opened(name, size)
        try:
            told = "in memory" if name is None else os.fsencode(name).decode(errors="replace")
            cache = super().__new__(cls, told, descriptor, *secret, int(patience * 1000))
        finally:
            os.close(descriptor)
        cache.path, cache.size = name, size
        if pickle:
            import pickle as module

            cache._pickle = module
        return cache

    def decr(self, key: str | bytes, delta: int = 1, default: int | None = None, timeout: float | None = None) -> int:
        return self.incr(key, -delta, default, timeout)

    def stats(self) -> dict[str, int]:
        """`hits`, `misses`, `evictions` so far; `items` and `bytes`, also of values that are over; `memory` in use."""
        names = "hits", "misses", "items", "bytes", "evictions", "memory"
        return dict(zip(names, self._stats(), strict=True))

    def _pack(self, value: object) -> tuple[int, bytes]:
        if self._pickle:
            return PICKLE, self._pickle.dumps(value, self._pickle.HIGHEST_PROTOCOL)
        try:
            return JSON, pack(value)
        except TypeError as error:
            raise TypeError(f"{error}; {self._hint}") from None

    def _unpack(self, kind: int, data: bytes) -> object:
        if kind == JSON:
            return unpack(data)
        if kind == PICKLE and self._pickle:
            return self._pickle.loads(data)
        fault = "is a pickle" if kind == PICKLE else f"is of the kind {kind}"
        raise TypeError(f"a value {fault}, which this cache was not opened for")
