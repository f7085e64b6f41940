"""Records in Memcached, by pymemcache: an item each, the version in its first 16 bytes, with the expiry of Memcached.

Memcached counts in seconds, so a record may live up to two seconds longer. It forgets everything when it is restarted,
and throws items away when its memory is full: sessions end then.
"""

from __future__ import annotations

from math import ceil
from urllib.parse import urlsplit

from pymemcache.client.base import Client  # type: ignore[import-untyped]
from pymemcache.exceptions import MemcacheError, MemcacheServerError  # type: ignore[import-untyped]

from poorhttp.sessions.errors import Conflict, StoreDown, TooLarge
from poorhttp.sessions.store import TIMEOUT, VERSION_LENGTH, Store, new_version, now
from poorhttp.sessions.stores.connections import Connections

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PREFIX = "poorhttp:session:"

MONTH = 30 * 86400
"""Seconds above which Memcached takes an expiry for a time of day."""

CAS = "cas "
"""How a version begins that is Memcached's own, as `load` returns it."""


class MemcachedStore(Store):
    def __init__(self, address: str, timeout: float = TIMEOUT, prefix: str = PREFIX) -> None:
        """address: `memcached://host:11211`, or `memcached:/path` of a unix socket."""
        parts = urlsplit(address)
        self._place = (parts.hostname, parts.port or 11211) if parts.hostname else parts.path
        self._prefix = prefix
        self._timeout = timeout
        self._connections: Connections[Any] = Connections(
            "Memcached",
            self._connect,
            lambda client: client.close(),
            (MemcacheError,),
            lambda error: isinstance(error, ConnectionError),
        )

    def load(self, key: str) -> tuple[bytes, str] | None:
        def work(client: Any) -> tuple[bytes, str] | None:
            value, cas = client.gets(self._prefix + key)
            return (value[VERSION_LENGTH:], CAS + cas.decode("ascii")) if value is not None else None

        return self._connections.use(work)

    def save(self, key: str, data: bytes, ttl: float, version: str | None) -> str:
        fresh, name, life = new_version(), self._prefix + key, _seconds(ttl)
        value = fresh.encode() + data

        def work(client: Any) -> object:
            if version is None:
                return client.add(name, value, expire=life)
            cas = version.removeprefix(CAS).encode()
            if not version.startswith(CAS):  # of an earlier `save`, which does not learn Memcached's version
                found, cas = client.gets(name)
                if found is None or found[:VERSION_LENGTH] != version.encode():
                    return None
            return client.cas(name, value, cas, expire=life)

        try:
            is_saved = self._connections.use(work)
        except StoreDown as error:
            if isinstance(error.__cause__, MemcacheServerError) and "too large" in str(error):
                raise TooLarge(f"a record of {len(value)} bytes is above the limit of Memcached (-I)") from error
            raise
        if not is_saved:
            raise Conflict(key)
        return fresh

    def touch(self, key: str, ttl: float) -> bool:
        return bool(self._connections.use(lambda client: client.touch(self._prefix + key, _seconds(ttl))))

    def delete(self, key: str) -> None:
        self._connections.use(lambda client: client.delete(self._prefix + key))

    def purge(self) -> int:
        return 0

    def close(self) -> None:
        self._connections.close()

    def _connect(self) -> Any:
        # Without default_noreply=False the client does not wait for Memcached to have taken a value.
        return Client(
            self._place, connect_timeout=self._timeout, timeout=self._timeout, no_delay=True, default_noreply=False
        )


def _seconds(ttl: float) -> int:
    whole = ceil(ttl) + 1  # the second of Memcached's clock that has begun counts as a whole one
    return whole if whole < MONTH else int(now()) + whole
