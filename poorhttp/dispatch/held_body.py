"""What a handler has written and nothing of which has been sent, under servers that have nothing quicker.

Contract: that of `HeldBody` in `poorhttp/_engine.pyi`, which is the same in Rust.
"""

from __future__ import annotations


class HeldBody:
    """See `poorhttp/_engine.pyi`."""

    _parts: list[str | bytes]
    _room: int

    def write(self, data: str | bytes) -> None:
        """Add to the body: str is encoded as utf-8, bytes stay as they are. Sends only when the buffer is full."""
        if data.__class__ is not str and not isinstance(data, (bytes, str)):
            self._refuse(data)
        self._parts.append(data)
        room = self._room = self._room - len(data)
        if room < 0:
            self._make_room()

    def _refuse(self, data: object) -> None:
        raise NotImplementedError

    def _make_room(self) -> None:
        raise NotImplementedError
