"""Sessions in a store: the cookie holds a random id, the store the data under a hash of the id.

Knows ids, expiry, and how changes of several requests come together. Knows nothing of the kinds of stores.
Contract: an id that the store does not know is never adopted; a session that has ended is never brought back.
"""

from __future__ import annotations

import re
from hashlib import sha256
from random import random
from secrets import token_urlsafe
from time import monotonic, sleep

from poorhttp.sessions.errors import Conflict, StoreDown, TooLarge
from poorhttp.sessions.locks import Lock
from poorhttp.sessions.merging import merge
from poorhttp.sessions.records import Record, dump, parse, unpack
from poorhttp.sessions.store import now

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from poorhttp.sessions.policy import Policy
    from poorhttp.sessions.store import Store

ID_BYTES = 32
ID_LENGTH = 43
"""Characters of an id: 256 bits in base64."""

ATTEMPTS = 20
"""How often changes are put together before the store is taken for too busy."""

REMEMBERED = 10_000
"""Sessions of which a process remembers when it last noted their use."""

_is_id = re.compile(f"[0-9A-Za-z_-]{{{ID_LENGTH}}}").fullmatch


class Stored:
    """A session that was loaded from a store."""

    __slots__ = ("data", "key", "lock", "record", "version")

    def __init__(self, key: str, version: str, record: Record, data: dict[str, Any], lock: Lock | None) -> None:
        self.key = key
        self.version = version
        self.record = record
        self.data = data
        self.lock = lock


class StoredSessions:
    """The keeper of sessions in a store."""

    def __init__(self, store: Store, policy: Policy, log: Callable[[str], None]) -> None:
        self._store = store
        self._policy = policy
        self._log = log
        self._touched: dict[str, float] = {}

    def load(self, token: str) -> Stored | None:
        if _is_id(token) is None:
            return None
        key = key_of(token)
        lock = None
        if self._policy.concurrency == "lock":
            if self._store.load(key) is None:  # an unknown id must not cost a lock, which is a write
                return None
            lock = Lock(self._store, key_of(f"{token} lock"), self._policy.lock_timeout)
            lock.acquire()
        try:
            held = self._found(key, lock)
        except BaseException:
            if lock is not None:
                lock.release()
            raise
        if held is None and lock is not None:
            lock.release()
        return held

    def create(self, text: bytes) -> str:
        start = now()
        return self._made(Record(start, start + self._policy.absolute, text))

    def replace(self, held: Stored, data: dict[str, Any], is_rotated: bool) -> str | None:
        for attempt in range(ATTEMPTS):
            text = dump(data)
            try:
                if is_rotated or not data:
                    return self._renamed(held, text) if data else self._emptied(held)
                self._put(held, Record(held.record.created, held.record.end, text, held.record.successors))
                return None
            except Conflict:
                sleep(random() * 0.002 * attempt)
            fresh = self._found(held.key, held.lock)
            if fresh is None:
                self._log("a session ended while a request changed it: the changes are dropped")
                return None
            data = merge(parse(held.record.text), data, fresh.data)
            held = fresh
        raise StoreDown(f"a session was changed by other requests {ATTEMPTS} times while one tried to save it")

    def refresh(self, held: Stored) -> None:
        noted = self._touched.get(held.key)
        if noted is None or monotonic() - noted > self._policy.refresh:
            ttl = self._ttl(held.record)
            if ttl > 0:
                self._store.touch(held.key, ttl)
            self._note(held.key)

    def end(self, held: Stored) -> None:
        try:
            self._remove(held)
        finally:
            self.release(held)

    def release(self, held: Stored) -> None:
        if held.lock is not None:
            held.lock.release()

    def _found(self, key: str, lock: Lock | None) -> Stored | None:
        loaded = self._store.load(key)
        if loaded is None:
            return None
        packed, version = loaded
        try:
            record = unpack(packed)
            data = parse(record.text)
        except ValueError as error:
            self._log(f"a record of a session is damaged and removed: {error}")
            self._store.delete(key)
            return None
        if record.end <= now():
            self._store.delete(key)
            return None
        return Stored(key, version, record, data, lock)

    def _made(self, record: Record) -> str:
        ttl = self._ttl(record)
        packed = self._packed(record)
        for _ in range(2):  # a lost connection makes the store try again; it may then find the record of its first try
            token = token_urlsafe(ID_BYTES)
            key = key_of(token)
            try:
                self._store.save(key, packed, ttl, None)
            except Conflict:
                continue
            self._note(key)
            return token
        raise StoreDown("the store refuses two new ids of 256 bits as known: it does not work")

    def _put(self, held: Stored, record: Record) -> None:
        """Save under the same id. A session whose time is over by now is saved for a moment."""
        held.version = self._store.save(held.key, self._packed(record), max(self._ttl(record), 0.001), held.version)
        self._note(held.key)

    def _renamed(self, held: Stored, text: bytes) -> str:
        """Keep the data under a new id. The old record is marked as ending by a compare-and-swap, so that no change of
        another request gets lost between the two.
        """
        old, grace = held.record, self._policy.rotation_grace
        # A record that was rotated before ends with its grace; the new one does not.
        end = old.created + self._policy.absolute if old.successors else old.end
        token = self._made(Record(old.created, end, text))
        successors = (*old.successors, key_of(token)) if grace else ()
        try:
            self._put(held, Record(old.created, min(old.end, now() + grace), old.text, successors))
        except Conflict:
            self._store.delete(key_of(token))
            raise
        if not grace:
            self._store.delete(held.key)
        return token

    def _emptied(self, held: Stored) -> str:
        self._put(held, Record(held.record.created, now(), held.record.text))
        self._remove(held)
        return ""

    def _remove(self, held: Stored) -> None:
        """Delete a record. With a time of grace also delete those that it was rotated to, even by another request since
        this one has loaded it.
        """
        keys = [held.key, *held.record.successors]
        while keys:
            each = keys.pop()
            loaded = self._store.load(each) if self._policy.rotation_grace else None
            self._store.delete(each)
            if loaded is not None:
                keys += _successors(loaded[0])

    def _packed(self, record: Record) -> bytes:
        if len(record.text) > self._policy.max_bytes:
            hint = "keep large things elsewhere and their key in the session, or raise max_bytes"
            told = f"a session of {len(record.text)} bytes is above max_bytes, {self._policy.max_bytes}"
            raise TooLarge(f"{told}: {hint}")
        return record.pack()

    def _ttl(self, record: Record) -> float:
        return min(self._policy.idle, record.end - now())

    def _note(self, key: str) -> None:
        """Remember when the store was told that a session is in use."""
        if len(self._touched) >= REMEMBERED:
            self._touched.clear()
        self._touched[key] = monotonic()


def _successors(packed: bytes) -> tuple[str, ...]:
    try:
        return unpack(packed).successors
    except ValueError:
        return ()


def key_of(token: str) -> str:
    """Return the key of a record: the store holds no ids, so that a reader of the store cannot use the sessions."""
    return sha256(token.encode()).hexdigest()
