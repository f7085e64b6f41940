"""An early answer reaches a client that writes all that it has before it reads, and costs nobody else anything.

Most clients do so: Python's, Perl's, wget, and front servers that pass on a request as it comes. Knows the deadlines and
limits by name; a test lets time pass only to be slow.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
import urllib.error
import urllib.request
from typing import Any

import pytest

MANY = 20_000_000  # bytes: far more than the buffers of both ends hold
SHORT = 0.3
BLOCK = b"x" * 65536


def put(length: int, *lines: str) -> bytes:
    return "\r\n".join(["PUT / HTTP/1.1", "Host: a", f"Content-Length: {length}", *lines, "", ""]).encode()


CHUNK = b"%x\r\n" % len(BLOCK) + BLOCK + b"\r\n"
REFUSED = {
    "length": (413, put(MANY), BLOCK),
    "chunked": (413, b"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", CHUNK),
    "line": (400, b"BAD LINE\r\n", BLOCK),
    "head": (431, b"PUT / HTTP/1.1\r\nHost: a\r\nX-A: " + b"a" * (1 << 20), BLOCK),
    "pipeline": (413, put(MANY), b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 2000),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_who_writes_all_before_it_reads_gets_the_refusal(serve: Any, kind: str) -> None:
    server = serve("hello", max_body="1m")
    status, head, block = REFUSED[kind]
    calls = len(server.notes())
    with server.connect() as client:
        client.send(head)
        for _ in range(MANY // len(block)):
            client.send(block)
        response = client.response()
        assert (response.status, response.closes) == (status, True)
        client.expect_close()
    assert len(server.notes()) == calls, "what was thrown away was no request"


def test_urllib_gets_the_refusal(serve: Any, any_shape: Any) -> None:
    server = serve("hello", any_shape, max_body="1m")
    request = urllib.request.Request(server.url, data=bytes(MANY), method="PUT")
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request, timeout=20)
    with caught.value as error:
        assert (error.code, b"max_body" in error.read()) == (413, True)


def test_over_a_unix_socket(serve: Any) -> None:
    server = serve("hello", bind="unix:DIRECTORY/socket", max_body="1m")
    with server.connect() as client:
        client.send(put(MANY)).send(bytes(MANY))
        assert client.response().status == 413


def test_an_announced_body_may_pause_as_long_as_any(serve: Any) -> None:
    """It is silent for longer than linger_timeout, twice; and once it is whole, for that time only."""
    server = serve("hello", max_body="1m", linger_timeout=SHORT, body_timeout=20)
    with server.connect() as client:
        client.send(put(MANY))
        for part in (MANY // 2, MANY - MANY // 2):
            time.sleep(2 * SHORT)
            client.send(bytes(part))
        assert client.response().status == 413
        began = time.monotonic()
        client.expect_close()
        assert time.monotonic() - began < 10


HOLD = """
from gate import note, wait

def application(environ, start_response):
    if environ["PATH_INFO"] == "/hold":
        note("held")
        wait("hold")
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"hello"]
"""


def test_what_comes_while_all_threads_are_busy_is_not_late(start: Any) -> None:
    """It lies unread until the time is over."""
    server = start(HOLD, max_body="1m", linger_timeout=SHORT, body_timeout=SHORT)
    with server.connect() as client:
        client.send(put(MANY) + BLOCK)
        assert client.response().status == 413
        other = server.connect().send("GET /hold HTTP/1.1\r\nHost: a\r\n\r\n")
        server.await_note("held")
        client.send(BLOCK)
        time.sleep(3 * SHORT)
        server.open_gate("hold")
        client.send(bytes(MANY - 2 * len(BLOCK)))
        assert other.response().status == 200
        client.expect_close()


@pytest.mark.parametrize(
    ("head", "body_timeout"),
    [(b"BAD LINE\r\n", 60), (put(MANY, "Expect: 100-continue"), 60), (put(MANY) + b"x", 1)],
    ids=["unannounced", "expecting", "begun"],
)
def test_who_is_silent_is_let_go(serve: Any, until: Any, head: bytes, body_timeout: float) -> None:
    """Soon where nothing is to come, or the client was told not to send it; else as soon as any body would be."""
    server = serve("hello", max_body="1m", linger_timeout=SHORT, body_timeout=body_timeout)
    until(lambda: server.get("/").status == 200)
    base = server.descriptors()
    with server.connect() as client:
        client.send(head)
        began = time.monotonic()
        until(lambda: server.descriptors() > base, "the connection to be accepted")
        until(lambda: server.descriptors() <= base, "the descriptor of the lingering connection")
        assert time.monotonic() - began < 12


def test_what_comes_more_slowly_than_a_body_may_ends_it(serve: Any) -> None:
    server = serve("hello", max_body="1m", linger_timeout=SHORT, body_timeout=1.0, body_rate="1m")
    for head in (b"BAD LINE\r\n", put(1 << 40)):
        with server.connect() as client:
            client.send(head)
            began = time.monotonic()
            while client.send_split(b"x" * 1000) and time.monotonic() - began < 15:
                time.sleep(0.01)
            assert 0.9 < time.monotonic() - began < 12


def test_who_was_too_late_is_waited_for_no_longer(serve: Any, until: Any) -> None:
    server = serve("hello", linger_timeout=SHORT, body_timeout=2.0)
    base = server.descriptors()
    with server.connect() as client:
        client.send(put(1000) + b"x")
        assert client.response().status == 408
        began = time.monotonic()
        until(lambda: server.descriptors() <= base, "the descriptor of the lingering connection")
        assert time.monotonic() - began < 1.7


def test_who_ends_in_the_middle_of_a_body_gets_the_refusal(serve: Any, until: Any) -> None:
    server = serve("hello", max_body="1m")
    base = server.descriptors()
    clients = [server.connect().send(put(MANY) + BLOCK).half_close() for _ in range(50)]
    for client in clients:
        assert client.response().status == 413
        client.expect_close()
    until(lambda: server.descriptors() <= base, "the descriptors of the lingering connections")


def is_cut(client: Any) -> bool:
    """Once it is, the second of these fails."""
    try:
        client.sock.send(b"x")
        time.sleep(0.01)
        client.sock.send(b"x")
    except ConnectionError:
        return True
    return False


@contextlib.contextmanager
def senders(server: Any, count: int) -> Any:
    """So many refused clients, each of which sends as fast as it can, in one thread, until it is cut or this ends."""
    clients = [server.connect().send(put(1 << 40)) for _ in range(count)]
    done = threading.Event()

    def send() -> None:
        while not done.is_set():
            for client in clients:
                with contextlib.suppress(BlockingIOError, ConnectionError):
                    client.sock.send(BLOCK, socket.MSG_DONTWAIT)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield clients
    finally:
        done.set()
        thread.join()


def test_others_are_served_beside_those_who_send_for_ever(serve: Any, any_shape: Any) -> None:
    """They take no thread and no memory."""
    server = serve("hello", any_shape, max_body="1m")
    assert server.get("/").status == 200
    before = server.memory()
    with senders(server, 30) as clients:
        began = time.monotonic()
        for _ in range(50):
            assert server.get("/").status == 200
        assert time.monotonic() - began < 10
        assert server.memory() - before < 4 << 20
        assert [client.response().status for client in clients] == [413] * len(clients)
        assert not any(map(is_cut, clients))


def test_a_stop_is_not_held_up_by_who_sends_for_ever(start: Any) -> None:
    server = start("hello", max_body="1m", graceful_timeout=60, linger_timeout=SHORT)
    with senders(server, 3):
        time.sleep(2 * SHORT)
        began = time.monotonic()
        server.signal(15)
        assert server.wait() == 0
        assert time.monotonic() - began < 10


# --------------------------------------------------------------------------------------------------------- places


def test_who_lingers_goes_first_where_a_place_is_needed(start: Any, until: Any, wrap: Any) -> None:
    """The eldest first, those of trusted proxies last, and all of them before anybody has to wait."""
    server = start("hello", max_body="1m", max_connections=10, trusted_proxies="127.0.0.2")

    def lingers(host: str) -> Any:
        client = wrap(socket.create_connection(server.address, 20, (host, 0)))
        server.clients.append(client)
        client.send(put(MANY))
        assert client.response().status == 413
        return client

    proxy = lingers("127.0.0.2")
    strangers = [lingers("127.0.0.1") for _ in range(9)]
    inside = []
    for gone, place in enumerate(range(10)):
        assert not any(is_cut(client) for client in [*strangers[gone:], proxy])
        inside.append(server.connect())
        assert inside[-1].request(f"/{place}").status == 200
        if gone < 9:
            until(lambda gone=gone: is_cut(strangers[gone]), "the eldest of the strangers to be cut")
    until(lambda: is_cut(proxy), "the proxy to be cut")
    with server.connect() as outside:
        outside.send("GET /out HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        for client in inside:
            assert client.request("/in").status == 200
        assert outside.is_silent(), "there is no place, and nobody lingers"
        refused = inside.pop().send(put(MANY))
        assert outside.response().status == 200, "who is refused makes room"
        until(lambda: is_cut(refused))


GREEDY = """
import os
held = [os.open(os.devnull, os.O_RDONLY) for _ in range(64)]
for each in held[-24:]:
    os.close(each)

def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"hello"]
"""


def test_who_lingers_goes_first_where_descriptors_run_out(start: Any, until: Any) -> None:
    server = start(GREEDY, max_body="1m", descriptors=96)
    crowd = []
    for _ in range(60):
        crowd.append(server.connect().send(put(MANY)))
        assert crowd[-1].response().status == 413
    assert [is_cut(client) for client in crowd] == sorted(map(is_cut, crowd), reverse=True), "the eldest first"
    assert is_cut(crowd[0]) and not is_cut(crowd[-1])
    assert server.get("/").body == b"hello"
    assert "no descriptor is left" not in server.errors()
