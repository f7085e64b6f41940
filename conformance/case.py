"""One case of any suite: bytes, and what they mean. Data, and the one repair that suites need: a Host.

Text is latin-1: one character is one byte of the wire.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal
from urllib.parse import unquote_to_bytes

# What follows the accepted requests: nothing that means anything; a request to refuse at once; one that is not all
# there, and so is neither accepted nor due to be refused; one that the suite lets a server accept or refuse.
End = Literal["nothing", "refused", "incomplete", "either"]


@dataclass(frozen=True)
class Request:
    """What the application must see of an accepted request."""

    method: str
    path: str  # percent-decoded, without scheme and authority
    query: str
    body: str
    fields: tuple[tuple[str, str], ...]
    host: str | None = None  # None: not compared
    by_server: bool = False  # `OPTIONS *`, CONNECT: no WSGI application needs to hear of it, and no path is told


@dataclass(frozen=True)
class Case:
    suite: str
    name: str
    raw: bytes
    requests: tuple[Request | None, ...]  # None: accepted, and the suite does not tell what it is
    end: End
    status: int | None = None  # of the refusal, where the suite tells it
    note: str = ""
    settings: tuple[str, ...] = ()  # options of poorhttp that the case is about; no other server is asked then


def request(method: str, target: str, body: str, fields: Iterable[tuple[str, str]]) -> Request:
    """A Request from its target as sent: in origin-form, or in absolute-form (RFC 9112 section 3.2)."""
    origin = re.sub(r"^[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*(?=[/?#]|$)", "", target).partition("#")[0]
    path, _, query = origin.partition("?")
    decoded = unquote_to_bytes(path.encode("latin-1")).decode("latin-1") or "/"
    return Request(method, decoded, query, body, tuple(fields), by_server=target == "*" or method == "CONNECT")


def with_host(case: Case) -> Case:
    """The case with a Host in each HTTP/1.1 head that has none.

    Older suites leave it out, which RFC 9112 section 3.2 wants refused: each of their cases would be refused for that,
    and show nothing of what it is about. The field is put in behind the request line, but not where a fold follows.
    """
    raw, start = case.raw, 0
    for _ in range(len(case.requests) + (case.end != "nothing")):
        line = re.compile(rb"[^\r\n]* HTTP/1\.[0-9]\r\n(?![ \t])").search(raw, start)
        if not line:
            break
        head_end = raw.find(b"\r\n\r\n", line.end() - 2)
        start = len(raw) if head_end < 0 else head_end + 4
        if line[0].endswith(b"1.1\r\n") and not re.search(rb"(?im)^host[ \t]*:", raw[line.end() : start]):
            raw = raw[: line.end()] + b"Host: example.com\r\n" + raw[line.end() :]
            start += len(b"Host: example.com\r\n")
    return replace(case, raw=raw)


def distinct(cases: Iterable[Case]) -> Iterator[Case]:
    """The cases, with a number behind a name that came before."""
    names: dict[str, int] = {}
    for case in cases:
        number = names[case.name] = names.get(case.name, 0) + 1
        yield replace(case, name=f"{case.name} #{number}") if number > 1 else case
