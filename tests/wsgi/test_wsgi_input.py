"""wsgi.input: a byte stream that ends where the body ends, in memory and in a temporary file.

The oracle is io.BytesIO: the same calls on the same bytes give the same results.
"""

from __future__ import annotations

import base64
import io
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

CALLS = """
import base64, json

def perform(stream, calls):
    results = []
    for name, *arguments in calls:
        if name == "iter":
            results.append(list(stream))
        elif name == "next":
            results.append(next(iter(stream), None))
        else:
            results.append(getattr(stream, name)(*arguments))
    return results

def plain(value):
    if value is None:
        return None
    if isinstance(value, list):
        return [plain(one) for one in value]
    assert type(value) is bytes, type(value)
    return base64.b64encode(value).decode()

def application(environ, start_response):
    calls = json.loads(environ["HTTP_X_CALLS"])
    answer = json.dumps(plain(perform(environ["wsgi.input"], calls))).encode()
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(answer)))])
    return [answer]
"""
LINES = b"first\nsecond line\n\nno end of line at all" + bytes(range(256)) + b"\n\r\nlast"
BODIES = {
    "empty": b"",
    "one-line": b"one line\n",
    "no-newline": b"abc",
    "newlines": b"\n\n\n",
    "lines": LINES,
    "long-lines": b"\n".join(b"%d" % i * 500 for i in range(60)),
    "larger-than-memory": LINES * 900,
}
CALLS_CASES: dict[str, list[list[Any]]] = {
    "read": [["read"], ["read"], ["read", 1], ["readline"], ["readlines"]],
    "read-sizes": [["read", 1], ["read", 0], ["read", 5], ["read", 100000], ["read", 10]],
    "read-negative": [["read", 3], ["read", -1], ["read", -1]],
    "read-none": [["read", None], ["read"]],
    "readline": [["readline"]] * 6 + [["read"]],
    "readline-size": [["readline", 3], ["readline", 3], ["readline", 100], ["readline", 0], ["readline", 2], ["read"]],
    "readline-negative": [["readline", -1], ["readline", None], ["readline", -5]],
    "readlines": [["readlines"], ["readlines"]],
    "readlines-hint": [["readlines", 7], ["readlines", 1], ["readlines", 0]],
    "readlines-hint-none": [["readline"], ["readlines", None]],
    "readlines-hint-negative": [["readlines", -1]],
    "iteration": [["iter"], ["iter"], ["read"]],
    "mixed": [["readline"], ["read", 2], ["next"], ["readline", 4], ["readlines", 9], ["next"], ["read"]],
    "past-the-end": [["read", 1 << 25], ["read", 1 << 25], ["readline", 1 << 25], ["readlines", 1 << 25]],
}


def check(body: bytes, calls: list[list[Any]], results: list[Any]) -> None:
    """Each result is what BytesIO gives at that place; a hint for readlines is a hint."""
    stream = io.BytesIO(body)
    assert len(results) == len(calls)
    for (name, *arguments), result in zip(calls, results, strict=True):
        if name == "readlines" and arguments and (arguments[0] or 0) > 0:
            assert result == [stream.readline() for _ in result]
            assert sum(map(len, result[:-1])) <= arguments[0], "it stops at the hint"
            assert sum(map(len, result)) >= arguments[0] or stream.tell() == len(body), "and not before"
        elif name == "iter":
            assert result == list(stream)
        elif name == "next":
            assert result == next(stream, None)
        else:
            assert result == getattr(stream, name)(*arguments), (name, arguments)


def decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [decoded(one) for one in value]
    return None if value is None else base64.b64decode(value)


def chunked(body: bytes) -> bytes:
    pieces = [body[i : i + 777] for i in range(0, len(body), 777)]
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def ask(client: Any, body: bytes, calls: list[list[Any]], framing: str) -> Any:
    lines = ["X-Calls: " + json.dumps(calls)]
    if framing == "chunked":
        lines.append("Transfer-Encoding: chunked")
        body = chunked(body)
    response = client.request("/", *lines, method="POST", body=body)
    assert response.status == 200, response
    return decoded(response.json())


@pytest.fixture
def memory(serve: Any, any_shape: Any) -> Any:
    return serve(CALLS, any_shape)


@pytest.mark.parametrize("framing", ["length", "chunked"])
@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("limit", ["256k", "16"], ids=["memory", "file"])
def test_like_bytesio(serve: Any, any_shape: Any, limit: str, name: str, framing: str) -> None:
    """In memory up to `body_memory`, in a temporary file above it."""
    server = serve(CALLS, any_shape, body_memory=limit)
    body = BODIES[name]
    with server.connect() as client:
        for calls in CALLS_CASES.values():
            check(body, calls, ask(client, body, calls, framing))


SIZES = st.one_of(st.none(), st.integers(-1, 40))
STEPS = st.one_of(
    st.tuples(st.just("read"), SIZES).map(list),
    st.tuples(st.just("readline"), SIZES).map(list),
    st.tuples(st.just("readlines"), SIZES).map(list),
    st.just(["next"]),
    st.just(["read", 3]),
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(body=st.binary(max_size=80).map(lambda raw: raw.replace(b"a", b"\n")), calls=st.lists(STEPS, max_size=6))
def test_like_bytesio_whatever_is_called(serve: Any, body: bytes, calls: list[list[Any]]) -> None:
    for server in (serve(CALLS), serve(CALLS, body_memory="16")):
        with server.connect() as client:
            check(body, calls, ask(client, body, calls, "length"))


def test_no_read_goes_into_the_pipeline(memory: Any, compose: Any) -> None:
    calls = json.dumps([["read", 1000], ["read"], ["readline"], ["readlines"]])
    with memory.connect() as client:
        one = compose("/", f"X-Calls: {calls}", method="POST", body=b"abc")
        client.send(one + one)
        for _ in range(2):
            assert decoded(client.response().json()) == [b"abc", b"", b"", []]


UNREAD = """
def application(environ, start_response):
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]
"""


def test_a_body_that_is_not_read_is_consumed(serve: Any, any_shape: Any, compose: Any) -> None:
    server = serve(UNREAD, any_shape)
    body = compose("/smuggled")
    with server.connect() as client:
        client.send(
            compose("/", method="POST", body=body) + compose("/", method="GET", body=body * 1000) + compose("/")
        )
        assert [client.response().body for _ in range(3)] == [b"ok"] * 3
        assert client.is_silent()


CLOSED = """
def application(environ, start_response):
    stream = environ["wsgi.input"]
    stream.read(3)
    if hasattr(stream, "close"):
        stream.close()
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]
"""


def test_an_application_that_closes_its_input_harms_nobody(serve: Any, any_shape: Any) -> None:
    server = serve(CLOSED, any_shape, body_memory="16")
    with server.connect() as client:
        for body in (b"abcdef", b"x" * 1000, b""):
            assert client.request("/", method="POST", body=body).body == b"ok"


KEPT = """
import json
kept = []

def application(environ, start_response):
    kept.append(environ["wsgi.input"])
    old = kept[0].read() if len(kept) > 1 else b""
    start_response("200 OK", [("Content-Type", "application/octet-stream"), ("Content-Length", str(len(old)))])
    return [old]
"""


def test_an_input_kept_beyond_its_request_is_its_own(serve: Any) -> None:
    """It gives its own bytes or nothing, never those of another request."""
    server = serve(KEPT)
    with server.connect() as client:
        client.request("/", method="POST", body=b"mine")
        assert client.request("/", method="POST", body=b"theirs").body in (b"mine", b"")


SUM = """
import hashlib

def application(environ, start_response):
    digest, size = hashlib.sha256(), 0
    while piece := environ["wsgi.input"].read(65536):
        digest.update(piece)
        size += len(piece)
    body = f"{size} {digest.hexdigest()}".encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
"""


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_ten_megabytes_in(serve: Any, any_shape: Any, framing: str) -> None:
    import hashlib

    server = serve(SUM, any_shape)
    body = bytes(range(256)) * 40960
    raw = chunked(body) if framing == "chunked" else body
    lines = ["Transfer-Encoding: chunked"] if framing == "chunked" else []
    answer = server.get("/", *lines, method="POST", body=raw).body.decode()
    assert answer == f"{len(body)} {hashlib.sha256(body).hexdigest()}"


LIMITS = (1 << 16, 1 << 17, 1 << 18, 1 << 19)
"""What is read at once, and `body_memory`, are among these."""


@pytest.mark.parametrize("piece", [4099, 100_000, 1 << 23])
def test_bodies_around_the_limits_one_behind_the_other(serve: Any, any_shape: Any, compose: Any, piece: int) -> None:
    """With a length and chunked in turn: each is whole, and none takes a byte of the next."""
    import hashlib

    server = serve(SUM, any_shape)
    stream, expected = b"", []
    for number, size in enumerate(limit + more for limit in LIMITS for more in (-1, 0, 1)):
        body = b"%07d\n" % number * (size // 8) + b"z" * (size % 8)
        stream += compose("/", method="POST", body=body)
        stream += compose("/", "Transfer-Encoding: chunked", method="POST") + chunked(body)
        expected += [f"{size} {hashlib.sha256(body).hexdigest()}"] * 2
    with server.connect() as client:
        for at in range(0, len(stream), piece):
            client.send(stream[at : at + piece])
        assert [client.response().body.decode() for _ in expected] == expected
        assert client.is_silent()


def test_a_large_body_costs_a_file_and_not_memory(serve: Any) -> None:
    """Sixty megabytes in, within the limit of 64: the process grows by little, and the file is gone afterwards."""
    server = serve(SUM, environment={"TMPDIR": "/tmp"})
    server.get("/", method="POST", body=b"x" * 1000)
    before = server.memory()
    with server.connect() as client:
        client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 62914560\r\n\r\n")
        for _ in range(59):
            client.send(b"y" * 1048576)
        grown = server.memory() - before
        client.send(b"y" * 1048576)
        assert client.response().body.startswith(b"62914560 ")
    assert grown < 16 * 1024 * 1024


WRAPPED = """
import io

def application(environ, start_response):
    with environ["wsgi.input"] as stream:
        text = io.TextIOWrapper(stream, encoding="latin-1")
        answer = [text.readline(), text.read(), stream.seekable(), stream.tell(), stream.closed]
        text.detach()
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [repr(answer).encode()]
"""


@pytest.mark.parametrize("body", [b"", b"one\ntwo"], ids=["empty", "memory"])
def test_it_can_be_wrapped(serve: Any, body: bytes) -> None:
    """What wraps a BytesIO wraps the stream of a request without a body as well."""
    server = serve(WRAPPED)
    with server.connect() as client:
        answer = client.request("/", method="POST", body=body)
    expected = ["one\n", "two", True, 7, False] if body else ["", "", True, 0, False]
    assert answer.body.decode() == repr(expected)


COMPARED = """
import array, io

CALLS = [
    ("seek", 2), ("read1", 3), ("tell",), ("seek", -1, 1), ("read", 1), ("seek", 1, 2), ("tell",), ("read",),
    ("readline",), ("__next__",), ("seek", -100, 1), ("readlines", 3), ("seek", -1), ("seek", 0, 3), ("seek", 1.5),
    ("read", "1"), ("readinto", b"unchangeable"), ("readinto", 5), ("readable",), ("seekable",), ("isatty",), ("flush",),
    ("seek", 0), ("read1",), ("seek", 0), ("__enter__",), ("close",), ("close",), ("read",), ("read1",), ("readline",),
    ("readlines",), ("readinto", bytearray(3)), ("__iter__",), ("__next__",), ("__enter__",), ("seek", 0), ("tell",),
    ("readable",), ("seekable",), ("isatty",), ("flush",),
]

def outcome(stream, name, arguments):
    try:
        result = getattr(stream, name)(*arguments)
    except Exception as error:
        return type(error).__name__
    return "itself" if result is stream else result

def filled(stream, buffer):
    stream.seek(1)
    return stream.readinto(buffer), stream.readinto1(buffer), bytes(buffer), stream.tell()

def application(environ, start_response):
    stream = environ["wsgi.input"]
    oracle = io.BytesIO(stream.read())
    differing = [
        (one, other)
        for one, other in (
            (filled(stream, buffer), filled(oracle, buffer)) for buffer in (bytearray(4), array.array("I", [1, 2]))
        )
        if one != other
    ]
    for name, *arguments in CALLS:
        one, other = outcome(stream, name, arguments), outcome(oracle, name, arguments)
        if one != other:
            differing.append((name, arguments, one, other))
    if not (isinstance(stream, io.BufferedIOBase) and isinstance(stream, io.IOBase)):
        differing.append("it is no stream of bytes")
    if not (stream.closed and oracle.closed):
        differing.append("it is not closed")
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [repr(differing).encode()]
"""


def test_what_else_it_has_of_a_bytesio(serve: Any) -> None:
    """Reading again, reading into a buffer, and the errors of wrong calls and of a closed stream."""
    server = serve(COMPARED)
    for body in (b"one\ntwo\nthree", b"x\n" * 3000):
        assert server.get("/", method="POST", body=body).body == b"[]"


TAMPERED = """
import array, weakref

def application(environ, start_response):
    stream = environ["wsgi.input"]
    faults = []
    for tamper in (
        lambda: setattr(stream, "read", None),
        lambda: setattr(type(stream), "read", None),
        lambda: delattr(type(stream), "readline"),
        lambda: stream.readinto(b"unchangeable"),
    ):
        try:
            tamper()
        except (AttributeError, TypeError) as error:
            faults.append(type(error).__name__)
    read = stream.readinto(array.array("I", [1])), weakref.ref(stream)() is stream
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [repr((len(faults), read)).encode()]
"""


def test_the_stream_that_requests_without_a_body_share_cannot_be_changed(serve: Any) -> None:
    server = serve(TAMPERED)
    for _ in range(2):
        assert server.get("/").body == b"(4, (0, True))"
