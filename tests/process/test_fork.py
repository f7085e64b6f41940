"""Applications that fork: the child is its own, and the server does not notice."""

import signal

from starter import Start

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
