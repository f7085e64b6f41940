"""Every byte value in every position of a request: each is served or refused as the grammar has it, and at once.

Knows RFC 9112 and RFC 9110 as sets of bytes, written down here once more; knows nothing of the parser. One process sees
all of it: a refused client gets one whole answer with Connection: close and the end of the connection, the application
is not called, the error log has one line.
"""

from __future__ import annotations

import json
import re
import string
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

TCHAR = frozenset(b"!#$%&'*+-.^_`|~" + (string.ascii_letters + string.digits).encode())  # RFC 9110 5.6.2
VALUE = frozenset({0x09, *range(0x20, 0x7F), *range(0x80, 0x100)})  # RFC 9110 5.5
TARGET = frozenset(range(0x21, 0x7F)) - frozenset(b"#")  # the policy: what is visible, but no fragment
# RFC 3986 3.2.2 without the comma and the escapes, which need more than one byte.
REG_NAME = frozenset(b"-._~!$&'()*+;=" + (string.ascii_letters + string.digits).encode())
DIGIT = frozenset(string.digits.encode())
HEX = frozenset(string.hexdigits.encode())
BLANK = frozenset(b" \t")
CR, LF, SP = frozenset(b"\r"), frozenset(b"\n"), frozenset(b" ")
NONE: frozenset[int] = frozenset()

LINE = b"GET / HTTP/1.1\r\n"
HOST = b"Host: a\r\nConnection: close\r\n"
REST = b"\r\n" + HOST + b"\r\n"
POST = b"POST / HTTP/1.1\r\n" + HOST
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
VERSION = b"HTTP/1.1"

APP = """
import json

calls = 0

def application(environ, start_response):
    global calls
    calls += 1
    body = environ["wsgi.input"].read()
    told = {name: value for name, value in environ.items() if type(value) is str}
    answer = json.dumps([calls, told, len(body)]).encode()
    start_response("200 OK", [("Content-Length", str(len(answer)))])
    return [answer]
"""


class Place(NamedTuple):
    """A place where each byte stands once.

    before, after: what is sent around it; after may depend on it. verdict: its statuses; who is not in it gets 400.
    open: bytes that are no fault yet until more comes, though what is sent then makes them one.
    told: what the application is told where the byte is good; the text in place of {}.
    """

    before: bytes
    after: bytes | Callable[[int], bytes]
    verdict: dict[int, int]
    open: frozenset[int] = NONE
    told: Callable[[str], dict[str, str]] = lambda text: {}


def good(*sets: frozenset[int]) -> dict[int, int]:
    return dict.fromkeys(frozenset().union(*sets), 200)


def stripped(name: str, form: str) -> Callable[[str], dict[str, str]]:
    return lambda text: {name: form.format(text).strip(" \t")}


def field_of(form: str) -> Callable[[str], dict[str, str]]:
    """The variable of a field line; none with an underscore in its name."""

    def told(text: str) -> dict[str, str]:
        name, _, value = form.format(text).partition(":")
        variable = "HTTP_" + "".join(c.upper() if c.isascii() else c for c in name).replace("-", "_")
        return {variable: "" if "_" in name else value.strip(" ")}

    return told


def coding(*served: int, malformed: bytes) -> dict[int, int]:
    """Of Transfer-Encoding: what is a token is a coding, known or not."""
    unknown = dict.fromkeys(TCHAR, 501)
    return unknown | dict.fromkeys(served, 200) | dict.fromkeys(malformed, 400)


def sized(before: str, after: str) -> Callable[[int], bytes]:
    """The rest of a head whose Content-Length is made of digits around the byte, and its body."""

    def rest(byte: int) -> bytes:
        digits = before + (chr(byte) if byte in DIGIT else "") + after
        return after.encode() + b"\r\n\r\n" + b"x" * int(digits or "0")

    return rest


def chunk(before: str, after: str) -> Callable[[int], bytes]:
    """The rest of a chunk line whose size is made of digits around the byte, its data, and the last chunk."""

    def rest(byte: int) -> bytes:
        digits = before + (chr(byte) if byte in HEX else "") + after
        return after.encode() + b"\r\n" + b"x" * int(digits, 16) + b"\r\n0\r\n\r\n"

    return rest


def host_of(form: str) -> Callable[[str], dict[str, str]]:
    return stripped("HTTP_HOST", form)


def versions() -> dict[str, Place]:
    places = {}
    for index, byte in enumerate(VERSION):
        verdict = {byte: 200}
        if index == 5:
            verdict |= dict.fromkeys(b"23456789", 505)
        if index == 7:
            verdict |= good(DIGIT)
        open_ = frozenset(b"23456789") if index == 5 else NONE
        places[f"version-{index}"] = Place(b"GET / " + VERSION[:index], VERSION[index + 1 :] + REST, verdict, open_)
    return places


FIELDS = LINE + HOST
PLACES: dict[str, Place] = {
    "method-first": Place(b"", b"ET / HTTP/1.1" + REST, good(TCHAR), CR, lambda t: {"REQUEST_METHOD": t + "ET"}),
    "method-middle": Place(b"G", b"T / HTTP/1.1" + REST, good(TCHAR), SP, lambda t: {"REQUEST_METHOD": f"G{t}T"}),
    "method-space": Place(b"GET", b"/ HTTP/1.1" + REST, good(SP), TCHAR),
    "line-after-cr": Place(b"\r", LINE + HOST + b"\r\n", good(LF)),
    "line-after-crlf": Place(b"\r\n", b"ET / HTTP/1.1" + REST, good(TCHAR)),
    "target-first": Place(b"GET ", b"x HTTP/1.1" + REST, good(frozenset(b"/")), frozenset(b"*hH")),
    "path": Place(b"GET /a", b"c HTTP/1.1" + REST, good(TARGET), SP, lambda t: {"REQUEST_URI": f"/a{t}c"}),
    "query": Place(b"GET /?a", b"c HTTP/1.1" + REST, good(TARGET), SP, lambda t: {"QUERY_STRING": f"a{t}c"}),
    "authority": Place(
        b"GET http://a", b"c/ HTTP/1.1" + REST, good(REG_NAME, frozenset(b"/?")), SP | frozenset(b":%"),
        lambda t: {"HTTP_HOST": "a" if t in "/?" else f"a{t}c"},
    ),
    "target-space": Place(b"GET /", b"HTTP/1.1" + REST, good(SP), TARGET),
    **versions(),
    "version-after": Place(b"GET / HTTP/1.1", REST, {}, CR),
    "line-cr": Place(b"GET / HTTP/1.1", b"\n" + HOST + b"\r\n", good(CR)),
    "line-lf": Place(b"GET / HTTP/1.1\r", HOST + b"\r\n", good(LF)),
    "name-first": Place(FIELDS, b"A: v\r\n\r\n", good(TCHAR), CR, field_of("{}A: v")),
    "name-middle": Place(FIELDS + b"X", b"A: v\r\n\r\n", good(TCHAR, frozenset(b":")), NONE, field_of("X{}A: v")),
    "colon": Place(FIELDS + b"X-A", b" v\r\n\r\n", good(frozenset(b":")), TCHAR, lambda t: {"HTTP_X_A": "v"}),
    "value-first": Place(FIELDS + b"X-A:", b"v\r\n\r\n", good(VALUE), CR, stripped("HTTP_X_A", "{}v")),
    "value-middle": Place(FIELDS + b"X-A: a", b"c\r\n\r\n", good(VALUE), CR, stripped("HTTP_X_A", "a{}c")),
    "value-last": Place(FIELDS + b"X-A: a", b"\r\n\r\n", good(VALUE), CR, stripped("HTTP_X_A", "a{}")),
    "field-cr": Place(FIELDS + b"X-A: a", b"\n\r\n", good(CR), VALUE),
    "field-lf": Place(FIELDS + b"X-A: a\r", b"\r\n", good(LF)),
    "head-cr": Place(FIELDS, b"\n", good(CR), TCHAR),
    "head-lf": Place(FIELDS + b"\r", b"", good(LF)),
    "length-only": Place(POST + b"Content-Length:", sized("", ""), good(DIGIT), BLANK),
    "length-first": Place(POST + b"Content-Length:", sized("", "5"), good(DIGIT, BLANK)),
    "length-last": Place(POST + b"Content-Length:5", sized("5", ""), good(DIGIT, BLANK), CR),
    "coding-first": Place(
        POST + b"Transfer-Encoding:", b"chunked\r\n\r\n0\r\n\r\n", coding(*BLANK, malformed=b""), TCHAR
    ),
    "coding-middle": Place(
        POST + b"Transfer-Encoding: ch", b"nked\r\n\r\n0\r\n\r\n",
        coding(*b"uU", malformed=b"") | {ord(";"): 501, ord(","): 501},
        TCHAR | BLANK | CR | frozenset(b";,"),
    ),
    "coding-last": Place(
        POST + b"Transfer-Encoding: chunked", b"\r\n\r\n0\r\n\r\n", coding(*BLANK, malformed=b";,"), TCHAR | CR
    ),
    "host-first": Place(
        LINE + b"Connection: close\r\nHost:", b"a\r\n\r\n", good(REG_NAME, BLANK), frozenset(b"%["), host_of("{}a")
    ),
    "host-middle": Place(
        LINE + b"Connection: close\r\nHost: a", b"c\r\n\r\n", good(REG_NAME), BLANK | CR | frozenset(b":%"),
        host_of("a{}c")
    ),
    "host-last": Place(
        LINE + b"Connection: close\r\nHost: a", b"\r\n\r\n", good(REG_NAME, BLANK, frozenset(b":")), CR | frozenset(b"%"),
        host_of("a{}"),
    ),
    "host-port": Place(
        LINE + b"Connection: close\r\nHost: a:", b"\r\n\r\n", good(DIGIT, BLANK), CR, host_of("a:{}")
    ),
    "host-ipv6": Place(
        LINE + b"Connection: close\r\nHost: [1::", b"]\r\n\r\n", good(HEX), frozenset(b"]"), host_of("[1::{}]")
    ),
    "chunk-first": Place(CHUNKED, chunk("", "5"), good(HEX)),
    "chunk-last": Place(CHUNKED + b"5", chunk("5", ""), good(HEX), CR | frozenset(b" \t;")),
    "chunk-extension": Place(CHUNKED + b"5;a", b"c\r\nhello\r\n0\r\n\r\n", good(TCHAR, frozenset(b"=;")), CR | frozenset(b" \t")),
    "chunk-extension-quoted": Place(CHUNKED + b'5;a="b', b'c"\r\nhello\r\n0\r\n\r\n', good(VALUE - frozenset(b'"')), frozenset(b'"')),
    "chunk-cr": Place(CHUNKED + b"5", b"\nhello\r\n0\r\n\r\n", good(CR), HEX | frozenset(b" \t;")),
    "chunk-lf": Place(CHUNKED + b"5\r", b"hello\r\n0\r\n\r\n", good(LF)),
    "chunk-data": Place(CHUNKED + b"5\r\nhe", b"lo\r\n0\r\n\r\n", good(frozenset(range(256)))),
    "data-cr": Place(CHUNKED + b"5\r\nhello", b"\n0\r\n\r\n", good(CR)),
    "data-lf": Place(CHUNKED + b"5\r\nhello\r", b"0\r\n\r\n", good(LF)),
    "last-cr": Place(CHUNKED + b"0\r\n", b"\n", good(CR), TCHAR),
    "last-lf": Place(CHUNKED + b"0\r\n\r", b"", good(LF)),
    "trailer-name-first": Place(CHUNKED + b"0\r\n", b"A: v\r\n\r\n", good(TCHAR), CR),
    "trailer-name-middle": Place(CHUNKED + b"0\r\nX", b"A: v\r\n\r\n", good(TCHAR, frozenset(b":"))),
    "trailer-colon": Place(CHUNKED + b"0\r\nX-A", b" v\r\n\r\n", good(frozenset(b":")), TCHAR),
    "trailer-value-first": Place(CHUNKED + b"0\r\nX-A:", b"v\r\n\r\n", good(VALUE), CR),
    "trailer-value-middle": Place(CHUNKED + b"0\r\nX-A: a", b"c\r\n\r\n", good(VALUE), CR),
    "trailer-cr": Place(CHUNKED + b"0\r\nX-A: a", b"\n\r\n", good(CR), VALUE),
    "trailer-lf": Place(CHUNKED + b"0\r\nX-A: a\r", b"\r\n", good(LF)),
}  # fmt: skip
REFUSAL = re.compile(rb"HTTP/1\.1 (\d{3}) [ -~]+\r\n((?:[!-9;-~]+: [ -~]*\r\n)+)\r\n")


class Crowd:
    """Many connections at once: each says its piece, then what is said to each is read to the end."""

    def __init__(self, server: Any) -> None:
        self.server = server

    def ask(self, pieces: list[bytes]) -> list[bytes]:
        clients = [self.server.connect() for _ in pieces]
        for client, piece in zip(clients, pieces, strict=True):
            client.send(piece)
        answers = [client.rest() for client in clients]
        for client in clients:
            client.close()
        self.server.clients.clear()
        return answers


def answered(raw: bytes) -> tuple[int, bytes]:
    """Status and body of what must be one whole answer that ends the connection, and nothing behind it."""
    match = REFUSAL.match(raw)
    assert match, raw[:200]
    fields = [line.partition(b": ") for line in match[2].lower().splitlines()]
    told = {name: value for name, _, value in fields}
    assert len(told) == len(fields), raw[:200]
    assert told[b"connection"] == b"close", raw[:200]
    body = raw[match.end() :]
    assert len(body) == int(told[b"content-length"]), raw[:300]
    return int(match[1]), body


def faults_of(place: Place, byte: int, raw: bytes) -> str | None:
    """What is wrong with the answer to this byte; None if nothing is."""
    try:
        status, body = answered(raw)
    except AssertionError as error:
        return f"{byte:#04x}: {error}"
    expected = place.verdict.get(byte, 400)
    if status != expected:
        return f"{byte:#04x}: {status} instead of {expected}"
    if status != 200:
        return None
    _, told, _ = json.loads(body)
    wrong = {name: told.get(name, "") for name, value in place.told(chr(byte)).items() if told.get(name, "") != value}
    return f"{byte:#04x}: the application was told {wrong}" if wrong else None


def after(place: Place, byte: int) -> bytes:
    return place.after(byte) if callable(place.after) else place.after


def calls(crowd: Crowd) -> int:
    _, body = answered(crowd.ask([LINE + HOST + b"\r\n"])[0])
    return int(json.loads(body)[0])


@pytest.mark.parametrize("name", PLACES)
def test_every_byte_is_served_or_refused(serve: Any, until: Any, name: str) -> None:
    place = PLACES[name]
    server = serve(APP)
    crowd = Crowd(server)
    told, called = len(server.error_lines()), calls(crowd)
    answers = crowd.ask([place.before + bytes([byte]) + after(place, byte) for byte in range(256)])
    faults = [faults_of(place, byte, raw) for byte, raw in enumerate(answers)]
    assert not any(faults), [fault for fault in faults if fault]
    served = sum(1 for byte in range(256) if place.verdict.get(byte) == 200)
    assert calls(crowd) == called + served + 1, "the application sees nothing of what is refused"
    until(lambda: len(server.error_lines()) >= told + 256 - served, "a line for each refusal")
    lines = server.error_lines()[told:]
    assert len(lines) == 256 - served, "one line for each refusal"
    assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize("name", PLACES)
def test_a_wrong_byte_is_not_waited_behind(serve: Any, name: str) -> None:
    """The client sends nothing after it, and does not close: the answer comes at once, from what is there."""
    place = PLACES[name]
    wrong = [byte for byte in range(256) if place.verdict.get(byte, 400) != 200 and byte not in place.open]
    crowd = Crowd(serve(APP))
    began = time.monotonic()
    answers = crowd.ask([place.before + bytes([byte]) for byte in wrong])
    assert time.monotonic() - began < 5, "no deadline had to come"
    faults = [faults_of(place, byte, raw) for byte, raw in zip(wrong, answers, strict=True)]
    assert not any(faults), [fault for fault in faults if fault]


DOOMED = [
    b"GET * HTTP/1.1\r", b"GET http:x", b"OPTIONS http://a b", b"GET http://[::g", b"GET http://[:::",
    b"GET http://[12345", LINE + b"Host: [1:2:3:4:5:6:7:8:", LINE + b"Host: [::1.2.3.4:", LINE + b"Host: [1:2]",
    LINE + b"Host: a\r\nHost:", LINE + b"Host: a:65536", LINE + b"Host: \r", LINE + b"Host: a b",
    POST + b"Content-Length: 9223372036854775808", POST + b"Content-Length: 5 5", POST + b"Content-Length: 5,",
    POST + b"Content-Length: 5\r\nContent-Length:", POST + b"Content-Length: 5\r\nTransfer-Encoding:",
    POST + b"Transfer-Encoding: chunked\r\nContent-Length:", POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding:",
    POST + b"Transfer-Encoding: gzip, chunked,", POST + b'Transfer-Encoding: "',
    b"POST / HTTP/1.0\r\nTransfer-Encoding:",
]  # fmt: skip


def test_what_nothing_can_mend_is_not_waited_behind(serve: Any) -> None:
    """Not for the end of the line either, nor for that of the head."""
    answers = Crowd(serve(APP)).ask(DOOMED)
    assert [answered(raw)[0] for raw in answers] == [400] * len(DOOMED)
