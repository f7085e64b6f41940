"""Limits and deadlines: each with its status, and no client that is slow, silent or greedy costs another one anything.

Knows the settings by name. Deadlines are fractions of a second; a test waits for what must happen, and lets time pass
only to be slow, or to see that nothing happens in it.
"""

from __future__ import annotations

import fcntl
import termios
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

SHORT = 0.3
STREAM = """
from gate import note

class Body:
    def __iter__(self):
        for _ in range(1024):
            yield b"x" * 65536

    def close(self):
        note("closed")

def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    if environ["PATH_INFO"] == "/large":
        return Body()
    return [environ["wsgi.input"].read() or b"hello"]
"""


def post(length: int) -> bytes:
    return f"POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n".encode()


CHUNKED = b"POST /p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"


def refused(client: Any, status: int) -> None:
    response = client.response()
    assert response.status == status, response
    assert response.closes
    client.half_close()
    client.expect_close()


# --------------------------------------------------------------------------------------------------------- limits


def test_a_body_at_the_limit_passes_and_one_over_it_is_413(serve: Any, any_shape: Any) -> None:
    server = serve("hello", any_shape, max_body="1000")
    with server.connect() as client:
        assert client.request("/p", method="POST", body=b"x" * 1000).status == 200
        before = len(server.notes())
        client.send(post(1001))
        refused(client, 413)
    assert len(server.notes()) == before


def test_a_chunked_body_over_the_limit_is_413(serve: Any, any_shape: Any) -> None:
    server = serve("hello", any_shape, max_body="1000")
    with server.connect() as client:
        client.send(CHUNKED + b"3e8\r\n" + b"x" * 1000 + b"\r\n0\r\n\r\n")
        assert client.response().status == 200
        before = len(server.notes())
        client.send(CHUNKED + b"3e8\r\n" + b"x" * 1000 + b"\r\n1\r\n")
        refused(client, 413)
    assert len(server.notes()) == before


def test_413_is_decided_before_the_body_is_read(serve: Any) -> None:
    server = serve("hello", max_body="1000")
    with server.connect() as client:
        client.send(post(1 << 50))
        refused(client, 413)


def test_limits_are_settings(serve: Any) -> None:
    server = serve("hello", max_request_line="200", max_head="1k", max_fields="5")
    assert server.get("/" + "a" * 100).status == 200
    assert server.get("/" + "a" * 300).status == 414
    assert server.get("/", "X-A: " + "a" * 600).status == 200
    assert server.get("/", "X-A: " + "a" * 1200).status == 431
    assert server.get("/", *[f"X-{i}: 1" for i in range(3)]).status == 200
    assert server.get("/", *[f"X-{i}: 1" for i in range(6)]).status == 431


HEADS = {
    "mercurial": [f"X-HgArg-{number}: {'h' * 1010}" for number in range(90)],
    "kerberos": ["Authorization: Negotiate " + "k" * 87380],
    "cookies": ["Cookie: " + "c" * 4088] * 24,
}


@pytest.mark.parametrize("kind", HEADS)
def test_heads_of_real_clients_pass(serve: Any, kind: str) -> None:
    """All revisions of a repository with 2,200 heads; a ticket of 64 KiB in base64; what a browser keeps for a site."""
    assert serve("hello").get("/", *HEADS[kind]).status == 200


def test_a_flood_of_trailers_is_refused(serve: Any) -> None:
    server = serve("hello")
    with server.connect() as client:
        client.send_split(CHUNKED + b"0\r\n", *[b"X-%d: 1\r\n" % i for i in range(20_000)])
        assert client.response().status in (400, 413, 431)
        client.half_close()
        client.expect_close()


# ------------------------------------------------------------------------------------------------------ deadlines


PARTIAL_HEADS = [b"G", b"GET / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nX-A: b", b"GET / HTTP/1.1\r\nHost: a\r\n"]


@pytest.mark.parametrize("part", PARTIAL_HEADS)
def test_a_head_that_does_not_end_is_408(serve: Any, any_shape: Any, until: Any, part: bytes) -> None:
    server = serve("hello", any_shape, head_timeout=SHORT)
    lines, calls = len(server.error_lines()), len(server.notes())
    with server.connect() as client:
        client.send(part)
        refused(client, 408)
    until(lambda: len(server.error_lines()) > lines, "a line in the error log")
    assert server.get("*", method="OPTIONS").status in (200, 204)
    told = server.error_lines()[lines:]
    assert len(told) == 1 and " [I] 408 " in told[0], told
    assert len(server.notes()) == calls


def test_the_head_deadline_is_absolute(serve: Any) -> None:
    """A byte now and then does not put it off."""
    server = serve("hello", head_timeout=SHORT)
    with server.connect() as client:
        client.send("GET / HTTP/1.1\r\nHost: a\r\nX-Slow: ")
        began = time.monotonic()
        while client.is_silent() and time.monotonic() - began < 15:
            client.send_split(b"a")
            time.sleep(0.02)
        assert time.monotonic() - began < 10
        refused(client, 408)


def test_the_head_deadline_starts_with_the_head(serve: Any) -> None:
    """The second request of a connection has the whole time again."""
    server = serve("hello", head_timeout=3.0)
    with server.connect() as client:
        end = time.monotonic() + 4.0
        while time.monotonic() < end:
            client.send("GET / HTTP/1.1\r\nHost: a\r\n")
            time.sleep(0.2)  # well within the deadline of one head, together well beyond it
            client.send("\r\n")
            assert client.response().status == 200


@pytest.mark.parametrize("head", [post(100), CHUNKED + b"64\r\n"], ids=["length", "chunked"])
def test_a_body_that_stalls_is_408(serve: Any, any_shape: Any, head: bytes) -> None:
    server = serve("hello", any_shape, body_timeout=SHORT)
    calls = len(server.notes())
    with server.connect() as client:
        client.send(head + b"12345")
        refused(client, 408)
    assert len(server.notes()) == calls


def test_a_body_below_the_minimum_rate_is_408(serve: Any) -> None:
    server = serve("hello", body_timeout=1.0, body_rate="1m")
    with server.connect() as client:
        client.send(post(10_000_000))
        began = time.monotonic()
        while client.is_silent() and time.monotonic() - began < 15:
            client.send_split(b"0123456789")
            time.sleep(0.01)
        assert time.monotonic() - began < 12, "each byte in time, all of them too slow"
        refused(client, 408)


def test_an_idle_connection_is_closed_silently(serve: Any, any_shape: Any) -> None:
    server = serve("hello", any_shape, keepalive_timeout=SHORT)
    lines = len(server.error_lines())
    with server.connect() as client:
        assert client.request("/").status == 200
        client.expect_close()
    assert len(server.error_lines()) == lines


def test_a_connection_that_never_speaks_is_closed_silently(serve: Any, any_shape: Any) -> None:
    server = serve("hello", any_shape, keepalive_timeout=SHORT, head_timeout=SHORT)
    lines = len(server.error_lines())
    with server.connect() as client:
        client.expect_close()
    assert len(server.error_lines()) == lines


def test_an_active_connection_outlives_the_idle_deadline(serve: Any) -> None:
    server = serve("hello", keepalive_timeout=3.0)
    with server.connect() as client:
        end = time.monotonic() + 4.0
        while time.monotonic() < end:
            assert client.request("/").status == 200
            time.sleep(0.1)  # an interval below the deadline; together beyond it


HOLD = """
from gate import note, wait

def application(environ, start_response):
    path = environ["PATH_INFO"]
    if path.startswith("/hold"):
        note(path)
        wait(path[1:])
    body = environ["wsgi.input"].read() or b"hello"
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [body]
"""


@pytest.mark.parametrize("begin", [b"", b"POST /p HT", post(5) + b"ab"], ids=["idle", "head", "body"])
def test_what_came_in_time_is_not_late(start: Any, until: Any, compose: Any, begin: bytes) -> None:
    """It lies unread where the only thread was in the application while the deadline passed."""
    server = start(HOLD, keepalive_timeout=0.5, head_timeout=0.5, body_timeout=0.5)
    rest = (post(5) + b"abcde")[len(begin) :]
    for number in range(20):
        name = f"hold{number}"
        with server.connect() as client:
            assert client.request("/").status == 200
            began = time.monotonic()
            client.send(begin)
            other = server.connect().send(compose(f"/{name}"))
            server.await_note(f"/{name}")
            held = time.monotonic()
            client.send(rest)
            until(lambda held=held: time.monotonic() > held + 0.65, "the deadline is over")
            server.open_gate(name)
            assert other.response().status == 200
            if held < began + 0.4:  # else the deadline was perhaps over before the thread was held
                assert client.response().body == b"abcde"
                return
    pytest.fail("the machine is too slow to be in time")


def test_a_client_that_does_not_read_is_cut_off(serve: Any, any_shape: Any, until: Any, compose: Any) -> None:
    """The write deadline ends it: the iterable is closed once, the descriptor is free."""
    server = serve(STREAM, any_shape, write_timeout=SHORT)
    closed = server.notes().count("closed")
    with server.connect(receive_buffer=4096) as client:
        client.send(compose("/large"))
        server.await_note("closed", closed + 1)
        assert server.get("/").body == b"hello"
        assert len(client.rest_or_reset()) < 64 * 1024 * 1024
    assert server.notes().count("closed") == closed + 1


def test_a_lingering_close_ends(serve: Any, until: Any) -> None:
    """A client that neither reads nor closes after a refusal is let go."""
    server = serve("hello", linger_timeout=SHORT)
    base = server.descriptors()
    with server.connect() as client:
        client.send("BAD LINE\r\n")
        assert client.response().status == 400
        until(lambda: server.descriptors() <= base, "the descriptor of the lingering connection")


def test_a_client_that_has_taken_all_and_stays_lingers_no_longer(serve: Any, until: Any) -> None:
    """Progress is what makes it longer: all was on its way when it began."""
    server = serve("hello", linger_timeout=4)
    base = server.descriptors()
    with server.connect() as client:
        client.send("BAD LINE\r\n")
        began = time.monotonic()
        client.response()
        client.expect_close()
        until(lambda: server.descriptors() <= base, "the descriptor of the lingering connection")
        assert time.monotonic() - began < 7


# -------------------------------------------------------------------------------- slow and silent clients, 1 thread


@pytest.mark.parametrize(
    "part",
    [b"", b"GET / HTTP/1.1\r\nHost: a\r\nX", post(100) + b"abc", CHUNKED + b"5\r\nab", b"\r\n"],
    ids=["silent", "head", "body", "chunk", "crlf"],
)
def test_two_hundred_slow_clients_cost_no_thread(serve: Any, any_shape: Any, part: bytes) -> None:
    server = serve("hello", any_shape)
    slow = [server.connect() for _ in range(200)]
    for client in slow:
        client.send(part)
    with server.connect() as quick:
        for _ in range(20):
            assert quick.request("/").body == b"hello"
    assert all(client.is_silent() for client in slow), "they were still there while the other was served"
    for client in slow:
        client.close()
    assert server.get("/").body == b"hello"


def test_fifty_slow_readers_cost_no_thread(serve: Any, any_shape: Any, until: Any, compose: Any) -> None:
    server = serve(STREAM, any_shape)
    closed = server.notes().count("closed")
    slow = [server.connect(receive_buffer=4096) for _ in range(50)]
    for client in slow:
        client.send(compose("/large"))
    with server.connect() as quick:
        for _ in range(20):
            assert quick.request("/").body == b"hello"
    assert server.notes().count("closed") == closed, "they were still there while the other was served"
    for client in slow:
        client.reset()
    server.await_note("closed", closed + 50)
    assert server.notes().count("closed") == closed + 50


def numbered(blocks: int) -> bytes:
    return b"".join(b"%08d" % number * 8192 for number in range(blocks))


WRITERS = """
import tempfile
from gate import note

def numbered(blocks):
    return (b"%08d" % number * 8192 for number in blocks)

def application(environ, start_response):
    kind = environ["PATH_INFO"].strip("/")
    headers = [("Content-Type", "text/plain")]
    if kind in ("length", "file"):
        headers.append(("Content-Length", str(128 * 65536)))
    if kind == "":
        start_response("200 OK", headers)
        return [b"hello"]
    write = start_response("200 OK", headers)
    written = 128 if kind in ("chunked", "length") else 96
    for block in numbered(range(written)):
        write(block)
    note("written")
    if kind == "file":
        file = tempfile.TemporaryFile()
        for block in numbered(range(written, 128)):
            file.write(block)
        file.seek(0)
        return environ["wsgi.file_wrapper"](file)
    return numbered(range(written, 128))
"""


@pytest.mark.parametrize("kind", ["chunked", "length", "file", "mixed"])
def test_slow_readers_of_what_is_written_cost_no_thread(serve: Any, any_shape: Any, kind: str) -> None:
    """`write()` returns long before the client has read; in the end everything has come, in order."""
    server = serve(WRITERS, any_shape)
    written = server.notes().count("written")
    slow = [server.connect(receive_buffer=4096) for _ in range(6)]
    for client in slow:
        client.send(f"GET /{kind} HTTP/1.1\r\nHost: a\r\n\r\n")
    with server.connect() as quick:
        for _ in range(20):
            assert quick.request("/").body == b"hello"
    server.await_note("written", written + 6)
    for client in slow:
        response = client.response()
        assert (response.complete, response.body == numbered(128)) == (True, True)
        assert client.request("/").body == b"hello", "the connection goes on"
        client.close()


NO_FILE = """
import resource

resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, resource.RLIM_INFINITY))  # the logs are smaller
"""


def test_what_no_file_takes_is_written_as_the_client_reads(start: Any, compose: Any) -> None:
    """Where files take nothing `write()` waits, and nothing is lost."""
    server = start(NO_FILE + WRITERS, (1, 2))
    with server.connect(receive_buffer=4096) as client:
        client.send(compose("/mixed"))
        with server.connect() as quick:
            assert quick.request("/").body == b"hello"
        assert "written" not in server.notes()
        response = client.response()
        assert (response.complete, response.body == numbered(128)) == (True, True)
    assert "written" in server.notes()


LITTLE_ROOM = """
import resource

resource.setrlimit(resource.RLIMIT_FSIZE, (32 << 20, resource.RLIM_INFINITY))

def application(environ, start_response):
    write = start_response("200 OK", [("Content-Type", "text/plain")])
    if environ["PATH_INFO"] == "/":
        return [b"hello"]
    write(b"a" * (8 << 20))
    write(b"b" * (64 << 20))
    return []
"""


def test_a_file_that_takes_not_all_is_not_filled_in_vain(start: Any, compose: Any, until: Any) -> None:
    """Nor is what it has taken of too much kept from others."""
    server = start(LITTLE_ROOM)
    process = psutil.Process(server.pid)

    def sizes() -> list[int]:
        return [
            path.stat().st_size for path in Path(f"/proc/{server.pid}/fd").iterdir() if "/#" in str(path.readlink())
        ]

    with server.connect(receive_buffer=4096) as client:
        client.send(compose("/much"))
        until(lambda: process.io_counters().write_chars > 32 << 20)
        until(lambda: max(sizes()) <= 8 << 20)
        body = client.response().body
    assert (len(body), body == b"a" * (8 << 20) + b"b" * (64 << 20)) == (72 << 20, True)
    assert process.io_counters().write_chars < 300 << 20


LEFT_BEHIND = """
import threading
from gate import note, wait

def application(environ, start_response):
    write = start_response("200 OK", [("Content-Type", "text/plain")])
    if environ["PATH_INFO"] == "/":
        return [b"hello"]

    def go_on():
        try:
            write(bytes(8_000_000))
        except RuntimeError:
            note("refused")

    threading.Thread(target=go_on, daemon=True).start()
    wait("return")
    return []
"""


def test_a_write_that_waits_ends_with_its_request(start: Any, compose: Any, until: Any) -> None:
    """It gives no sign of life for the thread that served it: that one is at rest, or works for others."""
    server = start(NO_FILE + LEFT_BEHIND, write_timeout=60)
    with server.connect(receive_buffer=4096) as client:

        def has_no_room() -> bool:
            sizes = []
            for _ in range(2):
                sizes.append(fcntl.ioctl(client.sock, termios.FIONREAD, b"1234"))
                time.sleep(0.3)
            return sizes[0] == sizes[1] != bytes(4)

        client.send(compose("/left"))
        until(has_no_room)
        server.open_gate("return")
        server.await_note("refused")
        assert server.get("/").body == b"hello"


# ------------------------------------------------------------------------------------------ connections, descriptors


def test_max_connections(serve: Any, until: Any) -> None:
    """At the limit those inside are served, and who comes then waits, without a status, for a place that gets free."""
    server = serve("hello", max_connections=10)
    until(lambda: server.get("/").status == 200)
    inside = [server.connect() for _ in range(10)]
    for client in inside:
        assert client.request("/in").status == 200
    with server.connect() as outside:
        outside.send("GET /out HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        for client in inside:
            assert client.request("/in").status == 200
        assert outside.is_silent()
        inside.pop().close()
        assert outside.response().status == 200
    for client in inside:
        assert client.request("/in").status == 200
        client.close()
    assert server.get("/").status == 200


@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (2, 1)], ids=["1x1", "1x4", "2x1"])
def test_descriptors_run_out(start: Any, until: Any, shape: Any) -> None:
    """No spinning, no end of the process, those inside are served (the application opens a file), and it recovers."""
    server = start("hello", shape, descriptors=64)
    first = server.connect()
    assert first.request("/first").status == 200
    crowd = [server.connect() for _ in range(200)]
    assert first.request("/first").status == 200
    spent, began = server.cpu_seconds(), time.monotonic()
    time.sleep(1.0)  # the window of the measurement
    assert server.cpu_seconds() - spent < 0.5 * (time.monotonic() - began), "it waits, it does not spin"
    assert first.request("/first").status == 200
    for client in crowd:
        client.close()
    assert server.get("/after").body == b"hello"
    first.close()


def test_ten_megabytes_of_slow_heads_do_not_grow_memory(serve: Any) -> None:
    """A head byte by byte costs linear time and bounded memory: 200 clients with 30 KB of head each."""
    server = serve("hello")
    clients = [server.connect() for _ in range(200)]
    before = server.memory()
    for client in clients:
        client.send("GET / HTTP/1.1\r\nHost: a\r\nX-A: " + "a" * 30_000)
    assert server.get("/").status == 200
    assert server.memory() - before < 48 * 1024 * 1024
    for client in clients:
        client.send("\r\n\r\n")
    for client in clients:
        assert client.response().status == 200
        client.close()


# ------------------------------------------------------------------------------------------------------------ idle


def test_an_idle_server_does_not_wake_up(start: Any, any_shape: Any, until: Any) -> None:
    """Also with idle connections, whose deadlines are far away."""
    server = start("hello", any_shape)
    clients = [server.connect() for _ in range(20)]
    for client in clients:
        assert client.request("/").status == 200
    seen = [server.context_switches()]

    def settled() -> bool:
        time.sleep(0.3)  # the window of the measurement
        seen.append(server.context_switches())
        return seen[-4:] == seen[-1:] * 4  # not once only: it may have waited for a core

    until(settled, "it goes to sleep after the last request", seconds=10)
    time.sleep(2.0)  # the window of the measurement
    assert server.context_switches() == seen[-1]
    assert clients[0].request("/").status == 200


WRITER = """
def application(environ, start_response):
    write = start_response("200 OK", [("Content-Type", "text/plain")])
    for _ in range(1024):
        write(b"x" * 65536)
    return []
"""


@pytest.mark.parametrize("app", ["iterable", "write"])
def test_a_slow_reader_is_not_a_dead_one(start: Any, compose: Any, app: str) -> None:
    """write_timeout is for a client that reads nothing; this one reads all the time, less than a buffer in it."""
    server = start(STREAM if app == "iterable" else WRITER, write_timeout=2.0)
    with server.connect(receive_buffer=32768) as client:
        client.send(compose("/large"))
        slowly = client.sock.recv(16384)
        end = time.monotonic() + 5.0
        while time.monotonic() < end:
            time.sleep(0.05)
            slowly += client.sock.recv(16384)
        client.buffer = slowly
        response = client.response()
        assert (response.complete, len(response.body)) == (True, 1024 * 65536)
