"""Records in Redis or Valkey, by redis-py: a string each, the version in its first 16 bytes, with the expiry of Redis.

If Redis may evict keys (`maxmemory-policy`), sessions end when memory is short.
"""

from __future__ import annotations

from hashlib import sha1
from math import ceil

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from poorhttp.sessions.errors import Conflict, StoreDown
from poorhttp.sessions.store import TIMEOUT, VERSION_LENGTH, Store, new_version

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PREFIX = "poorhttp:session:"

REPLACE = f"""\
if redis.call('GETRANGE', KEYS[1], 0, {VERSION_LENGTH - 1}) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
"""
"""Replace a record if its version is the given one: Redis runs a script without running another command."""

REPLACE_HASH = sha1(REPLACE.encode(), usedforsecurity=False).hexdigest()

ERRORS = (redis.RedisError, OSError)


class RedisStore(Store):
    def __init__(self, address: str, timeout: float = TIMEOUT, prefix: str = PREFIX) -> None:
        """address: as redis-py takes it: `redis://:password@host:6379/0`, `rediss://`, `unix:///path`; or `valkey://`."""
        self._prefix = prefix
        if address.startswith("valkey:"):
            address = "redis:" + address.partition(":")[2]
        # redis-py forgets the connections of its pool in a forked child. One that was closed is tried once more.
        self._redis: Any = redis.Redis.from_url(
            address,
            socket_timeout=timeout,
            socket_connect_timeout=timeout,
            retry=Retry(NoBackoff(), 1, supported_errors=(redis.ConnectionError,)),
        )

    def load(self, key: str) -> tuple[bytes, str] | None:
        try:
            found = self._redis.get(self._prefix + key)
        except ERRORS as error:
            raise down(error) from error
        return (found[VERSION_LENGTH:], found[:VERSION_LENGTH].decode("latin-1")) if found is not None else None

    def save(self, key: str, data: bytes, ttl: float, version: str | None) -> str:
        fresh, name, life = new_version(), self._prefix + key, _milliseconds(ttl)
        value = fresh.encode() + data
        try:
            if version is None:
                is_saved = self._redis.set(name, value, px=life, nx=True)
            else:
                is_saved = self._replaced(name, version, value, life)
        except ERRORS as error:
            raise down(error) from error
        if not is_saved:
            raise Conflict(key)
        return fresh

    def touch(self, key: str, ttl: float) -> bool:
        try:
            return bool(self._redis.pexpire(self._prefix + key, _milliseconds(ttl)))
        except ERRORS as error:
            raise down(error) from error

    def delete(self, key: str) -> None:
        try:
            self._redis.delete(self._prefix + key)
        except ERRORS as error:
            raise down(error) from error

    def purge(self) -> int:
        return 0

    def close(self) -> None:
        self._redis.close()

    def _replaced(self, name: str, *values: object) -> bool:
        try:
            return bool(self._redis.evalsha(REPLACE_HASH, 1, name, *values))
        except redis.exceptions.NoScriptError:  # Redis forgets scripts when it is restarted
            return bool(self._redis.eval(REPLACE, 1, name, *values))


def down(error: Exception) -> StoreDown:
    return StoreDown(f"Redis: {type(error).__name__}: {error}")


def _milliseconds(ttl: float) -> int:
    return max(1, ceil(ttl * 1000))
