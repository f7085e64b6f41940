"""start_response: its write(), its exc_info, and what it refuses: no harm to the process, nothing injected.

Knows PEP 3333 and the policy's checklist.
"""

from __future__ import annotations

from typing import Any

import pytest

APP = '''
import sys
from gate import note

def application(environ, start_response):
    return globals()[environ["PATH_INFO"].strip("/")](environ, start_response)

TEXT = [("Content-Type", "text/plain")]

def write(environ, start_response):
    write = start_response("200 OK", TEXT)
    write(b"one ")
    write(b"")
    write(b"two ")
    return [b"three ", b"four"]

def write_with_length(environ, start_response):
    write = start_response("200 OK", [("Content-Length", "7")])
    write(b"one ")
    return [b"two"]

def write_only(environ, start_response):
    start_response("200 OK", TEXT)(b"all of it")
    return []

def write_str(environ, start_response):
    write = start_response("200 OK", TEXT)
    try:
        write("text")
    except Exception as error:
        note(type(error).__name__)
        write(b"bytes")
    return []

def positional(environ, start_response):
    start_response("200 OK", TEXT, None)
    return [b"positional"]

def replaced(environ, start_response):
    start_response("200 OK", [("X-First", "1"), ("Content-Length", "99")])
    try:
        raise ValueError("replace me")
    except ValueError:
        start_response("503 Sorry", [("X-Second", "2")], sys.exc_info())
    return [b"sorry"]

def replaced_late(environ, start_response):
    """Nothing but empty blocks was given: the head is still held."""
    start_response("200 OK", [("X-First", "1")])
    yield b""
    yield b""
    try:
        raise ValueError("replace me")
    except ValueError:
        start_response("500 Late", [("X-Second", "2")], sys.exc_info())
    yield b"late"

def reraised(environ, start_response):
    start_response("200 OK", TEXT)
    yield b"begun"
    try:
        raise ValueError("declared")
    except ValueError:
        try:
            start_response("500 Too late", TEXT, sys.exc_info())
        except ValueError as error:
            note("reraised " + str(error))
            raise

def twice(environ, start_response):
    start_response("200 OK", TEXT)
    try:
        start_response("201 Again", TEXT)
    except Exception as error:
        note("twice " + type(error).__name__)
    return [b"first"]

def never(environ, start_response):
    return [b"without a start"]

def never_empty(environ, start_response):
    return []

def lazily(environ, start_response):
    yield b""
    start_response("202 Lazy", TEXT)
    yield b""
    yield b"lazy"

def generator(environ, start_response):
    start_response("200 OK", TEXT)
    yield b"from a generator"

def mutated(environ, start_response):
    headers = [("X-Kept", "yes")]
    start_response("200 OK", headers)
    headers.append(("X-Bad", "a\\r\\nInjected: yes"))
    headers.append(("Bad Name", "b"))
    return [b"mutated"]

def no_headers(environ, start_response):
    start_response("200 OK", [])
    return [b"bare"]

def many(environ, start_response):
    start_response("200 OK", [("Set-Cookie", "a=1"), ("X-A", "1"), ("Set-Cookie", "b=2"), ("x-a", "2")])
    return [b"many"]

def latin(environ, start_response):
    start_response("200 Caf\\xe9", [("X-A", "\\xe9\\xff"), ("X-Empty", ""), ("X-Tab", "a\\tb")])
    return [b"latin"]

def hop(environ, start_response):
    start_response("200 OK", [
        ("Connection", "x-marker"), ("Keep-Alive", "x-marker"), ("Transfer-Encoding", "x-marker"), ("TE", "x-marker"),
        ("Trailer", "x-marker"), ("Upgrade", "x-marker"), ("Proxy-Authenticate", "x-marker"),
        ("proxy-authorization", "x-marker"), ("Content-Type", "text/plain"), ("Content-Length", "3"),
    ])
    return [b"hop"]

def own_date_and_server(environ, start_response):
    start_response("200 OK", [("Date", "Thu, 01 Jan 1970 00:00:00 GMT"), ("Server", "own"), ("Content-Length", "2")])
    return [b"ok"]

def status(environ, start_response):
    start_response(environ["HTTP_X_STATUS"], TEXT)
    return [b"body"]
'''


@pytest.fixture
def server(serve: Any, any_shape: Any) -> Any:
    return serve(APP, any_shape, errors=["declared", "start_response", "never", "AssertionError", "RuntimeError"])


def test_write_comes_before_the_iterable(server: Any) -> None:
    assert server.get("/write").body == b"one two three four"


def test_write_with_a_length(server: Any) -> None:
    response = server.get("/write_with_length")
    assert (response.body, response.framing) == (b"one two", "length")


def test_write_only(server: Any) -> None:
    assert server.get("/write_only").body == b"all of it"


def test_write_wants_bytes(server: Any) -> None:
    before = len(server.notes())
    assert server.get("/write_str").body == b"bytes"
    assert len(server.notes()) == before + 1


def test_write_on_1_0(server: Any) -> None:
    assert server.get("/write", version="1.0").body == b"one two three four"


def test_arguments_are_positional(server: Any) -> None:
    assert server.get("/positional").body == b"positional"


def test_exc_info_before_the_head_replaces_it(server: Any) -> None:
    response = server.get("/replaced")
    assert (response.status, response.reason, response.body) == (503, "Sorry", b"sorry")
    assert response.header("X-First") is None
    assert response.header("X-Second") == "2"


def test_exc_info_after_empty_blocks_replaces_the_head(server: Any) -> None:
    response = server.get("/replaced_late")
    assert (response.status, response.reason, response.body) == (500, "Late", b"late")
    assert response.header("X-First") is None


def test_exc_info_after_the_head_raises_again(server: Any) -> None:
    with server.connect() as client:
        client.send("GET /reraised HTTP/1.1\r\nHost: a\r\n\r\n")
        response = client.response(truncated=True)
        assert (response.status, response.body, response.was_reset) == (200, b"begun", True)
    server.await_note("reraised declared")


def test_a_second_call_without_exc_info_is_an_error(server: Any) -> None:
    before = len(server.notes())
    response = server.get("/twice")
    assert (response.status, response.body) == (200, b"first")
    assert server.notes()[before:] and server.notes()[before].startswith("twice ")


@pytest.mark.parametrize("path", ["/never", "/never_empty"])
def test_an_application_that_does_not_start_is_500(server: Any, until: Any, path: str) -> None:
    lines = len(server.error_lines())
    response = server.get(path)
    assert response.status == 500
    assert b"without" not in response.body
    until(lambda: len(server.error_lines()) > lines, "a line in the error log")


def test_start_at_the_first_iteration(server: Any) -> None:
    assert server.get("/generator").body == b"from a generator"
    response = server.get("/lazily")
    assert (response.status, response.reason, response.body) == (202, "Lazy", b"lazy")


def test_a_list_changed_afterwards_injects_nothing(server: Any) -> None:
    response = server.get("/mutated")
    assert response.status in (200, 500)
    assert response.header("Injected") is None
    assert response.header("X-Bad") is None


def test_no_headers(server: Any) -> None:
    response = server.get("/no_headers")
    assert (response.status, response.body) == (200, b"bare")


def test_repeated_fields_stay_apart_and_in_order(server: Any) -> None:
    response = server.get("/many")
    assert response.all("Set-Cookie") == ["a=1", "b=2"]
    assert response.all("X-A") == ["1", "2"]


def test_latin_1_passes(server: Any) -> None:
    response = server.get("/latin")
    assert response.reason == "Caf\xe9"
    assert response.header("X-A") == "\xe9\xff"
    assert response.header("X-Empty") == ""
    assert response.header("X-Tab") == "a\tb"


def test_hop_by_hop_fields_are_dropped_and_told(server: Any, until: Any) -> None:
    lines = len(server.error_lines())
    with server.connect() as client:
        response = client.request("/hop")
        assert response.status == 200
        assert response.body == b"hop"
        assert "x-marker" not in [value for _, value in response.headers]
        assert response.header("Content-Type") == "text/plain"
    until(lambda: len(server.error_lines()) > lines, "a line in the error log")


def test_date_and_server_come_once(server: Any) -> None:
    response = server.get("/own_date_and_server")
    assert len(response.all("Date")) == 1
    assert len(response.all("Server")) == 1


@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
def test_no_body_on_204_and_304(server: Any, status: str) -> None:
    with server.connect() as client:
        response = client.request("/status", f"X-Status: {status}")
        assert f"{response.status} {response.reason}" == status
        assert response.header("Transfer-Encoding") is None
        assert client.request("/write_only").body == b"all of it", "no byte of a body was left over"


@pytest.mark.parametrize("status", ["200 OK", "299 Own words here", "404 Not Found", "599 x", "418 I'm a teapot"])
def test_any_status(server: Any, status: str) -> None:
    response = server.get("/status", f"X-Status: {status}")
    assert f"{response.status} {response.reason}" == status
    assert response.body == b"body"


# -------------------------------------------------------------------------------------------- what must be refused

BAD = """
STATUSES = {
    "int": 200, "none": None, "bytes": b"200 OK", "list": ["200 OK"], "empty": "", "no-reason-no-space": "200OK",
    "word": "OK", "two-digits": "20 OK", "four-digits": "2000 OK", "interim": "101 Switching Protocols", "continue": "100 Continue", "minus": "-20 OK", "plus": "+20 OK",
    "space-first": " 200 OK", "letter": "2x0 OK", "crlf": "200 OK\\r\\nInjected: yes", "lf": "200 OK\\nInjected: yes",
    "cr": "200 OK\\rInjected: yes", "nul": "200 O\\0K", "escape": "200 \\x1b[31m", "del": "200 O\\x7fK",
    "unicode-digits": "\\uff12\\uff10\\uff10 OK", "euro": "200 \\u20ac", "surrogate": "200 \\udcff", "zero": "000 OK",
    "099": "099 OK", "tab": "200\\tOK", "superscript": "20\\xb2 OK", "float": 200.0, "crlf-end": "200 OK\\r\\n",
    "ls": "200 \\u2028 OK",
}
OK = ("X-A", "b")
HEADERS = {
    "none": None, "string": "X-A: b", "dict": {"X-A": "b"}, "int": 7, "iterator": iter([OK]), "item-none": [None],
    "item-string": ["X-A"], "item-int": [1], "item-empty": [()], "item-one": [("X-A",)],
    "item-three": [("X-A", "b", "c")], "name-bytes": [(b"X-A", "b")], "value-bytes": [("X-A", b"b")],
    "name-int": [(1, "b")], "value-int": [("X-A", 1)], "name-none": [(None, "b")], "value-none": [("X-A", None)],
    "name-empty": [("", "b")], "name-space": [("X A", "b")], "name-colon": [("X-A:", "b")],
    "name-crlf": [("X\\r\\nInjected: yes\\r\\nY", "b")], "name-lf": [("X\\nInjected", "yes")],
    "name-nul": [("X\\0", "b")], "name-latin": [("X\\xe9", "b")], "name-euro": [("X\\u20ac", "b")],
    "name-quote": [('X"', "b")], "name-tab": [("X\\t", "b")], "value-crlf": [("X-A", "b\\r\\nInjected: yes")],
    "value-lf": [("X-A", "b\\nInjected: yes")], "value-cr": [("X-A", "b\\rInjected: yes")],
    "value-double-crlf": [("X-A", "b\\r\\n\\r\\n<script>")], "value-nul": [("X-A", "b\\0c")],
    "value-control": [("X-A", "b\\x01c")], "value-escape": [("X-A", "\\x1b[31m")], "value-del": [("X-A", "b\\x7f")],
    "value-euro": [("X-A", "\\u20ac")], "value-surrogate": [("X-A", "\\udc80")], "value-fold": [("X-A", "b\\r\\n c")],
    "value-narrowed-crlf": [("X-A", "b\\u010d\\u010aInjected: yes")], "value-lf-end": [("X-A", "b\\n")],
    "second-bad": [OK, ("X-B", "c\\r\\nInjected: yes")], "length-letters": [("Content-Length", "abc")],
    "length-minus": [("Content-Length", "-1")], "length-plus": [("Content-Length", "+4")],
    "length-float": [("Content-Length", "4.0")], "length-empty": [("Content-Length", "")],
    "length-list": [("Content-Length", "4, 4")], "length-huge": [("Content-Length", "9" * 40)],
    "length-two": [("Content-Length", "4"), ("Content-Length", "5")],
    "length-unicode": [("Content-Length", "\\u0664")], "length-superscript": [("Content-Length", "\\xb2")],
}

class Text(str):
    pass

def application(environ, start_response):
    kind, _, name = environ["PATH_INFO"].strip("/").partition("/")
    if kind == "good":
        start_response("200 OK", [("Content-Length", "4")])
    elif kind == "status":
        start_response(STATUSES[name], [OK])
    else:
        start_response("200 OK", HEADERS[name])
    return [b"good"]
"""


def names(table: str) -> list[str]:
    space: dict[str, Any] = {}
    exec(BAD, space)
    return list(space[table])


@pytest.mark.parametrize(
    "kind_name", [f"status/{n}" for n in names("STATUSES")] + [f"headers/{n}" for n in names("HEADERS")]
)
def test_what_is_not_http_is_500_and_injects_nothing(serve: Any, any_shape: Any, until: Any, kind_name: str) -> None:
    server = serve(BAD, any_shape, errors=["Error"])
    pids, lines = server.pids(), len(server.error_lines())
    with server.connect() as client:
        response = client.request("/" + kind_name)
        assert response.status == 500, response
        assert response.header("Injected") is None
        assert response.header("X-A") is None
        assert b"Injected" not in response.body
        assert b"<script>" not in response.body
        if response.closes:
            client.expect_close()
        else:
            assert client.request("/good").body == b"good"
    until(lambda: len(server.error_lines()) > lines, "a line in the error log")
    assert server.get("/good").body == b"good"
    assert server.pids() == pids


SUBCLASSES = """
class Text(str):
    pass

class Headers(list):
    pass

class Pair(tuple):
    pass

class Block(bytes):
    pass

def application(environ, start_response):
    start_response(Text("200 OK"), Headers([Pair((Text("X-A"), Text("b")))]))
    return [Block(b"sub"), Block(b"class")]
"""


def test_subclasses_are_served_or_refused_but_never_harm(serve: Any, any_shape: Any) -> None:
    """PEP 3333 allows a server to insist on the exact types; what it may not do is send something else."""
    server = serve(SUBCLASSES, any_shape, errors=["Error"])
    for _ in range(3):
        response = server.get("/")
        assert response.status in (200, 500)
        if response.status == 200:
            assert (response.body, response.header("X-A")) == (b"subclass", "b")


CROWD = """
import threading
from gate import note, wait

class Info:
    def __getitem__(self, index):
        note("asked")
        wait("info")
        return ValueError("from another thread")

def start_again(start_response):
    try:
        start_response("500 Failed", [], Info())
    except Exception as error:
        note(type(error).__name__)

def application(environ, start_response):
    write = start_response("200 OK", [("Content-Type", "text/plain")])
    write(b"hello")
    thread = threading.Thread(target=start_again, args=(start_response,))
    thread.start()
    wait_for_note("asked")
    return []

def wait_for_note(text):
    import os, time
    from gate import HERE
    while not os.path.exists(os.path.join(HERE, "notes")):
        time.sleep(0.002)
"""


def test_another_thread_inside_start_response_does_not_spoil_the_end(start: Any, any_shape: Any) -> None:
    """What it passed is asked for its parts while the application returns."""
    server = start(CROWD, any_shape)
    response = server.get("/")
    assert (response.status, response.body, response.complete) == (200, b"hello", True)
    server.open_gate("info")
    server.await_note("ValueError")
