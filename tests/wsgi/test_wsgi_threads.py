"""Calls that block, streams that stall, calls that are late: who waits for whom in each shape.

Knows the promises of the baton and of the phases; knows no clock but the settings it gives.
"""

from __future__ import annotations

import itertools
import random
import statistics
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

APP = """
import threading, time
from gate import note, wait

def application(environ, start_response):
    path = environ["PATH_INFO"]
    kind, _, text = path.strip("/").partition("/")
    if kind == "block":
        note("blocked " + text)
        wait(text)
    if kind == "stream":
        start_response("200 OK", [("Content-Type", "application/octet-stream")])
        return stream(text)
    if kind == "sleep":
        time.sleep(float(text))
    if kind == "drip":
        start_response("200 OK", [("Content-Type", "text/plain")])
        return drip(text)
    if kind == "echo":
        body = environ["wsgi.input"].read()
        start_response("200 OK", [("Content-Length", str(len(body)))])
        return [body]
    if kind == "late":
        return late(text, start_response)
    if kind == "late-stream":
        start_response("200 OK", [("Content-Type", "text/plain")])
        return late_stream(text)
    body = threading.current_thread().name.encode() if kind == "thread" else path.encode()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]

def stream(tag):
    try:
        for number in range(1024):
            if number % 64 == 0:
                note(f"produced {tag} {number}")
            yield b"%c" % (number % 251) * 65536
    finally:
        note("ended " + tag)

def drip(text):
    for number in range(int(text)):
        time.sleep(0.0005)
        yield b"%d," % number

def late(tag, start_response):
    note("late " + tag)
    try:
        end = time.monotonic() + 15
        while time.monotonic() < end:
            time.sleep(0.005)
    except BaseException as error:
        note(f"{type(error).__module__}.{type(error).__name__} {tag}")
        raise
    start_response("200 OK", [])
    return [b"never"]

def late_stream(tag):
    yield b"begun"
    note("late " + tag)
    end = time.monotonic() + 15
    try:
        while time.monotonic() < end:
            time.sleep(0.005)
    except BaseException as error:
        note(f"{type(error).__name__} {tag}")
        raise
    yield b"never"
"""
BLOCK = 64 * 1024 * 1024


def test_three_blocked_calls_do_not_hold_up_a_fourth(start: Any, compose: Any) -> None:
    server = start(APP, (1, 4))
    blocked = [server.connect().send(compose(f"/block/{name}")) for name in "abc"]
    for name in "abc":
        server.await_note(f"blocked {name}")
    for number in range(50):
        assert server.get(f"/{number}").body == f"/{number}".encode()
    assert all(client.is_silent() for client in blocked)
    for name, client in zip("abc", blocked, strict=True):
        server.open_gate(name)
        assert client.response().body == f"/block/{name}".encode()


def test_a_blocked_call_costs_no_cpu(start: Any, any_shape: Any, compose: Any) -> None:
    """Nobody spins while it waits, neither beside a loop that sleeps nor where no thread is left."""
    server = start(APP, any_shape)
    with server.connect() as client:
        client.send(compose("/sleep/1.5"))
        before = server.cpu_seconds()
        assert client.response().status == 200
        assert server.cpu_seconds() - before < 0.5


@pytest.mark.parametrize("threads", [1, 3, 4])
def test_calls_that_wait_wake_nobody(start: Any, compose: Any, until: Any, threads: int) -> None:
    """Neither where another thread could be woken nor where all of them wait."""
    server = start(APP, (1, 4))
    clients = [server.connect().send(compose("/sleep/2")) for _ in range(threads)]
    seen = []

    def is_calm() -> bool:
        before = server.context_switches()
        time.sleep(0.3)  # the window of the measurement
        seen.append(server.context_switches() - before)
        return seen[-1] < 30

    until(is_calm, "its threads sleep", seconds=1.5)
    assert all(client.is_silent() for client in clients), "they still wait"
    assert all(client.response().status == 200 for client in clients)


def test_blocked_calls_one_after_another_find_threads(start: Any, compose: Any) -> None:
    """As many calls run at once as there are threads, again and again."""
    server = start(APP, (1, 4))
    for turn in range(5):
        names = [f"{turn}-{number}" for number in range(4)]
        clients = [server.connect().send(compose(f"/block/{name}")) for name in names]
        for name in names:
            server.await_note(f"blocked {name}")
        for name, client in zip(reversed(names), reversed(clients), strict=True):
            server.open_gate(name)
            assert client.response().body == f"/block/{name}".encode()
            client.close()


def test_requests_beyond_the_threads_wait_and_are_answered(start: Any, any_shape: Any, compose: Any) -> None:
    server = start(APP, any_shape)
    clients = [server.connect().send(compose("/block/all")) for _ in range(30)]
    server.await_note("blocked all")
    server.open_gate("all")
    for client in clients:
        assert client.response().body == b"/block/all"


@pytest.mark.parametrize("turn", range(8))
def test_a_cold_server_takes_a_crowd(start: Any, compose: Any, turn: int) -> None:
    """The first requests of a process meet everything that is made at first use, in several threads at once."""
    server = start(APP, (1, 4))
    clients = [server.connect().send(compose("/sleep/0.001")) for _ in range(12)]
    for client in clients:
        assert client.response().body == b"/sleep/0.001"


def test_a_connection_serves_on_after_a_blocked_call(start: Any, compose: Any) -> None:
    """What came in the meantime on the same connection is answered afterwards, in order."""
    server = start(APP, (1, 4))
    with server.connect() as client:
        client.send(compose("/block/own"))
        server.await_note("blocked own")
        client.send(compose("/second") + compose("/third"))
        assert server.get("/other").body == b"/other"
        server.open_gate("own")
        assert [client.response().body for _ in range(3)] == [b"/block/own", b"/second", b"/third"]


def test_single_runs_the_application_in_the_main_thread(serve: Any) -> None:
    assert serve(APP).get("/thread").body == b"MainThread"


def test_a_crowd_of_clients_and_sleeping_calls(serve: Any, any_shape: Any, compose: Any) -> None:
    """Quick and slow calls, streams, bodies, pipelines and clients that leave, all at once: each gets what is its own."""
    server = serve(APP, any_shape)

    def one(seed: int) -> None:
        chance = random.Random(seed)
        client = server.connect()
        for turn in range(40):
            kind = chance.choice(["quick", "sleep", "drip", "echo", "pipeline", "leave"])
            name = f"/{seed}-{turn}"
            if kind == "quick":
                assert client.request(name).body == name.encode()
            elif kind == "sleep":
                target = f"/sleep/0.00{chance.randrange(4)}"
                assert client.request(target).body == target.encode()
            elif kind == "drip":
                assert client.request("/drip/4").body == b"0,1,2,3,"
            elif kind == "echo":
                body = chance.randbytes(chance.randrange(100_000))
                assert client.request("/echo/", method="POST", body=body).body == body
            elif kind == "pipeline":
                client.send(compose(name) + compose("/sleep/0.001") + compose("/drip/2") + compose(name + "b"))
                bodies = [client.response().body for _ in range(4)]
                assert bodies == [name.encode(), b"/sleep/0.001", b"0,1,", name.encode() + b"b"]
            else:
                client.send(compose(chance.choice(["/drip/9", "/sleep/0.002", name])))
                client.reset() if chance.random() < 0.5 else client.close()
                client = server.connect()
        client.close()

    with ThreadPoolExecutor(16) as crowd:
        for done in [crowd.submit(one, seed) for seed in range(16)]:
            done.result()


# ------------------------------------------------------------------------------------------------ suspended streams


@pytest.mark.parametrize("readers", [1, 5])
def test_a_stalled_reader_of_a_stream_costs_bounded_memory_and_no_thread(
    start: Any, any_shape: Any, compose: Any, readers: int
) -> None:
    server = start(APP, any_shape)
    assert server.get("/warm").body == b"/warm"
    before = server.memory()
    clients = [server.connect().send(compose(f"/stream/s{number}")) for number in range(readers)]
    for number in range(readers):
        server.await_note(f"produced s{number} 0")
    for number in range(50):
        assert server.get(f"/{number}").body == f"/{number}".encode()
    assert server.memory() - before < 10 * 1024 * 1024 * readers
    assert not [note for note in server.notes() if note.startswith("ended")], "they are suspended"
    assert not [note for note in server.notes() if note.endswith(" 512")], "half of 64 MB is not produced for nobody"
    first = clients[0]
    response = first.response()
    assert len(response.body) == BLOCK
    assert response.body[-65536:] == b"%c" % (1023 % 251) * 65536
    assert first.request("/again").body == b"/again"
    for client in clients[1:]:
        client.reset()
    for number in range(readers):
        server.await_note(f"ended s{number}")
    assert sorted(note for note in server.notes() if note.startswith("ended")) == sorted(
        f"ended s{number}" for number in range(readers)
    ), "each once"


def test_a_stream_goes_on_beside_calls_that_block(start: Any, compose: Any) -> None:
    """Its thread alone can go on with it, so a call that may take long goes to another one while there is any."""
    server = start(APP, (1, 4))
    with server.connect() as reader:
        reader.send(compose("/stream/s"))
        server.await_note("produced s 0")
        blocked = [server.connect().send(compose(f"/block/{name}")) for name in "abc"]
        for name in "abc":
            server.await_note(f"blocked {name}")
        assert len(reader.response().body) == BLOCK
        assert reader.request("/again").body == b"/again"
    assert all(client.is_silent() for client in blocked)
    for name, client in zip("abc", blocked, strict=True):
        server.open_gate(name)
        assert client.response().body == f"/block/{name}".encode()


def test_where_every_thread_has_a_stream_calls_are_served(start: Any, compose: Any) -> None:
    server = start(APP, (1, 4))
    readers = [server.connect().send(compose(f"/stream/s{number}")) for number in range(8)]
    for number in range(8):
        server.await_note(f"produced s{number} 0")
        assert server.get(f"/{number}").body == f"/{number}".encode()
    for reader in readers:
        assert len(reader.response().body) == BLOCK


def test_a_stalled_reader_on_1_0(start: Any, compose: Any) -> None:
    server = start(APP)
    with server.connect() as client:
        client.send(compose("/stream/s", version="1.0"))
        server.await_note("produced s 0")
        assert server.get("/other").body == b"/other"
        assert len(client.response(version="1.0").body) == BLOCK


# -------------------------------------------------------------------------------------------------- request_timeout


@pytest.fixture
def hasty(serve: Any, any_shape: Any) -> Any:
    return serve(APP, any_shape, request_timeout=0.3, errors=["RequestTimeout"])


tags = iter(range(1_000_000))


def test_a_late_call_is_504_and_learns_of_it(hasty: Any, until: Any) -> None:
    tag, lines = f"l{next(tags)}", len(hasty.error_lines())
    response = hasty.get(f"/late/{tag}")
    assert response.status == 504
    until(lambda: [note for note in hasty.notes() if note.endswith(f"RequestTimeout {tag}")], "the exception")
    told = next(note for note in hasty.notes() if note.endswith(f"RequestTimeout {tag}"))
    assert told.startswith("poorhttp"), "poorhttp.RequestTimeout"
    until(lambda: len(hasty.error_lines()) > lines, "a line in the error log")
    assert f"/late/{tag}" in hasty.errors(), "the log names the request"
    assert hasty.get("/after").body == b"/after"


def test_a_late_call_can_be_caught_by_name(start: Any) -> None:
    """The application may answer for itself."""
    source = """
    import time
    import poorhttp

    def application(environ, start_response):
        try:
            while True:
                time.sleep(0.005)
        except poorhttp.RequestTimeout:
            start_response("200 OK", [("Content-Length", "6")])
            return [b"caught"]
    """
    server = start(source, request_timeout=0.3, errors=["RequestTimeout"])
    response = server.get("/")
    assert (response.status, response.body) == (200, b"caught")
    assert server.get("/again").body == b"caught"


def test_a_late_stream_breaks_off(hasty: Any) -> None:
    tag = f"s{next(tags)}"
    with hasty.connect() as client:
        client.send(f"GET /late-stream/{tag} HTTP/1.1\r\nHost: a\r\n\r\n")
        response = client.response(truncated=True)
        assert (response.status, response.body, response.was_reset) == (200, b"begun", True)
    hasty.await_note(f"RequestTimeout {tag}")


def test_a_quick_call_after_a_late_one_is_not_hit(hasty: Any) -> None:
    """The exception of one request never reaches another one."""
    for _ in range(3):
        assert hasty.get(f"/late/q{next(tags)}").status == 504
        with hasty.connect() as client:
            for number in range(100):
                assert client.request(f"/{number}").body == f"/{number}".encode()


def test_a_stalled_reader_is_not_a_late_call(start: Any, compose: Any) -> None:
    """A suspended stream waits for its client, under the write deadline, not under request_timeout."""
    server = start(APP, request_timeout=0.3, errors=["RequestTimeout"])
    with server.connect() as client:
        client.send(compose("/stream/s"))
        server.await_note("produced s 0")
        assert server.get("/late/x").status == 504, "more than the timeout has passed"
        assert server.get("/late/y").status == 504
        assert len(client.response().body) == BLOCK
    assert "RequestTimeout s" not in server.errors()


def test_a_slow_body_is_not_a_late_call(start: Any) -> None:
    server = start(APP, request_timeout=0.3, errors=["RequestTimeout"])
    with server.connect() as client:
        client.send(b"POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nab")
        assert server.get("/late/x").status == 504, "more than the timeout has passed"
        client.send("cd")
        assert client.response().body == b"/slow"


def test_empty_blocks_are_no_sign_of_life(start: Any, any_shape: Any) -> None:
    """They give the client nothing, however many there are."""
    source = """
    import time

    def application(environ, start_response):
        start_response("200 OK", [("Content-Type", "text/plain")])
        end = time.monotonic() + 15
        while time.monotonic() < end:
            time.sleep(0.005)
            yield b""
        yield b"never"
    """
    server = start(source, any_shape, request_timeout=0.3, errors=["RequestTimeout"])
    assert server.get("/").status == 504


WRITER = """
import time

def application(environ, start_response):
    write = start_response("200 OK", [("Content-Type", "text/plain")])
    for number in range(8):
        time.sleep(0.3)
        write(b"%d" % number)
    return []
"""


def test_write_is_a_sign_of_life(start: Any, any_shape: Any) -> None:
    """An application that gives something again and again is not late, however long it takes."""
    server = start(WRITER, any_shape, request_timeout=2)
    assert server.get("/").body == b"01234567"


CROWDING = """
from gate import note

def application(environ, start_response):
    if environ["PATH_INFO"].startswith("/late/"):
        while True:
            sum(range(1000))
    write = start_response("200 OK", [("Content-Type", "text/plain")])
    note("writes")
    for number in range(256):
        write(b"x" * 65536)
    return []
"""


def test_a_stalled_reader_of_write_is_not_a_late_call(start: Any, compose: Any) -> None:
    """It waits for its client, under the write deadline, and neither exception nor replacement comes of that."""
    server = start(CROWDING, (1, 4), request_timeout=0.3, errors=["RequestTimeout"])
    with server.connect(receive_buffer=4096) as client:
        client.send(compose("/slow"))
        server.await_note("writes")
        for number in range(6):
            assert server.get(f"/late/{number}").status == 504, "six times the timeout have passed"
        assert len(client.response().body) == 256 * 65536
    assert "/slow" not in server.errors()
    assert "does not return" not in server.errors()


TWO_AT_ONCE = """
import threading, time
from gate import note

def application(environ, start_response):
    if environ["PATH_INFO"] == "/":
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"hello"]
    write = start_response("200 OK", [("Content-Type", "text/plain")])
    sizes = []

    def go_on():
        write(b"first")
        sizes.append(5)
        write(b"x" * (64 << 20))
        sizes.append(64 << 20)
        note("written")

    writer = threading.Thread(target=go_on)
    writer.start()

    class Body:
        def __iter__(self):
            while not sizes:
                time.sleep(0.001)
            # From now on the interpreter is free only while the file is written, or after it.
            while len(sizes) == 1:
                time.sleep(0.01)
                note("block")
                yield b"y"

        def close(self):
            writer.join()

    return Body()
"""


def test_a_block_beside_a_write_of_another_thread_is_sent_or_seen_to_be_missing(start: Any, compose: Any) -> None:
    """Where the outbox is away with the writer there is no place for it: the answer does not look complete then."""
    server = start(TWO_AT_ONCE)
    with server.connect(receive_buffer=4096) as client:
        client.send(compose("/both"))
        server.await_note("written")
        response = client.response(truncated=True)
    assert not response.complete or response.body.count(b"y") == server.notes().count("block")
    assert server.get("/").body == b"hello"


FAIR = """
import time
from gate import note, wait

calls = blocks = 0

def stream():
    global blocks
    for _ in range(1024):
        blocks += 1
        yield b"x" * 65536

def application(environ, start_response):
    global calls
    path = environ["PATH_INFO"]
    start_response("200 OK", [("Content-Type", "text/plain")])
    if path == "/stream":
        return stream()
    if path == "/wait":
        note("waits")
        wait("go")
    if path.startswith("/busy"):
        calls += 1
        time.sleep(0.005 if path == "/busy" else 0.0002)
    return [b"%d %d" % (calls, blocks)]
"""


def test_a_pipeline_does_not_keep_the_thread(start: Any, compose: Any) -> None:
    """Others have their turn before a buffer full of requests is answered."""
    server = start(FAIR, (1, 1))
    many = 500
    with server.connect() as greedy, server.connect() as other:
        other.request("/")
        greedy.send(compose("/busy") * many)
        assert greedy.response().status == 200
        calls = int(other.request("/").body.split()[0])
        assert calls < many / 2
        for _ in range(many - 1):
            assert greedy.response().status == 200


def test_turns_do_not_multiply(start: Any, compose: Any) -> None:
    """However long a client goes on, and whatever waits in its socket, it has one turn between two of the others."""
    server = start(FAIR, (1, 1))
    many = 6000
    with server.connect() as greedy, server.connect() as other:
        other.request("/")
        pump = threading.Thread(target=greedy.send, args=(compose("/busy-briefly") * many,))
        pump.start()
        assert greedy.response().status == 200
        calls = []
        while not calls or calls[-1] < many / 2:
            calls.append(int(other.request("/").body.split()[0]))
        # A turn of ten milliseconds has room for fifty calls. Some gaps are this test's own, which did not ask at once.
        assert statistics.median(after - before for before, after in itertools.pairwise(calls)) <= 200, calls
        for _ in range(many - 1):
            assert greedy.response().status == 200
        pump.join()


def test_a_stream_does_not_keep_the_thread(start: Any, compose: Any) -> None:
    """Others have their turn before a socket has taken all it can."""
    server = start(FAIR, (1, 1))
    with server.connect() as busy, server.connect() as stream, server.connect() as other:
        for client in (stream, other):
            client.request("/")
        busy.send(compose("/wait"))
        server.await_note("waits")
        stream.send(compose("/stream"))
        other.send(compose("/"))
        server.open_gate("go")
        assert int(other.response().body.split()[1]) * 65536 <= 2 * 1024 * 1024
        assert len(stream.response().body) == 1024 * 65536
