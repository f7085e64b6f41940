"""Starts that fail say why, with an exit code of their own; starts that are interrupted end cleanly."""

import contextlib
import os
import re
import signal
import socket
from pathlib import Path

import psutil
import pytest
from starter import EVERY_SHAPE, SHAPES, SUPERVISED, Server, Start, wait_for

LOADING = """
import os, time
open(os.path.join(os.environ["MARKS"], "loading"), "w").close()
for _ in range(100_000):
    time.sleep(0.01)
"""
"""Sleeps in steps: Python does not hear a signal that comes right before a sleep until that is over."""

STUBBORN = """
import os, time
open(os.path.join(os.environ["MARKS"], "loading"), "w").close()
try:
    for _ in range(100_000):
        time.sleep(0.01)
except:
    pass
def application(environ, start_response):
    raise AssertionError("never called")
"""

AWAITED = """
import os, signal, time

def marked(name):
    return os.path.exists(os.path.join(os.environ["MARKS"], name))

def mark(name):
    open(os.path.join(os.environ["MARKS"], name), "w").close()

if str(os.getppid()) == os.environ["TESTER"]:
    mark("loading")
    while not marked("go"):
        if signal.getitimer(signal.ITIMER_REAL)[0]:
            mark("patient")
        time.sleep(0.01)

def application(environ, start_response):
    start_response("200 OK", [("Content-Length", "3")])
    return [b"new"]
"""
"""Is loaded when the test says so; at once in the trial of a reload, which another process is."""


@pytest.fixture
def awaited(launch: Start, tmp_path: Path, shape: str) -> Start:
    """Start that application, and return when it is being loaded."""

    def begin(*arguments: str) -> Server:
        (tmp_path / "app.py").write_text(AWAITED)
        server = launch("app.py", *arguments, *SHAPES[shape], TESTER=str(os.getpid()))
        server.await_mark("loading")
        return server

    return begin


def reloading(start: Start, tmp_path: Path, shape: str) -> Server:
    """A server that has another application, and is just loading this one."""
    server = start(shape, TESTER=str(os.getpid()))
    (tmp_path / "app.py").write_text(AWAITED)
    server.send(signal.SIGHUP)
    server.await_mark("loading")
    return server


@EVERY_SHAPE
def test_every_shape_answers(start: Start, shape: str) -> None:
    server = start(shape)
    status, body = server.get()
    assert status == 200
    assert int(body) in (server.workers() or {server.process.pid})
    assert server.stop() == 0


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("source", [LOADING, STUBBORN], ids=["plain", "swallows"])
def test_a_stop_while_the_application_is_loaded_is_clean(
    launch: Start, tmp_path: Path, shape: str, signum: int, source: str
) -> None:
    (tmp_path / "app.py").write_text(source)
    server = launch("app.py", "--bind=127.0.0.1:0", "--pidfile=server.pid", *SHAPES[shape])
    server.await_mark("loading")
    assert server.stop(signum) == 0
    assert "Traceback" not in server.said
    assert not (tmp_path / "server.pid").exists()


def test_a_client_that_waits_while_the_application_is_loaded_is_answered_before_a_stop(awaited: Start) -> None:
    server = awaited("--bind=unix:server.sock")
    with contextlib.closing(server.connection()) as client:
        client.request("GET", "/")
        server.send(signal.SIGTERM)
        server.await_mark("patient")
        (server.marks / "go").touch()
        assert client.getresponse().read() == b"new"
    assert server.end() == 0


def test_a_client_that_waits_for_a_reload_is_answered_before_a_stop(start: Start, tmp_path: Path, shape: str) -> None:
    server = reloading(start, tmp_path, shape)
    with contextlib.closing(server.connection()) as client:
        client.request("GET", "/")
        server.send(signal.SIGTERM)
        if shape in SUPERVISED:
            assert client.getresponse().status == 200, "by a worker of before"
        else:
            server.await_mark("patient")
            (server.marks / "go").touch()
            assert client.getresponse().read() == b"new"
    assert server.end() == 0


@pytest.mark.parametrize("shape", ["1x1", "1x4"])
def test_a_stop_while_a_reload_loads_is_told(start: Start, tmp_path: Path, shape: str) -> None:
    server = reloading(start, tmp_path, shape)
    assert server.stop() == 0
    assert "[S] stopped while the new code was loaded: SIGTERM" in server.said


def test_nobody_waits_for_ever_for_what_is_loaded(awaited: Start) -> None:
    server = awaited("--bind=unix:server.sock")
    with contextlib.closing(server.connection()) as client:
        client.connect()
        assert server.stop() == 0
        assert (server.marks / "patient").exists()


def test_a_second_signal_waits_for_no_client(awaited: Start) -> None:
    server = awaited("--bind=unix:server.sock")
    with contextlib.closing(server.connection()) as client:
        client.connect()
        assert server.insist() == 0


def test_logs_that_were_rotated_while_the_application_is_loaded_are_opened_anew(awaited: Start, tmp_path: Path) -> None:
    server = awaited("--bind=127.0.0.1:0", "--errorlog=error.log", "--accesslog=access.log")
    for name in ("error.log", "access.log"):
        (tmp_path / name).rename(tmp_path / f"{name}.1")
    server.send(signal.SIGUSR1)
    (server.marks / "go").touch()
    server.await_address()
    wait_for(lambda: all((tmp_path / name).exists() for name in ("error.log", "access.log")), "the new logs")

    def are_left() -> bool:
        """Whether nobody has an old log any more: a worker hears of it a little later."""
        processes = map(psutil.Process, {server.process.pid, *server.workers()})
        return not any(file.path.endswith(".log.1") for each in processes for file in each.open_files())

    wait_for(are_left, "the old logs to be left")
    assert server.get()[0] == 200
    assert server.stop() == 0
    assert '"GET / HTTP/1.1" 200' in (tmp_path / "access.log").read_text()


@pytest.mark.parametrize(
    ("shape", "descriptors"), [("1x1", 7), ("1x1", 12), ("1x4", 12), ("2x1", 8), ("2x1", 12), ("2x1", 17)]
)
def test_too_few_descriptors_are_told_with_their_limit(
    launch: Start, tmp_path: Path, shape: str, descriptors: int
) -> None:
    """For Python's part, for that of the engine, for a supervisor's and for its first worker's."""
    (tmp_path / "app.py").write_text("def application(environ, start_response):\n    raise AssertionError\n")
    limited = "sh", "-c", f'ulimit -n {descriptors}; exec "$@"', "sh"
    server = launch("app.py", "--bind=127.0.0.1:0", *SHAPES[shape], inside=limited)
    assert server.end() == 1
    error, hint = server.said.splitlines()[-2:]
    assert error == f"error: too many open files: this process may have {descriptors} descriptors (RLIMIT_NOFILE)"
    assert hint.startswith("hint: raise the limit: ulimit -n")
    assert "Traceback" not in server.said and "fault of poorhttp" not in server.said


THREADS = {"1x4": ("--type=threading",), "2x2": ("--type=forking",), "2x2 not": ("--type=forking", "--preload=no")}


@pytest.mark.parametrize("arguments", THREADS.values(), ids=THREADS)
def test_threads_that_cannot_be_started_are_told_with_their_number(
    launch: Start, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    """Each takes 8 MiB of addresses for its stack."""
    (tmp_path / "app.py").write_text("def application(environ, start_response):\n    raise AssertionError\n")
    limited = "sh", "-c", 'ulimit -s 8192 && ulimit -v 1500000 && exec "$@"', "sh"
    server = launch("app.py", "--bind=127.0.0.1:0", *arguments, "--threads=300", inside=limited)
    assert server.end() == 1
    error, hint = server.said.splitlines()[-2:]
    assert re.fullmatch(r"error: cannot start thread \d+ of 300: the system has neither memory nor .*", error)
    assert hint.startswith("hint: lower `threads`")
    assert server.said.count("cannot start thread") == 1
    assert "Traceback" not in server.said and "fault of poorhttp" not in server.said


def test_a_worker_whose_threads_cannot_be_started_later_is_told_until_they_can(start: Start) -> None:
    server = start("2x2", "--threads=20")
    server.await_serving(2)
    supervisor = psutil.Process(server.process.pid)
    before = supervisor.rlimit(psutil.RLIMIT_AS)
    supervisor.rlimit(psutil.RLIMIT_AS, (supervisor.memory_info().vms + (80 << 20), before[1]))
    victim, other = server.workers()
    os.kill(victim, signal.SIGKILL)
    server.await_text("starts in 0.2 s")
    assert re.search(
        r"\[E\] worker \d+ cannot begin to serve: cannot start thread \d+ of 20: .*; lower `threads`", server.said
    )
    assert server.get()[0] == 200 and other in server.workers()
    supervisor.rlimit(psutil.RLIMIT_AS, before)
    server.await_serving(2)
    assert server.stop() == 0


def test_an_application_that_cannot_be_loaded(launch: Start, tmp_path: Path, shape: str) -> None:
    (tmp_path / "app.py").write_text("raise ValueError('broken on purpose')\n")
    server = launch("app.py", "--bind=127.0.0.1:0", *SHAPES[shape])
    assert server.end() == 3
    assert "Traceback (most recent call last)" in server.said
    assert "ValueError: broken on purpose" in server.said
    assert "error: " in server.said
    assert "hint: " in server.said


def test_a_port_in_use_names_its_owner(start: Start, launch: Start, shape: str) -> None:
    first = start(shape)
    second = launch("app.py", f"--bind=127.0.0.1:{first.port}", *SHAPES[shape])
    assert second.end() == 4
    assert str(first.process.pid) in second.said or any(str(pid) in second.said for pid in first.workers())
    assert "hint: " in second.said
    assert first.get()[0] == 200


def test_a_port_in_use_by_the_test_itself(launch: Start, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("def application(environ, start_response): ...\n")
    with socket.create_server(("127.0.0.1", 0)) as owner:
        server = launch("app.py", f"--bind=127.0.0.1:{owner.getsockname()[1]}")
        assert server.end() == 4
    assert str(os.getpid()) in server.said


@pytest.mark.parametrize("line", ["prot = 8080", "port = eighty", "no sense at all"])
def test_a_bad_ini_file(launch: Start, tmp_path: Path, line: str) -> None:
    (tmp_path / "poorhttp.ini").write_text(f"[http]\n{line}\n")
    server = launch("-c", "poorhttp.ini")
    assert server.end() == 2
    assert "poorhttp.ini" in server.said
    assert "error: " in server.said
    assert "Traceback" not in server.said
