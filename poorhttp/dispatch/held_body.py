"""The body of an answer as far as a handler has written it and nothing of it has been sent.

Knows bytes and how many may be held. Contract: that of `HeldBody` in `poorhttp/_engine.pyi`, whose place it takes
under other servers.
"""

from __future__ import annotations


class HeldBody:
    """See `poorhttp/_engine.pyi`."""

    _raw = False
    _sealed: bool
    _bytes: bytearray
    _room: int

    @property
    def _limit(self) -> int:
        return self._room

    @_limit.setter
    def _limit(self, limit: int) -> None:
        # A __new__ for what a body needs would cost more than all of this.
        self._bytes, self._room, self._sealed = bytearray(), limit, False

    @property
    def _holds(self) -> bool:
        return bool(self._bytes)

    def write(self, data: str | bytes) -> None:
        """Add to the body: str is encoded as utf-8, bytes stay as they are. Sends only when the buffer is full."""
        added = data.encode() if data.__class__ is str else self._encoded(data)
        if self._sealed:
            self.flush()
        self._bytes += added
        if len(self._bytes) > self._room:
            self.flush()

    def flush(self) -> None:
        """Send what is held; for a subclass to say how."""
        raise NotImplementedError

    def _take(self) -> bytes:
        body, self._bytes, self._sealed = bytes(self._bytes), bytearray(), False
        return body

    def _seal(self) -> None:
        self._raw = self._sealed = True

    def _drop(self) -> None:
        self._bytes, self._raw, self._sealed = bytearray(), False, False

    def _encoded(self, data: str | bytes) -> bytes:
        if isinstance(data, str):
            return str.encode(data)
        if not isinstance(data, bytes):
            raise TypeError(f"req.write() takes str or bytes, not {type(data).__name__}: {data!r}")
        self._raw = True
        return data
