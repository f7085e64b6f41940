"""Paths of URIs: between what stands in a request or a link and the bytes of file names.

Knows RFC 3986. Knows nothing of files. Contract: what `encoded` returns needs no escaping in HTML or in a
field, names no scheme and no host.
"""

from __future__ import annotations

_UNRESERVED = b"-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"  # RFC 3986 section 2.3
_ENCODED = [chr(byte) if byte in _UNRESERVED or byte == ord("/") else f"%{byte:02X}" for byte in range(256)]


def encoded(path: bytes) -> str:
    """A path, or a name, with all but `/` and unreserved characters percent-encoded."""
    return "".join([_ENCODED[byte] for byte in path])


def raw(path: str) -> bytes:
    """The bytes of a path that was decoded from UTF-8; lone surrogates stand for bytes that are not UTF-8."""
    return path.encode("utf-8", "surrogateescape")
