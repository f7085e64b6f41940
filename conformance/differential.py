"""A differential fuzzer: what poorhttp reads in bytes, and what h11 and llhttp (in httptools) read in the same bytes.

Knows the grammar of requests and how to break it; asks the example `verdicts` for our reading and the two for theirs.
A case is made from its seed and number alone. Every difference is looked up in KNOWN; one that is not explained there
is a failure. That we take bytes for other requests than somebody else does is never explained.

    cargo build --release --no-default-features --example verdicts
    python -m conformance.differential --cases 1000000 --record
"""

from __future__ import annotations

import argparse
import ipaddress
import json
import multiprocessing
import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import h11
import httptools

from conformance.record import RECORDS, facts

VERDICTS = Path(__file__).resolve().parents[1] / "target" / "release" / "examples" / "verdicts"
BATCH = 2000  # cases that one process judges at a time
CUT_EVERY = 50  # cases of which one is also cut everywhere, if it is short, for that takes its length squared
CUT_BELOW = 600  # bytes

# ------------------------------------------------------------------------------------------------------ readings


class Request(NamedTuple):
    """What of a request decides what is done: two readers that differ in it can be played against each other."""

    method: str
    target: str
    body: str
    fields: tuple[tuple[str, str], ...]  # name in lower case, value; without trailers


class Reading(NamedTuple):
    """The requests that a reader found, and how it stands then: `refused`, `closed`, or `open` for more bytes."""

    requests: list[Request]
    end: str
    why: str = ""


def fields_of(pairs: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """The fields as they are compared: without those that poorhttp drops (tests/corpus/README.md).

    llhttp leaves whitespace behind a value that holds a HTAB, h11 writes codings in lower case; neither means anything.
    """
    plain = ((name.lower(), value.strip(" \t")) for name, value in pairs)
    return tuple(
        (name, value.lower() if name == "transfer-encoding" else value)
        for name, value in plain
        if "_" not in name and name != "proxy"
    )


def ours(cases: list[bytes], *, is_cut: bool = False) -> list[Reading]:
    """Our readings. `is_cut`: raise where one depends on how the bytes are cut."""
    data = b"".join(len(case).to_bytes(4, "little") + case for case in cases)
    command = [str(VERDICTS), *([] if is_cut else ["--whole"])]
    lines = subprocess.run(command, input=data, stdout=subprocess.PIPE, check=True).stdout.splitlines()
    assert len(lines) == len(cases), "a verdict for each case"
    return [reading_of(case, json.loads(line)) for case, line in zip(cases, lines, strict=True)]


def reading_of(case: bytes, verdict: dict[str, Any]) -> Reading:
    if verdict["differs"] is not None:
        raise AssertionError(f"the verdict depends on how the bytes are cut ({verdict['differs']}): {case!r}")
    found = verdict["requests"]
    requests = [
        Request(
            each["method"], each["target"], each["body"], fields_of((name, value) for name, value in each["fields"])
        )
        for each in found
    ]
    if verdict["refused"] is not None:
        return Reading(requests, "refused", str(verdict["refused"]))
    return Reading(requests, "closed" if found and not found[-1]["persistent"] else "open")


def of_h11(case: bytes) -> Reading:
    """h11, answering each request with an empty 400, which grants no CONNECT or Upgrade, so that it reads the next."""
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
    connection.receive_data(case)
    requests: list[Request] = []
    head, body = None, b""
    try:
        while True:
            event = connection.next_event()
            if isinstance(event, h11.Request):
                head, body = event, b""
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                assert head is not None
                fields = ((name.decode("latin-1"), value.decode("latin-1")) for name, value in head.headers)
                method, target = head.method.decode("latin-1"), head.target.decode("latin-1")
                requests.append(Request(method, target, body.decode("latin-1"), fields_of(fields)))
                connection.send(h11.Response(status_code=400, headers=[("Content-Length", "0")]))
                connection.send(h11.EndOfMessage())
                if connection.our_state is not h11.DONE:
                    return Reading(requests, "closed")
                connection.start_next_cycle()
            else:
                return Reading(requests, "open")
    except h11.RemoteProtocolError as error:
        return Reading(requests, "refused", str(error))


class Listener:
    """What httptools calls back."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.parser = httptools.HttpRequestParser(self)
        self.persistent = True

    def on_message_begin(self) -> None:
        self.target, self.body = b"", b""
        self.pairs: list[tuple[str, str]] = []
        self.in_head = True

    def on_url(self, url: bytes) -> None:
        self.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.in_head:
            self.pairs.append((name.decode("latin-1"), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        self.in_head = False

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        method = self.parser.get_method().decode("latin-1")
        target, body = self.target.decode("latin-1"), self.body.decode("latin-1")
        self.requests.append(Request(method, target, body, fields_of(self.pairs)))
        self.persistent = self.parser.should_keep_alive()


def of_httptools(case: bytes) -> Reading | None:
    """llhttp as httptools drives it.

    None where it believes that the protocol changes: there it stops reading, body and all, while poorhttp reads on and
    sends no 101 (RFC 9110 7.8).
    """
    listener = Listener()
    try:
        listener.parser.feed_data(case)
    except httptools.HttpParserUpgrade:
        return None
    except httptools.HttpParserError as error:
        return Reading(listener.requests, "refused" if listener.persistent else "closed", str(error))
    return Reading(listener.requests, "open" if listener.persistent else "closed")


ORACLES: dict[str, Callable[[bytes], Reading | None]] = {"h11": of_h11, "httptools": of_httptools}


def difference(our: Reading, their: Reading) -> str | None:
    """In what two readings differ, the most dangerous first.

    other: a request that we take is another one to them, or one of us takes a request where the other one waits for
    more of it. fields: a request has other fields. stricter: we refuse what they take or wait for. laxer: they do so.
    persistence: one of us takes the connection for finished.
    """
    both = list(zip(our.requests, their.requests, strict=False))
    if any(one[:3] != another[:3] for one, another in both):
        return "other"
    if any(one.fields != another.fields for one, another in both):
        return "fields"
    more = len(our.requests) - len(their.requests)
    if more:
        behind = their.end if more > 0 else our.end
        return {"closed": "persistence", "open": "other"}.get(behind, "laxer" if more > 0 else "stricter")
    if our.end == their.end:
        return None
    if "closed" in (our.end, their.end):
        return "persistence"
    return "stricter" if our.end == "refused" else "laxer"


# ----------------------------------------------------------------------------------------------------- generator

TOKENS = [
    "X-A", "Accept", "a", "User-Agent", "Cookie", "X!#$%&'*+.^`|~9", "Range", "ETag", "Content-Type", "TE", "X_B",
    "Proxy",
]  # fmt: skip
VALUES = ["", "a", "b c", "\t x\ty ", "é\xff\x80", '"quoted, list"; q=0.5', "=?:;,()<>@[]{}/\\", "0", "chunked", "5"]
METHODS = ["GET"] * 8 + ["POST"] * 6 + ["HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "PROPFIND"]
PATHS = ["/", "/a", "/a/b", "//", "/%20%2f", "/a;b=c", "/.", "/../a", "/~a:@!$&'()*+,;=", "/a%", "/*"]
QUERIES = ["", "", "", "?", "?a=b", "?a=%20&b", "??", "?a/b?c"]
HOSTS = ["example.com", "a:80", "[::1]", "[::1]:8080", "127.0.0.1", "a", "localhost:"]
BODIES = ["", "x", "hello", "a\r\nb", "0\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "\0\xff\n", "y" * 300]

CRLFS = [
    "\n", "\r", "\r\r\n", "\n\r", "\r\n\r\n", "", " \r\n", "\r\n ", "\r\n\t", "\0\r\n", "\x0b\r\n", "\n\n", "\x85",
    "\r\n\r",
]  # fmt: skip
SPACES = ["", "  ", "\t", "\x0b", "\x0c", "\xa0", "\x85", "\r", " \t", "\0", "\r\n", "\n"]
COLONS = [" :", "\t:", "::", "", ";", "\0:", ":\r\n ", ": :", "\x0b:", "=", " ", ":\t\t", "\xa0:", "\r:", "\n:"]
VERSIONS = [
    "HTTP/1.0", "HTTP/1.2", "HTTP/1.9", "HTTP/2.0", "HTTP/0.9", "HTTP/1.1 ", "http/1.1", "HTTP/1.01", "HTTP/11",
    "HTTP/1.", "HTTP/1", "", "HTTP/ 1.1", "HTTP/1,1", "HTTP/3.1", "ICY/1.0", "HTTP/1.10", "HTTP/-1.1", "HTTP/1.1\t",
    "HTTP/\xb9.1", "HTTPS/1.1",
]  # fmt: skip
NASTY_METHODS = [
    "", "get", "GE T", "GET\0", "G\x7fT", "M-SEARCH", "PRI", "CONNECT", "QUERY", "FOO", "X" * 40, "G:T", "\xc7ET",
    "GET,POST", "SOURCE", "\tGET",
]  # fmt: skip
NASTY_TARGETS = [
    "*", "a", "/a#b", "/a b", "/a\tb", "/\0", "/\x7f", "/é", "/\xff", '/"<>\\^`{|}', "http://a/b", "http://a",
    "https://A:80?x", "HTTP://[::1]/", "http://", "http:///a", "http://u@a/", "http://a,b/", "http://a:b/",
    "ftp://a/", "a:80", "//a/b", "?a", "http:/a", "http://a\\b/", "http://a#b", "javascript:x", "http://a:99999/",
    "/a\r", "/\n", "http://a/ b", "/a\x0b", "http://[::1", "http://%61/",
]  # fmt: skip
LENGTHS = [
    "Content-Length: 5", "Content-Length: 0", "Content-Length: 05", "Content-Length: +5", "Content-Length: -5",
    "Content-Length: 5, 5", "Content-Length: 5,6", "Content-Length: 5 5", "Content-Length:", "Content-Length: 0x5",
    "Content-Length: 5;", "Content-Length: 5.0", "Content-Length: 9223372036854775807",
    "Content-Length: 9223372036854775808", "Content-Length: 18446744073709551616",
    "Content-Length: 18446744073709551621", "Content-Length: 99999999999999999999999", "Content-Length: \xb2",
    "Content-Length: 5\0", "Content-Length: 5_0", "content-length: 3", "Content-Length : 5", "Content_Length: 5",
    "Content-Length\t: 5", "Content-Length: 5\x0b", "Content-Length: ,5", "Content-Length: 67108865",
    "Content-Length:\t5\t", "Content-Length: 1e1", "Content-Length: 5\r\n 5",
]  # fmt: skip
CODINGS = [
    "Transfer-Encoding: chunked", "Transfer-Encoding: Chunked", "Transfer-Encoding:\tchunked\t",
    "Transfer-Encoding: identity", "Transfer-Encoding: gzip, chunked", "Transfer-Encoding: chunked, gzip",
    "Transfer-Encoding: chunked, chunked", "Transfer-Encoding: gzip", "Transfer-Encoding: chunked;a=b",
    "Transfer-Encoding: xchunked", "Transfer-Encoding: chunkedx", "Transfer-Encoding:", "Transfer-Encoding: ,chunked",
    "Transfer-Encoding: chunked,", 'Transfer-Encoding: "chunked"', "Transfer-Encoding: \x0bchunked",
    "Transfer-Encoding: chunked\0", "Transfer-Encoding: ch\xfcnked", "Transfer_Encoding: chunked",
    "Transfer-Encoding : chunked", " Transfer-Encoding: chunked", "Transfer-Encoding: chunked chunked",
    "Transfer-Encoding: identity, chunked", "Transfer-Encoding: \r\n chunked", "Transfer-Encoding\x00: chunked",
    "TE: chunked", "Transfer-Encoding:\xa0chunked", "Transfer-Encoding: cow", "X: \nTransfer-Encoding: chunked",
]  # fmt: skip
STEERING = [
    "Host: b", "Host:", "Host: a, b", "Host: a b", "Host: u@a", "Host: a/b", "Host: a:b", "Host: [::1",
    "Host: a:99999", "Host: \xe4", "Host: a\x00", "hOST: example.com", "Host : a", "Connection: close",
    "Connection: keep-alive", "Connection: close, keep-alive", "Connection: Upgrade", "Connection: x,, close",
    "Connection: closed", "Connection: keep-alive\r\nConnection: close", "Connection: transfer-encoding",
    "Connection:", "Upgrade: websocket", "Upgrade: h2c", "Connection: upgrade\r\nUpgrade: foo",
    "Expect: 100-continue", "Expect: 100-Continue", "Expect: 200-ok", "Expect:", "Expect: 100-continue, x",
    "Trailer: X-T", "Proxy: http://a", "HTTP2-Settings: x", "Proxy-Connection: close", "Keep-Alive: timeout=5",
    ": empty", "novalue", "X-A: a\0b", "X-A: a\x01b", "X-A: a\x7fb", "X-A: \x1b[m", "X A: b", "X(A): b", "\xc9: a",
    "X-A: a\rb", "X-A: a\nb", "X-A:\r\n b", "X-A: a\r\n\tb", "X-A: " + "v" * 5000, "X-A: \x80\xff", "@: a", "\x00: a",
    "X-A\x0b: b", "X-A\xa0: b", "-: -", '"X": a',
]  # fmt: skip
SIZES = [
    "+5", "-5", "0x5", " 5", "5 ", "5\t", "05", "0000000000000005", "00000000000000005", "7fffffffffffffff",
    "8000000000000000", "ffffffffffffffff", "10000000000000005", "fffffffffffffffff5", "", "g", "5g", "5_0", "5.",
    "5;", "5;a", "5;a=b", '5;a="b"', '5;a="b', "5;a=\r", "5;\n", "5;\0", "5 ;a", "5; a", '5;a="\r\n"', "5,a", "5\x0b",
    "5\r", "5\n", "5;a;b=c;d", "5;;", "5;=", "5;a=b c", "5;é", "A", "a", "00", "5;" + "e" * 5000, "4000001", "5\xa0",
    "6", "4", "1000",
]  # fmt: skip
ENDS = ["", "\n", "\r", "\r\r\n", "\n\r", "\r\n\r\n", " \r\n", "x\r\n", "\0\0", "xx", "\r\n ", "\rX"]
TRAILERS = [
    "X-T: a", "X-T:", "X-T: a\r\nX-U: b", "Content-Length: 5", "Transfer-Encoding: chunked", "Host: a",
    "Authorization: x", "X T: a", "X-T : a", "X-T: a\n", " X-T: a", "X-T: a\0", "X-T", ": a", "X-T: a\r\n b", "TE: x",
    "Trailer: X-T", "X-T: \x01", "GET / HTTP/1.1", "Cookie: a=b", "X_T: a",
]  # fmt: skip
LEADING = [
    "\r\n", "\r\n\r\n", "\n", "\r", " ", "\t", "\0", "\xef\xbb\xbf", "\r\n\r", "\r\n\n", " \r\n", "x", "0\r\n\r\n",
]  # fmt: skip
BYTES = [
    "\0", "\x01", "\t", "\n", "\x0b", "\x0c", "\r", " ", '"', "#", ",", ":", ";", "\\", "\x7f", "\x80", "\x85",
    "\xa0", "\xff", "0", "\r\n", "\r\n\r\n",
]  # fmt: skip


class Piece:
    """A piece of a request, and what stands for it where it is broken."""

    __slots__ = ("kind", "text")

    def __init__(self, kind: str, text: str) -> None:
        self.kind = kind
        self.text = text


NASTY = {
    "crlf": CRLFS, "space": SPACES, "colon": COLONS, "version": VERSIONS, "method": NASTY_METHODS, "size": SIZES,
    "target": NASTY_TARGETS, "end": ENDS, "field": LENGTHS + CODINGS + STEERING, "trailer": TRAILERS,
}  # fmt: skip


def valid(chance: random.Random) -> list[Piece]:
    """A request that is in order, of any shape."""
    version = "HTTP/1.0" if chance.random() < 0.1 else "HTTP/1.1"
    target = chance.choice(PATHS) + chance.choice(QUERIES)
    if chance.random() < 0.05:
        target = "http://" + chance.choice(HOSTS) + target
    pieces = [
        Piece("method", chance.choice(METHODS)), Piece("space", " "), Piece("target", target), Piece("space", " "),
        Piece("version", version), Piece("crlf", "\r\n"),
    ]  # fmt: skip
    lines = [("Host", chance.choice(HOSTS))]
    lines += [(chance.choice(TOKENS), chance.choice(VALUES)) for _ in range(chance.choice([0, 0, 1, 2, 5]))]
    if chance.random() < 0.15:
        lines.append(("Connection", chance.choice(["close", "keep-alive", "Close, x", "x"])))
    body = chance.choice(BODIES)
    framing = chance.choice(["none", "length", "chunked"] if version == "HTTP/1.1" else ["none", "length"])
    if framing == "length":
        lines.append(("Content-Length", str(len(body))))
        if chance.random() < 0.1:
            lines.append(("Expect", "100-continue"))
    elif framing == "chunked":
        lines.append((chance.choice(["Transfer-Encoding", "transfer-encoding"]), chance.choice(["chunked", "CHUNKED"])))
    chance.shuffle(lines)
    for name, value in lines:
        blank = chance.choice([" ", " ", " ", "", "\t"])
        pieces += [Piece("name", name), Piece("colon", ":"), Piece("value", blank + value), Piece("crlf", "\r\n")]
    pieces.append(Piece("blank", "\r\n"))
    if framing == "length":
        pieces.append(Piece("body", body))
    elif framing == "chunked":
        pieces += chunked(chance, body)
    return pieces


def chunked(chance: random.Random, body: str) -> list[Piece]:
    pieces = []
    while body:
        size = chance.randint(1, len(body))
        line = format(size, chance.choice(["x", "X", "04x"])) + chance.choice(["", "", "", ";a=b", ';a="b"'])
        pieces += [Piece("size", line), Piece("crlf", "\r\n"), Piece("data", body[:size]), Piece("end", "\r\n")]
        body = body[size:]
    pieces += [Piece("size", chance.choice(["0", "0", "000"])), Piece("crlf", "\r\n")]
    if chance.random() < 0.1:
        pieces += [Piece("trailer", chance.choice(TRAILERS[:3])), Piece("crlf", "\r\n")]
    return [*pieces, Piece("end", "\r\n")]


def mutate(chance: random.Random, pieces: list[Piece]) -> None:
    """Break one thing."""
    kind = chance.choice(
        ["piece", "piece", "piece", "field", "field", "frame", "byte", "trailer", "leading", "cut", "drop", "double"]
    )
    at = chance.randrange(len(pieces))
    piece = pieces[at]
    if kind == "piece":
        candidates = [each for each in pieces if each.kind in NASTY]
        piece = chance.choice(candidates) if candidates else piece
        piece.text = chance.choice(NASTY.get(piece.kind, BYTES))
    elif kind in ("field", "frame"):
        lines = [index for index, each in enumerate(pieces) if each.kind in ("name", "blank")]
        if lines:
            table = NASTY["field"] if kind == "field" else LENGTHS + CODINGS
            where = chance.choice(lines)
            pieces[where:where] = [Piece("field", chance.choice(table)), Piece("crlf", "\r\n")]
    elif kind == "byte":
        where = chance.randint(0, len(piece.text))
        piece.text = piece.text[:where] + chance.choice(BYTES) + piece.text[where + chance.randint(0, 1) :]
    elif kind == "trailer":
        lasts = [index for index, each in enumerate(pieces) if each.kind == "size" and each.text.strip("0") == ""]
        if lasts:
            where = lasts[-1] + 2
            pieces[where:where] = [Piece("trailer", chance.choice(TRAILERS)), Piece("crlf", "\r\n")]
    elif kind == "leading":
        pieces.insert(0, Piece("leading", chance.choice(LEADING)))
    elif kind == "cut":
        del pieces[at:]
        pieces.append(Piece("cut", piece.text[: chance.randint(0, len(piece.text))]))
    elif kind == "drop":
        piece.text = ""
    else:
        pieces.insert(at, Piece(piece.kind, piece.text))


def case_of(seed: int, number: int) -> bytes:
    """One to three requests behind each other, with nothing to three things broken."""
    chance = random.Random(seed << 40 | number)
    pieces = [piece for _ in range(chance.choice([1, 1, 2, 3])) for piece in valid(chance)]
    for _ in range(chance.choice([0, 0, 1, 1, 1, 2, 3])):
        mutate(chance, pieces)
    return "".join(piece.text for piece in pieces).encode("latin-1", "replace")


# ---------------------------------------------------------------------------------------------- known differences


class Known(NamedTuple):
    """A difference that is explained: how it is recognised, and why we are right."""

    kind: str
    name: str
    holds: Callable[[bytes, Reading, Reading], Any]
    reason: str


def within(pattern: str) -> Callable[..., Any]:
    """Whether the pattern is found in the bytes."""
    search = re.compile(pattern.encode("latin-1"), re.DOTALL | re.IGNORECASE).search
    return lambda case, *_: search(case)


def taken(test: Callable[[Request, str], Any]) -> Callable[[bytes, Reading, Reading], Any]:
    """Whether `test` holds of the request that they take and we refuse, and of our status."""
    return lambda _, our, their: test(their.requests[len(our.requests)], our.why)


def said(pattern: str, also: str = "") -> Callable[[bytes, Reading, Reading], Any]:
    """Whether they refuse with these words, and `also` is found in the bytes."""
    words, found = re.compile(pattern).match, within(also)
    return lambda case, _, their: words(their.why) and found(case)


def values(request: Request, name: str) -> list[str]:
    return [value for each, value in request.fields if each == name]


def is_host(text: str) -> bool:
    """RFC 9110 7.2, RFC 3986 3.2.2, without the comma."""
    match = HOST.fullmatch(text)
    if match is None or int(match["port"] or 0) > 65535:
        return False
    try:
        return not match["literal"] or bool(ipaddress.IPv6Address(match["literal"]))
    except ValueError:
        return False


def has_no_host(request: Request, _: str) -> bool:
    hosts = values(request, "host")
    return len(hosts) != 1 or not is_host(hosts[0])


def has_no_line(case: bytes, our: Reading, their: Reading) -> bool:
    """Whether the request that they take has another request line than RFC 9112 3 has, of 1.0 or above."""
    request = their.requests[len(our.requests)]
    return f"{request.method} {request.target} HTTP/1.".encode("latin-1") not in case


def has_no_form(request: Request, _: str) -> bool:
    """Whether the target has none of the forms of RFC 9112 3.2, or holds what no form has."""
    absolute = re.fullmatch("https?://([^/?]*)(.*)", request.target, re.IGNORECASE | re.DOTALL)
    asterisk = request.method == "OPTIONS" and request.target == "*"
    is_form = is_host(absolute[1]) if absolute else request.target.startswith("/") or asterisk
    return not is_form or not re.fullmatch('[!-"$-~]+', request.target)


def is_framed_oddly(request: Request, status: str) -> bool:
    """Whether the framing fields are anything but one Content-Length of digits or one plain `chunked`."""
    codings, lengths = values(request, "transfer-encoding"), values(request, "content-length")
    is_plain = codings in ([], ["chunked"]) and all(re.fullmatch("[0-9]{1,18}", length) for length in lengths)
    return status in ("400", "501") and not (is_plain and len(codings) + len(lengths) <= 1)


def is_too_large(request: Request, status: str) -> bool:
    lengths = [length for length in values(request, "content-length") if length.isdecimal()]
    return status == "413" and any(int(length) > 64 << 20 for length in lengths)


def expects_something(request: Request, status: str) -> bool:
    return status == "417" and any(value.lower() != "100-continue" for value in values(request, "expect"))


def is_doomed(case: bytes, our: Reading, their: Reading) -> bool:
    """Whether we wait only for the end of the line or of the head to refuse it: no ending makes a request of it."""
    is_waiting = our.end == "open" and len(our.requests) == len(their.requests)
    return is_waiting and all(
        len(reading.requests) == len(our.requests) for reading in ours([case + ending for ending in ENDINGS])
    )


ENDINGS = [b"\r\n\r\n", b"\n\r\n", b" HTTP/1.1\r\nHost: a\r\n\r\n", b"\r\n0\r\n\r\n"]
HOST = re.compile(r"(\[(?P<literal>[^]]*)\]|([!$&-+.0-9;=A-Z_a-z~-]|%[0-9A-Fa-f]{2})+)(:(?P<port>[0-9]{0,5}))?")
TCHAR = r"[!#$%&'*+.^_`|~0-9A-Za-z-]"
FORBIDDEN = "Authorization|Content-Length|Content-Type|Cookie|Expect|Host|TE|Trailer|Transfer-Encoding|Connection"
CHUNK_LINE = r"\r\n[0-9a-f]"
EXTENSION = rf'([ \t]*;[ \t]*{TCHAR}+([ \t]*=[ \t]*({TCHAR}+|"([^"\\\r\n]|\\[^\r\n])*"))?)'
KNOWN = [
    # They take, or wait for more of, what we refuse.
    Known("stricter", "refused sooner", lambda _, our, their: len(their.requests) <= len(our.requests),
          "nobody takes it: RFC 9112 2.2, a server that sees a wrong byte need not wait for the rest"),
    Known("stricter", "Host", taken(has_no_host), "RFC 9112 3.2: exactly one, and valid by RFC 3986 3.2.2"),
    Known("stricter", "target", taken(has_no_form), "RFC 9112 3.2: four forms, of visible ASCII without a fragment"),
    Known("stricter", "request line", has_no_line, "RFC 9112 3: single spaces and a version; 2.3: HTTP/1.x"),
    Known("stricter", "framing", taken(is_framed_oddly),
          "RFC 9112 6.1, 6.3: both fields, a list, 64 bits or another coding are repaired differently by everybody"),
    Known("stricter", "Content-Length repeated",
          within(r"Content-Length:([^\r\n]*,|[^\r\n]*\r\n([^\r\n]+\r\n)*Content-Length:)"),
          "RFC 9112 6.3: one that says the same may be repaired; h11 does"),
    Known("stricter", "Transfer-Encoding in 1.0", within(r"HTTP/1\.0\r\n([^\r\n]+\r\n)*Transfer-Encoding:"),
          "RFC 9112 6.1: faulty framing"),
    Known("stricter", "max_body", taken(is_too_large), "RFC 9110 15.5.14: refused before it is read"),
    Known("stricter", "Expect", taken(expects_something), "RFC 9110 10.1.1: 417 for all but 100-continue"),
    Known("stricter", "CONNECT", taken(lambda request, status: status == "501" and request.method == "CONNECT"),
          "RFC 9110 9.3.6: for proxies"),
    Known("stricter", "HTTP/2 and above", within(r" HTTP/[2-9]\.[0-9]"), "RFC 9110 15.6.6"),
    Known("stricter", "bare LF", within(r"(?<!\r)\n"), "RFC 9112 2.2: a recipient MAY end a line with it"),
    Known("stricter", "bare CR", within(r"\r(?!\n)"), "RFC 9112 2.2: invalid, or replaced by SP"),
    Known("stricter", "obs-fold", within(r"\r\n[ \t]"), "RFC 9112 5.2: refused, or replaced by SP"),
    Known("stricter", "empty lines", within(r"(?:^|\r\n)\r\n\r\n"), "RFC 9112 2.2: at least one is ignored; one is"),
    Known("stricter", "control in a value", within(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]"), "RFC 9110 5.5"),
    Known("stricter", "field name", within(rf"\r\n(?!{TCHAR}+:)[^\r\n]*:"), "RFC 9112 5.1: a token, then the colon"),
    Known("stricter", "chunk size", within(CHUNK_LINE + r"+[ \t]+\r"), "RFC 9112 7.1: no whitespace"),
    Known("stricter", "chunk size of 64 bits", within(CHUNK_LINE + "{16,}"), "RFC 9112 7.1: beware of overflow"),
    Known("stricter", "chunk extension", within(CHUNK_LINE + rf"+(?!{EXTENSION}*\r\n);[^\r\n]*"),
          "RFC 9112 7.1.1: names and values are tokens or quoted strings; h11 takes any bytes"),
    Known("stricter", "chunk extension of 4 KiB", within(CHUNK_LINE + r"+;[^\r\n]{4000,}"),
          "RFC 9112 7.1.1: a server ought to limit them"),
    Known("stricter", "trailer", within(CHUNK_LINE + rf"*(;[^\r\n]*)?\r\n([^\r\n]+\r\n)*({FORBIDDEN}):"),
          "RFC 9110 6.5.1: none that frames, routes or authorises"),
    # They refuse what we take.
    Known("laxer", "empty line", said("no request line received"), "RFC 9112 2.2: at least one SHOULD be ignored"),
    Known("laxer", "method", said("Invalid method|Expected space after method|Expected HTTP/2 Connection Preface"),
          "RFC 9110 9.1: any token is a method; llhttp has a list, and a preface for PRI"),
    Known("laxer", "HTTP/1.2 to 1.9", said("Invalid HTTP version", r"HTTP/1\.[2-9]"), "RFC 9110 2.5: like 1.1"),
    Known("laxer", "chunk extension", said("Invalid (character|quoted-pair) in chunk extensions", r";"),
          "RFC 9112 7.1.1: whitespace around ; and = is parsed and means nothing; a quoted-pair may be of obs-text"),
    Known("laxer", "blank before a chunk extension",
          said("illegal chunk header|Invalid character in chunk size", CHUNK_LINE + r"+[ \t]+;"),
          "RFC 9112 7.1.1: whitespace before the semicolon is parsed and means nothing"),
    Known("laxer", "HTAB behind a coding", said("Request has invalid `Transfer-Encoding`", r"chunked\t+\r"),
          "RFC 9110 5.6.3: OWS is SP and HTAB"),
    Known("laxer", "refused later", is_doomed, "what fields say together is judged at the end of the head"),
    # One of us ends the connection sooner.
    Known("persistence", "keep-alive in 1.0", within(r"HTTP/1\.0\r\n.*Connection:([^\r\n]*,)?[ \t]*keep-alive"),
          "RFC 9112 9.3: h11 knows no persistence of 1.0; beside close it means nothing"),
    Known("persistence", "Proxy-Connection", within("Proxy-Connection: close"), "RFC 9112 C.2.2: means nothing"),
]  # fmt: skip


def explain(case: bytes, kind: str, our: Reading, their: Reading) -> str | None:
    """The name of the known difference that this one is."""
    return next((known.name for known in KNOWN if known.kind == kind and known.holds(case, our, their)), None)


# --------------------------------------------------------------------------------------------------------- running


class Tally(NamedTuple):
    """What a batch gave: how many of what, and the failures in words."""

    counts: Counter[str]
    failures: list[str]


def judge(batch: tuple[int, int, int]) -> Tally:
    """Judge the cases `first` to `end` of `seed`."""
    seed, first, end = batch
    counts: Counter[str] = Counter()
    failures = []
    cases = [case_of(seed, number) for number in range(first, end)]
    readings = ours(cases)
    ours([case for case in cases[::CUT_EVERY] if len(case) < CUT_BELOW], is_cut=True)
    for number, case, our in zip(range(first, end), cases, readings, strict=True):
        counts["cases"] += 1
        counts["bytes"] += len(case)
        counts["requests that we take"] += len(our.requests)
        counts["cases that we refuse"] += our.end == "refused"
        theirs = {name: oracle(case) for name, oracle in ORACLES.items()}
        for name, their in theirs.items():
            if their is None:
                counts[f"{name}: not asked: upgrade"] += 1
                continue
            kind = difference(our, their)
            if kind is None:
                counts[f"{name}: the same"] += 1
            elif known := explain(case, kind, our, their):
                counts[f"{name}: {kind}: {known}"] += 1
            else:
                failures.append(
                    f"{kind}, against {name}, seed {seed}, case {number}:\n  {case!r}\n  ours: {our}\n"
                    + "".join(f"  {each}: {reading}\n" for each, reading in theirs.items())
                )
    return Tally(counts, failures)


def run(seed: int, cases: int, jobs: int = 1) -> Tally:
    """Judge the first `cases` cases of `seed` in `jobs` processes."""
    batches = [(seed, first, min(first + BATCH, cases)) for first in range(0, cases, BATCH)]
    if jobs == 1:
        return total(map(judge, batches))
    with multiprocessing.Pool(jobs) as pool:
        return total(pool.imap_unordered(judge, batches))


def total(tallies: Iterable[Tally]) -> Tally:
    counts: Counter[str] = Counter()
    failures = []
    for tally in tallies:
        counts += tally.counts
        failures += tally.failures
    return Tally(counts, failures)


def rows(tally: Tally) -> list[tuple[int, str]]:
    """What was counted, by what it is about, the most frequent first."""
    counted = sorted(tally.counts.items(), key=lambda item: (item[0].partition(":")[0], -item[1]))
    return [*((count, name) for name, count in counted), (len(tally.failures), "not explained")]


def markdown(of: dict[str, str], seed: int, cases: int, seconds: float, tally: Tally) -> str:
    """The record of a run `of` something: `--seed` and `--cases` repeat it."""
    oracles = {f"version of {name}": version(name) for name in ORACLES}
    run = {"seed": seed, "cases": f"{cases:,}", "seconds": f"{seconds:.0f}"}
    told = {**of, **oracles, **run, "not explained": len(tally.failures)}
    return (
        "# differential: generated requests, as poorhttp, h11 and llhttp (httptools) read them\n\n"
        + "".join(f"- {name}: {value}\n" for name, value in told.items())
        + "\nEach difference is named by its kind and its reason in the table of `conformance/differential.py`.\n\n"
        + "| count | of |\n|---:|---|\n"
        + "".join(f"| {count:,} | {name} |\n" for count, name in rows(tally))
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cases", type=int, default=20_000, help="how many to make (%(default)s)")
    parser.add_argument("--seed", type=int, default=time.time_ns() // 1_000_000, help="of the cases (the clock)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (%(default)s)")
    parser.add_argument("--record", action="store_true", help="write records/differential.md")
    given = parser.parse_args()
    of, began = facts(), time.monotonic()
    tally = run(given.seed, given.cases, given.jobs)
    seconds = time.monotonic() - began
    if given.record:
        text = markdown(of, given.seed, given.cases, seconds, tally)
        (RECORDS / "differential.md").write_text(text, encoding="utf-8")
    print(f"seed {given.seed}, {seconds:.0f} s")
    for count, name in rows(tally):
        print(f"{count:12,}  {name}")
    print("\n".join(tally.failures[:50]))
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
