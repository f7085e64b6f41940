"""Whatever an application returns, and whatever a client asks in order, against a model of what must come of it.

Knows PEP 3333 and RFC 9112 as two functions: `expected` (an answer, from what the application gave) and `told` (an
environ, from the request that was built). Hypothesis makes the examples and makes those that fail small.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import HealthCheck, event, example, given, settings
from hypothesis import strategies as st

FUZZ = settings(print_blob=True, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])

TCHARS = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
HOP_BY_HOP = {
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
    "trailers", "transfer-encoding", "upgrade",
}  # fmt: skip


# ---------------------------------------------------------------------------------------------------------- answers

APP = '''
import json
import sys
from gate import note

def decoded(value):
    """JSON has neither bytes nor tuples."""
    if isinstance(value, dict):
        (kind, content), = value.items()
        return content.encode("latin-1") if kind == "bytes" else tuple(map(decoded, content))
    return list(map(decoded, value)) if isinstance(value, list) else value

class Body:
    def __init__(self, blocks, fails_at):
        self.blocks = blocks
        self.fails_at = fails_at

    def __iter__(self):
        for index, block in enumerate(self.blocks):
            self.fail(index)
            yield block
        self.fail(len(self.blocks))

    def fail(self, index):
        if index == self.fails_at:
            raise RuntimeError("declared")

    def close(self):
        note("closed")

def application(environ, start_response):
    plan = json.loads(environ["wsgi.input"].read())
    blocks = [decoded(block) for block in plan["blocks"]]
    arguments = decoded(plan["status"]), decoded(plan["headers"])
    if plan["replaces"]:
        start_response("299 Replaced", [("X-Replaced", "yes"), ("Content-Length", "77")])
        try:
            raise ValueError("declared")
        except ValueError:
            write = start_response(*arguments, sys.exc_info())
    else:
        write = start_response(*arguments)
    if plan["kind"] == "write":
        for block in Body(blocks, plan["fails_at"]):
            write(block)
        return []
    if plan["kind"] == "iterable":
        return Body(blocks, plan["fails_at"])
    return {"list": list, "tuple": tuple}[plan["kind"]](blocks)
'''


class Plan(NamedTuple):
    """What the application gives, and how it is asked. `fails_at`: before which block it raises, if it does."""

    status: Any
    headers: Any
    blocks: list[Any]
    kind: str
    fails_at: int | None
    replaces: bool
    method: str
    version: str

    def json(self) -> bytes:
        told = self._asdict() | {name: encoded(getattr(self, name)) for name in ("status", "headers", "blocks")}
        return json.dumps(told).encode()


def encoded(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"bytes": value.decode("latin-1")}
    if isinstance(value, tuple):
        return {"tuple": [encoded(one) for one in value]}
    return [encoded(one) for one in value] if isinstance(value, list) else value


class Answer(NamedTuple):
    """What must arrive. framing: as in conftest; complete: whether the client sees the end of the body."""

    status: int
    reason: str
    fields: list[tuple[str, str]]
    body: bytes
    framing: str
    complete: bool
    is_logged: bool
    is_last: bool  # the connection breaks off behind it, announced or not: the application failed too late for a 500


FAILED = Answer(500, "", [], b"", "length", True, True, False)


def is_text(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch("[\t -~\x80-\xff]*", value) is not None


def is_pair(header: Any) -> bool:
    return isinstance(header, tuple) and len(header) == 2


def is_header(header: Any) -> bool:
    if not (is_pair(header) and all(map(is_text, header))):
        return False
    name, value = header
    is_length = name.lower() != "content-length" or (re.fullmatch("[0-9]+", value) and int(value) < 1 << 63)
    return bool(name) and set(name) <= set(TCHARS) and bool(is_length)


def lengths(headers: list[tuple[str, str]]) -> set[int]:
    return {int(value) for name, value in headers if name.lower() == "content-length"}


def expected(plan: Plan) -> Answer:
    """PEP 3333 and RFC 9112 6: what comes of it."""
    is_status = is_text(plan.status) and re.fullmatch("[2-5][0-9][0-9]( .*)?", plan.status)
    is_headers = isinstance(plan.headers, list) and all(map(is_header, plan.headers))
    if not is_status or not is_headers or len(lengths(plan.headers)) > 1:
        return FAILED
    status, length = int(plan.status[:3]), next(iter(lengths(plan.headers)), None)
    is_whole = plan.kind in ("list", "tuple") and all(isinstance(block, bytes) for block in plan.blocks)
    if length is None and (is_whole or not any(plan.blocks)):
        length = sum(map(len, plan.blocks)) if is_whole else 0
    is_bodiless = plan.method == "HEAD" or status in (204, 304)
    body, begun, failed = b"", False, False
    for index, block in enumerate([*plan.blocks, b""]):
        failed = (plan.fails_at == index and plan.kind in ("iterable", "write")) or not isinstance(block, bytes)
        if failed:
            break
        begun |= bool(block)
        body += block
        if begun and plan.kind != "write" and (is_bodiless or (length is not None and len(body) > length)):
            break
    if failed and not begun:
        return FAILED
    sent = b"" if is_bodiless else body if length is None else body[:length]
    fields = [(name, value) for name, value in plan.headers if name.lower() not in HOP_BY_HOP | {"content-length"}]
    if is_bodiless:
        framing, complete = "none", True
    elif length is not None:
        framing, complete = "length", len(sent) == length
    else:
        framing, complete = "chunked" if plan.version == "1.1" else "close", not failed
    is_logged = failed or not complete or (not is_bodiless and len(sent) < len(body))
    return Answer(status, plan.status[4:], fields, sent, framing, complete, is_logged, failed)


ANYTHING = st.one_of(st.none(), st.integers(), st.text(max_size=5), st.binary(max_size=5), st.builds(list), st.just(()))
WIRE_TEXT = st.text(
    st.characters(max_codepoint=255, exclude_characters="\x7f", exclude_categories=["Cc"]) | st.just("\t"), max_size=12
)
PLAIN_TEXT = WIRE_TEXT.map(lambda text: text.strip(" \t"))  # a value has no whitespace around it (RFC 9110 5.5)
STATUSES = st.one_of(
    st.builds("{} {}".format, st.integers(200, 599).filter(lambda status: status != 205), PLAIN_TEXT),
    st.sampled_from(["200 OK", "200", "204 No Content", "304 Not Modified", "404 Not Found"]),
)
NAMES = st.text(TCHARS, min_size=1, max_size=12).map(lambda name: "X-" + name)
USUAL = st.sampled_from(
    ["Content-Type", "Set-Cookie", "ETag", "Connection", "Transfer-Encoding", "Upgrade", "Keep-Alive"]
)
HEADERS = st.lists(st.tuples(NAMES | USUAL, PLAIN_TEXT), max_size=4)
BAD_STATUSES = st.one_of(
    ANYTHING, st.text(max_size=8), st.integers(0, 199).map("{:03} Low".format), st.integers(1000, 9999).map("{} High".format),
    st.builds("200 {}{}".format, PLAIN_TEXT, st.sampled_from("\r\n\0\x1b\x7f\u0100\u2028\udc80")),
)  # fmt: skip
BAD_HEADERS = st.one_of(
    ANYTHING, st.lists(ANYTHING, min_size=1, max_size=2), st.lists(st.tuples(ANYTHING, ANYTHING), min_size=1, max_size=2),
    st.lists(st.tuples(NAMES, st.text(max_size=6)), min_size=1, max_size=3), st.lists(st.tuples(st.text(max_size=4), PLAIN_TEXT), min_size=1),
    st.lists(st.tuples(st.just("Content-Length"), st.text("0123456789+-, x", max_size=3)), min_size=1, max_size=2),
    st.builds(lambda good, bad: [*good, ("X-A", f"a{bad}b")], HEADERS, st.sampled_from(["\r\nInjected: yes", "\n", "\0", "\u010a"])),
)  # fmt: skip
BLOCKS = st.lists(st.one_of(*[st.binary(max_size=20)] * 6, st.just(b""), st.just(b"y" * 70_000)), max_size=4)


def tidy(headers: Any) -> Any:
    """Without whitespace around values: it would be sent, and no client sees it (RFC 9110 5.5)."""
    if not isinstance(headers, list):
        return headers
    return [(each[0], each[1].strip(" \t")) if is_pair(each) and isinstance(each[1], str) else each for each in headers]


@st.composite
def plans(draw: Callable[..., Any]) -> Plan:
    status, headers, blocks = draw(STATUSES), draw(HEADERS), draw(BLOCKS)
    fault = draw(st.sampled_from(["none"] * 6 + ["status", "headers", "block", "raise", "length"]))
    if fault == "status":
        status = draw(BAD_STATUSES)
    elif fault == "headers":
        headers = draw(BAD_HEADERS.map(tidy))
    elif fault == "block":
        blocks.insert(draw(st.integers(0, len(blocks))), draw(st.none() | st.integers() | st.text(max_size=3)))
    total = sum(len(block) for block in blocks if isinstance(block, bytes))
    announced = draw(st.integers(0, total + 3)) if fault == "length" else total
    if isinstance(headers, list) and draw(st.booleans()):
        headers.insert(draw(st.integers(0, len(headers))), ("Content-Length", str(announced)))
    fails_at = draw(st.integers(0, len(blocks))) if fault == "raise" else None
    kind = draw(st.sampled_from(["list", "tuple", "iterable", "write"]))
    return Plan(
        status, headers, blocks, kind, fails_at, draw(st.booleans()),
        draw(st.sampled_from(["POST", "POST", "HEAD"])), draw(st.sampled_from(["1.1", "1.1", "1.0"])),
    )  # fmt: skip


A_LATE_FAILURE = Plan("200 OK", [], [b"begun", b"never"], "iterable", 1, False, "POST", "1.0")
"""Only a reset tells a client of HTTP/1.0 that the body has no end (RFC 9112 8)."""


@pytest.mark.timeout(300)  # five seconds, where nothing else is to do
@settings(FUZZ, max_examples=300)
@given(plan=plans())
@example(plan=A_LATE_FAILURE)
def test_an_answer_is_what_the_application_gave_or_a_500_and_a_log_line(serve: Any, until: Any, plan: Plan) -> None:
    server = serve(APP, errors=["Error"])
    answer = expected(plan)
    event(f"{answer.status // 100}xx {answer.framing} {'complete' if answer.complete else 'broken off'}")
    lines, notes, pids = len(server.error_lines()), len(server.notes()), server.pids()
    with server.connect() as client:
        client.send(f"{plan.method} / HTTP/{plan.version}\r\nHost: a\r\nConnection: keep-alive\r\n".encode())
        client.send(b"Content-Length: %d\r\n\r\n%s" % (len(plan.json()), plan.json()))
        response = client.response(plan.method, plan.version, truncated=True)
        assert response.status == answer.status
        if answer is FAILED:
            assert "X-A" not in dict(response.headers) and "Injected" not in dict(response.headers)
            assert response.complete and response.all("Content-Type")
        else:
            own = HOP_BY_HOP | {"content-length", "date", "server"}
            told = [(name, value) for name, value in response.headers if name.lower() not in own]
            assert (response.reason, told) == (answer.reason, answer.fields)
            assert (response.framing, response.complete) == (answer.framing, answer.complete)
            if answer.complete or answer.framing != "close":
                assert response.body == answer.body
            else:
                assert answer.body.startswith(response.body), "a reset may overtake what was sent before it"
            if plan.method == "HEAD" and (length := next(iter(lengths(plan.headers)), None)) is not None:
                assert response.header("Content-Length") == (None if answer.status == 204 else str(length))
        if response.closes or not response.complete or answer.is_last:
            assert client.rest_or_reset() == b""
        else:
            assert client.request("*", method="OPTIONS").status in (200, 204), (
                "the next answer begins where this one ended"
            )
    if answer.is_logged:
        until(lambda: len(server.error_lines()) > lines, "a line in the error log")
    elif not any(name.lower() in HOP_BY_HOP for name, _ in plan.headers):
        assert len(server.error_lines()) == lines, server.error_lines()[lines:]
    is_started = answer is not FAILED or (plan.kind == "iterable" and is_begun(plan))
    if plan.kind == "iterable" and is_started:
        until(lambda: len(server.notes()) == notes + 1, "close() was called")
    assert len(server.notes()) <= notes + 1, "close() is called once"
    assert server.pids() == pids


def is_begun(plan: Plan) -> bool:
    """Whether start_response() took what it was given, so that the iterable was returned."""
    return expected(plan._replace(blocks=[], fails_at=None)) is not FAILED


@pytest.mark.parametrize("fails_at", [1, None], ids=["raises", "gives-no-bytes"])
def test_write_of_nothing_sends_nothing(serve: Any, fails_at: int | None) -> None:
    """PEP 3333: no head is sent before the first bytes that are not empty, so that another may replace it."""
    server = serve(APP, errors=["Error"])
    blocks = [b""] if fails_at else [b"", 7]
    plan = Plan("200 OK", [], blocks, "write", fails_at, False, "POST", "1.1")
    with server.connect() as client:
        client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s" % (len(plan.json()), plan.json()))
        assert client.response("POST").status == 500


# --------------------------------------------------------------------------------------------------------- requests


class Asked(NamedTuple):
    """A request in order. chunks: the sizes of its chunks; None: Content-Length; an empty body may have neither."""

    method: str
    path: str
    query: str | None
    version: str
    fields: list[tuple[str, str]]
    body: bytes
    chunks: list[int] | None
    is_framed: bool
    extension: str
    trailer: str

    @property
    def target(self) -> str:
        return self.path + ("" if self.query is None else "?" + self.query)

    @property
    def raw(self) -> bytes:
        lines = [f"{self.method} {self.target} HTTP/{self.version}"]
        lines += [f"{name}: {value}" for name, value in self.fields]
        body = self.body
        if self.chunks is not None:
            lines.append("Transfer-Encoding: chunked")
            body = self.chunked()
        elif self.is_framed or body:
            lines.append(f"Content-Length: {len(body)}")
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + body

    def chunked(self) -> bytes:
        assert self.chunks is not None
        wire, rest = b"", self.body
        for size in [*self.chunks, len(rest)]:
            piece, rest = rest[:size], rest[size:]
            if piece:
                wire += f"{len(piece):x}{self.extension}\r\n".encode() + piece + b"\r\n"
        return wire + f"0\r\n{self.trailer}\r\n".encode()


def told(asked: Asked) -> dict[str, str]:
    """The variables that come of the fields: PEP 3333, RFC 3875 4.1.18, and the policy."""
    environ: dict[str, str] = {}
    for name, value in asked.fields:
        if "_" in name or name.lower() == "proxy":
            continue
        key = name.upper().replace("-", "_")
        if key != "CONTENT_TYPE":
            key = "HTTP_" + key
        joint = "; " if key == "HTTP_COOKIE" else ","
        environ[key] = environ[key] + joint + value if key in environ else value
    if asked.body or (asked.is_framed and asked.chunks is None):
        environ["CONTENT_LENGTH"] = str(len(asked.body))
    return environ


STEERING = {"host", "content-length", "transfer-encoding", "connection", "expect"}
ESCAPES = st.binary(max_size=3).map(lambda raw: "".join(f"%{byte:02{'xX'[byte % 2]}}" for byte in raw))
SEGMENTS = st.one_of(ESCAPES, st.text("!$&'()*+,;=:@-._~09azAZ\"<>\\^`{|}[]%", max_size=6))
PATHS = st.lists(SEGMENTS, max_size=4).map(lambda segments: "/" + "/".join(segments))
QUERIES = st.none() | st.text("!$&'()*+,;=:@-._~09azAZ/?\"<>\\^`{|}[]%", max_size=12)
FIELDS = st.lists(
    st.tuples(
        st.one_of(
            st.text(TCHARS, min_size=1, max_size=8),
            st.sampled_from(["Cookie", "cookie", "Content-Type", "X-A", "x-a", "X_A", "Proxy", "Accept", "TE", "Content_Length"]),
        ).filter(lambda name: name.lower() not in STEERING),
        PLAIN_TEXT,
    ),
    max_size=6,
)  # fmt: skip


@st.composite
def requests(draw: Callable[..., Any]) -> Asked:
    version = draw(st.sampled_from(["1.1", "1.1", "1.0"]))
    fields = draw(FIELDS)
    hosts = ["a", "example.com:80", "[::1]:8000", "%41"]
    fields.insert(draw(st.integers(0, len(fields))), ("Host", draw(st.sampled_from(hosts))))
    if version == "1.0":
        fields.append(("Connection", "keep-alive"))
    methods = st.sampled_from(["GET", "POST", "PUT", "get", "OPTIONS"]) | st.text(TCHARS, min_size=1, max_size=9)
    is_chunked = version == "1.1" and draw(st.booleans())
    return Asked(
        draw(methods.filter(lambda method: method not in ("HEAD", "CONNECT"))), draw(PATHS), draw(QUERIES), version, fields,
        draw(st.one_of(*[st.binary(max_size=60)] * 9, st.just(b"z" * 300_000))), draw(st.lists(st.integers(1, 70), max_size=5)) if is_chunked else None,
        draw(st.booleans()), draw(st.sampled_from(["", ";a", ';a="b;c"'])), draw(st.sampled_from(["", "X-T: a\r\n", "X-T:\r\nX-U: b\r\n"])),
    )  # fmt: skip


@pytest.mark.timeout(300)
@settings(FUZZ, max_examples=200)
@given(pipeline=st.lists(requests(), min_size=1, max_size=3), cuts=st.lists(st.integers(0, 1 << 30), max_size=6))
def test_the_application_is_told_what_was_asked(serve: Any, pipeline: list[Asked], cuts: list[int]) -> None:
    server = serve("echo")
    raw = b"".join(asked.raw for asked in pipeline)
    places = sorted({0, len(raw), *(cut % len(raw) for cut in cuts)})
    with server.connect() as client:
        assert client.send_split(*(raw[a:b] for a, b in pairwise(places)))
        for asked in pipeline:
            response = client.response(asked.method, asked.version)
            assert response.status == 200, asked.raw
            record = response.json()
            environ = record["environ"]
            assert record["body"] == asked.body.decode("latin-1")
            assert environ["REQUEST_METHOD"] == asked.method
            assert environ["PATH_INFO"] == unquote_to_bytes(asked.path).decode("latin-1")
            assert environ["QUERY_STRING"] == (asked.query or "")
            assert environ["REQUEST_URI"] == asked.target
            assert environ["SERVER_PROTOCOL"] == "HTTP/" + asked.version
            assert environ["SCRIPT_NAME"] == ""
            of_fields = {key: value for key, value in environ.items() if key.startswith(("HTTP_", "CONTENT_"))}
            assert of_fields == told(asked)
        assert client.is_silent()
