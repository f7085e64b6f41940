"""Records in MongoDB, or what speaks its protocol, by pymongo: a document each, with `version` and `expires`.

MongoDB changes a document as a whole, and removes expired records by an index. FerretDB 1 does neither.
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


class MongodbStore(Store):
    def __init__(self, address: str, timeout: float = TIMEOUT) -> None:
        """address: `mongodb://user:password@host:27017/database`; the database is `poorhttp` if none is named."""
        self._records = PerProcess(lambda: _reached(address, timeout))

    def load(self, key: str) -> tuple[bytes, str] | None:
        with _failing():
            found = self._records.get().documents.find_one({"_id": key})
            if found is None or found["expires"] <= _date(now()):
                return None
            return bytes(found["data"]), found["version"]

    def save(self, key: str, data: bytes, ttl: float, version: str | None) -> str:
        fresh, moment = new_version(), now()
        changed = {"data": Binary(data), "version": fresh, "expires": _date(moment + ttl)}
        with _failing():
            records = self._records.get()
            with records.claimed(key, version):
                if version is None:
                    is_saved = records.insert(key, moment, changed)
                else:
                    is_saved = records.change(key, moment, changed, version)
        if not is_saved:
            raise Conflict(key)
        return fresh

    def touch(self, key: str, ttl: float) -> bool:
        moment = now()
        with _failing():
            records = self._records.get()
            with records.claimed(key):
                return records.change(key, moment, {"expires": _date(moment + ttl)})

    def delete(self, key: str) -> None:
        with _failing():
            records = self._records.get()
            with records.claimed(key):
                records.documents.delete_one({"_id": key})

    def purge(self) -> int:
        with _failing():
            documents = self._records.get().documents
            return int(documents.delete_many({"expires": {"$lte": _date(now())}}).deleted_count)

    def close(self) -> None:
        records = self._records.take()
        if records is not None:
            records.client.close()


class _Records:
    """The records as this process reaches them, in MongoDB."""

    _has_index = False

    def __init__(self, client: Any, timeout: float) -> None:
        self.client = client
        self.documents = client.get_default_database(DATABASE)[COLLECTION]
        self._timeout = timeout

    def claimed(self, key: str, version: str | None = None) -> AbstractContextManager[None]:
        """What must be held while a record is changed. version: that the record is to have; may raise Conflict."""
        return nullcontext()

    def insert(self, key: str, moment: float, changed: dict[str, Any]) -> bool:
        """Make a record, also where one has expired at this moment; False if there is a live one."""
        self._ensure_index()
        try:
            self.documents.insert_one({"_id": key, **changed})
        except DuplicateKeyError:
            return self._replace_expired(key, moment, changed)
        return True

    def change(self, key: str, moment: float, changed: dict[str, Any], version: str | None = None) -> bool:
        """Change a record that is live at this moment, and of this version, if one is given; False if there is none."""
        known = {"_id": key, "expires": {"$gt": _date(moment)}}
        if version is not None:
            known["version"] = version
        return self._update(known, changed)

    def _replace_expired(self, key: str, moment: float, changed: dict[str, Any]) -> bool:
        return self._update({"_id": key, "expires": {"$lte": _date(moment)}}, changed)

    def _update(self, known: dict[str, Any], changed: dict[str, Any]) -> bool:
        return bool(self.documents.update_one(known, {"$set": changed}).matched_count)

    def _ensure_index(self) -> None:
        """Make the index, and with it the collection, once; a purge makes neither."""
        if self._has_index:
            return
        try:
            self.documents.create_index("expires", expireAfterSeconds=0)
        except OperationFailure:  # FerretDB has no such index
            self.documents.create_index("expires")
        self._has_index = True


class _Ferretdb(_Records):
    """The records in FerretDB 1, which has no index that removes expired ones: that is for `poorhttp sessions purge`.

    Of two updates at once both may read the old document. So a process that changes a record first inserts a claim, a
    document whose unique `_id` only one can insert.

    A question with an `_id` and nothing else is answered by SQLite; with more in it, FerretDB decodes all documents,
    which takes some eight times as long. So the holder of the claim reads the record, and judges it here.
    """

    @contextmanager
    def claimed(self, key: str, version: str | None = None) -> Iterator[None]:
        claim, lifetime = f"{key} claim", CLAIM_LIFE * self._timeout
        deadline, pause = monotonic() + lifetime, 0.002
        while True:
            begin = monotonic()
            try:
                self.documents.insert_one({"_id": claim, "expires": _date(now() + lifetime)})
                break
            except DuplicateKeyError:
                if begin > deadline:
                    told = f"a record was claimed by others for {lifetime:g} seconds"
                    raise StoreDown(f"MongoDB: {told}") from None
            if version is not None and (self._found(key) or {}).get("version") != version:
                raise Conflict(key)  # the holder of the claim was faster
            held = self._found(claim)
            if held is not None and held["expires"] <= _date(now()):
                self.documents.delete_one(held)  # and not a claim that has replaced it
            sleep(pause * (0.5 + random()))
            pause = min(pause * 2, 0.05)
        try:
            yield
        finally:
            if monotonic() < begin + lifetime - self._timeout:  # later it may be void when this arrives
                self.documents.delete_one({"_id": claim})

    def change(self, key: str, moment: float, changed: dict[str, Any], version: str | None = None) -> bool:
        found = self._found(key)
        if found is None or found["expires"] <= _date(moment) or version not in (None, found["version"]):
            return False
        return self._update({"_id": key}, changed)

    def _replace_expired(self, key: str, moment: float, changed: dict[str, Any]) -> bool:
        found = self._found(key)
        if found is None or found["expires"] > _date(moment):
            return False
        return self._update({"_id": key}, changed)

    def _found(self, name: str) -> Any:
        """A document without the data."""
        return self.documents.find_one({"_id": name}, {"version": 1, "expires": 1})


def _reached(address: str, timeout: float) -> _Records:
    milliseconds = int(timeout * 1000)
    client: Any = pymongo.MongoClient(
        address,
        serverSelectionTimeoutMS=milliseconds,
        connectTimeoutMS=milliseconds,
        socketTimeoutMS=milliseconds,
        retryWrites=False,
        tz_aware=True,
    )
    try:
        is_ferretdb = "ferretdbVersion" in client.admin.command("buildInfo")
        return (_Ferretdb if is_ferretdb else _Records)(client, timeout)
    except BaseException:
        client.close()
        raise


@contextmanager
def _failing() -> Iterator[None]:
    try:
        yield
    except (PyMongoError, BSONError, OSError, *UNREADABLE) as error:
        raise StoreDown(f"MongoDB: {type(error).__name__}: {str(error)[:200]}") from error


def _date(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, timezone.utc)
