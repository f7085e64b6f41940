"""The cache that programs use: the memory of a file, or of the process and those that it forks.

Knows the engine, which does the work (`_engine.CacheTable` has the manual of each method), and how all else than bytes,
str and small ints is packed. Knows nothing of the server.
"""

from __future__ import annotations

import os
import pickle as pickles

from poorhttp._engine import CacheTable
from poorhttp.cache.file import in_memory, opened
from poorhttp.cache.json_values import pack, unpack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Self

SIZE = 64 << 20

PATIENCE = 1.0
"""Seconds that a thread waits for the lock of a part: much longer than anything that is done under it."""

JSON, PICKLE = 3, 4
"""Kinds of values. The engine has the kinds up to 2."""


class Cache(CacheTable):
    def __new__(
        cls,
        path: str | os.PathLike[str] | None = None,
        size: int = SIZE,
        *,
        pickle: bool = False,
        patience: float = PATIENCE,
    ) -> Self:
        """Open the cache of this file, or make it.

        path: of a file on a local file system, best in memory (/dev/shm); None for memory that only this process and
        those that it forks from now on share. size: bytes for values, their keys and the index; 1 MiB to 64 GiB. A file
        of another size, another layout or an earlier start of the machine is replaced, with a RuntimeWarning.
        pickle: values that JSON would alter are pickled; then whoever can write the file can run code in this process.
        patience: seconds that a thread waits if a process was stopped in the middle of something.

        Raises OSError, and ValueError for a size that cannot be.
        """
        least, most = cls.SIZES
        if not least <= size <= most:
            raise ValueError(f"the size of a cache is {size}; expected {least} to {most} bytes")
        name = None if path is None else os.path.abspath(path)
        descriptor, secret = in_memory(size) if name is None else opened(name, size)
        try:
            cache = super().__new__(cls, descriptor, *secret, int(patience * 1000))
        finally:
            os.close(descriptor)
        cache.path, cache.size, cache._pickles = name, size, pickle
        return cache

    path: str | None
    size: int
    _pickles: bool

    def get_many(self, keys: Iterable[str | bytes]) -> dict[str | bytes, object]:
        """The values of the keys that have one."""
        absent = object()
        found = {key: self.get(key, absent) for key in keys}
        return {key: value for key, value in found.items() if value is not absent}

    def set_many(self, values: Mapping[str | bytes, object], timeout: float | None = None) -> None:
        """Put several values, one after the other."""
        for key, value in values.items():
            self.set(key, value, timeout)

    def delete_many(self, keys: Iterable[str | bytes]) -> int:
        """Remove several values; return how many there were."""
        return sum([self.delete(key) for key in keys])

    def decr(self, key: str | bytes, delta: int = 1, default: int | None = None, timeout: float | None = None) -> int:
        """Subtract from an int; see `incr`."""
        return self.incr(key, -delta, default, timeout)

    def stats(self) -> dict[str, int]:
        """Since the cache was made: `hits`, `misses`, `evictions` (values that were given up for others). Now: `items`,
        `bytes` (of values, keys and what is around them, also if they are over and not removed yet), `memory`.
        """
        names = "hits", "misses", "items", "bytes", "evictions", "memory"
        return dict(zip(names, self._stats(), strict=True))

    def _pack(self, value: object) -> tuple[int, bytes]:
        if self._pickles:
            return PICKLE, pickles.dumps(value, pickles.HIGHEST_PROTOCOL)
        return JSON, pack(value)

    def _unpack(self, kind: int, data: bytes) -> object:
        if kind == JSON:
            return unpack(data)
        if kind == PICKLE and self._pickles:
            return pickles.loads(data)
        fault = "is a pickle" if kind == PICKLE else f"is of the kind {kind}"
        raise TypeError(f"a value {fault}, which this cache was not opened for: another program has put it there")
