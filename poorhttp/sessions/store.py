"""The interface of a store: records of bytes under keys, each with a version and a time at which it ends.

Knows nothing of sessions, cookies and JSON. Contract of every store, which one suite of tests holds:

* A record that has expired is never returned, touched or replaced, whether it was purged or not.
* `save` is a compare-and-swap, also between processes: of two that save from the same version, one gets `Conflict`.
* An operation ends within a small multiple of the timeout of the store. A failure is `StoreDown`.
* A store may be inherited through a fork; the child opens its own connections.
"""

from __future__ import annotations

from secrets import token_hex
from time import time

TIMEOUT = 2.0
"""Seconds that a store may take for one exchange, unless its address has `?timeout=`."""

VERSION_LENGTH = 16


class Store:
    """The methods that a store must have. Keys are at most 64 characters of 0-9 and a-f; `ttl` is seconds, above 0.

    is_shared: whether several processes see one set of records.
    """

    is_shared = True

    def load(self, key: str) -> tuple[bytes, str] | None:
        """Return data and version of a record, None if there is none. Raises StoreDown."""
        raise NotImplementedError

    def save(self, key: str, data: bytes, ttl: float, version: str | None) -> str:
        """Replace the record of this version, or make a new one if `version` is None; return the new version.

        Raises Conflict, TooLarge, StoreDown.
        """
        raise NotImplementedError

    def touch(self, key: str, ttl: float) -> bool:
        """Let a record end `ttl` seconds from now, and leave data and version alone; False if there is none. Raises
        StoreDown.
        """
        raise NotImplementedError

    def delete(self, key: str) -> None:
        """Remove a record, if there is one. Raises StoreDown."""
        raise NotImplementedError

    def purge(self) -> int:
        """Remove records that have expired; return their number, 0 where the store removes them by itself.

        Makes nothing where there is no store yet. Raises StoreDown.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Close the connections of this process; the next operation opens new ones."""


def now() -> float:
    """The time of day in seconds: records outlive processes and machines, so no other clock will do."""
    return time()


def new_version() -> str:
    """A version that no record has had: VERSION_LENGTH characters of 0-9 and a-f."""
    return token_hex(VERSION_LENGTH // 2)
