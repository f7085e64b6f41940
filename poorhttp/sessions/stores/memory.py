"""Records in the memory of one process: they end with it, and a forked process has a copy that goes its own way.

For tests and for a server of one process.
"""

from __future__ import annotations

from threading import Lock

from poorhttp.sessions.errors import Conflict
from poorhttp.sessions.store import Store, new_version, now

CROWD = 1000
"""With more records than this, expired ones are looked for each time that their number has doubled."""


class MemoryStore(Store):
    is_shared = False

    def __init__(self) -> None:
        self._records: dict[str, tuple[bytes, str, float]] = {}  # data, version, end
        self._lock = Lock()
        self._crowd = CROWD

    def load(self, key: str) -> tuple[bytes, str] | None:
        found = self._records.get(key)
        return found[:2] if found is not None and found[2] > now() else None

    def save(self, key: str, data: bytes, ttl: float, version: str | None) -> str:
        with self._lock:
            found = self.load(key)
            if (None if found is None else found[1]) != version:
                raise Conflict(key)
            fresh = new_version()
            self._records[key] = (data, fresh, now() + ttl)
        if len(self._records) > self._crowd:
            self.purge()
            self._crowd = max(CROWD, 2 * len(self._records))
        return fresh

    def touch(self, key: str, ttl: float) -> bool:
        with self._lock:
            found = self.load(key)
            if found is None:
                return False
            self._records[key] = (*found, now() + ttl)
            return True

    def delete(self, key: str) -> None:
        with self._lock:
            self._records.pop(key, None)

    def purge(self) -> int:
        with self._lock:
            moment = now()
            over = [key for key, (_, _, end) in self._records.items() if end <= moment]
            for key in over:
                del self._records[key]
        return len(over)
