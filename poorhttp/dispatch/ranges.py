"""Parts of a file: which ones a client asks for, and how several of them are sent (RFC 9110 section 14).

Knows the fields Range, If-Range and Content-Range. Contract: no request makes an answer larger than the file and the
heads of `MOST` parts, for parts that overlap or touch each other become one.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

MOST = 16
"""Parts of one answer."""

_MOST_ASKED = 100
_DIGITS = 18  # of a position: no file is larger
_BLOCK = 65536


def asked(field: str, size: int) -> list[tuple[int, int]] | None:
    """The parts of a file of `size` bytes that Range asks for, each from its first byte to the one behind its last.

    An empty list: the file has none of them, which is answered 416. None: the field is to be ignored (section 14.2),
    since it is invalid, of another unit, or asks for too many parts.
    """
    unit, sign, text = field.partition("=")
    specs = [spec.strip(" \t") for spec in text.split(",", _MOST_ASKED)]
    if unit.strip().lower() != "bytes" or not sign or len(specs) > _MOST_ASKED or not any(specs):
        return None
    parts = []
    for spec in filter(None, specs):  # empty elements of a list mean nothing (section 5.6.1.2)
        part = _part(spec, size)
        if part is None:
            return None
        if part[0] < part[1]:
            parts.append(part)
        elif not size and spec.startswith("-") and spec.strip("-0"):
            return None  # the last bytes of an empty file: such a part exists, but Content-Range cannot name it
    joined = _joined(parts)
    chosen = parts if len(joined) == len(parts) else joined  # in the order of the client, if nothing was joined
    return None if len(chosen) > MOST else chosen


def applies(field: str | None, etag: str, modified: str, modified_seconds: float) -> bool:
    """Whether Range is to be heeded, by the field If-Range (section 13.1.5), which names the file that the client has
    a part of.
    """
    if field is None:
        return True
    if '"' in field:
        return field.strip() == etag and not etag.startswith("W/")
    # A file may have changed twice in the second that a date names (section 8.8.2.2).
    return field.strip() == modified and modified_seconds + 1 < time.time()


def content_range(part: tuple[int, int], size: int) -> str:
    """The value of Content-Range for a part."""
    return f"bytes {part[0]}-{part[1] - 1}/{size}"


def _part(spec: str, size: int) -> tuple[int, int] | None:
    """A part as the file has it, empty if it has nothing of it; None for what is no part (section 14.1.2)."""
    first, dash, last = spec.partition("-")
    if not dash or not all(digits.isascii() and digits.isdecimal() for digits in (first, last) if digits):
        return None
    if not first:
        return (max(0, size - _number(last)), size) if last else None
    begin, end = _number(first), _number(last) + 1 if last else size
    return None if last and end <= begin else (begin, max(begin, min(end, size)))


def _number(digits: str) -> int:
    return int(digits) if len(digits) <= _DIGITS else 10**_DIGITS


def _joined(parts: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The bytes of all parts, ascending, in as few parts as possible."""
    joined: list[tuple[int, int]] = []
    for first, end in sorted(parts):
        if joined and first <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((first, end))
    return joined


class Multipart:
    """A body with several parts of a file (multipart/byteranges, section 14.6). size: bytes of the whole body."""

    # See FileSlice.
    modified: int | None = None
    to_end = False

    def __init__(self, descriptor: int, kind: str, file_size: int, parts: list[tuple[int, int]]) -> None:
        """kind: the media type of the file. The descriptor is closed by `close`."""
        self._descriptor = descriptor
        boundary = os.urandom(12).hex()
        self.kind = f"multipart/byteranges; boundary={boundary}"
        self._parts = [
            (
                f"\r\n--{boundary}\r\nContent-Type: {kind}\r\n"
                f"Content-Range: {content_range(part, file_size)}\r\n\r\n".encode("latin-1"),
                *part,
            )
            for part in parts
        ]
        self._end = f"\r\n--{boundary}--\r\n".encode()
        self.size = sum(len(head) + end - first for head, first, end in self._parts) + len(self._end)

    def wrapped(self, file_wrapper: Callable[[Any, int], Iterable[bytes]] | None) -> Iterable[bytes]:
        """The body for the server; a wrapper of files is of no use for it."""
        return self

    def __iter__(self) -> Iterator[bytes]:
        for head, first, end in self._parts:
            yield head
            position = first
            while position < end:
                block = os.pread(self._descriptor, min(_BLOCK, end - position), position)
                if not block:
                    return  # the file has become shorter: the server sees that the body lacks bytes
                yield block
                position += len(block)
        yield self._end

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)
