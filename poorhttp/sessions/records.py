"""The form of a session at rest: JSON, with the times that bound its life. Never pickle: reading a record runs no code.

Knows which values JSON gives back as they were. Knows nothing of stores and cookies.
"""

from __future__ import annotations

import json

from poorhttp.sessions.errors import SessionError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DEPTH = 100
"""Levels of lists and dicts within each other at most."""

_decode = json.JSONDecoder().raw_decode
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_PLAIN = (str, int, float, bool, type(None))


def dump(data: dict[str, Any]) -> bytes:
    """Return the JSON of a session's data. Raises SessionError that names the value which JSON does not have."""
    try:
        return _encode(data).encode()
    except (TypeError, ValueError, RecursionError):
        check(data, "session")  # finds it, and says where
        raise SessionError("the data of the session cannot be written as JSON") from None


def check(value: object, place: str, depth: int = 0) -> None:
    """Raise SessionError for what JSON does not have, or gives back as something else.

    JSON turns the key 1 of a dict into "1", so that the next request would not find it.
    """
    if depth > DEPTH:
        raise SessionError(f"the session holds values more than {DEPTH} levels deep, or one that holds itself")
    if isinstance(value, dict):
        for key, each in value.items():
            if not isinstance(key, str):
                raise SessionError(f"{place} has the key {key!r}: keys are str, not {type(key).__name__}")
            if not key.isascii():
                _check_text(key, f"the key {key!a} of {place}")
            check(each, f"{place}[{key!r}]", depth + 1)
    elif isinstance(value, (list, tuple)):
        for index, each in enumerate(value):
            check(each, f"{place}[{index}]", depth + 1)
    elif not isinstance(value, _PLAIN):
        hint = "a session holds str, int, float, bool, None, lists and dicts"
        raise SessionError(f"{place} is of type {type(value).__name__}: {hint}")
    elif isinstance(value, float) and not -1e400 < value < 1e400:
        raise SessionError(f"{place} is {value}: JSON has no such number")
    elif isinstance(value, str) and not value.isascii():
        _check_text(value, place)


def _check_text(text: str, place: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise SessionError(f"{place} holds half of a surrogate pair, which UTF-8 does not have") from None


def parse(text: bytes) -> dict[str, Any]:
    """Return the data of a session. Raises ValueError if it is none."""
    decoded = text.decode()
    try:
        data, end = _decode(decoded)
    except RecursionError:
        raise ValueError("too deep") from None
    if not isinstance(data, dict) or end != len(decoded):
        raise ValueError("no object")
    return data


def largest(data: dict[str, Any]) -> str:
    """The key of a session that has most of its JSON, for a message: `session['cart'] has 4000 bytes of it`."""
    size, key = max((len(dump({key: value})) - 2, key) for key, value in data.items())
    return f"session[{key!r}] has {size} bytes of it"


class Record:
    """A session at rest. created, end: seconds since 1970; at `end` the session is over, however much it is used."""

    __slots__ = ("created", "end", "successors", "text")

    def __init__(self, created: float, end: float, text: bytes, successors: tuple[str, ...] = ()) -> None:
        """text: the data as JSON. successors: the keys of the sessions that this one was rotated to, if it still lives
        for the time of grace.
        """
        self.created = created
        self.end = end
        self.text = text
        self.successors = successors

    def pack(self) -> bytes:
        if not self.successors:
            return b"1 %.3f %.3f %b" % (self.created, self.end, self.text)
        return b"2 %.3f %.3f %b %b" % (self.created, self.end, ",".join(self.successors).encode(), self.text)


def unpack(packed: bytes) -> Record:
    """Raises ValueError."""
    form, created, end, text = packed.split(b" ", 3)
    if form == b"1":
        return Record(float(created), float(end), text)
    if form == b"2":
        successors, text = text.split(b" ", 1)
        return Record(float(created), float(end), text, tuple(successors.decode("ascii").split(",")))
    raise ValueError(f"a record of form {form!r}, which this release does not know")
