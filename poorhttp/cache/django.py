"""A cache backend for Django. Knows its interface of caches.

LOCATION: the path of a file. OPTIONS: `size`, `pickle`. All threads and aliases with one LOCATION share one `Cache`.
"""

from __future__ import annotations

from django.core.cache.backends.base import (  # type: ignore[import-untyped]
    DEFAULT_TIMEOUT,
    BaseCache,
    default_key_func,
)
from django.core.exceptions import ImproperlyConfigured  # type: ignore[import-untyped]
from django.utils.safestring import SafeString, mark_safe  # type: ignore[import-untyped]

from poorhttp.cache.cache import SIZE, Cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SAFE = 16
"""The kind of text that is marked as safe in html, such as a fragment of a template."""

PORTABLE = 250
"""Characters of a key from which on Django warns that Memcached would not take it."""

_WHERE = "CACHES with poorhttp.cache.django.SharedCache"

_opened: dict[tuple[str, int, bool], Cache] = {}


class _DjangoCache(Cache):
    _hint = 'convert it, or open the cache with "OPTIONS": {"pickle": True} in CACHES'

    def _pack(self, value: object) -> tuple[int, bytes]:
        if type(value) is SafeString:
            return SAFE, str(value).encode()
        return super()._pack(value)

    def _unpack(self, kind: int, data: bytes) -> object:
        if kind == SAFE:
            return mark_safe(data.decode())
        return super()._unpack(kind, data)


class SharedCache(BaseCache):  # type: ignore[misc]
    def __init__(self, location: str, params: dict[str, Any]) -> None:
        super().__init__(params)
        options = {"size": SIZE, "pickle": False, **params.get("OPTIONS", {})}
        unknown = set(options) - {"size", "pickle", "MAX_ENTRIES", "CULL_FREQUENCY"}
        if unknown:
            raise ImproperlyConfigured(f"{_WHERE}: unknown OPTIONS {sorted(unknown)}; expected size (bytes), pickle")
        if not location:
            raise ImproperlyConfigured(f"{_WHERE}: LOCATION is missing; expected the path of a file in /dev/shm")
        wanted = str(location), options["size"], bool(options["pickle"])
        if wanted not in _opened:
            _opened.setdefault(wanted, _DjangoCache(wanted[0], wanted[1], pickle=wanted[2]))
        self._cache = _opened[wanted]
        own = type(self)
        self._has_plain_keys = own.make_key is BaseCache.make_key and own.validate_key is BaseCache.validate_key

    def make_and_validate_key(self, key: object, version: int | None = None) -> str:
        """As the base class does it, but faster if all is as usual."""
        if self.key_func is not default_key_func or not self._has_plain_keys:
            made: str = super().make_and_validate_key(key, version)
            return made
        made = f"{self.key_prefix!s}:{self.version if version is None else version!s}:{key!s}"
        if len(made) > PORTABLE or not made.isprintable() or " " in made:
            self.validate_key(made)
        return made

    def get(self, key: object, default: object = None, version: int | None = None) -> object:
        return self._cache.get(self.make_and_validate_key(key, version), default)

    def set(self, key: object, value: object, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> None:
        self._cache.set(self.make_and_validate_key(key, version), value, self._life(timeout))

    def add(self, key: object, value: object, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        return self._cache.add(self.make_and_validate_key(key, version), value, self._life(timeout))

    def touch(self, key: object, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        return self._cache.touch(self.make_and_validate_key(key, version), self._life(timeout))

    def delete(self, key: object, version: int | None = None) -> bool:
        return self._cache.delete(self.make_and_validate_key(key, version))

    def has_key(self, key: object, version: int | None = None) -> bool:
        return self.make_and_validate_key(key, version) in self._cache

    def incr(self, key: object, delta: Any = 1, version: int | None = None) -> Any:
        """A number that is no int of 64 bits is read and written again, as the base class does it."""
        made = self.make_and_validate_key(key, version)
        try:
            return self._cache.incr(made, delta)
        except KeyError:
            raise ValueError(f"Key '{made}' not found") from None
        except (TypeError, OverflowError):
            return super().incr(key, delta, version)

    def clear(self) -> None:
        self._cache.clear()

    def _life(self, timeout: Any) -> float | None:
        life: float | None = self.default_timeout if timeout is DEFAULT_TIMEOUT else timeout
        return life
