"""One connection from its first byte to its last: persistence, order, framing, 100, half-close and reset.

Knows HTTP/1.1 from the outside; knows no setting but the defaults.
"""

from __future__ import annotations

import contextlib
import email.utils
import time
from typing import Any

import pytest

APP = """
from gate import note, wait

def application(environ, start_response):
    path = environ["PATH_INFO"]
    environ["wsgi.input"].read()
    kind, _, text = path.strip("/").partition("/")
    note(path)
    if kind == "wait":
        wait(text)
    if kind == "stream":
        start_response("200 OK", [("Content-Type", "text/plain")])
        return (b"%d," % i for i in range(int(text)))
    if kind == "size":
        start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", text)])
        return [b"x" * int(text)]
    if kind == "short":
        start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(int(text) + 1))])
        return [b"x" * int(text)]
    body = path.encode("latin-1")
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]
"""


@pytest.fixture
def server(serve: Any, any_shape: Any) -> Any:
    return serve(APP, any_shape)


@pytest.fixture
def single(serve: Any) -> Any:
    return serve(APP)


# ------------------------------------------------------------------------------------------- persistence and order


def test_many_requests_on_one_connection(server: Any) -> None:
    with server.connect() as client:
        for i in range(50):
            response = client.request(f"/{i}")
            assert response.body == b"/%d" % i
            assert response.header("Connection") is None


def test_connection_close_is_obeyed_and_said(server: Any) -> None:
    with server.connect() as client:
        assert client.request("/a", "Connection: close").closes
        client.expect_close()


def test_pipelined_responses_come_in_order(server: Any, compose: Any) -> None:
    with server.connect() as client:
        client.send(b"".join(compose(f"/{i}") for i in range(200)))
        assert [client.response().body for _ in range(200)] == [b"/%d" % i for i in range(200)]


def test_pipelined_requests_of_one_read_are_answered_together(single: Any, compose: Any) -> None:
    """Sixteen requests in one segment are answered by as few sends as possible: one, or two at most; more where the
    server had to wait for a core meanwhile, which it does not each time.
    """
    with single.connect() as client:
        client.request("/warm")
        counts = []
        for _ in range(5):
            client.send(b"".join(compose(f"/{i}") for i in range(16)))
            received, pieces = b"", 0
            while received.count(b"\r\n\r\n/") < 16:
                received += client.sock.recv(1 << 20)
                pieces += 1
            counts.append(pieces)
        assert min(counts) <= 2, counts


def test_pipelined_mix_of_framings(server: Any, compose: Any) -> None:
    with server.connect() as client:
        client.send(
            compose("/stream/5")
            + compose("/size/7", method="POST", body=b"abc")
            + compose("/size/9", method="HEAD")
            + compose("/chunk", "Transfer-Encoding: chunked", method="POST", body=b"3\r\nabc\r\n0\r\n\r\n")
            + compose("/last", "Connection: close")
        )
        assert client.response().body == b"0,1,2,3,4,"
        assert client.response().body == b"x" * 7
        assert client.response("HEAD").header("Content-Length") == "9"
        assert client.response().body == b"/chunk"
        assert client.response().closes
        client.expect_close()


def test_a_pipeline_that_is_not_read_waits_and_is_answered_in_order(single: Any, compose: Any) -> None:
    """A client that sends without reading is held back by TCP, and costs others nothing."""
    total, size = 3000, 10_000
    one = compose(f"/size/{size}")
    with single.connect(receive_buffer=4096) as client:
        before = single.memory()
        client.sock.setblocking(False)
        unsent = one * total
        while unsent:
            try:
                unsent = unsent[client.sock.send(unsent) :]
            except BlockingIOError:
                break
        assert single.get("/other").body == b"/other"
        assert single.memory() - before < 16 * 1024 * 1024
        client.sock.setblocking(True)
        client.sock.settimeout(20)
        answered = 0
        while answered < total:
            if unsent:
                client.sock.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    unsent = unsent[client.sock.send(unsent) :]
                client.sock.settimeout(20)
            assert len(client.response().body) == size
            answered += 1


def test_connections_interleave(server: Any, compose: Any) -> None:
    clients = [server.connect() for _ in range(40)]
    for turn in range(5):
        for number, client in enumerate(clients):
            client.send(compose(f"/{number}-{turn}"))
        for number, client in reversed(list(enumerate(clients))):
            assert client.response().body == f"/{number}-{turn}".encode()
    for client in clients:
        client.close()


def test_a_request_cut_into_three_by_others(single: Any) -> None:
    """A request may arrive in pieces with whole requests of others between them."""
    with single.connect() as slow:
        for piece in (b"POST /slow HTTP/1.1\r\nHo", b"st: a\r\nContent-Length: 4\r\n\r\nab", b"cd"):
            slow.send(piece)
            assert single.get("/fast").body == b"/fast"
        assert slow.response().body == b"/slow"


# ------------------------------------------------------------------------------------------------------- framing


def test_head_is_get_without_the_body(server: Any) -> None:
    with server.connect() as client:
        for target in ("/size/123", "/stream/3"):
            get = client.request(target)
            head = client.request(target, method="HEAD")
            assert head.body == b""
            assert head.status == get.status
            same = {name: value for name, value in get.headers if name not in ("Date", "Transfer-Encoding")}
            assert same == {name: value for name, value in head.headers if name not in ("Date", "Transfer-Encoding")}


def test_a_stream_is_chunked_on_1_1(server: Any) -> None:
    with server.connect() as client:
        response = client.request("/stream/1000")
        assert response.framing == "chunked"
        assert response.body == b"".join(b"%d," % i for i in range(1000))
        assert client.request("/next").body == b"/next"


def test_an_empty_stream_is_framed(server: Any) -> None:
    with server.connect() as client:
        assert client.request("/stream/0").body == b""
        assert client.request("/next").body == b"/next"


def test_a_stream_ends_with_the_connection_on_1_0(server: Any) -> None:
    with server.connect() as client:
        response = client.request("/stream/10", version="1.0")
        assert response.framing == "close"
        assert response.body == b"0,1,2,3,4,5,6,7,8,9,"


def test_a_stream_closes_on_1_0_in_spite_of_keep_alive(server: Any) -> None:
    with server.connect() as client:
        response = client.request("/stream/10", "Connection: keep-alive", version="1.0")
        assert response.framing == "close"
        assert response.body == b"0,1,2,3,4,5,6,7,8,9,"


def test_1_0_closes(server: Any) -> None:
    with server.connect() as client:
        response = client.request("/a", version="1.0")
        assert response.closes
        assert response.body == b"/a"
        client.expect_close()


def test_1_0_keep_alive(server: Any) -> None:
    with server.connect() as client:
        for _ in range(3):
            response = client.request("/a", "Connection: keep-alive", version="1.0")
            assert response.header("Connection").lower() == "keep-alive"
        assert client.request("/b", version="1.0").closes
        client.expect_close()


def test_options_asterisk_is_answered_without_the_application(server: Any) -> None:
    with server.connect() as client:
        before = len(server.notes())
        assert client.request("*", method="OPTIONS").status in (200, 204)
        assert client.request("/x").body == b"/x"
        assert server.notes()[before:] == ["/x"]


def test_date_is_now(server: Any) -> None:
    response = server.get("/")
    date = response.header("Date")
    assert date.endswith(" GMT") and len(date) == 29
    assert abs(email.utils.parsedate_to_datetime(date).timestamp() - time.time()) < 3


@pytest.mark.parametrize("character", list("\\<>{|}^`"))
def test_unusual_characters_in_a_target_pass_or_are_refused(single: Any, character: str) -> None:
    """Not in RFC 3986; either answer is allowed, and what passes is unchanged."""
    response = single.get(f"/a{character}b")
    assert response.status in (200, 400)
    if response.status == 200:
        assert response.body == f"/a{character}b".encode()


@pytest.mark.parametrize("target", ["/%", "/%z", "/%4", "/%zz", "/a%2", "/%u00e9"])
def test_broken_percent_encoding_passes_unchanged_or_is_refused(single: Any, target: str) -> None:
    response = single.get(target)
    assert response.status in (200, 400)
    if response.status == 200:
        assert response.body == target.encode()


# ------------------------------------------------------------------------------------------------------------ 100


def expecting(client: Any, *lines: str, target: str = "/e", version: str = "1.1") -> Any:
    fields = "".join(line + "\r\n" for line in ("Host: a", "Expect: 100-continue", *lines))
    return client.send(f"POST {target} HTTP/{version}\r\n{fields}\r\n")


def test_100_is_sent_once_when_the_body_is_awaited(server: Any) -> None:
    with server.connect() as client:
        expecting(client, "Content-Length: 10")
        assert client.head_only().status == 100
        for byte in b"0123456789":
            assert client.is_silent()
            client.send(bytes([byte]))
        response = client.response()
        assert response.interim == []
        assert response.body == b"/e"
        expecting(client, "Transfer-Encoding: chunked")
        assert client.head_only().status == 100
        client.send("3\r\nabc\r\n0\r\n\r\n")
        assert client.response().interim == []


def test_no_100_when_no_body_is_awaited(server: Any) -> None:
    with server.connect() as client:
        expecting(client, "Content-Length: 0")
        assert client.response().interim == []


def test_no_100_on_1_0(server: Any) -> None:
    with server.connect() as client:
        expecting(client, "Content-Length: 3", version="1.0").send("abc")
        assert client.response(version="1.0").interim == []


def test_no_100_before_a_refusal(server: Any) -> None:
    with server.connect() as client:
        expecting(client, f"Content-Length: {1 << 40}")
        response = client.response()
        assert response.status == 413
        assert response.interim == []
        client.half_close()
        client.expect_close()


def test_100_comes_after_the_responses_before_it(server: Any, compose: Any) -> None:
    with server.connect() as client:
        client.send(compose("/stream/3"))
        expecting(client, "Content-Length: 3")
        assert client.response().body == b"0,1,2,"
        assert client.head_only().status == 100
        client.send("abc")
        assert client.response().body == b"/e"


# ----------------------------------------------------------------------------------------------- half-close and RST


def test_half_close_after_a_request_is_answered(server: Any, compose: Any) -> None:
    with server.connect() as client:
        client.send(compose("/a") + compose("/stream/3") + compose("/c")).half_close()
        assert [client.response().body for _ in range(3)] == [b"/a", b"0,1,2,", b"/c"]
        client.expect_close()


def test_half_close_while_the_application_runs(server: Any, compose: Any) -> None:
    server.close_gate("half")
    with server.connect() as client:
        client.send(compose("/wait/half"))
        times = server.notes().count("/wait/half") + 1
        server.await_note("/wait/half", max(times - 1, 1))
        client.half_close()
        server.open_gate("half")
        assert client.response().body == b"/wait/half"
        client.expect_close()


@pytest.mark.parametrize("pause", [0.0, 0.5], ids=["at-once", "slowly"])
def test_half_close_before_a_broken_answer_loses_nothing_of_it(server: Any, compose: Any, pause: float) -> None:
    """The reset that ends it must not overtake what was given, and waiting for that must not spin."""
    with server.connect(receive_buffer=4096) as client:
        client.send(compose("/short/300000")).half_close()
        got = len(client.sock.recv(1))
        before = server.cpu_seconds()
        time.sleep(pause)
        assert server.cpu_seconds() - before < 0.2
        data = bytearray()
        with contextlib.suppress(ConnectionResetError):
            while part := client.sock.recv(65536):
                data += part
            raise AssertionError("the connection ended in order")
        assert got + len(data) > 300_000 and data.endswith(b"x" * 300_000)


PARTS = {
    "nothing": b"",
    "crlf": b"\r\n",
    "method": b"GE",
    "line": b"GET /gone HTTP/1.1\r\n",
    "field": b"GET /gone HTTP/1.1\r\nHost: exa",
    "head": b"POST /gone HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n",
    "body": b"POST /gone HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n12345",
    "chunk-size": b"POST /gone HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5",
    "chunk-data": b"POST /gone HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
    "last-chunk": b"POST /gone HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
}


@pytest.mark.parametrize("part", PARTS)
def test_half_close_before_the_end_of_a_request(server: Any, part: str) -> None:
    """The client is gone: the application is not called, the connection ends, at most with a refusal."""
    with server.connect() as client:
        client.send(PARTS[part]).half_close()
        rest = client.rest()
        assert rest == b"" or rest.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 408 "))
    assert "/gone" not in server.notes()


@pytest.mark.parametrize("part", PARTS)
def test_reset_before_the_end_of_a_request(server: Any, until: Any, part: str) -> None:
    base = settled_descriptors(server, until)
    for _ in range(5):
        client = server.connect()
        client.send(PARTS[part])
        client.reset()
    assert server.get("/after").body == b"/after"
    until(lambda: server.descriptors() <= base, "the descriptors of the reset connections")
    assert "/gone" not in server.notes()


def settled_descriptors(server: Any, until: Any) -> int:
    """The number of descriptors once no connection of an earlier test is left."""
    seen = [server.descriptors()]

    def quiet() -> bool:
        seen.append(server.descriptors())
        return len(seen) > 20 and len(set(seen[-20:])) == 1

    until(quiet, "descriptors settle")
    return seen[-1]


def test_reset_while_the_application_runs(server: Any, until: Any, compose: Any) -> None:
    server.close_gate("reset")
    base = settled_descriptors(server, until)
    calls = server.notes().count("/wait/reset")
    client = server.connect()
    client.send(compose("/wait/reset"))
    server.await_note("/wait/reset", calls + 1)
    client.reset()
    server.open_gate("reset")
    assert server.get("/after").body == b"/after"
    until(lambda: server.descriptors() <= base, "the descriptor of the reset connection")


@pytest.mark.parametrize("target", ["/size/20000000", "/stream/2000000"])
def test_reset_in_the_middle_of_a_response(server: Any, until: Any, compose: Any, target: str) -> None:
    base = settled_descriptors(server, until)
    client = server.connect(receive_buffer=8192)
    client.send(compose(target))
    assert client.head_only().status == 200
    client.reset()
    assert server.get("/after").body == b"/after"
    until(lambda: server.descriptors() <= base, "the descriptor of the reset connection")


def test_reset_after_a_pipeline(server: Any, until: Any, compose: Any) -> None:
    base = settled_descriptors(server, until)
    for _ in range(20):
        client = server.connect()
        client.send(compose("/size/50000") * 20)
        client.reset()
    assert server.get("/after").body == b"/after"
    until(lambda: server.descriptors() <= base, "the descriptors of the reset connections")


def test_a_refusal_is_readable_by_a_client_that_goes_on_sending(server: Any) -> None:
    """One megabyte behind the fault: the close lingers, so no reset overtakes the refusal."""
    with server.connect() as client:
        client.send_split(b"BAD LINE\r\n", *[b"x" * 65536] * 16)
        assert client.response().status == 400
        client.half_close()
        client.expect_close()


LAST = ["HTTP/1.0\r\n\r\n", "HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"]


@pytest.mark.parametrize("last", [*LAST, *(f"HTTP/1.1\r\nHost: a\r\n\r\nGET /last {end}" for end in LAST)])
def test_the_end_of_a_large_answer_is_not_lost_to_a_slow_reader_who_sends_more(serve: Any, last: str) -> None:
    """It asked for the close, so nothing more is read of it: yet while it takes what was sent, no reset may come."""
    server, size = serve(APP, linger_timeout=0.2), 3_000_000
    with server.connect(receive_buffer=65536) as client:
        client.send(f"GET /size/{size} {last}")
        read, pause = len(client.sock.recv(1)), size - 600_000
        client.send("\r\n")
        while data := client.sock.recv(16384):
            read += len(data)
            if read > pause:
                time.sleep(0.1)  # it is slow, for longer than linger_timeout, but takes something within each
                pause = read + 60_000
        assert read > size


def test_the_leftover_of_a_closed_connection_is_never_parsed(server: Any, compose: Any) -> None:
    before = len(server.notes())
    with server.connect() as client:
        client.send(compose("/one", "Connection: close") + compose("/two"))
        assert client.response().body == b"/one"
        client.send_split(compose("/three"))
        assert client.rest_or_reset() == b""
    assert server.notes()[before:] == ["/one"]


@pytest.mark.parametrize("part", ["\r\n", "junk", "GET /next HTTP/1.1\r\nHost: a\r\n\r\n"])
@pytest.mark.parametrize("ending", LAST)
def test_bytes_behind_the_last_request_do_not_cost_its_response(single: Any, ending: str, part: str) -> None:
    """They may meet a closed socket, but a close with unread bytes must not throw away what was still to be sent."""
    for _ in range(50):
        with single.connect() as client:
            client.send_split(*[bytes([byte]) for byte in f"GET /last {ending}{part}".encode()])
            assert client.rest_or_reset().endswith(b"\r\n\r\n/last")


OPTION = """
import contextlib, os, socket

def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    told = []
    for number in map(int, os.listdir("/proc/self/fd")):
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(number)) as each:
            if each.getpeername()[1:] == (int(environ["REMOTE_PORT"]),):
                told.append(str(each.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)))
    return [",".join(told).encode()]
"""


def test_tcp_nodelay_is_set(start: Any) -> None:
    """The application looks at the socket of the server that it is asked through."""
    assert start(OPTION).get().body == b"1"


def test_two_small_writes_are_not_held_back_for_an_acknowledgement(single: Any) -> None:
    with single.connect() as client:
        times = []
        for _ in range(20):
            began = time.monotonic()
            client.request("/stream/2")
            times.append(time.monotonic() - began)
        assert min(times) < 0.04, "40 ms for each request is Nagle against delayed acknowledgements"


CLOSING = """
def application(environ, start_response):
    start_response("200 OK", [("Connection", "close"), ("Content-Type", "text/plain")])
    return [b"x" * 300000]
"""


@pytest.mark.parametrize("keepalive", [5, 0], ids=["by-the-application", "by-the-setting"])
def test_a_request_that_crosses_the_close_does_not_destroy_the_answer(
    start: Any, compose: Any, until: Any, keepalive: int
) -> None:
    """The client did not know that the connection ends: what it sends meanwhile is read and thrown away."""
    server = start(CLOSING if keepalive else CLOSING.replace("Connection", "X-Connection"), keepalive_timeout=keepalive)
    with server.connect() as client:
        client.send(compose("/"))
        until(lambda: "GET / " in server.requests(), "the answer to be given")
        for _ in range(20):
            client.send(compose("/late"))
            time.sleep(0.01)
        response = client.response()
        assert (response.complete, len(response.body)) == (True, 300000)
        client.half_close()
        client.expect_close()
    assert "/late" not in server.requests()
