"""Records in Redis or Valkey, by redis-py: a string each, the version in its first 16 bytes, with the expiry of Redis.

Commands go over connections of redis-py itself, without its pool and client, which take twice the time of the command.
If Redis may evict keys (`maxmemory-policy`), sessions end when memory is short.
"""

from __future__ import annotations

from hashlib import sha1
from math import ceil

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from poorhttp.sessions.errors import Conflict
from poorhttp.sessions.store import TIMEOUT, VERSION_LENGTH, Store, new_version
from poorhttp.sessions.stores.connections import Connections

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


class RedisStore(Store):
    def __init__(self, address: str, timeout: float = TIMEOUT, prefix: str = PREFIX) -> None:
        """address: as redis-py takes it: `redis://:password@host:6379/0`, `rediss://`, `unix:///path`; or `valkey://`."""
        self._prefix = prefix
        if address.startswith("valkey:"):
            address = "redis:" + address.partition(":")[2]
        once = Retry(NoBackoff(), 0)
        pool: Any = redis.ConnectionPool.from_url(
            address, socket_timeout=timeout, socket_connect_timeout=timeout, retry=once
        )
        self._connections: Connections[Any] = Connections(
            "Redis",
            lambda: pool.connection_class(**pool.connection_kwargs),
            lambda connection: connection.disconnect(),
            (redis.RedisError,),
            lambda error: isinstance(error, redis.ConnectionError),
        )

    def load(self, key: str) -> tuple[bytes, str] | None:
        name = self._prefix + key
        return self._connections.use(lambda connection: _parted(_ask(connection, "GET", name)))

    def save(self, key: str, data: bytes, ttl: float, version: str | None) -> str:
        fresh, name, life = new_version(), self._prefix + key, _milliseconds(ttl)
        value = fresh.encode() + data
        if version is None:
            is_saved = self._answer("SET", name, value, "PX", life, "NX")
        else:
            is_saved = self._connections.use(lambda connection: _replaced(connection, name, version, value, life))
        if not is_saved:
            raise Conflict(key)
        return fresh

    def touch(self, key: str, ttl: float) -> bool:
        return bool(self._answer("PEXPIRE", self._prefix + key, _milliseconds(ttl)))

    def delete(self, key: str) -> None:
        self._answer("DEL", self._prefix + key)

    def purge(self) -> int:
        return 0

    def close(self) -> None:
        self._connections.close()

    def _answer(self, *command: object) -> Any:
        return self._connections.use(lambda connection: _ask(connection, *command))


def _ask(connection: Any, *command: object) -> Any:
    connection.send_command(*command)
    return connection.read_response()


def _parted(found: Any) -> tuple[bytes, str] | None:
    return (found[VERSION_LENGTH:], found[:VERSION_LENGTH].decode("latin-1")) if found is not None else None


def _replaced(connection: Any, name: str, *values: object) -> object:
    try:
        return _ask(connection, "EVALSHA", REPLACE_HASH, 1, name, *values)
    except redis.exceptions.NoScriptError:  # Redis forgets scripts when it is restarted
        return _ask(connection, "EVAL", REPLACE, 1, name, *values)


def _milliseconds(ttl: float) -> int:
    return max(1, ceil(ttl * 1000))
