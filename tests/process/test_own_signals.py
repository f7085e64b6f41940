"""What an application does to the signals of its process, when it is loaded, in a request and at its end, has the same
end in every type: the signals of docs/running.md are the server's.
"""

import os
import signal
import time
from pathlib import Path

import pytest
from starter import SHAPES, Server, Start, wait_for

APPLICATION = """
import atexit
import os
import signal
import subprocess
import time

WHEN_LOADED


def state():
    return subprocess.run(["grep", "Sig[BI]", "/proc/self/status"], capture_output=True, text=True).stdout.split()


def application(environ, start_response):
    told = eval(environ["QUERY_STRING"].replace("%20", " ") or "''")
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [str(told).encode()]
"""

KINDS = {
    "1x4": SHAPES["1x4"],
    "2x1": SHAPES["2x1"],
    "2x1 not preloaded": (*SHAPES["2x1"], "--preload=no"),
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def begin(start: Start, kind: str, when_loaded: str = "", *arguments: str) -> Server:
    shape, *more = kind.split(" ", 1)
    arguments += ("--preload=no",) if more else ()
    server = start(shape, "--pidfile=server.pid", *arguments, source=APPLICATION.replace("WHEN_LOADED", when_loaded))
    server.await_serving(2 if shape in ("2x1", "2x2") else 1)
    return server


def stopped(server: Server) -> int:
    """Its exit code after TERM, when it has removed what it made."""
    code = server.stop()
    assert not (server.directory / "server.pid").exists()
    return code


@pytest.mark.parametrize(
    "done",
    [
        "signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())",
        "[signal.signal(each, signal.SIG_IGN) for each in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)]",
        "[signal.signal(each, lambda *_: os._exit(7)) for each in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)]",
        "there, here = os.pipe(); os.set_blocking(here, False); signal.set_wakeup_fd(here)",
    ],
    ids=["blocks", "ignores", "handles", "wake-up"],
)
def test_when_it_is_loaded(start: Start, kind: str, done: str) -> None:
    server = begin(start, kind, done)
    if kind.startswith("2x1"):
        os.kill(min(server.workers()), signal.SIGKILL)
        server.await_serving(2)
    server.send(signal.SIGHUP)
    server.await_text("reloaded: ")
    assert server.get()[0] == 200
    assert stopped(server) == 0


def test_a_write_that_nobody_reads_ends_no_process(start: Start, kind: str) -> None:
    server = begin(start, kind, "signal.signal(signal.SIGPIPE, signal.SIG_DFL)")
    assert server.get("/?signal.getsignal(signal.SIGPIPE)==signal.SIG_IGN") == (200, "True")
    assert stopped(server) == 0


def test_its_children_are_its_own(start: Start, kind: str) -> None:
    server = begin(start, kind, "signal.signal(signal.SIGCHLD, signal.SIG_IGN)")
    assert server.get("/?signal.getsignal(signal.SIGCHLD)==signal.SIG_IGN") == (200, "True")
    assert stopped(server) == 0


def test_what_it_starts_ignores_what_the_terminal_stops_with_and_nothing_else(start: Start, kind: str) -> None:
    server = begin(start, kind)
    ignored = 1 << signal.SIGTTIN - 1 | 1 << signal.SIGTTOU - 1
    assert eval(server.get("/?state()")[1]) == ["SigBlk:", f"{0:016x}", "SigIgn:", f"{ignored:016x}"]
    assert stopped(server) == 0


@pytest.mark.parametrize("how", ["SIG_IGN", "SIG_DFL"])
@pytest.mark.parametrize("kind", ["1x1", "2x1", "2x1 not preloaded"])
def test_in_a_request(start: Start, kind: str, how: str) -> None:
    """In the main thread. As an asyncio loop does that had a handler."""
    server = begin(start, kind)
    pid = int(server.get(f"/?signal.signal(signal.SIGTERM,signal.{how})and(0)or(os.getpid())")[1])
    told = "the application set SIGTERM to be ignored, or to its default: the server has set its own handler again"
    server.await_text(told)
    if kind != "1x1":
        os.kill(pid, signal.SIGTERM)
        server.await_text(f"worker {pid} was asked to leave (SIGTERM)")
        wait_for(lambda: pid not in server.workers(), "the worker to leave")
        server.await_text(f"worker {pid} left: exit code 0")
        server.await_serving(2)
    assert stopped(server) == 0


def test_it_is_left_where_it_does_not_end(start: Start, kind: str) -> None:
    server = begin(start, kind, "atexit.register(time.sleep, 1000)", "--graceful-timeout=0.5")
    assert stopped(server) == 1
    server.await_text("a function of its atexit, did not end; left without it")


def test_an_exception_at_its_end_is_told_and_nothing_else(start: Start, kind: str) -> None:
    server = begin(start, kind, "atexit.register(int, 'x')")
    assert stopped(server) == 0
    server.await_text("ValueError: invalid literal")


def test_ctrl_c_is_the_supervisors_to_hear(start: Start) -> None:
    server = begin(start, "2x1")
    before = server.workers()
    for pid in before:
        for signum in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR2):
            os.kill(pid, signum)
    assert server.get()[0] == 200
    assert server.workers() == before
    assert stopped(server) == 0


def test_a_handler_is_set_again_whenever_it_was_replaced(start: Start) -> None:
    """The watchdog looks at the handlers ten times a second, and sleeps after a fifth of a second without a call. A call
    may begin and end right before that sleep.
    """
    server = begin(start, "1x1")

    def is_ignored() -> bool:
        status = Path(f"/proc/{server.process.pid}/status").read_text()
        ignored = next(line.split()[1] for line in status.splitlines() if line.startswith("SigIgn:"))
        return bool(int(ignored, 16) & 1 << signal.SIGUSR2 - 1)

    for late in range(6):
        time.sleep(0.3)
        server.get()
        time.sleep(0.19 + 0.006 * late)
        server.get("/?signal.signal(signal.SIGUSR2,signal.SIG_IGN)")
        wait_for(lambda: not is_ignored(), "the handler of the server")
    assert stopped(server) == 0
