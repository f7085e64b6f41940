"""Records in MongoDB, or what speaks its protocol, by pymongo: a document each, with `version` and `expires`.

MongoDB changes a document as a whole. FerretDB 1 does not: of two updates at once both may read the old document. So
there each change first inserts a claim, a document whose unique `_id` only one can insert. MongoDB removes expired
records by an index; FerretDB 1 has none, so run `poorhttp sessions purge`.
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from datetime import datetime, timezone
from random import random
from time import monotonic, sleep

import pymongo
from bson.binary import Binary
from bson.errors import BSONError
from pymongo.errors import DuplicateKeyError, OperationFailure, PyMongoError

from poorhttp.sessions.errors import Conflict, StoreDown
from poorhttp.sessions.store import TIMEOUT, Store, new_version, now
from poorhttp.sessions.stores.connections import UNREADABLE, PerProcess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from typing import Any

DATABASE, COLLECTION = "poorhttp", "sessions"

CLAIM_LIFE = 4
"""Timeouts after which a claim is void: its process died, or has given up by then."""


class _Place:
    """The collection as this process reaches it."""

    _has_index = False

    def __init__(self, address: str, timeout: float) -> None:
        self.client: Any = pymongo.MongoClient(
            address,
            serverSelectionTimeoutMS=int(timeout * 1000),
            connectTimeoutMS=int(timeout * 1000),
            socketTimeoutMS=int(timeout * 1000),
            retryWrites=False,
            tz_aware=True,
        )
        try:
            self._prepare()
        except BaseException:
            self.client.close()
            raise

    def _prepare(self) -> None:
        self.records = self.client.get_default_database(DATABASE)[COLLECTION]
        self.needs_claims = "ferretdbVersion" in self.client.admin.command("buildInfo")

    def ensure_index(self) -> None:
        """Make the index, and with it the collection, once; a purge makes neither."""
        if self._has_index:
            return
        try:
            self.records.create_index("expires", expireAfterSeconds=0)
        except OperationFailure:  # FerretDB has no such index
            self.records.create_index("expires")
        self._has_index = True


class MongodbStore(Store):
    def __init__(self, address: str, timeout: float = TIMEOUT) -> None:
        """address: `mongodb://user:password@host:27017/database`; the database is `poorhttp` if none is named."""
        self._timeout = timeout
        self._place = PerProcess(lambda: _Place(address, timeout))

    def load(self, key: str) -> tuple[bytes, str] | None:
        with _failing():
            found = self._place.get().records.find_one({"_id": key, "expires": {"$gt": _date(now())}})
            return (bytes(found["data"]), found["version"]) if found is not None else None

    def save(self, key: str, data: bytes, ttl: float, version: str | None) -> str:
        fresh, moment = new_version(), now()
        changed = {"data": Binary(data), "version": fresh, "expires": _date(moment + ttl)}
        with _failing(), self._claimed(key, version) as records:
            if version is None:
                self._place.get().ensure_index()
                try:
                    records.insert_one({"_id": key, **changed})
                    return fresh
                except DuplicateKeyError:  # perhaps of a record that has expired
                    known = {"_id": key, "expires": {"$lte": _date(moment)}}
            else:
                known = {"_id": key, "version": version, "expires": {"$gt": _date(moment)}}
            if records.update_one(known, {"$set": changed}).matched_count == 0:
                raise Conflict(key)
        return fresh

    def touch(self, key: str, ttl: float) -> bool:
        moment = now()
        known = {"_id": key, "expires": {"$gt": _date(moment)}}
        with _failing(), self._claimed(key) as records:
            return bool(records.update_one(known, {"$set": {"expires": _date(moment + ttl)}}).matched_count)

    def delete(self, key: str) -> None:
        with _failing(), self._claimed(key) as records:
            records.delete_one({"_id": key})

    def purge(self) -> int:
        with _failing():
            return int(self._place.get().records.delete_many({"expires": {"$lte": _date(now())}}).deleted_count)

    def close(self) -> None:
        place = self._place.take()
        if place is not None:
            place.client.close()

    def _claimed(self, key: str, version: str | None = None) -> AbstractContextManager[Any]:
        place = self._place.get()
        return self._claim(place.records, key, version) if place.needs_claims else nullcontext(place.records)

    @contextmanager
    def _claim(self, records: Any, key: str, version: str | None) -> Iterator[Any]:
        """Hold the claim of a record. Raises Conflict if the record is of this version no more."""
        name = f"{key} claim"
        deadline, token, pause = monotonic() + CLAIM_LIFE * self._timeout, new_version(), 0.002
        while True:
            try:
                end = _date(now() + CLAIM_LIFE * self._timeout)
                records.insert_one({"_id": name, "version": token, "expires": end})
                break
            except DuplicateKeyError:
                if monotonic() > deadline:
                    told = f"a record was claimed by others for {CLAIM_LIFE * self._timeout:g} seconds"
                    raise StoreDown(f"MongoDB: {told}") from None
            if version is not None and records.find_one({"_id": key, "version": version}, {"_id": 1}) is None:
                raise Conflict(key)  # the holder of the claim was faster
            records.delete_one({"_id": name, "expires": {"$lte": _date(now())}})
            sleep(pause * (0.5 + random()))
            pause = min(pause * 2, 0.05)
        try:
            yield records
        finally:
            records.delete_one({"_id": name, "version": token})


@contextmanager
def _failing() -> Iterator[None]:
    try:
        yield
    except (PyMongoError, BSONError, OSError, *UNREADABLE) as error:
        raise StoreDown(f"MongoDB: {type(error).__name__}: {str(error)[:200]}") from error


def _date(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, timezone.utc)
