"""Workers that are replaced before anything is wrong: for their requests, for their memory; and how many there are."""

import contextlib
import http.client
import re
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
from starter import PATIENCE, Server, Start, wait_for

SOURCE = """
import os
import subprocess
import sys
import time

MARKS = os.environ["MARKS"]
CHILD = "import sys; kept = b'x' * (80 << 20); sys.stdin.read()"
kept = []


def application(environ, start_response):
    path = environ["PATH_INFO"]
    if path.startswith("/grow"):
        kept.append(b"x" * (80 << 20))
    if path == "/start":
        kept.append(subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE))  # it ends with this process
    if path == "/work":
        time.sleep(0.005)
    if path.endswith("/held"):
        open(os.path.join(MARKS, f"held-{os.getpid()}"), "w").close()
        while not os.path.exists(os.path.join(MARKS, "release")):
            time.sleep(0.01)
    body = str(os.getpid()).encode()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]
"""


@contextlib.contextmanager
def load(server: Server, keep: int, fresh: int, path: str = "/") -> Iterator[list[str]]:
    """Clients without a break, some on connections that they keep, some on a new one for each request: what failed.

    A connection that the server closed with its last answer is opened anew, as every client does.
    """
    failures: list[str] = []
    is_over = threading.Event()
    answered = [0]

    def client(keeps: bool) -> None:
        connection = server.connection()
        while not is_over.is_set():
            try:
                connection.request("GET", path, headers={} if keeps else {"Connection": "close"})
                answer = connection.getresponse()
                body = answer.read()
                if answer.status != 200 or not body.isdigit():
                    failures.append(f"{answer.status} {body!r}")
                answered[0] += 1
                if not keeps:
                    connection.close()
            except (OSError, http.client.HTTPException) as error:
                failures.append(f"{'kept' if keeps else 'new'}: {error!r}")
                connection.close()
        connection.close()

    clients = [threading.Thread(target=client, args=(number < keep,)) for number in range(keep + fresh)]
    for each in clients:
        each.start()
    try:
        yield failures
    finally:
        is_over.set()
        for each in clients:
            each.join(PATIENCE)
        print(f"{answered[0]} requests were answered")


def serving(server: Server, count: int) -> None:
    wait_for(lambda: len(server.workers()) == count, f"{count} workers")


def test_workers_are_replaced_after_their_requests_and_nothing_is_lost(start: Start, supervised: str) -> None:
    server = start(supervised, "--max-requests=60", "--max-requests-jitter=30", source=SOURCE)
    serving(server, 2)
    most = 0
    with load(server, keep=2, fresh=2) as failures:
        end = time.monotonic() + PATIENCE
        while server.said.count("has answered max_requests") < 6 and time.monotonic() < end:
            most = max(most, len(server.workers()))
            time.sleep(0.01)
    assert failures == []
    assert server.said.count("has answered max_requests") >= 6
    assert 2 <= most <= 3, "one too many at most"
    serving(server, 2)
    assert " died: " not in server.said
    left = re.findall(r"worker \d+ left: (.*)", server.said)
    assert left and set(left) == {"exit code 0"}
    assert server.stop() == 0


def test_jitter_spreads_the_replacements(start: Start) -> None:
    """Each worker has a number of its own."""
    server = start("2x1", "--processes=1", "--max-requests=10", "--max-requests-jitter=1000000", source=SOURCE)
    with contextlib.closing(server.connection()) as connection:
        for _ in range(50):  # a jitter of less than 40 has a chance of one in twenty-five thousand
            connection.request("GET", "/")
            assert connection.getresponse().read()
    assert "max_requests" not in server.said
    assert server.stop() == 0


@pytest.mark.parametrize("name", ["max-requests", "memory"])
@pytest.mark.parametrize("shape", ["1x1", "1x4"])
def test_a_process_alone_says_that_it_replaces_nobody(start: Start, shape: str, name: str) -> None:
    server = start(shape, f"--{name}=1000", source=SOURCE)
    server.await_text(f"note: {name.replace('-', '_')} is about workers, and here is none")
    assert server.stop() == 0


def test_the_fattest_worker_is_replaced_and_nothing_is_lost(start: Start, supervised: str) -> None:
    server = start(supervised, "--memory=60m", source=SOURCE)
    serving(server, 2)
    before = server.workers()
    with load(server, keep=2, fresh=2) as failures:
        fat = int(server.get("/grow")[1])
        server.await_text(f"memory = 60m; worker {fat} has most, ")
        wait_for(lambda: fat not in server.workers(), "the fat one to be gone")
    assert failures == []
    assert re.search(r"\[W\] \d+\.\d MiB in all processes, memory = 60m", server.said)
    assert before - {fat} <= server.workers()
    serving(server, 2)
    server.await_text(f"worker {fat} left: exit code 0")
    assert server.stop() == 0


def test_the_fattest_worker_finishes_what_it_has(start: Start) -> None:
    server = start("2x2", "--memory=60m", source=SOURCE)
    serving(server, 2)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(server.get, "/grow/held")
        wait_for(lambda: list(server.marks.glob("held-*")), "the request to be at work")
        (fat,) = (int(each.name.removeprefix("held-")) for each in server.marks.glob("held-*"))
        server.await_text(f"memory = 60m; worker {fat} has most, ")
        serving(server, 3)
        time.sleep(2)  # longer than a worker stays that has nothing to do
        assert fat in server.workers()
        (server.marks / "release").touch()
        assert answer.result(PATIENCE) == (200, str(fat))
    wait_for(lambda: fat not in server.workers(), "the fat one to be gone")
    server.await_text(f"worker {fat} left: exit code 0")
    assert server.stop() == 0


def test_what_a_worker_has_started_weighs_with_it(start: Start) -> None:
    server = start("2x1", "--memory=60m", source=SOURCE)
    serving(server, 2)
    fat = int(server.get("/start")[1])
    (child,) = psutil.Process(fat).children()
    server.await_text(f"memory = 60m; worker {fat} has most, ")
    wait_for(lambda: fat not in server.workers() and not child.is_running(), "the fat one and its child to be gone")
    serving(server, 2)
    server.await_text(f"worker {fat} left: exit code 0")
    assert server.stop() == 0


def test_where_the_program_itself_is_too_fat_there_is_no_storm(start: Start) -> None:
    server = start("2x1", "--memory=1m", source=SOURCE)
    serving(server, 2)
    before = server.workers()
    server.await_text("no worker has grown, so that none is replaced")
    looks = time.monotonic() + 6  # one look more
    wait_for(lambda: time.monotonic() > looks, "one look more")
    assert server.workers() == before
    assert server.said.count("memory = 1m") == 1
    assert server.stop() == 0


SHORTENED = """
from poorhttp.process.workers import scale
scale.WINDOW, scale.LOOK = 4.0, 1.0
"""


def test_there_are_more_workers_under_load_and_fewer_afterwards(start: Start) -> None:
    server = start("2x1", "--processes=1..3", source=SHORTENED + SOURCE)
    serving(server, 1)
    server.await_text("1..3 processes x 1 thread")
    with ThreadPoolExecutor(4) as pool:
        answers = [pool.submit(server.get, "/held")]
        wait_for(lambda: list(server.marks.glob("held-*")), "a worker with a request")
        # Only now: an idle worker may take several connections before their requests come, which then wait for it alone.
        answers += [pool.submit(server.get, "/held") for _ in range(3)]
        wait_for(lambda: len(list(server.marks.glob("held-*"))) == 3, "three workers, each with a request")
        assert len(server.workers()) == 3
        (server.marks / "release").touch()
        assert all(answer.result(PATIENCE)[0] == 200 for answer in answers)
    wait_for(lambda: len(server.workers()) == 1, "one worker again", seconds=60)
    server.await_text("one worker more: 3\n")
    server.await_text("one worker fewer: 1\n")
    assert server.get()[0] == 200
    assert " died: " not in server.said
    assert server.stop() == 0


def test_a_server_that_grows_and_shrinks_loses_nothing(start: Start) -> None:
    server = start("2x1", "--processes=1..2", source=SOURCE)
    serving(server, 1)
    with load(server, keep=4, fresh=4, path="/work") as failures:
        server.await_text("one worker more: 2")
        wait_for(lambda: len(server.workers()) == 2, "two workers")
    assert failures == []
    with load(server, keep=0, fresh=1) as failures:
        server.send(signal.SIGTTOU)
        wait_for(lambda: len(server.workers()) == 1, "one worker again", seconds=30)
    assert failures == []
    assert server.stop() == 0


def test_a_reload_keeps_the_workers_that_the_load_wanted(start: Start) -> None:
    server = start("2x1", "--processes=1..3", source=SOURCE)
    serving(server, 1)
    for count in (2, 3):
        server.send(signal.SIGTTIN)
        serving(server, count)
    before = server.workers()
    server.send(signal.SIGHUP)
    server.await_text("reloaded: ")
    wait_for(lambda: len(server.workers()) == 3 and not server.workers() & before, "three new workers", seconds=10)
    assert server.stop() == 0


@pytest.mark.parametrize("arguments", [(), ("--memory=10g",), ("--processes=2..4",)], ids=["plain", "memory", "scale"])
def test_an_idle_server_sleeps(start: Start, arguments: tuple[str, ...]) -> None:
    """Without `memory`, an idle supervisor and its workers do not wake up; with it, the supervisor does so rarely."""
    server = start("2x1", *arguments, source=SOURCE)
    serving(server, 2)
    assert server.get()[0] == 200
    family = [psutil.Process(pid) for pid in (server.process.pid, *server.workers())]

    def switches() -> int:
        return sum(each.num_ctx_switches().voluntary for each in family)

    def sleeps() -> bool:
        before = switches()
        time.sleep(0.5)  # the window of the measurement
        return switches() == before

    wait_for(sleeps, "half a second without a wake-up")
    before = switches()
    time.sleep(3)  # the window of the measurement
    assert switches() - before <= (2 if arguments == ("--memory=10g",) else 0)
    assert server.stop() == 0


@pytest.mark.parametrize("bind", ["127.0.0.1:0", "unix:server.sock"])
@pytest.mark.parametrize("shape", ["1x1", "2x1"])
def test_a_full_queue_is_told(start: Start, shape: str, bind: str) -> None:
    server = start(shape, "--backlog=8", f"--bind={bind}", source=SOURCE)
    with ThreadPoolExecutor(2) as pool, contextlib.ExitStack() as stack:
        workers = 2 if shape == "2x1" else 1
        answers = []
        for busy in range(1, workers + 1):  # one by one: a worker that is free may take two
            answers.append(pool.submit(server.get, "/held"))
            wait_for(lambda busy=busy: len(list(server.marks.glob("held-*"))) == busy, "one more to be busy")
        for _ in range(8):
            family = socket.AF_UNIX if server.is_unix else socket.AF_INET
            waiting = stack.enter_context(contextlib.closing(socket.socket(family)))
            waiting.setblocking(False)
            waiting.connect_ex(str(server.directory / "server.sock") if server.is_unix else ("127.0.0.1", server.port))
        server.await_text("connections wait to be accepted; at 8 (backlog) the kernel takes no more")
        (server.marks / "release").touch()
        assert all(answer.result(PATIENCE)[0] == 200 for answer in answers)
    assert server.said.count("wait to be accepted") == 1, "once a minute"
    assert server.stop() == 0
