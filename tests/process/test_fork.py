"""Applications that fork: the child is its own, and the server does not notice."""

import contextlib
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from starter import PATIENCE, Start, asking, can_listen, wait_for

ANSWERS = """
import os

BIG = b"x" * 100_000

def body():
    pid = os.fork()
    for _ in range(3):
        yield b"parent" if pid else b"child".upper()
    if pid:
        os.waitpid(pid, 0)

def application(environ, start_response):
    path = environ["PATH_INFO"]
    pid = 1 if path in ("/", "/generator") else os.fork()
    write = start_response("200 OK", [("Content-Type", "text/plain"), ("X-Who", "parent" if pid else "child")])
    if path == "/generator":
        return body()
    if path == "/write":
        write(BIG)
    if pid and path != "/":
        os.waitpid(pid, 0)  # the child has had its time
    return environ["wsgi.file_wrapper"](open(__file__, "rb")) if path == "/file" else [BIG]
"""


@pytest.mark.parametrize("path", ["/list", "/file", "/generator", "/write"])
def test_a_child_that_goes_on_with_the_answer_sends_nothing(start: Start, shape: str, path: str) -> None:
    """However it is given: what the child sent would be taken for the answer to the next request."""
    server = start(shape, source=ANSWERS)
    with contextlib.closing(server.connection()) as connection:
        for each in (path, "/", path, "/"):
            connection.request("GET", each)
            answer = connection.getresponse()
            assert (answer.status, answer.headers["X-Who"]) == (200, "parent")
            assert b"CHILD" not in answer.read()
    assert server.stop() == 0


APPLICATION = """
import multiprocessing
import os
import sys
import time


def terminated():
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
    child.start()
    child.terminate()
    child.join(10)
    return child.exitcode


def code_of_child():
    pid = os.fork()
    if pid == 0:
        sys.exit(7)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def returned_in_child():
    pid = os.fork()
    if pid == 0:
        return "child"
    return "parent", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def application(environ, start_response):
    text = repr(globals()[environ["PATH_INFO"].strip("/") or "repr"]()) if environ["PATH_INFO"] != "/" else "here"
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [text.encode()]
"""


def test_a_child_that_gets_a_signal_does_not_stop_the_server(start: Start, shape: str) -> None:
    """It dies of the signal, as a process does that never heard of a server."""
    server = start(shape, source=APPLICATION)
    for _ in range(5):
        assert server.get("/terminated") == (200, f"{-signal.SIGTERM.value}")
    assert server.get("/") == (200, "here")
    assert server.stop() == 0


def test_a_child_that_comes_back_does_not_serve(start: Start, shape: str) -> None:
    """It ends with the code that it asked for, and only the parent answers."""
    server = start(shape, source=APPLICATION)
    assert server.get("/code_of_child") == (200, "7")
    assert server.get("/returned_in_child") == (200, "('parent', 0)")
    assert server.get("/") == (200, "here")
    assert server.stop() == 0


HELPER = """
import os
import signal
import threading
import time

def help():
    time.sleep({seconds})
    if not os.fork():
        with open("helpers", "a") as file:
            file.write(f"{{os.getpid()}} ")
        while True:
            time.sleep(0.05)

{how}

def application(environ, start_response):
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]
"""

BEGUN = {
    "while it is loaded": HELPER.format(seconds=0, how="help()"),
    "by a thread": HELPER.format(seconds=0.5, how="threading.Thread(target=help, daemon=True).start()"),
}


@pytest.fixture
def helpers(tmp_path: Path) -> Iterator[Path]:
    """The file with the numbers of the processes that the application has forked. After the test they are ended, also who
    has not come to write his.
    """
    yield tmp_path / "helpers"
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.cwd() == str(tmp_path):
                process.kill()


@pytest.mark.parametrize("source", BEGUN.values(), ids=BEGUN)
def test_a_child_that_goes_on_keeps_neither_port_nor_workers(
    start: Start, shape: str, helpers: Path, source: str
) -> None:
    server = start(shape, "--pidfile=server.pid", source=source)
    wait_for(lambda: helpers.exists() and helpers.read_text().endswith(" "), "the child of the application")
    assert server.get() == (200, "ok")
    server.process.kill()
    server.process.wait(PATIENCE)
    wait_for(lambda: can_listen(server.port), "the port to be free of the server, its workers and its child")
    again = start(shape, f"--bind=127.0.0.1:{server.port}", "--pidfile=server.pid", source=source)
    again.send(signal.SIGTERM)
    assert again.process.wait(PATIENCE) == 0
    wait_for(again.refuses, "its child to let go of the port, if it had one")


BESIDE = """
def beside():
    if not os.path.exists("begun"):
        open("begun", "w").close()
        thread = threading.Thread(target=help)
        thread.start()
        thread.join()

os.register_at_fork(before=beside)
"""


def test_a_child_that_is_forked_while_a_worker_is_does_not_keep_it_alive(
    start: Start, supervised: str, helpers: Path
) -> None:
    server = start(supervised, source=HELPER.format(seconds=0, how=BESIDE))
    wait_for(lambda: helpers.exists() and helpers.read_text().endswith(" "), "the child of the application")
    wait_for(lambda: len(server.workers()) == 3, "two workers beside it")
    server.process.kill()
    server.process.wait(PATIENCE)
    wait_for(lambda: can_listen(server.port), "the port to be free of the workers")
    assert psutil.Process(int(helpers.read_text())).status() != psutil.STATUS_ZOMBIE


IN_HOOK = """
def in_worker():
    if os.getppid() == loader:
        help()

loader = os.getpid()
os.register_at_fork(after_in_child=in_worker)
"""


def test_a_child_that_a_hook_forks_in_a_worker_is_its_own(start: Start, supervised: str, helpers: Path) -> None:
    server = start(supervised, source=HELPER.format(seconds=0, how=IN_HOOK))
    wait_for(lambda: helpers.exists() and len(helpers.read_text().split()) == 2, "the children of two workers")
    children = [psutil.Process(int(pid)) for pid in helpers.read_text().split()]
    assert server.get() == (200, "ok")
    children[0].terminate()
    wait_for(lambda: children[0].status() == psutil.STATUS_ZOMBIE, "the end of the child")
    server.process.kill()
    server.process.wait(PATIENCE)
    wait_for(lambda: can_listen(server.port), "the port to be free of the workers and their children")
    assert children[1].is_running()


@pytest.mark.parametrize("source", BEGUN.values(), ids=BEGUN)
def test_a_signal_to_such_a_child_is_none_to_the_server(start: Start, shape: str, helpers: Path, source: str) -> None:
    server = start(shape, source=source)
    wait_for(lambda: helpers.exists() and helpers.read_text().endswith(" "), "the child of the application")
    child = psutil.Process(int(helpers.read_text().split()[0]))
    child.terminate()
    wait_for(lambda: child.status() == psutil.STATUS_ZOMBIE, "the end of the child")
    assert server.get() == (200, "ok")
    assert "stopping" not in server.said


HOLDS = """
import os
import time

kept = []

def application(environ, start_response):
    if environ["PATH_INFO"] == "/input":
        kept.append(environ["wsgi.input"])
    if environ["PATH_INFO"] == "/child" and not os.fork():
        with open("helpers", "a") as file:
            file.write(f"{os.getpid()} ")
        while True:
            time.sleep(0.05)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"ok"]
"""


@pytest.mark.parametrize("path", ["/", "/input", "/child"])
@pytest.mark.parametrize("kind", ["tcp", "unix"])
def test_a_connection_ends_though_the_application_holds_it(
    start: Start, shape: str, helpers: Path, kind: str, path: str
) -> None:
    """The end of the answer is the end of the connection, whoever else has the socket."""
    server = start(shape, *(["--bind=unix:server.sock"] if kind == "unix" else []), source=HOLDS)
    with asking(helpers.parent / "server.sock" if kind == "unix" else ("127.0.0.1", server.port), path) as answer:
        assert answer.read().endswith(b"\r\n\r\nok")
    server.send(signal.SIGTERM)
    assert server.process.wait(PATIENCE) == 0


DAEMON = """
import os
import time

def application(environ, start_response):
    if os.fork() == 0:
        os.closerange(3, 256)
        kept = [os.open(f"file-{number}", os.O_WRONLY | os.O_CREAT) for number in range(20)]
        pid = os.fork()
        if pid == 0:
            for each in kept:
                os.write(each, b"grandchild")
            os._exit(0)
        os.waitpid(pid, 0)
        open("done", "w").close()
        os._exit(0)
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]
"""


def test_what_such_a_child_opens_is_its_own_and_that_of_its_children(start: Start, shape: str, tmp_path: Path) -> None:
    """Under the numbers that the server's descriptors had."""
    server = start(shape, source=DAEMON)
    assert server.get() == (200, "ok")
    wait_for((tmp_path / "done").exists, "the end of the grandchild")
    assert {(tmp_path / f"file-{number}").read_text() for number in range(20)} == {"grandchild"}
    assert server.stop() == 0


def test_a_child_that_is_forked_while_the_server_stops_keeps_no_port(start: Start, shape: str, helpers: Path) -> None:
    source = """
import os
import time

def application(environ, start_response):
    open("asked", "w").close()
    while not os.path.exists("go"):
        time.sleep(0.01)
    pid = os.fork()
    while not pid:
        time.sleep(0.05)
    with open("helpers", "w") as file:
        file.write(f"{pid} ")
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]
"""
    server = start(shape, source=source)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(server.get)
        wait_for((helpers.parent / "asked").exists, "the call")
        server.send(signal.SIGTERM)
        server.await_text("stopping")
        time.sleep(0.3)  # in which the watchdog overhears it
        (helpers.parent / "go").touch()
        assert answer.result(PATIENCE) == (200, "ok")
    assert server.process.wait(PATIENCE) == 0
    # The server may have ended before its child has run at all.
    wait_for(lambda: can_listen(server.port), "the port to be free of the child")
