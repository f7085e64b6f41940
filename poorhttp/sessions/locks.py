"""A lock on one session among processes, kept in the store of the sessions itself.

Knows the interface of a store: the lock is a record that only one can make. It ends by itself when its holder dies.
Contract: a request that holds it too long loses it; `save` of the session is a compare-and-swap all the same.
"""

from __future__ import annotations

from random import random
from time import monotonic, sleep

from poorhttp.sessions.errors import Conflict, StoreDown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from poorhttp.sessions.store import Store

LIFE = 60.0
"""Seconds after which the lock of a holder that died is free."""

PAUSE = 0.02
"""Seconds between two attempts at most."""


class Lock:
    __slots__ = ("_key", "_store", "_timeout", "_until")

    def __init__(self, store: Store, key: str, timeout: float) -> None:
        self._store = store
        self._key = key
        self._timeout = timeout
        self._until = 0.0

    def acquire(self) -> None:
        """Raises StoreDown if it is not free within the timeout."""
        deadline = monotonic() + self._timeout
        pause = 0.001
        while True:
            start = monotonic()
            try:
                self._store.save(self._key, b"", LIFE, None)
            except Conflict:
                if start >= deadline:
                    told = f"another request has held the lock of a session for {self._timeout:g} seconds"
                    raise StoreDown(f"{told}: set lock_timeout, or concurrency='merge'") from None
                sleep(pause * (0.5 + random()))
                pause = min(pause * 2, PAUSE)
            else:
                self._until = start + LIFE
                return

    def release(self) -> None:
        """Does nothing if the lock is not held, or may be another's by now. If the store fails, the lock ends later."""
        until, self._until = self._until, 0.0
        if monotonic() < until - 1:
            try:
                self._store.delete(self._key)
            except StoreDown:
                return
