"""Texts that only this site can have written: HMAC-SHA256 with several keys, of which the first signs.

Knows nothing of cookies and sessions. A key is derived from a secret and a purpose, so that what was signed for one
purpose is refused for another.
"""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from hashlib import sha256
from hmac import compare_digest, digest

from poorhttp.sessions.errors import SessionError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

LEAST = 32
"""Bytes of a secret at least."""

HINT = (
    "make a secret with python3 -c 'import secrets; print(secrets.token_hex(32))', and let the server have it in a "
    "variable of its environment"
)


class _Key:
    """A key of HMAC-SHA256 whose two first blocks are hashed already, which halves the time (RFC 2104 section 4)."""

    __slots__ = ("_inner", "_outer")

    def __init__(self, key: bytes) -> None:
        """key: 32 bytes."""
        block = key.ljust(sha256().block_size, b"\0")
        self._inner = sha256(bytes(each ^ 0x36 for each in block))
        self._outer = sha256(bytes(each ^ 0x5C for each in block))

    def mac(self, text: bytes) -> bytes:
        """Return the MAC of a text, in base64."""
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(text)
        outer.update(inner.digest())
        return b2a_base64(outer.digest(), newline=False)


class Signer:
    def __init__(self, secrets: str | bytes | Sequence[str | bytes] | None, purpose: str) -> None:
        """secrets: the first signs, all of them are accepted. Raises SessionError, also for None and "", as
        `os.environ.get` returns them.
        """
        if not secrets:
            raise SessionError(f"sessions in a cookie need secrets=..., which is {secrets!r}: {HINT}")
        listed = [secrets] if isinstance(secrets, (str, bytes)) else list(secrets)
        self._keys = [_Key(digest(_secret(each), f"poorhttp.sessions {purpose}".encode(), "sha256")) for each in listed]

    def sign(self, message: bytes) -> str:
        """Return the message and its signature in base64: `message.signature`."""
        text = b2a_base64(message, newline=False)  # a cookie may have each of its characters (RFC 6265 section 4.1.1)
        return (text + b"." + self._keys[0].mac(text)).decode()

    def verify(self, signed: str) -> tuple[bytes, bool] | None:
        """Return the message, and whether an old key has signed it; None if no key has."""
        if not signed.isascii():
            return None
        text, _, mac = signed.encode().rpartition(b".")
        for index, key in enumerate(self._keys):
            if compare_digest(mac, key.mac(text)):
                return a2b_base64(text), index > 0
        return None


def _secret(value: object) -> bytes:
    secret = value.encode() if isinstance(value, str) else value
    if not isinstance(secret, bytes):
        raise SessionError(f"a secret is of type {type(value).__name__}; expected str or bytes")
    if len(secret) < LEAST:
        raise SessionError(f"a secret has {len(secret)} bytes; expected at least {LEAST}: {HINT}")
    return secret
