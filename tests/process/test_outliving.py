"""Nothing that a supervisor started outlives it, wherever a worker hangs and however the supervisor ends."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from processes import suspend
from starter import APPLICATION, ROOT, Server, Start, wait_for, within

HANGS = {
    "in a hook of the fork": """
def hang_in_worker():
    if os.getppid() == SUPERVISOR and marked("hang"):
        mark(f"hangs-{os.getpid()}")
        time.sleep(1000)


SUPERVISOR = os.getpid()
os.register_at_fork(after_in_child=hang_in_worker)
""",
    "in its load": """
if "poorhttp.process.supervisor" in sys.modules and marked("hang"):
    mark(f"hangs-{os.getpid()}")
    time.sleep(1000)
""",
    "at its end": """
def hang_at_the_end():
    if os.getpid() != SUPERVISOR and marked("hang"):
        mark(f"hangs-{os.getpid()}")
        time.sleep(1000)


SUPERVISOR = os.getpid()
atexit.register(hang_at_the_end)
""",
}

FAULT = """
import poorhttp.process.supervisor


def plan(state, now, true=poorhttp.process.supervisor.plan):
    if marked("fault"):
        raise ZeroDivisionError("on purpose")
    return true(state, now)


poorhttp.process.supervisor.plan = plan
"""
"""What no application should do: a fault of the supervisor, of any kind."""


def hanging(start: Start, where: str, more: str = "") -> Server:
    """A server one of whose workers hangs there."""
    arguments = ("--preload=no",) if where == "in its load" else ()
    server = start("2x1", *arguments, source=APPLICATION + HANGS[where] + more)
    server.await_serving(2)
    (server.marks / "hang").touch()
    os.kill(min(server.workers()), signal.SIGTERM if where == "at its end" else signal.SIGKILL)
    wait_for(lambda: list(server.marks.glob("hangs-*")), "a worker to hang")
    return server


@pytest.mark.parametrize("where", HANGS)
def test_a_worker_that_hangs_goes_with_a_supervisor_that_is_killed(start: Start, where: str, tmp_path: Path) -> None:
    def orphaned() -> float:
        for each in (tmp_path / "marks").glob("hang*"):
            each.unlink()
        return hanging(start, where).orphan()

    within(1, orphaned)


def test_a_worker_that_is_stopped_goes_too(start: Start, supervised: str) -> None:
    server = start(supervised)
    server.await_serving(int(supervised[0]))
    for pid in server.workers():
        suspend(pid)
    server.orphan()


@pytest.mark.parametrize("where", [each for each in HANGS if each != "in its load"])
def test_a_worker_that_hangs_goes_with_a_supervisor_that_fails(start: Start, where: str) -> None:
    server = hanging(start, where, FAULT)
    (server.marks / "fault").touch()
    assert server.stop(signal.SIGUSR1) == 1  # which wakes it
    server.await_text("error: unexpected ZeroDivisionError: on purpose")


PROGRAM = """
import poorhttp

try:
    poorhttp.run(application, type="forking", processes=2, address="127.0.0.1:0")
except ZeroDivisionError:
    mark("goes on")
    time.sleep(1000)
"""


def test_no_worker_is_left_to_a_program_that_goes_on(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(APPLICATION + FAULT + PROGRAM)
    environ = {**os.environ, "MARKS": str(tmp_path), "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([sys.executable, "program.py"], cwd=tmp_path, env=environ, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: len(psutil.Process(process.pid).children()) == 2, "two workers")
        (tmp_path / "fault").touch()
        process.send_signal(signal.SIGUSR1)
        wait_for((tmp_path / "goes on").exists, "the end of serving")
        assert psutil.Process(process.pid).children() == []
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGQUIT])
def test_a_stop_does_not_wait_long_for_a_worker_that_does_not_serve(start: Start, signum: int) -> None:
    server = hanging(start, "in a hook of the fork")
    assert server.stop(signum) == 0
    server.await_text("had not begun to serve: killed by SIGKILL")
