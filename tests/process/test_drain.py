"""A stop, for whom a connection is just about to be used: what a front server and a quick client do."""

import contextlib
import http.client
import os
import select
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from processes import suspend
from starter import Server, Start, wait_for

from poorhttp.status import reader


@pytest.mark.parametrize("kept", [False, True], ids=["new", "kept"])
def test_a_connection_of_just_now_is_answered_once_more(start: Start, shape: str, kept: bool) -> None:
    """New: it was accepted, and its request comes when nobody else is accepted any more. Kept: the same with one that
    was answered without a word of closing. A client that sends nothing for a second may be closed.
    """
    server = start(shape)
    connection = server.connection()
    connection.connect()
    # The other connection is accepted after this one, which therefore is too.
    wait_for(lambda: server.get()[0] == 200, "an answer")
    if kept:
        connection.request("GET", "/")
        assert not (answer := connection.getresponse()).will_close and answer.read()
    server.send(signal.SIGTERM)
    wait_for(server.refuses, "the end of accepting")
    connection.request("GET", "/")
    answer = connection.getresponse()
    assert answer.status == 200 and answer.will_close and answer.read()
    connection.close()
    assert server.end() == 0


def test_an_open_connection_learns_by_the_health_that_the_server_stops(start: Start, shape: str) -> None:
    """New ones are refused, that they may ask somebody else at once."""
    server = start(shape, "--health=/health")
    connection = server.connection()
    connection.request("GET", "/health")
    answer = connection.getresponse()
    assert (answer.status, answer.read()) == (200, b"serving\n")
    server.send(signal.SIGTERM)
    wait_for(server.refuses, "the end of accepting")
    connection.request("GET", "/health")
    answer = connection.getresponse()
    assert (answer.status, answer.read(), answer.will_close) == (503, b"leaving\n", True)
    connection.close()
    assert server.end() == 0


def test_a_worker_that_drains_leaves_new_clients_to_the_others(start: Start) -> None:
    """It is gone as soon as those are who were with it, and whoever comes is served by one that stays."""
    server = start("2x2")
    before = server.workers()
    with contextlib.ExitStack() as stack:
        known: set[int] = set()
        while known != before:  # one connection each that says nothing more, so that they drain for a second
            connection = stack.enter_context(contextlib.closing(server.connection()))
            connection.request("GET", "/")
            known.add(int(connection.getresponse().read()))
        server.send(signal.SIGHUP)

        def draining() -> set[int]:
            return {pid for pid, state in server.states().items() if state == "draining"}

        looks, earlier = 0, set[int]()
        while before & server.workers():
            leaving = draining()
            served_by = {int(server.get()[1]) for _ in range(4)}
            settled = leaving & earlier  # who has just begun to leave may still take who came before that
            if settled and leaving <= draining():  # else one may have ended meanwhile
                looks += 1
                assert not settled & served_by
            earlier = leaving
    assert looks > 0
    assert server.stop() == 0


def test_a_drain_goes_on_where_it_stood_when_its_worker_was_stopped(start: Start) -> None:
    server = start("2x1")
    connection = server.connection()
    connection.request("GET", "/")
    pid = int(connection.getresponse().read())
    server.send(signal.SIGHUP)
    wait_for(lambda: server.states().get(pid) == "draining", "the drain")
    suspend(pid)
    time.sleep(2.5)  # what is tried out: a second more than it would have waited
    os.kill(pid, signal.SIGCONT)
    assert not select.select([connection.sock], [], [], 0.05)[0], "who was silent meanwhile may speak"
    connection.request("GET", "/")
    answer = connection.getresponse()
    assert (int(answer.read()), answer.will_close) == (pid, True)
    connection.close()
    assert server.stop() == 0


def test_a_client_that_waits_where_all_workers_leave_is_answered_after_a_stop(start: Start) -> None:
    server = start("2x1")
    with ThreadPoolExecutor(2) as pool:
        held = []
        for count in 1, 2:  # one after the other: a worker accepts all who are there
            held.append(pool.submit(server.get, "/held"))
            wait_for(lambda count=count: len(busy(server)) == count, "so many to be busy")
        server.send(signal.SIGWINCH)
        server.await_text("SIGWINCH: the workers leave")
        waiting = server.connection()
        waiting.request("GET", "/")
        server.send(signal.SIGTERM)
        wait_for(lambda: list(server.states().values()) == ["stopping"] * 2, "both to hear of it")
        (server.marks / "release").touch()
        assert [each.result() for each in held] == [(200, "released")] * 2
        assert waiting.getresponse().status == 200
        waiting.close()
    assert server.end() == 0


def busy(server: Server) -> list[dict[str, Any]]:
    told = reader.read_server(server.process.pid) or {"processes": []}
    return [call for each in told["processes"] for call in each["calls"]]


STREAM = """
import os
import time

def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/event-stream")])
    return events() if environ["PATH_INFO"] == "/stream" else [b"ok"]

def events():
    try:
        while True:
            yield b"data: x\\n\\n"
            time.sleep(0.05)
    finally:
        os.close(os.open("closed", os.O_CREAT | os.O_WRONLY))
"""


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP], ids=["TERM", "HUP"])
def test_an_endless_stream_is_closed_when_the_time_of_a_stop_is_over(
    start: Start, shape: str, signum: signal.Signals
) -> None:
    """Its client sees that it is not whole, the application cleans up, the log tells of it, and the stop is a clean one."""
    server = start(shape, "--graceful-timeout=1", source=STREAM)
    connection = server.connection()
    connection.request("GET", "/stream")
    answer = connection.getresponse()
    assert answer.read(9) == b"data: x\n\n"
    server.send(signum)
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        answer.read()
    connection.close()
    wait_for((server.directory / "closed").exists, "the end of the generator")
    server.await_text("unfinished connections: 1")
    if signum == signal.SIGHUP:
        wait_for(lambda: server.get() == (200, "ok"), "the new image")
        server.send(signal.SIGTERM)
    assert server.end() == 0
    assert "KILL" not in server.said and "did not return" not in server.said


LATE = """
import os
import time

class Response:
    def __iter__(self):
        yield b"late"

def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    os.close(os.open("called", os.O_CREAT | os.O_WRONLY))
    time.sleep(1.4)
    return Response()
"""


def test_an_answer_that_comes_a_moment_after_the_time_of_a_stop_is_whole(start: Start) -> None:
    for _ in range(3):
        server = start("1x1", "--graceful-timeout=1", source=LATE)
        with ThreadPoolExecutor(1) as pool:
            late = pool.submit(server.get, "/late")
            wait_for((server.directory / "called").exists, "the call")
            server.send(signal.SIGTERM)
            code = server.end()
        if "did not return in time" not in server.said:  # else the moment was a long one: the machine is busy
            break
        (server.directory / "called").unlink()
    assert late.result() == (200, "late") and code == 0


def test_a_client_that_waits_for_a_successor_that_never_comes_is_answered(start: Start) -> None:
    """A reload waits for a call, and new clients in the queue of the socket for the new image; then comes a stop."""
    server = start("1x4")
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(server.get, "/held")
        server.await_mark("held")
        server.send(signal.SIGHUP)
        while True:
            waiting = server.connection()
            waiting.request("GET", "/")
            if not select.select([waiting.sock], [], [], 1.0)[0]:
                break  # the drain is over
            assert waiting.getresponse().status == 200
            waiting.close()
        server.send(signal.SIGTERM)
        wait_for(server.refuses, "the end of accepting")
        (server.marks / "release").touch()
        assert held.result() == (200, "released")
        assert waiting.getresponse().status == 200
        waiting.close()
    assert server.end() == 0
