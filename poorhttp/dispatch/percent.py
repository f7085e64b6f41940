"""Percent-encoding (RFC 3986 section 2.1): text as it may stand in a URI.

Knows which characters a URI, a path and a name in a path may hold. Knows nothing of routes and files. urllib has this
too, but costs a serving process more than the rest of this package.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_UNRESERVED = b"-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

URI = frozenset(_UNRESERVED + b"!#$%&'()*+,/:;=?@[]")
# RFC 3986 section 3.3: pchar, without & and ', which HTML would read in an attribute.
PATH = frozenset(_UNRESERVED + b"!$()*+,;=:@/")
# What stands for itself in a name or a value of a query (WHATWG URL standard, section 5).
NAMED = frozenset(_UNRESERVED)
# For names of files, which may be any bytes: the result needs no escaping in HTML or in a field, and names no host.
NAME = frozenset(_UNRESERVED + b"/")


def encoded(text: bytes, safe: frozenset[int]) -> str:
    """Return `text` with every byte that is not in `safe` as %XX."""
    return "".join([chr(byte) if byte in safe else f"%{byte:02X}" for byte in text])


def query(fields: Mapping[str, Any]) -> str:
    """`{"q": "a b", "tag": [1, 2]}` -> `q=a%20b&tag=1&tag=2`: a query of texts and numbers, and lists of these.

    Raises TypeError for other values.
    """
    pairs = []
    for name, value in fields.items():
        for each in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(each, bool) or not isinstance(each, (str, int, float)):
                raise TypeError(
                    f"the field {name!r} of the query is of type {type(each).__name__}, not str or a number"
                )
            pairs.append("=".join([encoded(text.encode(), NAMED) for text in (name, str(each))]))
    return "&".join(pairs)


def raw(path: str) -> bytes:
    """The bytes of a path that was decoded from UTF-8; lone surrogates stand for bytes that are not UTF-8."""
    return path.encode("utf-8", "surrogateescape")
