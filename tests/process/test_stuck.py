"""Calls that are late and calls that never return: who is told, who is answered, and which process goes.

Knows the bounds of the grace that a late call has: as long again as `request_timeout`, at least a second.
"""

import contextlib
import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest
from processes import suspend
from starter import PATIENCE, ROOT, SUPERVISED, Server, Start, wait_for

from poorhttp.status import reader

SOURCE = '''
import ctypes
import os
import time

MARKS = os.environ["MARKS"]
LIBC = ctypes.CDLL(None)


def lock():
    """Two locks of one mutex in C: nothing brings this thread back."""
    mutex = ctypes.create_string_buffer(256)
    LIBC.pthread_mutex_lock(mutex)
    LIBC.pthread_mutex_lock(mutex)


def swallow():
    while True:
        try:
            while True:
                time.sleep(0.01)
        except BaseException:
            continue


def hog():
    sum(range(10**13))


def nap():
    time.sleep(60)


def rest():
    while True:
        time.sleep(0.01)


def obstinate():
    while not os.path.exists(os.path.join(MARKS, "release")):
        try:
            while not os.path.exists(os.path.join(MARKS, "release")):
                time.sleep(0.01)
        except BaseException:
            continue


def held():
    while not os.path.exists(os.path.join(MARKS, "release")):
        time.sleep(0.01)


def stream():
    yield b"begun"
    lock()


def application(environ, start_response):
    name = environ["PATH_INFO"].strip("/")
    if name:
        open(os.path.join(MARKS, f"{name}-{os.getpid()}"), "w").close()
    if name == "stream":
        start_response("200 OK", [("Content-Type", "text/plain")])
        return stream()
    if name:
        globals()[name]()
    body = str(os.getpid()).encode()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]
'''

TIMEOUT = "--request-timeout=0.5"


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


def begin(server: Server, pool: ThreadPoolExecutor, name: str) -> tuple[int, "Future[tuple[int, str]]"]:
    """Begin a request: the pid of the process that works on it, and its answer to come."""
    answer = pool.submit(server.get, f"/{name}?q=1")
    wait_for(lambda: list(server.marks.glob(f"{name}-*")), f"the application to be in {name}")
    return int(next(server.marks.glob(f"{name}-*")).name.split("-")[1]), answer


def is_whole(log: str) -> bool:
    """Whether every line is an entry or belongs to one."""
    begins = re.compile(
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d: \[|    |\S+ [\d.]+\S*, Python|app|http://|forking|single|threading"
    )
    return all(begins.match(line) for line in log.splitlines())


@pytest.mark.parametrize("name", ["lock", "swallow", "hog"])
def test_a_worker_with_a_stuck_call_is_replaced(
    start: Start, supervised: str, name: str, pool: ThreadPoolExecutor
) -> None:
    server = start(supervised, TIMEOUT, "--graceful-timeout=5", source=SOURCE)
    wait_for(lambda: len(server.workers()) == 2, "two workers")
    before = server.workers()
    victim, answer = begin(server, pool, name)
    wait_for(lambda: victim not in server.workers() and len(server.workers()) == 2, "another worker")
    assert before - {victim} <= server.workers(), "its neighbour goes on"
    server.await_text(f"worker {victim}: a call does not return; another worker takes its place")
    server.await_text(f"worker {victim} left: ")  # reaped: a stop before would find one that had to be killed
    if name == "hog":
        with pytest.raises((OSError, http.client.HTTPException)):
            answer.result(PATIENCE)
        server.await_text("a call keeps the interpreter for longer than request_timeout")
    else:
        status, body = answer.result(PATIENCE)
        assert (status, "took too long" in body) == (504, True)
        call = rf"\[127\.0\.0\.1\] \[{{}}\] GET /{name}\?q=1 has been at work for"
        late = re.compile(call.format("W") + r" \d\.\d s; RequestTimeout")
        stuck = re.compile(
            call.format("E") + rf""" \d\.\d s and does not(?s:.*)\n      File ".*app\.py", line \d+, in {name}\n"""
        )
        wait_for(lambda: late.search(server.said) and stuck.search(server.said), "both lines and the stack")
        assert is_whole(server.said)
    assert "out of memory" not in server.said
    assert int(server.get()[1]) in server.workers()
    assert server.stop() == 0


@pytest.mark.parametrize("signum", [signal.SIGHUP, signal.SIGWINCH])
def test_one_that_is_leaving_and_ends_itself_is_not_out_of_memory(
    start: Start, signum: int, pool: ThreadPoolExecutor
) -> None:
    """After HUP it is told to leave by another image, which does not hear what it says of itself."""
    server = start("2x1", TIMEOUT.replace("0.5", "2"), "--processes=1", "--graceful-timeout=30", source=SOURCE)
    victim, answer = begin(server, pool, "lock")
    server.send(signum)
    server.await_text(f"worker {victim} left: ")
    assert answer.result(PATIENCE)[0] == 504
    assert f"worker {victim} left: killed by SIGKILL\n" in server.said
    assert server.stop() == 0


def test_what_else_is_in_flight_is_finished_before(start: Start, pool: ThreadPoolExecutor) -> None:
    server = start("2x2", TIMEOUT.replace("0.5", "3"), "--processes=1", "--graceful-timeout=30", source=SOURCE)
    victim, answer = begin(server, pool, "lock")
    wait_for(lambda: "it is answered 504" in server.said or answer.done(), "the end of patience")
    pid, other = begin(server, pool, "held")
    if pid == victim:  # the successor was not there yet
        server.await_text(f"worker {victim}: a call does not return")
    (server.marks / "release").touch()
    assert other.result(PATIENCE) == (200, str(pid))
    assert answer.result(PATIENCE)[0] == 504
    server.await_text(f"worker {victim} left: ")  # a stop before that would count it as one that was cut off
    wait_for(lambda: len(server.workers()) == 1, "only the successor")
    assert server.stop() == 0


@pytest.mark.parametrize("name", ["lock", "hog"])
def test_a_client_that_waits_in_a_lost_worker_gets_an_answer(start: Start, name: str, pool: ThreadPoolExecutor) -> None:
    """Its connection was accepted, so that nobody else can serve it: 503, where a reset would leave him in doubt."""
    server = start("2x1", TIMEOUT, "--processes=1", source=SOURCE)
    with contextlib.ExitStack() as stack:
        first, second, silent = (stack.enter_context(contextlib.closing(server.connection())) for _ in range(3))
        for connection in first, second, silent:
            connection.request("GET", "/")
            assert connection.getresponse().read()
        begin(server, pool, name)
        first.request("GET", "/?" + 70_000 * "a")  # none of it is read, and all of it could not be at once
        second.request("HEAD", "/")
        answers = [first.getresponse(), second.getresponse()]
        assert [each.status for each in answers] == [503, 503]
        assert [each.getheader("Connection") for each in answers] == ["close", "close"]
        assert [each.read() for each in answers] == [b"not served\n", b""]
        assert silent.sock.recv(1) == b"", "nothing was asked here"
    server.await_text(" left: ")
    assert server.stop() == 0


@pytest.mark.parametrize(("limit", "is_reloaded"), [(TIMEOUT, False), ("--graceful-timeout=1", True)])
def test_a_client_of_a_worker_that_only_looked_after_its_health_gets_an_answer(
    start: Start, limit: str, is_reloaded: bool, pool: ThreadPoolExecutor
) -> None:
    """With a health path there is a thread that accepts who comes while the call lasts, and leaves him unread."""
    server = start("2x1", limit, "--processes=1", "--health=/health", source=SOURCE)
    with contextlib.ExitStack() as stack:
        kept, fresh = (stack.enter_context(contextlib.closing(server.connection())) for _ in range(2))
        kept.request("GET", "/")
        assert kept.getresponse().read()
        begin(server, pool, "lock")
        kept.request("GET", "/")
        fresh.request("GET", "/")
        assert server.get("/health") == (200, "serving\n"), "those before were looked at"
        if is_reloaded:
            server.send(signal.SIGHUP)
        assert [each.getresponse().status for each in (kept, fresh)] == [503, 503]
    server.await_text(" left: ")
    assert server.get()[0] == 200
    assert server.stop() == 0


def test_an_answer_that_has_begun_is_broken_off(start: Start) -> None:
    server = start("2x1", TIMEOUT, source=SOURCE)
    connection = server.connection()
    connection.request("GET", "/stream")
    response = connection.getresponse()
    assert response.status == 200
    with pytest.raises(ConnectionResetError):
        response.read()
    connection.close()
    server.await_text("its answer is broken off")
    server.await_text(" left: ")
    assert server.stop() == 0


def test_a_call_that_obeys_costs_no_process(start: Start, shape: str, pool: ThreadPoolExecutor) -> None:
    server = start(shape, TIMEOUT, source=SOURCE)
    wait_for(lambda: len(server.workers()) == (2 if shape in SUPERVISED else 0), "all workers")
    before = server.workers()
    _, answer = begin(server, pool, "rest")
    assert answer.result(PATIENCE)[0] == 504
    late = re.compile(
        r"\[127\.0\.0\.1\] \[W\] GET /rest\?q=1 has been at work for \d\.\d s; RequestTimeout is raised in it.*"
        r"""(\n    .*)*\n      File ".*app\.py", line \d+, in rest\n"""
    )
    wait_for(lambda: late.search(server.said), "the line and the stack")
    time.sleep(1.5)  # longer than the grace that a late call has
    assert server.workers() == before
    assert server.get()[0] == 200
    assert "does not return" not in server.said
    assert is_whole(server.said)
    assert server.stop() == 0


@pytest.mark.parametrize("name", ["lock", "swallow"])
@pytest.mark.parametrize("shape", ["1x1", "1x4"])
def test_a_process_alone_is_started_anew_in_its_place(
    start: Start, shape: str, name: str, pool: ThreadPoolExecutor
) -> None:
    """The same process number, the same sockets, and all threads again."""
    server = start(shape, TIMEOUT, "--graceful-timeout=5", source=SOURCE)
    assert server.get()[0] == 200
    threads = {each.id for each in psutil.Process(server.process.pid).threads()}
    pid, answer = begin(server, pool, name)
    assert pid == server.process.pid
    assert answer.result(PATIENCE)[0] == 504
    server.await_text("reloaded: ")
    assert server.get() == (200, str(pid))
    assert threads & {each.id for each in psutil.Process(pid).threads()} <= {pid}, "no thread is left of those before"
    assert server.stop() == 0


def test_time_in_which_a_process_was_stopped_does_not_count(start: Start, shape: str, pool: ThreadPoolExecutor) -> None:
    """Neither for a call nor for its worker."""
    server = start(shape, "--request-timeout=2", source=SOURCE)
    server.await_serving(2 if shape in SUPERVISED else 1)
    before = server.workers()
    _, answer = begin(server, pool, "held")
    family = [server.process.pid, *server.workers()]
    suspend(*family)
    time.sleep(5)  # what is tried out: longer than timeout and grace together
    for pid in family:
        os.kill(pid, signal.SIGCONT)
    time.sleep(0.3)  # time to do it wrong
    (server.marks / "release").touch()
    assert answer.result(PATIENCE)[0] == 200
    assert server.workers() == before
    assert "RequestTimeout" not in server.said
    assert server.stop() == 0


PROGRAM = """
import poorhttp

poorhttp.run(application, bind="127.0.0.1:0", type="threading", threads=2, request_timeout=0.5, graceful_timeout=0.5)
"""


def test_a_program_that_calls_run_says_that_it_cannot_and_goes_on(tmp_path: Path) -> None:
    """With the threads that it has left."""
    (tmp_path / "program.py").write_text(SOURCE + PROGRAM)
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "MARKS": str(tmp_path)}
    command = [sys.executable, "program.py"]
    with subprocess.Popen(command, cwd=tmp_path, env=environ, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            said = iter(process.stderr.readline, "")
            port = int(next(found[1] for line in said if (found := re.search(r"http://127\.0\.0\.1:(\d+)/", line))))

            def status(path: str) -> int:
                with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as connection:
                    connection.request("GET", path)
                    return connection.getresponse().status

            assert status("/lock") == 504
            assert next(line for line in said if "poorhttp.run() cannot start anew; restart the program" in line)
            assert status("/") == 200
            process.send_signal(signal.SIGTERM)
            # Killed where the call has the first thread, which alone could leave in order.
            assert process.wait(PATIENCE) in (1, -signal.SIGKILL), "the application did not return"
        finally:
            process.kill()


def test_a_log_that_nobody_reads_is_no_late_call(start: Start, shape: str, tmp_path: Path) -> None:
    """The lines of these requests are more than a pipe holds; the time is several times that of a late call."""
    fifo = tmp_path / "access.fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        server = start(shape, TIMEOUT, f"--accesslog={fifo}", source=SOURCE)
        count = 150
        with contextlib.closing(socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)) as client:
            client.sendall(b"GET /?%s HTTP/1.1\r\nHost: a\r\n\r\n" % (b"p" * 900) * count)
            time.sleep(3)  # what is tried out
            os.set_blocking(reader, True)
            drain = threading.Thread(target=lambda: all(iter(lambda: os.read(reader, 1 << 16), b"")))
            drain.start()
            answers = b""
            while answers.count(b"HTTP/1.1 ") < count:
                answers += client.recv(1 << 16)
        assert answers.count(b"HTTP/1.1 200 OK") == count
        assert server.stop() == 0
        drain.join(PATIENCE)
        assert "RequestTimeout" not in server.said and "does not return" not in server.said
    finally:
        os.close(reader)


def test_a_program_that_was_started_anew_stays(start: Start) -> None:
    """No timer of the image before it goes on."""
    server = start("1x1", TIMEOUT, "--graceful-timeout=0.5", source=SOURCE)
    with contextlib.suppress(OSError, http.client.HTTPException):
        server.get("/swallow")
    server.await_text("reloaded: ")
    time.sleep(2)  # longer than graceful_timeout and what a late application gets
    assert server.get()[0] == 200
    assert server.stop() == 0


@pytest.mark.parametrize("signum", [signal.SIGHUP, signal.SIGUSR1], ids=["reload", "rotation"])
def test_a_signal_during_a_late_call_is_heard(
    start: Start, signum: int, tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    """RequestTimeout waits until the main thread runs Python code, and the first that does is the signal's handler."""
    log, old = tmp_path / "error.log", tmp_path / "error.old"
    server = start("1x1", TIMEOUT, "--errorlog=error.log", source=SOURCE)
    _, answer = begin(server, pool, "nap")
    wait_for(lambda: "RequestTimeout is raised in it" in log.read_text(), "the interruption")
    log.rename(old)
    server.send(signum)
    assert answer.result()[0] == 504
    wait_for(
        lambda: log.exists() and (signum == signal.SIGUSR1 or "reloaded: " in log.read_text()), "what was asked for"
    )
    assert server.stop() == 0


@pytest.mark.parametrize("name", ["lock", "swallow"])
def test_a_client_that_comes_while_only_the_health_is_answered_is_served_by_the_new_image(
    start: Start, name: str, pool: ThreadPoolExecutor
) -> None:
    server = start("1x1", TIMEOUT, "--health=/health", source=SOURCE)
    _, answer = begin(server, pool, name)
    others = [pool.submit(server.get) for _ in range(3)]
    with contextlib.closing(server.connection()) as silent:
        silent.connect()
        assert server.get("/health")[1] == "serving\n"
        assert answer.result(PATIENCE)[0] == 504
        assert [other.result(PATIENCE)[0] for other in others] == [200] * 3
        silent.request("GET", "/")
        assert silent.getresponse().status == 200
    server.await_text("reloaded: ")
    assert server.stop() == 0


@pytest.mark.parametrize("settings", [(), ("--health=/health",)], ids=["alone", "health"])
def test_a_client_that_comes_with_a_call_that_does_not_return_is_served_by_the_new_image(
    start: Start, settings: tuple[str, ...]
) -> None:
    server = start("1x1", TIMEOUT, *settings, source=SOURCE)
    suspend(server.process.pid)
    with contextlib.ExitStack() as closing:
        first, *others = (closing.enter_context(contextlib.closing(server.connection())) for _ in range(6))
        first.request("GET", "/lock")
        for other in others:
            other.request("GET", "/")
        server.send(signal.SIGCONT)  # all six are accepted in one turn
        assert first.getresponse().status == 504
        assert [other.getresponse().status for other in others] == [200] * 5
    server.await_text("reloaded: ")
    assert server.stop() == 0


@pytest.mark.parametrize("shape", ["1x1", "1x4"])
def test_where_no_thread_is_left_and_the_newest_code_cannot_be_loaded_it_says_so(
    start: Start, shape: str, tmp_path: Path
) -> None:
    """Nobody is served then, which a load balancer must see, and whoever looks."""
    server = start(shape, TIMEOUT, "--health=/health", source=SOURCE)
    assert server.get("/health") == (200, "serving\n")
    (tmp_path / "app.py").write_text("def (\n")
    threads = 4 if shape == "1x4" else 1
    with ThreadPoolExecutor(threads) as pool:
        calls = [pool.submit(server.get, "/lock") for _ in range(threads)]
        assert [call.result(PATIENCE)[0] for call in calls] == [504] * threads
    server.await_text("reload failed, the call still keeps its thread; next try in 30 s: exit code 3")
    assert "goes on as it was" not in server.said
    assert server.get("/health") == (503, "stuck\n")
    told = reader.read_server(server.process.pid)
    assert told is not None and [each["state"] for each in told["processes"]] == ["stuck"]
    assert server.process.poll() is None


def test_a_user_who_has_mended_the_code_need_not_wait_for_the_next_try(
    start: Start, pool: ThreadPoolExecutor, tmp_path: Path
) -> None:
    server = start("1x1", TIMEOUT, "--health=/health", source=SOURCE)
    (tmp_path / "app.py").write_text("def (\n")
    _, answer = begin(server, pool, "obstinate")
    assert answer.result(PATIENCE)[0] == 504
    server.await_text("reload failed, the call still keeps its thread; next try in 30 s")
    (tmp_path / "app.py").write_text(SOURCE)
    server.send(signal.SIGHUP)
    assert server.get()[0] == 200  # in less than 30 s
    server.await_text("reloaded: ")
    assert server.stop() == 0


def test_a_client_at_an_address_that_is_gone_is_not_taken_for_one_of_the_status(
    launch: Start, pool: ThreadPoolExecutor, tmp_path: Path
) -> None:
    """What was accepted and not read goes to the next image, where `control_socket` has the place of that address."""
    (tmp_path / "app.py").write_text(SOURCE)
    ini = tmp_path / "poorhttp.ini"
    text = (
        f"[http]\napplication = app.py\nrequest_timeout = 0.5\nhealth = /health\ncontrol_socket = {tmp_path}/c.sock\n"
    )
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    ini.write_text(f"{text}bind = 127.0.0.1:0, 127.0.0.1:{port}\n")
    server = launch("-c", "poorhttp.ini")
    server.await_address()
    ini.write_text(f"{text}bind = 127.0.0.1:0\n")
    begin(server, pool, "obstinate")
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as stranger:
        stranger.request("GET", "/")
        answer = stranger.getresponse()
        assert (answer.status, answer.read()) == (200, str(server.process.pid).encode())
    server.await_text("reloaded: ")
    (server.marks / "release").touch()
    assert server.stop() == 0


def test_a_thread_that_comes_back_is_not_lost(start: Start, pool: ThreadPoolExecutor, tmp_path: Path) -> None:
    server = start("1x1", TIMEOUT, "--health=/health", source=SOURCE)
    (tmp_path / "app.py").write_text("def (\n")
    _, answer = begin(server, pool, "obstinate")
    assert answer.result(PATIENCE)[0] == 504
    wait_for(lambda: server.get("/health") == (503, "stuck\n"), "all threads to be lost")
    (server.marks / "release").touch()
    wait_for(lambda: server.get("/health") == (200, "serving\n"), "it to be back")
    assert server.get()[0] == 200
    assert server.stop() == 0


def test_nothing_is_read_of_what_comes_just_behind_its_connection(start: Start, pool: ThreadPoolExecutor) -> None:
    """While only the health is answered: what the old image had read, the new one would not get."""
    server = start("1x1", TIMEOUT, "--health=/health", source=SOURCE)
    begin(server, pool, "lock")
    with contextlib.ExitStack() as stack:
        others = []
        for number in range(200):
            other = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE))
            others.append(other)
            late = time.perf_counter() + number * 1e-6
            while time.perf_counter() < late:
                pass  # as long as it takes to accept it, more or less
            other.sendall(b"GET / HTTP/1.0\r\n\r\n")
        answers = [other.makefile("rb").readline() for other in others]
    assert answers == [b"HTTP/1.1 200 OK\r\n"] * 200
    server.await_text("the new code is taken without it")
    assert server.stop() == 0


def test_a_client_that_comes_while_only_the_health_is_answered_is_served_afterwards(
    start: Start, pool: ThreadPoolExecutor
) -> None:
    server = start("1x4", "--health=/health", source=SOURCE)
    _, answer = begin(server, pool, "held")
    more = [pool.submit(server.get, "/held") for _ in range(3)]
    wait_for(lambda: server.get("/health")[0] == 200, "an answer")
    with ThreadPoolExecutor(3) as others:
        waiting = [others.submit(server.get) for _ in range(3)]
        assert server.get("/health")[1] == "serving\n"
        (server.marks / "release").touch()
        assert [each.result(PATIENCE)[0] for each in (answer, *more, *waiting)] == [200] * 7
    assert server.stop() == 0


@pytest.mark.parametrize("turn", range(4))
def test_a_stop_of_a_server_that_was_to_become_another_ends(start: Start, turn: int, pool: ThreadPoolExecutor) -> None:
    """The thread that awaits the end of the old image does not wait for it any more, nor the interpreter for that."""
    server = start("1x1", source=SOURCE)
    _, answer = begin(server, pool, "held")
    server.send(signal.SIGHUP)
    wait_for(lambda: any(map(blocks_term, threads(server))), "the begin of the drain")
    server.send(signal.SIGTERM)
    (server.marks / "release").touch()
    assert answer.result(PATIENCE)[0] == 200
    assert server.end() == 0


SLOW = """
while any(name.startswith(("lock-", "obstinate-")) for name in os.listdir(MARKS)):
    time.sleep(0.01)
"""
"""Where a call is stuck no new image comes."""


@pytest.mark.parametrize("shape", ["1x4", "2x2"])
def test_a_stop_does_not_wait_for_a_call_that_was_given_up(start: Start, shape: str, pool: ThreadPoolExecutor) -> None:
    server = start(shape, TIMEOUT, "--graceful-timeout=60", "--pidfile=server.pid", source=SOURCE + SLOW)
    _, answer = begin(server, pool, "lock")
    assert answer.result(PATIENCE)[0] == 504
    assert server.stop() in (0, 1)
    assert not (server.directory / "server.pid").exists()


def test_a_stop_that_another_thread_hears_brings_back_the_call(start: Start, pool: ThreadPoolExecutor) -> None:
    """The kernel gives a signal to whichever thread it likes; the first one sleeps in the call."""
    server = start("1x1", TIMEOUT, "--graceful-timeout=60", source=SOURCE)
    _, answer = begin(server, pool, "nap")
    assert answer.result(PATIENCE)[0] == 504
    watching = [each for each in threads(server) if thread_name(each) == "poorhttp-watch"]
    os.kill(watching[0].id, signal.SIGTERM)
    assert server.end() == 0
    assert "stopping: SIGTERM" in server.said


@pytest.mark.parametrize("shape", ["1x1", "2x1"])
def test_without_another_thread_a_stop_waits_for_it_as_others_may_be_served_then(
    start: Start, shape: str, pool: ThreadPoolExecutor
) -> None:
    server = start(shape, TIMEOUT, "--processes=1", "--graceful-timeout=60", source=SOURCE + SLOW)
    _, answer = begin(server, pool, "obstinate")
    other = pool.submit(server.get)
    assert answer.result(PATIENCE)[0] == 504
    server.send(signal.SIGTERM)
    server.await_text("stopping")
    (server.marks / "release").touch()
    assert other.result(PATIENCE)[0] == 200
    # 1 where a supervisor had replaced the worker, and the stop met its end.
    assert server.end() in ((0, 1) if shape in SUPERVISED else (0,))


def test_a_stop_during_the_drain_leaves_without_a_stuck_call(start: Start, pool: ThreadPoolExecutor) -> None:
    server = start("1x4", TIMEOUT, "--graceful-timeout=60", "--pidfile=server.pid", source=SOURCE)
    _, answer = begin(server, pool, "lock")
    assert answer.result(PATIENCE)[0] == 504
    wait_for(lambda: any(map(blocks_term, threads(server))), "the begin of the drain")
    assert server.stop() in (0, 1)
    assert not (server.directory / "server.pid").exists()


def threads(server: Server) -> list[Any]:
    return psutil.Process(server.process.pid).threads()


def thread_name(thread: Any) -> str:
    try:
        return Path(f"/proc/{thread.id}/comm").read_text().strip()
    except OSError:
        return ""  # it has ended


def blocks_term(thread: Any) -> bool:
    """Whether this thread leaves a stop to the main one, as the one does that waits for the old image."""
    try:
        told = Path(f"/proc/{thread.id}/status").read_text()
    except OSError:
        return False  # it has ended
    return bool(int(re.search(r"SigBlk:\s+(\w+)", told)[1], 16) & 1 << (signal.SIGTERM - 1))
