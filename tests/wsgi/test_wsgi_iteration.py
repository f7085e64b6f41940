"""The life of a response's iterable: blocks, lengths, exceptions, and close() exactly once whatever happens.

Knows PEP 3333 and the policy's checklist. The application notes what is done to its iterables.
"""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

APP = '''
import sys
from gate import note, wait

def application(environ, start_response):
    name = environ["PATH_INFO"].strip("/")
    return CASES[name](environ, start_response, environ["QUERY_STRING"])

class Blocks:
    """An iterable that notes its close()."""
    def __init__(self, tag, blocks, error_at=-1, close_error=None, error=ZeroDivisionError):
        self.tag, self.blocks, self.error_at, self.close_error, self.error = tag, blocks, error_at, close_error, error

    def __iter__(self):
        for number, block in enumerate(self.blocks):
            if number == self.error_at:
                raise self.error("declared in iteration")
            yield block
        if self.error_at == len(self.blocks):
            raise self.error("declared in iteration")

    def close(self):
        note("close " + self.tag)
        if self.close_error:
            raise self.close_error("declared in close")

class List(list):
    def close(self):
        note("close " + self.tag)

def blocks(*given, length=None, status="200 OK", **more):
    def case(environ, start_response, tag):
        headers = [("Content-Type", "text/plain")]
        if length is not None:
            headers.append(("Content-Length", str(length)))
        start_response(status, headers)
        return Blocks(tag, given, **more)
    return case

def gated(environ, start_response, tag):
    start_response("200 OK", [("Content-Type", "text/plain")])
    def produce():
        for number in range(4):
            note(f"produced {tag} {number}")
            yield b"block %d" % number
            wait(f"{tag}-{number}")
    return produce()

def rows(ending):
    def case(environ, start_response, tag):
        """So many short blocks at once that they share packets."""
        length = environ.get("HTTP_LENGTH")
        start_response("200 OK", [("Content-Length", length)] if length else [])
        def produce():
            for number in range(3):
                for row in range(100):
                    yield b"row %d\\n" % row
                ending(f"{tag}-{number}")
        return produce()
    return case

def generator(environ, start_response, tag):
    start_response("200 OK", [("Content-Type", "text/plain")])
    def produce():
        try:
            for _ in range(1000):
                yield b"x" * 65536
        except GeneratorExit:
            note("exit " + tag)
            raise
        finally:
            note("finally " + tag)
    return produce()

def endless(environ, start_response, tag):
    start_response("200 OK", [("Content-Type", "text/plain")])
    def forever():
        while True:
            yield b"x" * 65536
    class Endless(Blocks):
        def __iter__(self):
            return forever()
    return Endless(tag, ())

def late(environ, start_response, tag):
    note("called " + tag)
    wait(tag)
    return endless(environ, start_response, tag)

def iter_raises(environ, start_response, tag):
    start_response("200 OK", [])
    class Bad(Blocks):
        def __iter__(self):
            raise ZeroDivisionError("declared in iter")
    return Bad(tag, ())

def no_start(environ, start_response, tag):
    return Blocks(tag, (b"x",))

def bad_status(environ, start_response, tag):
    result = Blocks(tag, (b"x",))
    try:
        start_response("bad", [])
    except Exception:
        pass
    return result

def raises(error):
    def case(environ, start_response, tag):
        raise error("declared in the application <b>&")
    return case

def raises_after_start(environ, start_response, tag):
    start_response("200 OK", [("X-First", "1"), ("Content-Length", "5")])
    raise ZeroDivisionError("declared after start")

def returns(value):
    def case(environ, start_response, tag):
        start_response("200 OK", [("Content-Type", "text/plain")])
        return value
    return case

def listed(*given):
    def case(environ, start_response, tag):
        start_response("200 OK", [("Content-Type", "text/plain")])
        result = List(given)
        result.tag = tag
        return result
    return case

def large(environ, start_response, tag):
    start_response("200 OK", [("Content-Type", "application/octet-stream")])
    return [bytes(range(256)) * 40960]

def large_blocks(environ, start_response, tag):
    start_response("200 OK", [("Content-Type", "application/octet-stream")])
    return (bytes(range(256)) * 16 for _ in range(2560))

def old_protocol(environ, start_response, tag):
    """An iterable by __getitem__, which Python still iterates."""
    start_response("200 OK", [])
    class Old:
        def __getitem__(self, number):
            if number > 2:
                raise IndexError(number)
            return b"%d" % number
        def close(self):
            note("close " + tag)
    return Old()

def recursion(environ, start_response, tag):
    def deeper(n):
        return deeper(n + 1)
    return deeper(0)

def exits(environ, start_response, tag):
    sys.exit(3)

CASES = {
    "normal": blocks(b"one ", b"two"),
    "one": blocks(b"one"),
    "list-one": listed(b"one"),
    "list-two": listed(b"one ", b"two"),
    "list-empty": listed(),
    "list-empty-block": listed(b""),
    "empty-blocks": blocks(b"", b"one", b"", b"", b"two", b""),
    "nothing": blocks(),
    "too-many": blocks(b"12345", b"67890", b"more", length=7),
    "too-many-later": blocks(b"12345", b"67890", length=5),
    "too-many-first": blocks(b"1234567890", length=5),
    "too-few": blocks(b"123", length=5),
    "too-few-none": blocks(length=5),
    "exact": blocks(b"123", b"45", length=5),
    "zero-with-body": blocks(b"123", length=0),
    "204": blocks(b"body", length=4, status="204 No Content"),
    "304": blocks(b"body", length=4, status="304 Not Modified"),
    "304-none": blocks(status="304 Not Modified"),
    "error-first": blocks(b"one", error_at=0),
    "error-after-empty": blocks(b"", b"", b"one", error_at=2),
    "error-second": blocks(b"one", b"two", error_at=1),
    "error-end": blocks(b"one", b"two", error_at=2),
    "error-length": blocks(b"one", b"two", length=6, error_at=1),
    "error-base": blocks(b"one", b"two", error_at=1, error=SystemExit),
    "close-error": blocks(b"one", b"two", close_error=ZeroDivisionError),
    "close-error-length": blocks(b"one", b"two", length=6, close_error=ZeroDivisionError),
    "str-block": blocks("text"),
    "str-block-second": blocks(b"one", "text"),
    "none-block": blocks(None),
    "int-block": blocks(1),
    "list-str": listed("text"),
    "gated": gated,
    "rows": rows(wait),
    "rows-to-the-end": rows(str),
    "rows-error": rows(int),
    "generator": generator,
    "endless": endless,
    "late": late,
    "iter-raises": iter_raises,
    "no-start": no_start,
    "bad-status": bad_status,
    "raises": raises(ZeroDivisionError),
    "raises-base": raises(BaseException),
    "raises-keyboard": raises(KeyboardInterrupt),
    "raises-exit": exits,
    "raises-generator-exit": raises(GeneratorExit),
    "raises-stop": raises(StopIteration),
    "raises-memory": raises(MemoryError),
    "raises-recursion": recursion,
    "raises-after-start": raises_after_start,
    "returns-none": returns(None),
    "returns-int": returns(7),
    "returns-str": returns("text"),
    "returns-bytes": returns(b"abc"),
    "returns-one": returns([b"one"]),
    "returns-empty": returns([]),
    "returns-tuple": returns((b"a", b"b")),
    "large": large,
    "large-blocks": large_blocks,
    "old-protocol": old_protocol,
}
'''
DECLARED = [
    "declared",
    "text",
    "Error",
    "SystemExit",
    "KeyboardInterrupt",
    "GeneratorExit",
    "StopIteration",
    "start_response",
]
tags = iter(range(1_000_000))


@pytest.fixture
def server(serve: Any, any_shape: Any) -> Any:
    return serve(APP, any_shape, errors=DECLARED)


@pytest.fixture
def tag() -> str:
    return f"t{next(tags)}"


def closed_once(server: Any, tag: str) -> None:
    """close() was called, and is not called again by what follows."""
    server.await_note(f"close {tag}")
    assert server.get(f"/one?after-{tag}").body == b"one"
    server.await_note(f"close after-{tag}")
    assert server.notes().count(f"close {tag}") == 1


# -------------------------------------------------------------------------------------------------- close(), once


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
@pytest.mark.parametrize(
    "name",
    [
        "normal",
        "one",
        "list-one",
        "list-two",
        "list-empty",
        "list-empty-block",
        "empty-blocks",
        "nothing",
        "exact",
        "zero-with-body",
        "204",
        "304",
        "304-none",
        "too-many",
        "too-many-later",
        "too-many-first",
        "close-error",
        "close-error-length",
        "error-first",
        "error-after-empty",
        "iter-raises",
        "no-start",
        "bad-status",
        "str-block",
        "none-block",
        "int-block",
        "list-str",
        "old-protocol",
    ],
)
def test_close_is_called_once(server: Any, tag: str, name: str, method: str) -> None:
    with server.connect() as client:
        client.send(f"{method} /{name}?{tag} HTTP/1.1\r\nHost: a\r\n\r\n")
        client.response(method)
        closed_once(server, tag)


@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize(
    "name", ["too-few", "too-few-none", "error-second", "error-end", "error-length", "error-base", "str-block-second"]
)
def test_close_is_called_once_where_the_response_breaks_off(server: Any, tag: str, name: str, version: str) -> None:
    with server.connect() as client:
        client.send(f"GET /{name}?{tag} HTTP/{version}\r\nHost: a\r\n\r\n")
        client.response(version=version, truncated=True)
        closed_once(server, tag)


@pytest.mark.parametrize("how", ["reset", "close"])
def test_close_is_called_once_where_the_client_leaves(server: Any, tag: str, how: str) -> None:
    client = server.connect(receive_buffer=4096)
    client.send(f"GET /endless?{tag} HTTP/1.1\r\nHost: a\r\n\r\n")
    assert client.head_only().status == 200
    assert len(client.body_piece()) > 0
    getattr(client, how)()
    closed_once(server, tag)


def test_a_generator_is_ended_where_the_client_leaves(server: Any, tag: str) -> None:
    client = server.connect(receive_buffer=4096)
    client.send(f"GET /generator?{tag} HTTP/1.1\r\nHost: a\r\n\r\n")
    assert client.head_only().status == 200
    client.reset()
    server.await_note(f"finally {tag}")
    assert server.notes().count(f"exit {tag}") == 1
    assert server.notes().count(f"finally {tag}") == 1


def test_close_is_called_once_on_a_write_error_on_the_way(server: Any, tag: str) -> None:
    """The client is gone before the first byte of the response."""
    client = server.connect()
    client.send(f"GET /late?{tag} HTTP/1.1\r\nHost: a\r\n\r\n")
    server.await_note(f"called {tag}")
    client.reset()
    server.open_gate(tag)
    closed_once(server, tag)


# ----------------------------------------------------------------------------------------------------- streaming


def test_each_block_is_sent_before_the_next_is_asked_for(server: Any, tag: str) -> None:
    with server.connect() as client:
        client.send(f"GET /gated?{tag} HTTP/1.1\r\nHost: a\r\n\r\n")
        assert client.head_only().framing == "none"
        for number in range(4):
            assert client.body_piece() == b"block %d" % number
            assert f"produced {tag} {number + 1}" not in server.notes()
            server.open_gate(f"{tag}-{number}")
        assert client.last_chunk()


ROWS = b"".join(b"row %d\n" % row for row in range(100))


def test_the_last_of_many_quick_blocks_waits_for_no_other(server: Any, tag: str) -> None:
    with server.connect() as client:
        client.send(f"GET /rows?{tag} HTTP/1.1\r\nHost: a\r\n\r\n")
        assert client.head_only().framing == "none"
        for number in range(3):
            assert b"".join(client.body_piece() for _ in range(100)) == ROWS
            server.open_gate(f"{tag}-{number}")
        assert client.last_chunk()


def test_many_quick_blocks_are_whole_where_nothing_follows_them(server: Any) -> None:
    with server.connect() as client:
        for _ in range(3):
            assert client.request("/rows-to-the-end", f"Length: {3 * len(ROWS)}").body == 3 * ROWS
            assert client.request("/rows-to-the-end").body == 3 * ROWS


@pytest.mark.parametrize("fields", [[], [f"Length: {3 * len(ROWS)}"]])
def test_many_quick_blocks_before_an_error_are_sent(server: Any, compose: Any, fields: list[str]) -> None:
    with server.connect() as client:
        response = client.send(compose("/rows-error?x", *fields)).response(truncated=True)
        assert (response.body, response.was_reset) == (ROWS, True)


def test_blocks_are_streamed_on_1_0(server: Any, tag: str) -> None:
    with server.connect() as client:
        client.send(f"GET /gated?{tag} HTTP/1.0\r\nHost: a\r\n\r\n")
        assert client.head_only("1.0").closes
        for number in range(4):
            wanted = b"block %d" % number
            while len(client.buffer) < len(wanted):
                client.buffer += client.sock.recv(1024)
            assert client.buffer == wanted
            client.buffer = b""
            server.open_gate(f"{tag}-{number}")
        client.expect_close()


# ------------------------------------------------------------------------------------------------------- framing


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("normal", b"one two"),
        ("list-two", b"one two"),
        ("empty-blocks", b"onetwo"),
        ("nothing", b""),
        ("list-empty", b""),
        ("list-empty-block", b""),
        ("exact", b"12345"),
        ("returns-tuple", b"ab"),
        ("old-protocol", b"012"),
        ("returns-bytes", None),
    ],
)
def test_bodies(server: Any, name: str, body: bytes | None) -> None:
    with server.connect() as client:
        response = client.request(f"/{name}?x")
        if body is None:  # iterating over bytes gives numbers, so this is an error of the application
            assert response.status == 500 or response.body == b"abc"
            return
        assert (response.status, response.body) == (200, body)
        assert response.framing in ("length", "chunked")
        assert client.request("/one?x").body == b"one", "the framing ended where it said"


def test_one_element_gets_a_length(server: Any) -> None:
    response = server.get("/returns-one?x")
    assert (response.framing, response.header("Content-Length")) == ("length", "3")


def test_an_empty_list_gets_a_length(server: Any) -> None:
    response = server.get("/returns-empty?x")
    assert (response.framing, response.header("Content-Length")) == ("length", "0")


@pytest.mark.parametrize("name", ["too-many", "too-many-later", "too-many-first", "zero-with-body"])
def test_never_more_than_was_announced(server: Any, until: Any, name: str) -> None:
    lines = len(server.error_lines())
    with server.connect() as client:
        client.send(f"GET /{name}?x HTTP/1.1\r\nHost: a\r\n\r\n")
        response = client.response()
        assert response.body == b"1234567890"[: int(response.header("Content-Length"))]
        if response.closes:
            client.expect_close()
        else:
            client.send("GET /one?x HTTP/1.1\r\nHost: a\r\n\r\n")
            rest = client.half_close().rest()
            assert rest == b"" or rest.startswith(b"HTTP/1.1 200 OK\r\n"), "the next response, or nothing"
    until(lambda: len(server.error_lines()) > lines, "a line in the error log")


@pytest.mark.parametrize("name", ["too-few", "too-few-none"])
def test_fewer_than_announced_closes_and_is_told(server: Any, until: Any, name: str) -> None:
    lines = len(server.error_lines())
    with server.connect() as client:
        client.send(f"GET /{name}?x HTTP/1.1\r\nHost: a\r\n\r\n")
        response = client.response(truncated=True)
        if name == "too-few-none" and response.status == 500:  # nothing was sent yet, so it may still be told
            return
        assert (response.status, response.was_reset) == (200, True)
    until(lambda: len(server.error_lines()) > lines, "a line in the error log")


def test_head_304_and_204(server: Any) -> None:
    with server.connect() as client:
        assert client.request("/exact?x", method="HEAD").header("Content-Length") == "5"
        assert client.request("/304?x").header("Content-Length") == "4", "kept"
        assert client.request("/204?x").header("Content-Length") is None, "removed"
        assert client.request("/304-none?x").header("Transfer-Encoding") is None
        assert client.request("/204?x", method="HEAD").header("Content-Length") is None
        assert client.request("/one?x").body == b"one"


# ---------------------------------------------------------------------------------------------------- exceptions

EARLY = [
    "error-first",
    "error-after-empty",
    "iter-raises",
    "raises",
    "raises-base",
    "raises-keyboard",
    "raises-exit",
    "raises-generator-exit",
    "raises-stop",
    "raises-memory",
    "raises-recursion",
    "raises-after-start",
    "returns-none",
    "returns-int",
    "returns-str",
    "str-block",
    "none-block",
    "int-block",
    "list-str",
]


@pytest.mark.parametrize("name", EARLY)
def test_an_exception_before_the_first_byte_is_500(server: Any, until: Any, name: str) -> None:
    pids, tracebacks = server.pids(), len(server.error_lines())
    with server.connect() as client:
        response = client.request(f"/{name}?x")
        assert response.status == 500
        assert response.header("X-First") is None
        assert b"Traceback" not in response.body, "not without debug"
        assert b"declared" not in response.body
        if not response.closes:
            assert client.request("/one?x").body == b"one"
    until(lambda: len(server.error_lines()) > tracebacks, "it is in the error log")
    assert server.get("/one?x").body == b"one"
    assert server.pids() == pids


def test_the_traceback_is_in_the_error_log(server: Any, until: Any) -> None:
    before = server.errors().count("declared in the application")
    server.get("/raises?x")
    until(lambda: server.errors().count("declared in the application") > before)
    assert "ZeroDivisionError" in server.errors()
    assert "Traceback (most recent call last)" in server.errors()
    assert "app.py" in server.errors(), "it names file and line"


def test_with_debug_the_page_tells_the_traceback(serve: Any, any_shape: Any) -> None:
    server = serve(APP, any_shape, errors=DECLARED, debug=True)
    with server.connect() as client:
        client.send(b"GET /raises?x HTTP/1.1\r\nHost: localhost\r\nAccept: text/html\r\nConnection: close\r\n\r\n")
        body = client.response().body
    assert b"Traceback" in body
    assert b"app.py" in body
    assert b"declared in the application &lt;b&gt;&amp;" in body, "escaped"
    assert b"<b>&" not in body
    assert b"declared" not in server.get("/raises?x", "Accept: text/html").body, "for who asks for this machine"


def test_the_page_of_500_names_the_webmaster(serve: Any) -> None:
    server = serve(APP, errors=DECLARED, webmaster="me@example.com")
    response = server.get("/raises?x")
    assert b"me@example.com" in response.body
    assert b"500" in response.body
    assert response.header("Content-Type").startswith("text/html")


@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize("name", ["error-second", "error-end", "error-length", "error-base", "str-block-second"])
def test_an_exception_after_the_first_byte_breaks_off(server: Any, until: Any, name: str, version: str) -> None:
    """By a reset: the client sees that it is incomplete; no error page in the middle."""
    lines, pids = len(server.error_lines()), server.pids()
    with server.connect() as client:
        client.send(f"GET /{name}?x HTTP/{version}\r\nHost: a\r\n\r\n")
        response = client.response(version=version, truncated=True)
        assert response.status == 200
        assert response.body in (b"one", b"onetwo")
        assert response.was_reset
    until(lambda: len(server.error_lines()) > lines, "it is in the error log")
    assert server.get("/one?x").body == b"one"
    assert server.pids() == pids


@pytest.mark.parametrize("name", ["close-error", "close-error-length"])
def test_an_exception_in_close_is_told_and_harms_no_response(server: Any, until: Any, name: str) -> None:
    before = server.errors().count("declared in close")
    with server.connect() as client:
        response = client.request(f"/{name}?x")
        assert (response.status, response.body) == (200, b"onetwo")
    until(lambda: server.errors().count("declared in close") > before, "it is in the error log")


# --------------------------------------------------------------------------------------------------- large bodies


@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize("name", ["large", "large-blocks"])
def test_ten_megabytes_out(server: Any, name: str, version: str) -> None:
    response = server.get(f"/{name}?x", version=version)
    assert hashlib.sha256(response.body).digest() == hashlib.sha256(bytes(range(256)) * 40960).digest()


def test_a_large_response_read_in_small_pieces(server: Any) -> None:
    with server.connect(receive_buffer=4096) as client:
        client.send("GET /large?x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert client.head_only().header("Content-Length") == "10485760"
        digest, size = hashlib.sha256(client.buffer), len(client.buffer)
        client.buffer = b""
        while piece := client.sock.recv(10_000):
            digest.update(piece)
            size += len(piece)
    assert size == 10485760
    assert digest.digest() == hashlib.sha256(bytes(range(256)) * 40960).digest()


WRONG = """
LONG = "\\x01" * 3_000_000

def application(environ, start_response):
    wrong = {"text": LONG, "bytes": LONG.encode(), "block": [LONG], "number": 5, "nothing": None}
    start_response("200 OK", [])
    return wrong[environ["PATH_INFO"].strip("/")]
"""


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("text", 'the application returned str; return a list of bytes: [b"..."]'),
        ("bytes", 'the application returned bytes; return a list of bytes: [b"..."]'),
        ("block", "the application gave a value of type str as a block of the body, not bytes"),
        ("number", "the application returned a value of type int, which is no iterable of bytes"),
        ("nothing", "the application returned None, which is no iterable of bytes"),
    ],
)
def test_what_is_no_body_is_named_briefly(serve: Any, until: Any, what: str, told: str) -> None:
    server = serve(WRONG, errors=["TypeError"])
    before = len(server.errors())
    assert server.get(f"/{what}").status == 500
    until(lambda: told in server.errors(), "the line in the error log")
    assert len(server.errors()) - before < 2000


TABLE = """
    import types
    from poorhttp import http
    from poorhttp.dispatch import application

    def home(req):
        req.write(type(req).__mro__[-2].__module__)
        return http.DONE

    def long(req):
        for number in range(20000):
            req.write(f"line {number}\\n")
        req.sendfile(__file__, 0, 10)
        req.write(b"end")
        return http.DONE

    handlers = {"/": (http.METHOD_GET, home), "/long": (http.METHOD_GET, long)}
    application = application(types.SimpleNamespace(handlers=handlers))
"""


def test_what_a_handler_writes_is_held_by_the_engine(start: Any) -> None:
    server = start(TABLE)
    assert server.get("/").body == b"poorhttp._engine"
    body = server.get("/long").body
    lines = b"".join(b"line %d\n" % number for number in range(20000))
    assert body[: len(lines)] == lines
    assert (len(body), body[-3:]) == (len(lines) + 13, b"end")


LARGE = """
PAGE = bytes(range(256)) * 80_000

def application(environ, start_response):
    page = PAGE if environ["PATH_INFO"] == "/shared" else bytes(bytearray(PAGE))
    start_response("200 OK", [("Content-Length", str(len(page)))])
    return [page] if environ["QUERY_STRING"] == "list" else iter([page])
"""


@pytest.mark.parametrize("shape", ["list", "iterator"])
def test_a_large_block_waits_for_slow_clients_where_it_is(serve: Any, any_shape: Any, shape: str, compose: Any) -> None:
    """Ten clients who do not read share the one block of 20 MB, and each gets it whole, whoever is served meanwhile."""
    server, page = serve(LARGE, any_shape), bytes(range(256)) * 80_000
    before = server.memory()
    clients = [server.connect(receive_buffer=65536).send(compose(f"/shared?{shape}")) for _ in range(10)]
    heads = [client.head_only() for client in clients]
    assert [head.status for head in heads] == [200] * 10
    assert server.memory() - before < 50_000_000
    assert server.get(f"/own?{shape}").body == page
    for client in clients[:3]:
        body = bytearray()
        client._take(len(page), body)
        assert body == page
