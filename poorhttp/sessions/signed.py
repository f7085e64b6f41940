"""Sessions in the cookie itself, signed: the site keeps nothing. Clients can read the data, but not change it.

Knows signing and expiry. Two things are impossible here: to end a session before its time (a copy of the cookie stays
valid until it expires), and to put the changes of two requests together (the browser keeps the answer that came last).
"""

from __future__ import annotations

from poorhttp.sessions.errors import TooLarge
from poorhttp.sessions.records import Record, dump, parse, unpack
from poorhttp.sessions.store import now

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from poorhttp.sessions.policy import Policy
    from poorhttp.sessions.signing import Signer


class Signed:
    """A session that came with the request. saved: when, in seconds since 1970."""

    __slots__ = ("data", "is_of_old_key", "record", "saved")

    def __init__(self, record: Record, saved: float, is_of_old_key: bool) -> None:
        """Raises ValueError."""
        self.record = record
        self.data = parse(record.text)
        self.saved = saved
        self.is_of_old_key = is_of_old_key


class SignedSessions:
    """The keeper of sessions in cookies."""

    def __init__(self, signer: Signer, policy: Policy, room: int) -> None:
        """room: bytes that the value of the cookie may have."""
        self._signer = signer
        self._policy = policy
        self._room = room

    def load(self, token: str) -> Signed | None:
        verified = self._signer.verify(token) if len(token) <= self._room else None
        if verified is None:
            return None
        message, is_of_old_key = verified
        try:
            saved, _, packed = message.partition(b" ")
            held = Signed(unpack(packed), float(saved), is_of_old_key)
        except ValueError:
            return None  # signed by another release
        time = now()
        return held if time < held.record.end and time - held.saved < self._policy.idle else None

    def create(self, text: bytes) -> str:
        start = now()
        return self._token(Record(start, start + self._policy.absolute, text))

    def replace(self, held: Signed, data: dict[str, Any], is_rotated: bool) -> str:
        """A signed session has no id to rotate; its cookie is new after each change."""
        return self._token(Record(held.record.created, held.record.end, dump(data))) if data else ""

    def refresh(self, held: Signed) -> str | None:
        if held.is_of_old_key or now() - held.saved > self._policy.refresh:
            return self._token(held.record)
        return None

    def end(self, held: Signed) -> None:
        """The cookie is removed by the answer."""

    def release(self, held: Signed) -> None:
        """Nothing is locked."""

    def _token(self, record: Record) -> str:
        token = self._signer.sign(b"%.3f %b" % (now(), record.pack()))
        if len(token) > self._room:
            told = f"a session of {len(record.text)} bytes makes a cookie of {len(token)}, above {self._room}"
            raise TooLarge(f"{told}: browsers would drop it; keep less in it, or take another store")
        return token
