"""The body of an answer as far as a handler has written it and nothing of it has been sent.

Knows parts and how much may be held. Contract: that of `HeldBody` in `poorhttp/_engine.pyi`, whose place it takes under
other servers; but its limit counts the characters of text, and text is encoded, and a lone surrogate refused, when the
body is taken: all at once costs less than each by itself.
"""

from __future__ import annotations


class HeldBody:
    """See `poorhttp/_engine.pyi`."""

    _raw = False
    _sealed = False
    _parts: list[str | bytes]
    _most: int
    _room: int

    def __set_limit(self, limit: int) -> None:
        # A __new__ for what a body needs would cost more than all of this.
        self._parts = []
        self._most = self._room = limit

    _limit = property(None, __set_limit)

    @property
    def _holds(self) -> bool:
        return any(self._parts)

    def write(self, data: str | bytes) -> None:
        """Add to the body: str is encoded as utf-8, bytes stay as they are. Sends only when the buffer is full."""
        if data.__class__ is not str and not isinstance(data, (bytes, str)):
            raise TypeError(f"req.write() takes str or bytes, not {type(data).__name__}: {data!r}")
        self._parts.append(data)
        room = self._room = self._room - len(data)
        if room < 0:
            self._make_room()

    def flush(self) -> None:
        """Send what is held; for a subclass to say how."""
        raise NotImplementedError

    def _take(self) -> bytes:
        parts = self._parts
        try:
            body = "".join(parts).encode()  # type: ignore[arg-type]  # the usual case: text alone, encoded at once
        except TypeError:
            self._raw = True
            body = b"".join([str.encode(part) if isinstance(part, str) else part for part in parts])
        parts.clear()
        self._room = self._most
        self._sealed = False
        return body

    def _seal(self) -> None:
        self._raw = self._sealed = True
        self._room = -1

    def _drop(self) -> None:
        self._parts.clear()
        self._room = self._most
        self._raw = self._sealed = False

    def _make_room(self) -> None:
        """Flush after a write() that was too much."""
        if self._sealed:  # what was written last stands behind the rest
            last = self._parts.pop()
            self.flush()
            self._parts.append(last)
        else:
            self.flush()
