"""What each signal means, in each shape; stops have test_stop.py, a reload test_reload.py."""

import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from starter import APPLICATION, PATIENCE, ROOT, Start, wait_for


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as made:
        yield made


def test_int_finishes_what_is_short(start: Start, shape: str, pool: ThreadPoolExecutor) -> None:
    server = start(shape)
    answer = pool.submit(server.get, "/held")
    server.await_mark("held")
    server.send(signal.SIGINT)
    server.await_text("stopping")
    (server.marks / "release").touch()
    assert server.end() == 0
    assert answer.result(PATIENCE) == (200, "released")


def test_int_does_not_wait_for_what_is_long(start: Start, shape: str, pool: ThreadPoolExecutor) -> None:
    server = start(shape, "--pidfile=server.pid")
    pool.submit(server.get, "/hang")
    wait_for(lambda: list(server.marks.glob("hang-*")), "the application to hang")
    began = time.monotonic()
    assert server.stop(signal.SIGINT) == 128 + signal.SIGINT
    assert time.monotonic() - began < 5.0, "graceful_timeout is 30"
    assert not (server.directory / "server.pid").exists()


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[int]:
    """A server in the foreground of a terminal: the terminal's other end; the process is in `tmp_path/pid`."""
    (tmp_path / "app.py").write_text(APPLICATION + f"\nopen({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\n")
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "poorhttp", "app.py", "--bind=unix:server.sock", "--type=forking", "--processes=2"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "MARKS": str(tmp_path)},
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(slave)
    wait_for((tmp_path / "pid").exists, "the application")
    wait_for(lambda: len(psutil.Process(process.pid).children()) == 2, "two workers")
    yield master
    code = process.wait(PATIENCE)
    os.close(master)
    assert code == 0


def test_ctrl_c_stops_within_a_moment_and_a_window_may_be_resized(terminal: int, tmp_path: Path) -> None:
    server = psutil.Process(int((tmp_path / "pid").read_text()))
    workers = server.children()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 100, 0, 0))
    time.sleep(0.3)  # nothing is to happen
    assert server.children() == workers and all(each.is_running() for each in workers)
    os.write(terminal, b"\x03")
    wait_for(lambda: not (tmp_path / "server.sock").exists(), "the end", seconds=5.0)


def test_winch_sends_the_workers_away_until_they_are_wanted_again(
    start: Start, supervised: str, pool: ThreadPoolExecutor
) -> None:
    server = start(supervised)
    held = pool.submit(server.get, "/slow")
    server.await_mark("slow")
    server.send(signal.SIGWINCH)
    wait_for(lambda: not server.workers(), "the workers to be gone")
    assert held.result(PATIENCE) == (200, "slow")
    assert server.process.poll() is None
    waiting = pool.submit(server.get, "/pid")
    server.send(signal.SIGTTOU)
    server.send(signal.SIGTTIN)
    assert waiting.result(PATIENCE)[0] == 200
    assert len(server.workers()) == 1
    server.send(signal.SIGHUP)
    wait_for(lambda: len(server.workers()) == 2 and not server.trials(), "two workers again")
    assert server.get("/pid")[0] == 200
    assert server.stop() == 0


def test_a_number_of_workers_survives_a_reload(start: Start, supervised: str) -> None:
    server = start(supervised)
    server.send(signal.SIGTTIN)
    wait_for(lambda: len(server.workers()) == 3, "a third worker")
    server.await_text("number of workers set to 3")
    for _ in range(2):
        before = server.workers()
        server.send(signal.SIGHUP)
        wait_for(lambda known=before: not known & server.workers() and len(server.workers()) == 3, "three new workers")
    assert server.stop() == 0


def test_a_number_is_heard_while_the_new_code_is_loaded(start: Start, supervised: str, tmp_path: Path) -> None:
    server = start(supervised)
    loading, may_go_on = tmp_path / "loading", tmp_path / "may-go-on"
    more = f"""
import time
if os.getpid() == {server.process.pid}:  # and not in the trial
    open({str(loading)!r}, "w").close()
    while not os.path.exists({str(may_go_on)!r}):
        time.sleep(0.01)
"""
    (tmp_path / "app.py").write_text(APPLICATION + more)
    server.send(signal.SIGHUP)
    wait_for(loading.exists, "the new image to load the application")
    server.send(signal.SIGTTIN)
    may_go_on.touch()
    server.await_text("number of workers set to 3")
    wait_for(lambda: len(server.workers()) == 3, "a third worker")
    assert server.stop() == 0


def test_a_number_that_the_configuration_changes_is_the_new_one(launch: Start, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APPLICATION)
    text = "[http]\napplication = app.py\nbind = 127.0.0.1:0\ntype = forking\nprocesses = {}\n"
    (tmp_path / "poorhttp.ini").write_text(text.format(2))
    server = launch("-c", "poorhttp.ini")
    server.await_address()
    wait_for(lambda: len(server.workers()) == 2, "two workers")
    server.send(signal.SIGTTIN)
    wait_for(lambda: len(server.workers()) == 3, "a third worker")
    (tmp_path / "poorhttp.ini").write_text(text.format(1))
    server.send(signal.SIGHUP)
    wait_for(lambda: len(server.workers()) == 1 and not server.trials(), "the one worker that is configured")
    assert server.stop() == 0


@pytest.mark.parametrize("signum", [signal.SIGWINCH, signal.SIGTTIN, signal.SIGTTOU])
@pytest.mark.parametrize("shape", ["1x1", "1x4"])
def test_where_there_are_no_workers_their_number_is_no_matter(start: Start, shape: str, signum: int) -> None:
    server = start(shape)
    server.send(signum)
    assert server.get("/pid") == (200, str(server.process.pid))
    assert server.workers() == set()
    assert server.stop() == 0
