"""Records in one file, one line of JSON each: key, version, end, data. It is copied for each change.

For development, and for a handful of sessions: the time of each operation grows with their number.
"""

from __future__ import annotations

import json
import os
from contextlib import contextmanager

from poorhttp.sessions.errors import Conflict, StoreDown
from poorhttp.sessions.store import TIMEOUT, Store, new_version, now
from poorhttp.sessions.stores.file_locks import locked
from poorhttp.sessions.stores.private_files import write_new

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


class SingleFileStore(Store):
    def __init__(self, path: str, timeout: float = TIMEOUT) -> None:
        self._path = path
        self._timeout = timeout

    def load(self, key: str) -> tuple[bytes, str] | None:
        with self._failing():
            found = _record(self._lines().get(key))
        return None if found is None else (found[1].encode("latin-1"), found[0])

    def save(self, key: str, data: bytes, ttl: float, version: str | None) -> str:
        with self._changing() as lines:
            found = _record(lines.get(key))
            if (None if found is None else found[0]) != version:
                raise Conflict(key)
            fresh = new_version()
            lines[key] = json.dumps([key, fresh, now() + ttl, data.decode("latin-1")])
        return fresh

    def touch(self, key: str, ttl: float) -> bool:
        with self._changing() as lines:
            found = _record(lines.get(key))
            if found is None:
                return False
            version, text = found
            lines[key] = json.dumps([key, version, now() + ttl, text])
        return True

    def delete(self, key: str) -> None:
        with self._changing() as lines:
            lines.pop(key, None)

    def purge(self) -> int:
        if not os.path.exists(self._path):
            return 0
        with self._changing() as lines:
            over = [key for key, line in lines.items() if _record(line) is None]
            for key in over:
                del lines[key]
        return len(over)

    def _lines(self) -> dict[str, str]:
        """Return the line of each key. A line that is no record of this store is left out."""
        try:
            with open(self._path, encoding="ascii", errors="replace") as file:
                whole = [line.rstrip("\n") for line in file if line.startswith('["') and line.isascii()]
        except FileNotFoundError:
            return {}
        return {line[2:66].partition('"')[0]: line for line in whole}

    @contextmanager
    def _changing(self) -> Iterator[dict[str, str]]:
        """Give the lines for a change; write them when it is done."""
        with self._failing(), locked(f"{self._path}.lock", self._timeout, self._path):
            lines = self._lines()
            before = dict(lines)
            yield lines
            if lines != before:
                content = "".join(f"{line}\n" for line in lines.values()).encode("ascii")
                write_new(f"{self._path}.new", content, self._path)
                os.rename(f"{self._path}.new", self._path)

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as error:
            raise StoreDown(f"sessions in {self._path}: {error}") from error


def _record(line: str | None) -> tuple[str, str] | None:
    """Return version and data of a line; None for no line, for a damaged one, and for a record that has expired."""
    try:
        _, version, end, text = json.loads(line or "")
        text.encode("latin-1")
        return (version, text) if end > now() else None
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None
