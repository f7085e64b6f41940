"""child_exit: a function of the application's that hears of each worker that has ended, and harms nobody."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from starter import APPLICATION, ROOT, Server, Start, wait_for

from poorhttp.config import reading
from poorhttp.config.flags import parse_flags
from poorhttp.logs.log import ErrorLog
from poorhttp.process.workers import child_exit
from poorhttp.system import timing

HOOKS = """
import os, signal, time

def gone(pid):
    if os.path.exists(f"/proc/{pid}/stat"):
        print("it is still there", flush=True)
    with open(os.path.join(os.environ["MARKS"], "gone"), "a", buffering=1) as file:
        file.write(f"{pid}\\n")

def fails(pid):
    gone(pid)
    raise LookupError(f"no such {pid}")

def exits(pid):
    gone(pid)
    os._exit(7)

def hangs(pid):
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    gone(pid)
    while True:
        try:
            time.sleep(60)
        except BaseException:
            continue
"""
DEBUG = "--log-level=debug"


def begin(start: Start, directory: Path, shape: str, function: str) -> Server:
    (directory / "hooks.py").write_text(HOOKS)
    return start(shape, DEBUG, f"--child-exit=hooks:{function}")


def gone(server: Server) -> list[int]:
    """The workers that the function heard of."""
    file = server.marks / "gone"
    return [int(line) for line in file.read_text().splitlines()] if file.exists() else []


def ever(server: Server) -> list[int]:
    """The workers that there were."""
    return [int(pid) for pid in re.findall(r"worker (\d+) started", server.said)]


def kill_one(server: Server) -> int:
    """Kill one worker, and wait until the function has heard of it."""
    pid = min(server.states())
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: pid in gone(server), f"the end of {pid} to be heard of")
    return pid


def test_it_hears_of_each_worker_once(start: Start, supervised: str, tmp_path: Path) -> None:
    """Killed, replaced by a reload, asked to leave, and at the stop."""
    server = begin(start, tmp_path, supervised, "gone")
    count = int(supervised[0])
    kill_one(server)
    server.await_serving(count)
    for times in 1, 2:
        server.send(signal.SIGHUP)
        wait_for(lambda times=times: server.said.count("reloaded: ") == times, "the reload")  # type: ignore[misc]
        wait_for(lambda: len(gone(server)) == len(ever(server)) - count, "the old workers to be heard of")
        server.await_serving(count)
    asked = min(server.states())
    os.kill(asked, signal.SIGTERM)
    wait_for(lambda: asked in gone(server), "the one that was asked to leave")
    server.await_serving(count)
    assert server.stop() == 0
    assert sorted(gone(server)) == sorted(ever(server))
    assert "[E]" not in server.said.replace("[E] worker", "") and "still there" not in server.said


def test_many_at_once_are_heard_of(start: Start, tmp_path: Path) -> None:
    """Also where the reload of the program comes in between."""
    (tmp_path / "hooks.py").write_text(HOOKS)
    server = start("2x1", DEBUG, "--child-exit=hooks:gone", "--processes=8", source=f"{APPLICATION}\n")
    server.await_serving(8)
    server.send(signal.SIGHUP)
    for pid in list(server.states()):
        os.kill(pid, signal.SIGKILL)
    server.await_text("reloaded: ")
    server.await_serving(8)
    assert server.stop() == 0
    assert sorted(gone(server)) == sorted(ever(server))


@pytest.mark.parametrize(
    ("function", "told"),
    [
        ("fails", r"\[E\] hooks:fails\({pid}\): LookupError\n(    .*\n)*    LookupError: no such {pid}\n"),
        ("exits", r"\[E\] hooks:exits ended its process: exit code 7\n"),
    ],
)
def test_one_that_fails_is_told_and_harms_nobody(start: Start, tmp_path: Path, function: str, told: str) -> None:
    server = begin(start, tmp_path, "2x1", function)
    for _ in range(2):
        pid = kill_one(server)
        wait_for(lambda: re.search(told.format(pid=pid), server.said), "its fault in the log")  # noqa: B023
        server.await_serving(2)
        assert server.get()[0] == 200
    assert server.stop() == 0


def test_one_that_hangs_holds_nobody_up(start: Start, tmp_path: Path) -> None:
    server = begin(start, tmp_path, "2x1", "hangs")
    kill_one(server)
    server.await_serving(2)
    os.kill(min(server.states()), signal.SIGKILL)
    server.await_serving(2)
    assert server.get()[0] == 200
    server.send(signal.SIGHUP)
    server.await_text("reloaded: ")
    server.await_text("[E] hooks:hangs did not return in 2 s; killed")
    server.await_serving(2)
    began = time.monotonic()
    assert server.stop() == 0
    assert time.monotonic() - began < 10, "a stop waits no longer than 2 s for it"


def test_it_ends_with_its_supervisor(start: Start, tmp_path: Path) -> None:
    server = begin(start, tmp_path, "2x1", "hangs")
    kill_one(server)
    wait_for(lambda: len(server.workers()) == 3, "two workers beside the one that calls the function")
    server.orphan()


def test_one_that_hangs_is_killed_in_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "CHILD_EXIT", 0.3)
    monkeypatch.setenv("MARKS", str(tmp_path))
    (tmp_path / "hooks.py").write_text(HOOKS)
    words = ["app.py", "--child-exit=hooks:hangs", "--type=forking"]
    settings = reading.read(parse_flags(words, str(tmp_path)), {}, str(tmp_path))
    log = tmp_path / "log"
    calls = child_exit.ChildExit(settings, ErrorLog(str(log), "info", False, ""))

    def look() -> bool:
        calls.look()
        return "hooks:hangs did not return in 0.3 s; killed" in log.read_text()

    calls.note(1)
    wait_for(look, "its end")
    calls.finish()
    assert psutil.Process().children() == []


@pytest.mark.parametrize(
    ("command", "function", "told"),
    [
        ("--preload=yes", "hooks:gon", "hooks has no attribute 'gon'"),
        ("--preload=yes", "hook:gone", "no module 'hook' in "),
        ("--preload=yes", "hooks:__name__", "hooks:__name__ is not callable: it is of type str"),
        *((each, "hooks:gon", "hooks has no attribute 'gon'") for each in ("--preload=no", "--check-config", "check")),
        ("start", "hooks:gon", "hooks has no attribute 'gon'"),
    ],
)
def test_one_that_is_not_there_ends_a_start(
    launch: Start, tmp_path: Path, command: str, function: str, told: str
) -> None:
    (tmp_path / "hooks.py").write_text(HOOKS)
    (tmp_path / "app.py").write_text(APPLICATION)
    words = "--type=forking", "--bind=127.0.0.1:0", "--pidfile=pid", "--errorlog=error.log"
    server = launch(command, "app.py", *words, f"--child-exit={function}")
    assert server.end() == 3
    assert f"error: child_exit: {told}" in server.said


def test_one_that_is_gone_fails_a_reload(start: Start, tmp_path: Path) -> None:
    server = begin(start, tmp_path, "2x1", "gone")
    (tmp_path / "hooks.py").write_text("")
    server.send(signal.SIGHUP)
    told = "child_exit: hooks has no attribute 'gone'"
    server.await_text(f"reload failed, the server goes on as it was: exit code 3: {told}")
    assert server.get()[0] == 200
    assert server.stop() == 0


def test_a_program_that_calls_run_hears_of_one_that_is_not_there(tmp_path: Path) -> None:
    call = 'poorhttp.run(app.application, type="forking", address="127.0.0.1:0", child_exit="app:gone")'
    command = [sys.executable, "-c", f"import app, poorhttp; {call}"]
    (tmp_path / "app.py").write_text(APPLICATION)
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "MARKS": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    assert "LoadError: child_exit: app has no attribute 'gone'" in done.stderr


def test_without_workers_there_is_nobody_to_hear_of(start: Start) -> None:
    server = start("1x1", "--child-exit=os:kill")
    server.await_text("note: child_exit is about workers, and here is none")
    assert server.stop() == 0


def test_what_only_tries_the_application_can_be_told_from_what_serves(start: Start, shape: str) -> None:
    note = 'open(os.path.join(MARKS, "loaded"), "a").write(os.environ.get("POORHTTP_IS_TRIAL", "-"))\n'
    served = "\ndef variable(environ):\n    return os.environ.get('POORHTTP_IS_TRIAL', '-')\n"
    server = start(shape, source=APPLICATION + served + note)
    assert server.get("/variable")[1] == "-"
    server.send(signal.SIGHUP)
    server.await_text("reloaded: ")
    assert server.get("/variable")[1] == "-"
    assert (server.marks / "loaded").read_text() == "-1-"
    assert server.stop() == 0
