"""What advisories of other servers tell and bytes alone cannot show: an application's part, time, memory, logs.

Knows tests/corpus/ADVISORIES.md, whose rows name the tests here; a test names its advisories there, not here.
"""

from __future__ import annotations

import base64
import contextlib
import io
import re
import time
from pathlib import Path
from typing import Any

import pytest

from poorhttp.dispatch.form import FieldStorage
from poorhttp.dispatch.request import Request

ADMIN = b"GET /admin HTTP/1.1\r\nHost: example.com\r\n\r\n"
CHUNKED = b"POST /a HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: chunked\r\n\r\n"
MIB = 1024 * 1024

APP = """
from urllib.parse import unquote_to_bytes
from gate import note, wait

class Stream:
    def __init__(self, name):
        self.name = name

    def __iter__(self):
        for number in range(2000):
            note(f"{self.name} {number}")
            yield b"x" * 65536

    def close(self):
        note(f"{self.name} closed")

def application(environ, start_response):
    path, text = environ["PATH_INFO"], unquote_to_bytes(environ["QUERY_STRING"]).decode("utf-8", "surrogateescape")
    note(path)
    if path == "/raise":
        raise ValueError("declared")
    if path == "/wait":
        wait("open")
    if path == "/read":
        text = str(len(environ["wsgi.input"].read()))
    if path == "/status":
        start_response("200 " + text, [])
    elif path == "/name":
        start_response("200 OK", [("X-" + text, "a")])
    elif path == "/value":
        start_response("200 OK", [("Location", "/" + text)])
    else:
        start_response("200 OK", [("Content-Type", "text/plain")])
    if path.startswith("/stream"):
        return Stream(path)
    return [text.encode("utf-8", "surrogateescape") if path == "/read" else path.encode("latin-1")]
"""
DECLARED = ["declared", "start_response"]


@pytest.fixture
def server(serve: Any, any_shape: Any) -> Any:
    return serve(APP, any_shape, errors=DECLARED)


@pytest.fixture
def single(serve: Any) -> Any:
    return serve(APP, errors=DECLARED)


# -------------------------------------------------------------------------------------------- bodies and extensions


@pytest.mark.parametrize("path", ["/a", "/raise"])
@pytest.mark.parametrize("coding", ["length", "chunked"])
def test_a_body_that_nobody_reads_is_not_the_next_request(server: Any, path: str, coding: str) -> None:
    """Whether the application leaves it or raises; the answer to the next request is that to the next request."""
    if coding == "length":
        framed = f"Content-Length: {len(ADMIN)}\r\n\r\n".encode() + ADMIN
    else:
        framed = b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(ADMIN), ADMIN)
    before = len(server.notes())
    with server.connect() as client:
        client.send(f"POST {path} HTTP/1.1\r\nHost: example.com\r\n".encode() + framed)
        client.send(b"GET /next HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n")
        first = client.response()
        assert first.status == (500 if path == "/raise" else 200)
        if not first.closes:
            assert client.response().body == b"/next"
        client.expect_close()
    assert "/admin" not in server.notes()[before:]


def test_a_quoted_extension_hides_no_request(single: Any) -> None:
    """A front end that lets a quoted string go on behind a CRLF sees one request here, and the second as its data."""
    before = len(single.notes())
    with single.connect() as client:
        client.send(CHUNKED + b'1;a="b\r\nX\r\n0\r\n\r\n' + ADMIN)
        assert client.response().status == 400
        client.half_close()
        client.expect_close()
    assert single.notes()[before:] == []


@pytest.mark.parametrize("extension", [";", ";;", ";a=", ";=b", ";a b", ";a@", ";\xe9", ';a="b"c', ';a="b'])
def test_a_malformed_extension_is_refused(single: Any, extension: str) -> None:
    with single.connect() as client:
        client.send(CHUNKED + b"5" + extension.encode("latin-1") + b"\r\nhello\r\n0\r\n\r\n")
        assert client.response().status == 400


# -------------------------------------------------------------------------------------------------------- responses

INJECTIONS = [
    "%0d%0aInjected:%20yes",
    "%0aInjected:%20yes",
    "%0dInjected:%20yes",
    "%0d%0a%0d%0a<script>",
    "%0d%0a%20folded",
    "%00",
    "%01",
    "%7f",
    "%c4%8d%c4%8aInjected:%20yes",  # U+010D U+010A, which are CR LF where the high bits are cut off
    "%e2%80%a8Injected:%20yes",
    "%ff",
]


@pytest.mark.parametrize("place", ["/status", "/name", "/value"])
@pytest.mark.parametrize("text", INJECTIONS)
def test_an_application_that_reflects_its_client_splits_no_response(server: Any, place: str, text: str) -> None:
    """500, nothing of it on the wire, no process less, and the connection serves on."""
    pids = server.pids()
    with server.connect() as client:
        response = client.request(f"{place}?a{text}")
        assert response.status == 500
        assert [name for name, _ in response.headers if name.lower() in ("injected", "location")] == []
        assert b"<script>" not in response.body
        if not response.closes:
            assert client.request("/next").body == b"/next"
    assert server.pids() == pids


def test_a_page_of_the_server_tells_nothing_of_its_client(single: Any) -> None:
    """Refusals and 500 repeat no byte of the request: there is nothing to escape."""
    marked = ["GET /<marked>#x HTTP/1.1\r\nHost: a\r\n\r\n", "GET / HTTP/1.1\r\nHost: <marked>\r\n\r\n"]
    for request in [*marked, "GET /raise?<marked> HTTP/1.1\r\nHost: marked\r\nX-A: <marked>\r\n\r\n"]:
        with single.connect() as client:
            response = client.send(request).response()
            assert response.status in (400, 500)
            assert b"marked" not in response.body
            assert not any("marked" in value for _, value in response.headers)


# ------------------------------------------------------------------------------------------- logs and what is trusted


@pytest.mark.parametrize("form", ["poor", "combined", "json"])
def test_no_request_forges_a_line_of_the_access_log(serve: Any, until: Any, form: str) -> None:
    server = serve("hello", accesslog_format=form)
    credentials = base64.b64encode(b"a\r\nforged:b").decode()
    fields = [f"Authorization: Basic {credentials}", 'User-Agent: \x85\x9b31m\xff" forged', 'Referer: \\" \xa0']
    assert server.get('/%1b%5b31m%0d%0aforged%00%c2%85?"\\', *fields).status == 200
    until(lambda: "forged" in server.requests(), "its line")
    told = [line for line in server.requests().splitlines() if "OPTIONS" not in line]
    assert len(told) == 1
    assert told[0].isascii() and told[0].isprintable()


def test_no_field_tells_who_the_client_is(serve: Any) -> None:
    """What the environ says of the peer and of the server is what the sockets say; a proxy's fields are mere fields."""
    server = serve("echo")
    names = ["X-Client-IP", "X-Forwarded-For", "X-Real-IP", "Forwarded", "X-Forwarded-Proto", "X-Forwarded-Host"]
    names += ["Remote-Addr", "Remote-User", "Script-Name", "Path-Info", "Server-Name", "X-Script-Name", "Https"]
    plain = server.get("/p").json()["environ"]
    told = server.get("/p", *[f"{name}: https" for name in names]).json()["environ"]
    own = {name: value for name, value in told.items() if not name.startswith("HTTP_") and name != "REMOTE_PORT"}
    assert own == {name: plain[name] for name in plain if not name.startswith("HTTP_") and name != "REMOTE_PORT"}
    assert own["REMOTE_ADDR"] == "127.0.0.1"
    assert "REMOTE_USER" not in own


# ------------------------------------------------------------------------------------------------------ time and CPU


def test_many_tiny_chunks_cost_linear_time(single: Any) -> None:
    with single.connect() as client:
        began = time.monotonic()
        client.send(CHUNKED.replace(b"/a", b"/read") + b"1\r\nx\r\n" * 200_000 + b"0\r\n\r\n")
        assert client.response().body == b"200000"
        assert time.monotonic() - began < 5


def test_many_fields_of_one_name_cost_linear_time(single: Any) -> None:
    """190 fields of 600 bytes, of quotes, backslashes and separators, are joined once."""
    value = '"\\' * 150 + ";," * 150
    for name in ("Cookie", "X-A"):
        began = time.monotonic()
        assert single.get("/a", *[f"{name}: {value}"] * 190).status == 200
        assert time.monotonic() - began < 5


def test_a_form_of_line_ends_costs_linear_time() -> None:
    """Sixteen megabytes that look like the beginning of a boundary again and again, read by the dispatch table."""
    head = b'--b\r\nContent-Disposition: form-data; name="f"; filename="f"\r\n\r\n'
    body = head + b"\r\n-" * (16 * MIB // 3) + b"\r\n--b--\r\n"
    environ = {
        "REQUEST_METHOD": "POST",
        "CONTENT_TYPE": "multipart/form-data; boundary=b",
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.input": io.BytesIO(body),
        "wsgi.input_terminated": True,
    }
    began = time.monotonic()
    form = FieldStorage(Request(environ, lambda *_: lambda data: None, 65536))
    assert time.monotonic() - began < 3
    assert form["f"].file.seek(0, io.SEEK_END) == 16 * MIB // 3 * 3
    form["f"].file.close()


def test_clients_that_vanish_leave_nothing_behind(start: Any, any_shape: Any, until: Any, compose: Any) -> None:
    """Closed, half-closed and reset, before and in the middle of an answer: no process ends, none spins, none leaks."""
    server = start(APP, any_shape, write_timeout=1, head_timeout=1, keepalive_timeout=1)
    until(lambda: server.get("/a").status == 200)
    base, pids = server.descriptors(), server.pids()
    for part in (b"", b"G", compose("/a") * 3, compose("/stream"), CHUNKED + b"5\r\nab"):
        for leave in ("close", "half_close", "reset"):
            for _ in range(4):
                client = server.connect(receive_buffer=4096)
                client.send(part)
                getattr(client, leave)()
    assert server.get("/a").body == b"/a"
    until(lambda: server.descriptors() <= base, "the descriptors of those that left")
    spent = server.cpu_seconds()
    time.sleep(1.0)  # the window of the measurement
    assert server.cpu_seconds() - spent < 0.3
    assert server.pids() == pids


@pytest.mark.parametrize("first", [b"", b"GET /a HTTP/1.1\r\nHost: example.com\r\n\r\n"], ids=["first", "second"])
@pytest.mark.parametrize(
    "part", [b"GET /b HTTP/1.1\r\nX-A: ", CHUNKED, b"POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n"]
)
def test_clients_that_drip_are_cut_off_while_others_are_served(serve: Any, first: bytes, part: bytes) -> None:
    """Fifty of them, a byte now and then: one thread serves on, and their time ends, also in a second request."""
    server = serve(APP, head_timeout=0.7, body_timeout=0.7, body_rate="1k", errors=DECLARED)
    drips = [server.connect() for _ in range(50)]
    for client in drips:
        client.send(first + part)
        if first:
            assert client.response().status == 200
    end = time.monotonic() + 15
    while any(client.is_silent() for client in drips):
        assert time.monotonic() < end
        time.sleep(0.01)  # the pace of the drip: a tenth of body_rate
        for client in drips:
            if client.is_silent():
                client.send_split(b"1")
        began = time.monotonic()
        assert server.get("/other").body == b"/other"
        assert time.monotonic() - began < 5  # far below what it takes to wait for the others
    for client in drips:
        # A chunked body of ones alone is refused earlier, as a size beyond 63 bits.
        assert client.response().status in (400, 408)
        client.close()


def test_a_connection_that_never_rests_starves_no_other(single: Any, compose: Any) -> None:
    """One thread: a client whose pipeline never ends, and another one."""
    with single.connect() as busy:
        busy.sock.setblocking(False)
        pipeline = compose("/a") * 200
        for _ in range(30):
            with contextlib.suppress(BlockingIOError):
                busy.sock.send(pipeline)
            with contextlib.suppress(BlockingIOError):
                busy.sock.recv(MIB)
            began = time.monotonic()
            assert single.get("/other").body == b"/other"
            assert time.monotonic() - began < 5  # far below what it takes to wait for the others


# ------------------------------------------------------------------------------------------------------------ memory


def peak(server: Any) -> int:
    """Bytes that were ever resident in the serving processes: what was taken and given back counts too."""
    status = [Path(f"/proc/{pid}/status").read_text(encoding="ascii") for pid in server.pids()]
    return sum(int(re.findall(r"^VmHWM:\s+(\d+) kB$", text, re.MULTILINE)[0]) * 1024 for text in status)


def test_a_reader_that_stalls_costs_bounded_memory_and_close_is_called_once(
    start: Any, until: Any, compose: Any
) -> None:
    """128 MiB are asked for and not read: the application is not called on; when the client leaves, it hears of it."""
    server = start(APP)
    until(lambda: server.get("/a").status == 200)
    base = peak(server)
    clients = [server.connect(receive_buffer=4096) for _ in range(10)]
    for number, client in enumerate(clients):
        client.send(compose(f"/stream{number}"))
    seen: list[int] = []

    def stalled() -> bool:
        seen.append(len(server.notes()))
        time.sleep(0.2)  # the interval of the measurement
        return len(seen) > 3 and len(set(seen[-3:])) == 1

    until(stalled, "the streams stand still")
    assert peak(server) - base < 8 * MIB
    assert not any(note.endswith("closed") for note in server.notes())
    assert 4 * seen[-1] < 10 * 2000, "most of it was not asked for"
    for client in clients:
        client.reset()
    for number in range(10):
        server.await_note(f"/stream{number} closed")
    assert sum(note.endswith("closed") for note in server.notes()) == 10


def test_large_heads_are_refused_in_bounded_memory(start: Any) -> None:
    """A hundred clients that would send a megabyte of head each."""
    server = start("hello")
    base = peak(server)
    clients = [server.connect() for _ in range(100)]
    for client in clients:
        client.send_split(b"GET / HTTP/1.1\r\nHost: a\r\n", *[b"X-A: " + b"a" * 65_000 + b"\r\n"] * 16)
    for client in clients:
        assert client.response().status == 431
        client.close()
    assert peak(server) - base < 16 * MIB


def test_a_pipeline_waits_with_its_sender(start: Any, until: Any, compose: Any) -> None:
    """While the application is busy no more of a pipeline is taken in than a buffer full."""
    server = start(APP)
    base = peak(server)
    with server.connect() as client:
        client.sock.setblocking(False)
        one = compose("/wait")
        unsent = one * 200_000

        def is_held_back() -> bool:
            nonlocal unsent
            try:
                unsent = unsent[client.sock.send(unsent[:MIB]) :]
            except BlockingIOError:
                return "/wait" in server.notes()
            return False

        until(is_held_back, "no more is taken")
        assert unsent
        assert peak(server) - base < 8 * MIB
        server.open_gate("open")
        client.reset()
