"""Values as JSON that come back exactly as they were; all else is refused.

Knows what JSON would alter: tuples become lists, keys become str, subclasses become their base.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DEPTH = 100
"""Levels of lists and dicts within each other at most."""

_decode = json.JSONDecoder().decode
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_PLAIN = frozenset({str, int, float, bool, type(None)})


def pack(value: object) -> bytes:
    """Raises TypeError that names the part which JSON would alter."""
    ensure_unaltered(value, "the value")
    try:
        return _encode(value).encode()
    except UnicodeEncodeError:
        raise TypeError("the value holds half of a surrogate pair, which UTF-8 does not have") from None
    except ValueError as error:  # nan, or an int of thousands of digits
        raise TypeError(f"the value cannot be written as JSON: {error}") from None


def unpack(data: bytes) -> object:
    return _decode(data.decode())


def ensure_unaltered(value: Any, place: str, depth: int = 0) -> None:
    """Raise TypeError if JSON does not have the value, or gives back another one. place: what a message calls it."""
    kind = type(value)
    if kind in _PLAIN:
        return
    if depth > DEPTH:
        raise TypeError(f"{place[:200]} is more than {DEPTH} levels deep, or holds itself")
    if kind is list:
        for index, each in enumerate(value):
            if type(each) not in _PLAIN:
                ensure_unaltered(each, f"{place}[{index}]", depth + 1)
    elif kind is dict:
        for key, each in value.items():
            if type(key) is not str:
                found = type(key).__name__
                raise TypeError(f"{place} has the key {key!r} of type {found}: keys are str")
            if type(each) not in _PLAIN:
                ensure_unaltered(each, f"{place}[{key!r}]", depth + 1)
    else:
        expected = "expected bytes, or str, int, float, bool, None, list and dict themselves"
        raise TypeError(f"{place} is of type {kind.__name__}: {expected}")
