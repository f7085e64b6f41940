"""A graceful stop: what was accepted is answered, nothing new is accepted, then every process ends with 0.

Knows signals; knows no inside.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

APP = """
from gate import note, wait

def application(environ, start_response):
    path = environ["PATH_INFO"]
    note(path)
    if path == "/wait":
        wait("go")
    if path == "/long":
        start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "150000")])
        return [b"x" * 150_000]
    if path == "/large":
        start_response("200 OK", [("Content-Type", "text/plain")])
        return (b"x" * 65536 for _ in range(320))
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "4")])
    return [b"done"]
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["TERM", "INT"])
def test_a_request_in_the_application_is_finished(start: Any, any_shape: Any, compose: Any, number: int) -> None:
    server = start(APP, any_shape)
    with server.connect() as client:
        client.send(compose("/wait"))
        server.await_note("/wait")
        server.signal(number)
        server.open_gate("go")
        response = client.response()
        assert response.body == b"done"
        client.expect_close()
    assert server.wait() == 0


def test_a_stop_waits_no_longer_than_to_linger_for_who_takes_what_was_sent(serve: Any, until: Any) -> None:
    """The kernel has all of it and goes on: nothing is lost."""
    server = serve(APP, graceful_timeout=60, linger_timeout=0.5)
    with server.connect(receive_buffer=4096) as client:
        client.send("GET /long HTTP/1.0\r\n\r\n")
        read = len(client.sock.recv(600))
        server.signal(signal.SIGTERM)
        while (code := server.process.poll()) is None:
            read += len(client.sock.recv(600))
            time.sleep(0.1)  # it is slow, but takes something all the time
        assert code == 0 and read < 100_000
        assert read + len(client.rest()) > 150_000
    assert "unfinished" not in server.errors()


def test_idle_connections_are_closed_at_once(start: Any, any_shape: Any) -> None:
    server = start(APP, any_shape)
    clients = [server.connect() for _ in range(10)]
    for client in clients:
        assert client.request("/").body == b"done"
    server.signal(signal.SIGTERM)
    for client in clients:
        client.expect_close()
    assert server.wait() == 0


def test_a_response_that_is_being_read_slowly_is_finished(start: Any, any_shape: Any, compose: Any) -> None:
    server = start(APP, any_shape)
    with server.connect() as client:
        client.send(compose("/large"))
        server.await_note("/large")
        server.signal(signal.SIGTERM)
        assert len(client.response().body) == 320 * 65536
        client.expect_close()
    assert server.wait() == 0


def test_requests_that_were_sent_before_the_stop_are_answered(start: Any, compose: Any) -> None:
    """In 1x1 the application is busy; what waits behind it in the kernel was accepted, so it is answered."""
    server = start(APP, (1, 1))
    with server.connect() as busy:
        busy.send(compose("/wait"))
        server.await_note("/wait")
        others = [server.connect().send(compose("/other")) for _ in range(20)]
        server.signal(signal.SIGTERM)
        server.open_gate("go")
        assert busy.response().body == b"done"
        for other in others:
            assert other.response().body == b"done"
    assert server.wait() == 0


def test_nothing_new_is_accepted_afterwards(start: Any, any_shape: Any) -> None:
    server = start(APP, any_shape)
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    with pytest.raises(ConnectionRefusedError):
        server.connect()


def test_a_half_sent_head_does_not_hold_up_the_stop(start: Any, any_shape: Any) -> None:
    server = start(APP, any_shape, head_timeout=1, graceful_timeout=15)
    with server.connect() as client:
        client.send("GET / HTTP/1.1\r\nHo")
        assert server.get("/").body == b"done"
        server.signal(signal.SIGTERM)
        client.rest_or_reset()
    assert server.wait() == 0


@pytest.mark.parametrize("turn", range(5))
@pytest.mark.parametrize("shape", [(1, 2), (2, 2)], ids=["1x2", "2x2"])
def test_every_thread_hears_of_the_end(start: Any, compose: Any, shape: Any, turn: int) -> None:
    """A follower that lies down to sleep just as the last connection ends must not sleep for ever."""
    server = start(APP, shape)
    clients = [server.connect().send(compose("/large") if number % 2 else compose("/")) for number in range(4)]
    server.await_note("/large")
    server.signal(signal.SIGTERM)
    for client in clients:
        client.response()
    assert server.wait(10) == 0


STREAMS = """
from gate import note

class Stream:
    def __iter__(self):
        note("began")
        while True:
            yield b"x" * 65536

    def close(self):
        note("closed")

def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return Stream()
"""


def is_asleep(pid: int) -> bool:
    """Whether a process uses no time at all for a moment."""
    times = psutil.Process(pid).cpu_times()
    time.sleep(0.5)  # it may only wait for a core
    return psutil.Process(pid).cpu_times() == times


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGQUIT], ids=["TERM", "QUIT"])
def test_streams_that_a_stop_breaks_off_are_closed(
    start: Any, any_shape: Any, compose: Any, until: Any, number: int
) -> None:
    """PEP 3333: close() is called however the request ends; each once. And no client takes what it got for all."""
    server = start(STREAMS, any_shape, graceful_timeout=0.3)
    versions = ["1.0", "1.1"] * 3
    clients = [server.connect(receive_buffer=4096).send(compose("/", version=version)) for version in versions]
    server.await_note("began", 6)
    # QUIT leaves an application that is at work: wait until every stream is suspended.
    until(lambda: all(is_asleep(pid) for pid in server.pids()), "streams that wait for their clients")
    server.signal(number)
    assert server.wait() == 0
    assert server.notes().count("closed") == len(clients)
    for client, version in zip(clients, versions, strict=True):
        assert client.response(version=version, truncated=True).was_reset


WRITES = """
from gate import note

def application(environ, start_response):
    write = start_response("200 OK", [("Content-Type", "text/plain")])
    for _ in range(100):
        write(b"x" * 65536)
    note("given")
    return []
"""


def ports_of_clients(pid: int) -> set[int]:
    """Those that are connected to this process."""
    return {each.raddr.port for each in psutil.Process(pid).net_connections("tcp") if each.raddr}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGQUIT, None], ids=["TERM", "QUIT", "late"])
def test_an_answer_that_is_cut_off_behind_its_call_does_not_look_whole(
    start: Any, any_shape: Any, compose: Any, until: Any, number: int | None
) -> None:
    """All of it was given, and lies in the server."""
    server = start(WRITES, any_shape, graceful_timeout=0.3, write_timeout=60 if number else 1)
    versions = "1.0", "1.1"
    clients = [server.connect(receive_buffer=65536).send(compose("/", version=version)) for version in versions]
    server.await_note("given", 2)
    until(lambda: all(is_asleep(pid) for pid in server.pids()), "the end of the calls")
    if number:
        server.signal(number)
        assert server.wait() == 0
    else:
        ports = {client.sock.getsockname()[1] for client in clients}
        until(lambda: not any(ports & ports_of_clients(pid) for pid in server.pids()))
    for client, version in zip(clients, versions, strict=True):
        assert client.response(version=version, truncated=True).was_reset


def test_a_log_that_nobody_reads_does_not_hold_up_the_stop(
    start: Any, any_shape: Any, compose: Any, tmp_path: Path
) -> None:
    """The service waits for its access log, but the stop does not."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
    fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 4096)
    server = start(APP, any_shape, accesslog=fifo)
    with server.connect() as client:
        for _ in range(1000):
            client.send(compose("/" + "x" * 50))
            if not select.select([client.sock], [], [], 1)[0]:
                break
            client.response()
        else:
            pytest.fail("the log took everything")
        server.signal(signal.SIGTERM)
        assert client.response().body == b"done"
        client.close()
        assert server.wait() == 0
    os.close(reader)
