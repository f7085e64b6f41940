"""Processes that die, are killed or stand still: what it costs, and whom."""

import contextlib
import http.client
import os
import shutil
import signal
import socket
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from starter import APPLICATION, PATIENCE, SUPERVISED, Server, Start, wait_for, within

MORE = """
import contextlib


def abort(environ):
    os.abort()


def greedy(environ):
    return "x" * (1 << 62)


def unplug(environ):
    time.sleep(float(environ["QUERY_STRING"]))
    os.closerange(3, 100)
    return ""


def usurp(environ):
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3, 100):
        with contextlib.suppress(OSError):  # EBUSY: the watchdog is about to open a file there (dup(2))
            os.dup2(null, descriptor)
    return ""


def hog(environ):
    mark("hog")
    sum(range(10**13))  # one call that never lets another thread run
"""


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as made:
        yield made


def lost(future: "Future[object]") -> bool:
    """Whether the request of `future` came to nothing."""
    return isinstance(future.exception(PATIENCE), OSError | http.client.HTTPException)


DYING = 0.05
"""Seconds that a killed process may take to die; a call of the kernel that it was in still takes a connection."""


class Client:
    """Asks again and again on new connections; notes when a request failed, from its begin to its end."""

    def __init__(self, server: Server) -> None:
        self.answered = 0
        self.longest = 0.0
        self.failed: list[tuple[float, float]] = []
        self.refused: list[OSError] = []
        self._server = server

    def run(self, over: threading.Event) -> None:
        while not over.is_set():
            began = time.monotonic()
            try:
                assert self._server.get("/pid")[0] == 200
                self.answered += 1
                self.longest = max(self.longest, time.monotonic() - began)
            except (ConnectionRefusedError, TimeoutError) as error:
                self.refused.append(error)
            except (OSError, http.client.HTTPException):
                self.failed.append((began, time.monotonic()))


def test_workers_killed_again_and_again_cost_what_is_in_flight(start: Start, supervised: str) -> None:
    """What waits in the queue of the socket is served by another one. bench/ has this for a minute, with more clients."""
    server = start(supervised)
    clients = [Client(server) for _ in range(6)]
    over = threading.Event()
    threads = [threading.Thread(target=client.run, args=(over,)) for client in clients]
    for thread in threads:
        thread.start()
    kills: list[tuple[float, float]] = []
    try:
        for _ in range(12):
            # One that serves: who dies before has failed to start, and the next one waits for a back-off.
            wait_for(lambda: "serving" in server.states().values(), "a worker that serves")
            victim = min(pid for pid, state in server.states().items() if state == "serving")
            before = time.monotonic()
            os.kill(victim, signal.SIGKILL)
            kills.append((before, time.monotonic() + DYING))
            wait_for(lambda victim=victim: victim not in server.states(), "its end")
            time.sleep(max(before + 0.2 - time.monotonic(), 0))  # the rate of the trial
    finally:
        over.set()
        for thread in threads:
            thread.join(PATIENCE)
    assert [client.refused for client in clients] == [[]] * len(clients)
    failed = [each for client in clients for each in client.failed]
    assert all(any(began <= gone and kill <= ended for kill, gone in kills) for began, ended in failed), (kills, failed)
    assert all(client.answered > 20 for client in clients)
    assert max(client.longest for client in clients) < 4, "nobody waits for a back-off"
    told = "killed by SIGKILL (perhaps out of memory)"
    wait_for(lambda: server.said.count(told) == len(kills), "a reason for each")
    assert server.stop() == 0


def test_a_new_worker_serves_within_half_a_second(start: Start, supervised: str) -> None:
    """In the median: that every one does is for `bench faults` to show, on a machine that has nothing else to do."""
    server = start(supervised)

    def replaced() -> float:
        server.await_serving(2)
        before = server.workers()
        began = time.monotonic()
        for pid in before:  # both: so that the answer is a new one's
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: answering(server) not in {0, *before}, "an answer of a new worker")
        taken = time.monotonic() - began
        time.sleep(1.0)  # who dies young is replaced later
        return taken

    within(0.5, lambda: statistics.median(replaced() for _ in range(5)))
    assert server.stop() == 0


def answering(server: Server) -> int:
    """The worker that answers now, 0 for none."""
    try:
        return int(server.get("/pid")[1])
    except (OSError, http.client.HTTPException):
        return 0


@pytest.mark.parametrize(("path", "why"), [("/abort", "killed by SIGABRT"), ("/leave", "exit code 9")])
def test_a_crash_is_told_with_its_reason_and_costs_no_neighbour(
    start: Start, path: str, why: str, pool: ThreadPoolExecutor
) -> None:
    server = start("2x1", source=APPLICATION + MORE)
    wait_for(lambda: len(server.workers()) == 2, "two workers")
    with contextlib.closing(server.connection()) as kept:
        kept.request("GET", "/pid")
        mine = int(kept.getresponse().read())
        kept.request("GET", "/held")
        server.await_mark("held")  # its only thread: who comes now comes to the other worker
        assert lost(pool.submit(server.get, path))
        server.await_text(why)
        (server.marks / "release").touch()
        assert kept.getresponse().read() == b"released"
        kept.request("GET", "/pid")
        assert int(kept.getresponse().read()) == mine
    assert server.stop() == 0


def test_out_of_memory_in_the_application_is_one_failed_request(start: Start, shape: str) -> None:
    server = start(shape, source=APPLICATION + MORE)
    assert server.get("/greedy")[0] == 500
    assert server.get("/pid")[0] == 200
    server.await_text("MemoryError")
    assert server.stop() == 0
    assert "died" not in server.said


UNPLUGGED = (), ("--bind=unix:server.sock", "--pidfile=server.pid"), ("--errorlog=error.log",)


@pytest.mark.parametrize("after", ["0", "0.2"], ids=["at-once", "while-another-thread-waits"])
@pytest.mark.parametrize("arguments", UNPLUGGED)
def test_an_application_that_closes_every_descriptor_is_told_so(
    start: Start, shape: str, arguments: tuple[str, ...], after: str
) -> None:
    server = start(shape, *arguments, source=APPLICATION + MORE)
    with contextlib.suppress(OSError, http.client.HTTPException):
        server.get(f"/unplug?{after}")
    server.await_text("[C] the application has closed descriptors of the server")
    if shape in SUPERVISED:
        log = server.directory / "error.log"
        wait_for(lambda: "died: exit code 1;" in (log.read_text() if log.exists() else server.said), "the death")
        assert server.get("/pid")[0] == 200
        assert server.stop() == 0
    else:
        assert server.end() == 1
        assert not (server.directory / "server.pid").exists()
    assert "Traceback" not in server.said and "fault of poorhttp" not in server.said


@pytest.mark.parametrize("shape", ["1x1", "2x1"])
def test_an_application_that_replaces_every_descriptor_is_a_failure(start: Start, shape: str) -> None:
    """None is closed, but nothing can be waited for."""
    server = start(shape, source=APPLICATION + MORE)
    with contextlib.suppress(OSError, http.client.HTTPException):
        server.get("/usurp")
    server.await_text("[C] waiting for events failed: ")
    if shape in SUPERVISED:
        server.await_text("died: exit code 1;")
        assert server.get("/pid")[0] == 200
        assert server.stop() == 0
    else:
        assert server.end() == 1
    assert "Traceback" not in server.said


def test_a_call_that_keeps_the_interpreter_keeps_one_worker_only(start: Start, pool: ThreadPoolExecutor) -> None:
    server = start("2x1", "--request-timeout=0", "--graceful-timeout=0.2", source=APPLICATION + MORE)
    wait_for(lambda: len(server.workers()) == 2, "two workers")
    stuck = pool.submit(server.get, "/hog")
    server.await_mark("hog")
    assert len({server.get("/pid")[1] for _ in range(20)}) == 1
    assert server.stop() == 1
    assert lost(stuck)


def test_workers_that_cannot_start_again_are_no_storm(start: Start) -> None:
    doomed = (
        "\nos.register_at_fork(after_in_child=lambda: marked('doomed') and os._exit(7) or mark(f'born-{pid({})}'))\n"
    )
    server = start("2x1", source=APPLICATION + doomed)
    wait_for(lambda: len(list(server.marks.glob("born-*"))) == 2, "two workers")
    (server.marks / "doomed").touch()
    os.kill(min(server.workers()), signal.SIGKILL)
    server.await_text("starts in 0.8 s")
    assert server.said.count("exit code 7") <= 4
    assert server.get("/pid")[0] == 200
    (server.marks / "doomed").unlink()
    wait_for(lambda: len(server.workers()) == 2, "two workers again")
    assert server.stop() == 0


LEAK = """
def leak():
    wait_for("leak")
    taken = []
    with contextlib.suppress(OSError):
        while True:
            taken.append(os.open(os.devnull, os.O_RDONLY))
    os.rename(os.path.join(MARKS, "leak"), os.path.join(MARKS, "full"))
    wait_for("free")
    for each in taken:
        os.close(each)


def wait_for(name):
    while not marked(name):
        time.sleep(0.01)


import contextlib, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
threading.Thread(target=leak, daemon=True).start()
"""


def test_a_supervisor_whose_log_nobody_reads_goes_on(start: Start, supervised: str, tmp_path: Path) -> None:
    fifo = tmp_path / "error.fifo"
    os.mkfifo(fifo)
    reader, writer = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK), os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
    try:
        server = start(supervised, f"--errorlog={fifo}")
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(writer, b"full\n")
        before = server.workers()
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: answering(server) not in {0, *before}, "an answer of a new worker")
        wait_for(lambda: len(server.workers() - before) == 2, "two of them")  # else a stop may find one just killed
        assert server.stop() == 0
        assert b"died" not in os.read(reader, 1 << 20), "there was room for lines"
    finally:
        os.close(reader)
        os.close(writer)


@pytest.mark.parametrize("signum", [signal.SIGHUP, signal.SIGTTIN, signal.SIGKILL], ids=["reload", "more", "a death"])
@pytest.mark.parametrize("manager", ["", "@poorhttp-nobody"], ids=["alone", "managed"])
def test_a_supervisor_without_a_descriptor_goes_on(start: Start, supervised: str, signum: int, manager: str) -> None:
    server = start(supervised, source=APPLICATION + LEAK, NOTIFY_SOCKET=manager)
    server.await_serving(2)
    (server.marks / "leak").touch()
    server.await_mark("full")
    if signum == signal.SIGKILL:
        os.kill(min(server.workers()), signum)
    else:
        server.send(signum)
    told = {signal.SIGHUP: "reload failed, the server goes on", signal.SIGKILL: "died: killed by "}
    server.await_text(told.get(signum, "out of descriptors"))
    assert server.get("/pid")[0] == 200
    assert server.stop() == 0


@pytest.mark.parametrize("alone", ["1x1", "1x4"])
def test_a_process_alone_without_a_descriptor_fails_to_reload_once(start: Start, alone: str) -> None:
    server = start(alone, source=APPLICATION + LEAK)
    server.await_serving(1)
    (server.marks / "leak").touch()
    server.await_mark("full")
    server.send(signal.SIGHUP)
    server.await_text("reload failed, the server goes on")
    (server.marks / "free").touch()
    assert server.get("/pid")[0] == 200
    (server.marks / "free").unlink()  # what is loaded anew shall not take any
    assert server.said.count("reload failed") == 1
    server.send(signal.SIGHUP)
    server.await_text("reloaded")
    assert server.stop() == 0


BUSY = {"idle": "/pid", "hangs": "/hang", "keeps the interpreter": "/hog"}


@pytest.mark.parametrize("path", BUSY.values(), ids=BUSY)
def test_when_the_supervisor_is_killed_nobody_is_left(
    start: Start, supervised: str, path: str, pool: ThreadPoolExecutor, tmp_path: Path
) -> None:
    """Within a second, and the port is free then."""

    def orphaned() -> float:
        shutil.rmtree(tmp_path / "marks", ignore_errors=True)
        server = start(supervised, source=APPLICATION + MORE)
        wait_for(lambda: len(server.workers()) == 2, "two workers")
        answer = pool.submit(server.get, path)
        wait_for(lambda: answer.done() or list(server.marks.glob("h*")), "the application to be at work")
        return server.orphan()

    within(1, orphaned)


def test_when_the_server_is_killed_no_trial_is_left(start: Start, shape: str, tmp_path: Path) -> None:
    source = APPLICATION + "\nif marked('reload'):\n    mark(f'trial-{os.getpid()}')\n    hang({})\n"

    def orphaned() -> float:
        shutil.rmtree(tmp_path / "marks", ignore_errors=True)
        server = start(shape, source=source)
        (server.marks / "reload").touch()
        server.send(signal.SIGHUP)
        wait_for(lambda: list(server.marks.glob("trial-*")), "the trial")
        assert len(server.trials()) == 1
        return server.orphan()

    within(1, orphaned)


def stand_still(server: Server, seconds: float, meanwhile: Callable[[], object] = bool) -> None:
    """Stop the whole tree for a while, as a debugger or a frozen machine does."""
    tree = (server.process.pid, *server.workers())

    def send(signum: int) -> None:
        for pid in tree:
            with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
                os.kill(pid, signum)

    send(signal.SIGSTOP)
    time.sleep(seconds)
    meanwhile()
    send(signal.SIGCONT)


def test_a_server_that_was_stopped_is_not_late(start: Start, shape: str, pool: ThreadPoolExecutor) -> None:
    server = start(shape, "--request-timeout=1.5", "--head-timeout=1.5")
    with contextlib.closing(socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)) as slow:
        slow.sendall(b"GET /pid HTTP/1.1\r\nHost: a\r\nConnection: close\r\n")
        answer = pool.submit(server.get, "/held")
        server.await_mark("held")
        before = server.workers()
        stand_still(server, 3.5, lambda: slow.sendall(b"\r\n"))
        (server.marks / "release").touch()
        assert answer.result(PATIENCE) == (200, "released")
        assert b" 200 OK" in slow.recv(100)
    assert server.workers() == before
    assert server.stop() == 0


def test_a_stop_that_was_stopped_is_not_late(start: Start, shape: str, pool: ThreadPoolExecutor) -> None:
    server = start(shape, "--graceful-timeout=1.5")
    answer = pool.submit(server.get, "/held")
    server.await_mark("held")
    server.send(signal.SIGTERM)
    time.sleep(0.3)
    stand_still(server, 6.0)
    (server.marks / "release").touch()
    assert answer.result(PATIENCE) == (200, "released")
    assert server.end() == 0
