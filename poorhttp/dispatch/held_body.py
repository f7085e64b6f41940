"""A body that a handler has written and that is not sent yet, under servers that have nothing quicker.

Contract: that of `HeldBody` in `poorhttp/_engine.pyi`, which is the same in Rust.
"""

from __future__ import annotations


class HeldBody:
    """See `poorhttp/_engine.pyi`."""

    _parts: list[str | bytes]
    _limit: int
    _room: int
    _raw: bool

    def _hold(self, limit: int) -> None:
        """Hold nothing, with room for so much."""
        self._parts = []
        self._limit = self._room = limit

    def write(self, data: str | bytes) -> None:
        """Add to the body: str is encoded as utf-8, bytes stay as they are. Sends only when the buffer is full."""
        if data.__class__ is not str and not isinstance(data, (bytes, str)):
            self._refuse(data)
            return
        if self._room < 0:
            self.flush()
        self._parts.append(data)
        room = self._room = self._room - len(data)
        if room < 0:
            self.flush()

    def _take(self) -> bytes:
        """Return the bytes that were written, and hold nothing any more."""
        parts = self._parts
        try:
            body = "".join(parts).encode()  # type: ignore[arg-type]  # the usual case: text alone, encoded at once
        except TypeError:
            self._raw = True
            body = b"".join([part.encode() if isinstance(part, str) else part for part in parts])
        parts.clear()
        self._room = self._limit
        return body

    def _holds(self) -> bool:
        """Whether something was written, were it empty."""
        return bool(self._parts)

    def _refuse(self, data: object) -> None:
        raise NotImplementedError

    def flush(self) -> None:
        raise NotImplementedError
