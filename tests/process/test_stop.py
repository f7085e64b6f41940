"""How a server stops: cleanly, without losing what it accepted, and at once if somebody insists."""

import contextlib
import http.client
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from starter import APPLICATION, EVERY_SHAPE, PATIENCE, SUPERVISED, Server, Start, wait_for

from poorhttp.system import timing

CLIENTS = 4

everywhere = pytest.mark.parametrize("bind", ["127.0.0.1:0", "unix:server.sock"], ids=["tcp", "unix"])


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2 * CLIENTS) as made:
        yield made


def lost(future: "Future[object]") -> bool:
    """Whether the request of `future` came to nothing."""
    return isinstance(future.exception(PATIENCE), OSError | http.client.HTTPException)


@EVERY_SHAPE
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
def test_a_signal_stops_cleanly(start: Start, shape: str, signum: int) -> None:
    server = start(shape)
    assert server.get()[0] == 200
    assert server.stop(signum) == 0
    wait_for(server.refuses, "the port to be free")  # or that of another test, which got it


def test_a_stop_right_after_the_start_is_clean(start: Start, shape: str) -> None:
    assert start(shape).stop() == 0


def test_an_idle_connection_does_not_delay_the_stop(start: Start, shape: str) -> None:
    server = start(shape)
    with contextlib.closing(server.connection()) as connection:
        connection.request("GET", "/")
        connection.getresponse().read()
        assert server.stop() == 0


THREAD = """
def stay():
    while not marked("enough"):
        time.sleep(0.01)


threading.Thread(target=stay).start()
"""


def test_a_thread_that_the_application_has_left_may_end(start: Start, shape: str) -> None:
    server = start(shape, source=APPLICATION + THREAD)
    assert server.get("/pid")[0] == 200
    server.send(signal.SIGTERM)
    wait_for(server.refuses, "the end of serving")
    (server.marks / "enough").touch()
    assert server.end() == 0


def test_a_thread_that_does_not_end_is_left(start: Start, shape: str) -> None:
    server = start(shape, "--graceful-timeout=0.5", source=APPLICATION + THREAD)
    assert server.get("/pid")[0] == 200
    assert server.stop() == 1
    assert "did not end; left without it" in server.said


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_thread_that_does_not_end_keeps_nobody_who_insists(start: Start, shape: str, signum: int) -> None:
    server = start(shape, source=APPLICATION + THREAD)
    assert server.get("/pid")[0] == 200
    server.send(signum)
    wait_for(server.refuses, "the end of serving")
    assert server.insist(signum) == 128 + signum


def test_a_request_in_flight_is_answered(start: Start, shape: str, pool: ThreadPoolExecutor) -> None:
    server = start(shape)
    answer = pool.submit(server.get, "/slow")
    server.await_mark("slow")
    assert server.stop() == 0
    assert answer.result(PATIENCE) == (200, "slow")


@everywhere
def test_while_a_request_is_finished_new_connections_are_refused(
    start: Start, shape: str, bind: str, pool: ThreadPoolExecutor
) -> None:
    server = start(shape, f"--bind={bind}")
    answer = pool.submit(server.get, "/held")
    server.await_mark("held")
    server.send(signal.SIGTERM)
    try:
        # A worker of one thread is inside the application and cannot close its listener before it is back.
        if shape in ("1x4", "2x2"):
            wait_for(server.refuses, "new connections to be refused")
    finally:
        (server.marks / "release").touch()
    assert answer.result(PATIENCE) == (200, "released")
    assert server.end() == 0
    wait_for(server.refuses, "the port to be free")  # or that of another test, which got it


HOLDING = """
import os
import time


def application(environ, start_response):
    mine = os.path.join(os.environ["MARKS"], str(os.getpid()))
    open(mine, "w").close()
    while os.path.exists(mine):
        time.sleep(0.01)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [str(os.getpid()).encode()]
"""


def test_until_the_last_worker_stops_accepting_everybody_is_served(start: Start, pool: ThreadPoolExecutor) -> None:
    server = start("2x1", source=HOLDING)
    answers, workers = [], []
    for _ in range(2):
        answers.append(pool.submit(server.get))
        wait_for(lambda: len(list(server.marks.iterdir())) == len(answers), "a worker to be at work")
        workers += [int(mark.name) for mark in server.marks.iterdir() if int(mark.name) not in workers]
    server.send(signal.SIGTERM)
    server.await_text("stopping 2 workers: SIGTERM")
    first, last = workers
    (server.marks / str(first)).unlink()
    wait_for(lambda: first not in server.workers(), "the first one to be gone")
    with contextlib.closing(server.connection()) as connection:
        connection.request("GET", "/")
        for _ in range(2):
            wait_for((server.marks / str(last)).exists, "a request to be at work")
            (server.marks / str(last)).unlink()
        assert connection.getresponse().read() == str(last).encode()
    assert [answer.result(PATIENCE) for answer in answers] == [(200, str(first)), (200, str(last))]
    assert server.end() == 0


def test_a_unix_socket_is_removed(start: Start, shape: str, pool: ThreadPoolExecutor) -> None:
    server = start(shape, "--bind=unix:server.sock")
    answer = pool.submit(server.get, "/slow")
    server.await_mark("slow")
    assert server.stop() == 0
    assert answer.result(PATIENCE) == (200, "slow")
    assert not (server.directory / "server.sock").exists()


def test_a_signal_to_the_whole_group_is_one_stop(start: Start, shape: str, pool: ThreadPoolExecutor) -> None:
    """Service managers signal every process of the service, supervisor and workers alike."""
    server = start(shape)
    answer = pool.submit(server.get, "/slow")
    server.await_mark("slow")
    server.workers()
    os.killpg(server.process.pid, signal.SIGTERM)
    assert server.end() == 0
    assert answer.result(PATIENCE) == (200, "slow")


class Client:
    """Asks for /seen?NUMBER without a pause, on one connection or on a new one each time, until nobody answers."""

    def __init__(self, server: Server, name: int, keep_alive: bool) -> None:
        self.answered: set[str] = set()
        self.torn: list[str] = []
        self._server = server
        self._name = name
        self._keep_alive = keep_alive

    def run(self) -> None:
        connection = self._server.connection()
        for number in range(1_000_000):
            text = f"{self._name}-{number}"
            try:
                if not self._ask(connection, text):
                    connection.close()
                    connection = self._server.connection()
            except (ConnectionRefusedError, FileNotFoundError):
                break
            except (OSError, http.client.HTTPException) as error:
                # On a connection that was kept the server may close while the client asks (RFC 9112 9.3.1).
                if isinstance(error, http.client.IncompleteRead) or not self._keep_alive:
                    self.torn.append(f"{text}: {error!r}")
                break
        connection.close()

    def _ask(self, connection: http.client.HTTPConnection, text: str) -> bool:
        """Make one request; whether the connection may be used for another one."""
        connection.request("GET", f"/seen?{text}")
        answer = connection.getresponse()
        try:
            body = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise http.client.IncompleteRead(b"") from error
        assert body.decode() == text
        self.answered.add(text)
        return self._keep_alive and not answer.will_close


@pytest.mark.parametrize("whom", ["keep-alive", "close", "group"])
@everywhere
def test_under_load_no_accepted_request_is_lost(start: Start, shape: str, bind: str, whom: str) -> None:
    """Whatever reached the application is answered whole, and so is whoever could connect; also where all processes are
    told to stop at once, as service managers do it.
    """
    keep_alive = whom == "keep-alive"
    server = start(shape, f"--bind={bind}")
    clients = [Client(server, number, keep_alive) for number in range(CLIENTS)]
    threads = [threading.Thread(target=client.run) for client in clients]
    for thread in threads:
        thread.start()
    wait_for(lambda: all(len(client.answered) > 20 for client in clients), "every client to be at work")
    server.workers()
    (os.killpg if whom == "group" else os.kill)(server.process.pid, signal.SIGTERM)
    assert server.end() == 0
    for thread in threads:
        thread.join(PATIENCE)
    seen = set((server.marks / "seen").read_text().split())
    assert seen - set.union(*(client.answered for client in clients)) == set()
    assert [client.torn for client in clients] == [[]] * CLIENTS
    wait_for(server.refuses, "the port to be free")  # or that of another test, which got it


PATIENT = """
import poorhttp.system.timing

poorhttp.system.timing.FAST = 60.0
"""
"""A first INT gives what is in flight so long that only a second one can be the end of it."""


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_at_once_though_the_application_hangs(
    start: Start, shape: str, signum: int, pool: ThreadPoolExecutor
) -> None:
    server = start(shape, "--pidfile=server.pid", "--bind=unix:server.sock", source=APPLICATION + PATIENT)
    wait_for(lambda: len(server.workers()) == (2 if shape in SUPERVISED else 0), "the workers")
    answer = pool.submit(server.get, "/hang")
    wait_for(lambda: list(server.marks.glob("hang-*")), "the application to hang")
    assert server.insist(signum) == 128 + signum
    assert lost(answer)
    assert [each.name for each in server.directory.glob("server.*")] == []


def test_a_second_signal_ends_at_once_though_a_client_is_slow(start: Start, shape: str) -> None:
    server = start(shape)
    with contextlib.closing(socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)) as client:
        client.sendall(b"POST /pid HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n")
        assert b" 100 " in client.recv(100)
        assert server.insist(signal.SIGTERM) == 128 + signal.SIGTERM


def test_quit_that_cuts_the_application_off_is_in_the_exit_code(
    start: Start, shape: str, pool: ThreadPoolExecutor
) -> None:
    server = start(shape, "--pidfile=server.pid")
    answer = pool.submit(server.get, "/hang")
    wait_for(lambda: list(server.marks.glob("hang-*")), "the application to hang")
    assert server.stop(signal.SIGQUIT) == 128 + signal.SIGQUIT
    assert lost(answer)
    assert not (server.directory / "server.pid").exists()


def test_quit_right_behind_a_stop_is_heard(start: Start, shape: str, pool: ThreadPoolExecutor) -> None:
    """Unlike a second TERM, which may be the first one told twice."""
    server = start(shape)
    answer = pool.submit(server.get, "/hang")
    wait_for(lambda: list(server.marks.glob("hang-*")), "the application to hang")
    server.send(signal.SIGTERM)
    assert server.stop(signal.SIGQUIT) == 128 + signal.SIGQUIT
    assert lost(answer)


def test_int_right_behind_a_stop_leaves_what_is_in_flight_a_second(
    start: Start, shape: str, pool: ThreadPoolExecutor
) -> None:
    """It is no repetition of the first signal, but a stop in less time; behind a moment it would end at once."""
    server = start(shape, "--pidfile=server.pid")
    answer = pool.submit(server.get, "/hang")
    wait_for(lambda: list(server.marks.glob("hang-*")), "the application to hang")
    server.send(signal.SIGTERM)
    server.await_text("stopping")
    began = time.monotonic()
    assert server.stop(signal.SIGINT) == 128 + signal.SIGINT
    assert time.monotonic() - began < 5, "graceful_timeout is 30"
    assert lost(answer)
    assert "the process ends itself" not in server.said
    assert not (server.directory / "server.pid").exists()


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_told_again_while_the_process_ends_is_no_other_one(start: Start, shape: str, signum: int) -> None:
    """A service manager tells a process and then its whole group."""
    for milliseconds in range(0, 30, 3):
        while True:
            server = start(shape)
            began = time.monotonic()
            server.send(signum)
            time.sleep(milliseconds / 1000)  # what is tried out
            code = server.stop(signum)
            if code == 0:
                break
            # Unless the machine stood still, so that it heard the second one late.
            assert time.monotonic() - began >= timing.REPEAT, (milliseconds, code)


def test_an_application_that_hangs_is_left_in_the_end(start: Start, shape: str, pool: ThreadPoolExecutor) -> None:
    server = start(shape, "--graceful-timeout=0.5", "--pidfile=server.pid")
    answer = pool.submit(server.get, "/hang")
    wait_for(lambda: list(server.marks.glob("hang-*")), "the application to hang")
    assert server.stop() == 1
    assert lost(answer)
    assert not (server.directory / "server.pid").exists()


def test_a_stop_is_heard_though_the_application_took_the_wake_up_of_signals(start: Start, shape: str) -> None:
    """An asyncio loop with a signal handler does so, for good: here the signal comes while it is at work."""
    server = start(shape)
    assert server.get("/deaf") == (200, "stopping")
    assert server.end() == 0


def test_what_the_application_registered_with_atexit_is_called(start: Start, shape: str) -> None:
    server = start(shape)
    workers = server.workers() or {server.process.pid}
    assert server.stop() == 0
    assert workers <= {int(mark.name.split("-")[1]) for mark in server.marks.glob("atexit-*")}


HOG = """
import os


def application(environ, start_response):
    if environ["PATH_INFO"] == "/hog":
        open(os.path.join(os.environ["MARKS"], "hog"), "w").close()
        sum(range(10**13))  # one call that never lets another thread run
    start_response("200 OK", [("Content-Length", "4")])
    return [b"here"]
"""


@pytest.mark.parametrize("request_timeout", ["0", "0.3"], ids=["any", "late"])
@pytest.mark.parametrize("shape", ["1x1", "1x4"])
def test_a_call_that_keeps_the_interpreter_does_not_keep_the_process(
    start: Start, shape: str, request_timeout: str, pool: ThreadPoolExecutor
) -> None:
    """No Python runs any more in such a process, no signal handler and no report either."""
    server = start(shape, "--graceful-timeout=0.5", f"--request-timeout={request_timeout}", source=HOG)
    assert server.get() == (200, "here")
    answer = pool.submit(server.get, "/hog")
    server.await_mark("hog")
    assert server.stop() != 0
    assert lost(answer)
    assert "the application does not return; the process ends itself" in server.said


@pytest.mark.parametrize("signum", [signal.SIGQUIT, signal.SIGTERM])
@pytest.mark.parametrize("shape", ["1x1", "1x4"])
def test_a_second_signal_ends_even_a_call_that_keeps_the_interpreter(
    start: Start, shape: str, signum: int, pool: ThreadPoolExecutor
) -> None:
    server = start(shape, source=HOG)
    answer = pool.submit(server.get, "/hog")
    server.await_mark("hog")
    assert server.insist(signum) != 0
    assert lost(answer)


STALLED = """
import os
import time


def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    if environ["PATH_INFO"] == "/stream":
        return (b"x" * 65536 for _ in range(1024))
    if environ["PATH_INFO"] == "/busy":
        open(os.path.join(os.environ["MARKS"], "busy"), "w").close()
        time.sleep(1.3)
    return [b"here"]
"""


def test_a_stop_during_a_call_leaves_the_other_clients_their_time(start: Start, pool: ThreadPoolExecutor) -> None:
    """The alarm for an application that does not return must not end a server that only waits for a client."""
    server = start("1x1", "--graceful-timeout=1.5", source=STALLED)
    with contextlib.closing(server.connection()) as stalled:
        stalled.request("GET", "/stream")
        stalled.getresponse()
        answer = pool.submit(server.get, "/busy")
        server.await_mark("busy")
        assert server.stop() == 0
        assert answer.result(PATIENCE) == (200, "here")
    assert "did not return" not in server.said
