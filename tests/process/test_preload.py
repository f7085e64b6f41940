"""preload = no: each worker loads the application; and what is told where the supervisor has, and the workers lack it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from starter import Server, Start, wait_for

PER_WORKER = """
import os
import threading
import time

MARKS = os.environ["MARKS"]
LOADED_BY = os.getpid()
ticks = 0


def tick():
    global ticks
    while True:
        ticks += 1
        time.sleep(0.01)


threading.Thread(target=tick, daemon=True, name="clock").start()
VERSION = 1


def application(environ, start_response):
    before = ticks
    time.sleep(0.1)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [f"{VERSION} {os.getpid() == LOADED_BY} {ticks > before}".encode()]
"""

DOOMED = """
if os.path.exists(os.path.join(MARKS, "doomed")):
    raise ValueError("broken on purpose")
"""

SLOW = """
if os.path.exists(os.path.join(MARKS, "slow")):
    open(os.path.join(MARKS, f"loading-{os.getpid()}"), "w").close()
    while not os.path.exists(os.path.join(MARKS, "go")):
        time.sleep(0.01)
"""


def begin(start: Start, supervised: str, more: str = "", *arguments: str) -> Server:
    server = start(supervised, "--preload=no", *arguments, source=PER_WORKER + more)
    server.await_serving(2)
    return server


def test_each_worker_loads_and_has_its_own_threads(start: Start, supervised: str) -> None:
    server = begin(start, supervised)
    assert {server.get() for _ in range(6)} == {(200, "1 True True")}
    assert server.stop() == 0
    assert "begun" not in server.said


def test_loaded_before_the_fork_a_thread_is_missed_and_told(start: Start, supervised: str) -> None:
    server = start(supervised, source=PER_WORKER)
    assert server.get() == (200, "1 False False")
    assert server.stop() == 0
    (told,) = [line for line in server.said.splitlines() if "[W]" in line]
    assert "they lack the thread 'clock'; begin it in each worker" in told and "or load there: --preload=no" in told


@pytest.mark.parametrize("shape", ["1x1", "1x4"])
def test_one_process_lacks_nothing_and_says_that_the_setting_is_vain(start: Start, shape: str) -> None:
    server = start(shape, "--preload=no", source=PER_WORKER)
    assert server.get() == (200, "1 True True")
    assert server.stop() == 0
    assert server.said.count("note: preload = no changes nothing where there are no workers") == 1
    assert "[W]" not in server.said


def test_a_load_that_fails_is_a_failed_start_told_once(launch: Start, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("raise ValueError('broken on purpose')\n")
    server = launch("app.py", "--bind=127.0.0.1:0", "--type=forking", "--preload=no", "--errorlog=error.log")
    assert server.end() == 3
    assert server.said.count("ValueError: broken on purpose") == 2, "the traceback, and the line of the error"
    assert server.said.splitlines()[-2:] == [
        "error: app.py:1: ValueError: broken on purpose",
        "hint: the traceback above is the application's own",
    ]
    assert "broken" not in (tmp_path / "error.log").read_text()


@pytest.mark.parametrize(
    ("body", "why"), [("os._exit(5)", "exit code 5"), ("os.abort()", "killed by SIGABRT")], ids=["exit", "crash"]
)
def test_a_worker_that_dies_while_it_loads_is_a_failed_start(
    launch: Start, tmp_path: Path, body: str, why: str
) -> None:
    (tmp_path / "app.py").write_text(f"import os\n{body}\n")
    server = launch("app.py", "--bind=127.0.0.1:0", "--type=forking", "--preload=no")
    assert server.end() == 3
    assert (
        f"error: a worker died while it loaded the application: {why}\nhint: poorhttp check tells where" in server.said
    )


def test_a_start_in_the_background_whose_load_fails(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("raise ValueError('broken on purpose')\n")
    words = ("start", "app.py", "--port=0", "--type=forking", "--preload=no", "--errorlog=log", "--pidfile=pid")
    command = [sys.executable, "-m", "poorhttp", *words]
    done = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True, timeout=30)
    assert done.returncode == 3
    assert "ended before it served; the error log tells why" in done.stderr
    assert (tmp_path / "log").read_text().count("error: app.py:1: ValueError: broken on purpose") == 1
    assert not (tmp_path / "pid").exists()


def test_a_load_that_fails_later_is_a_worker_that_failed_to_start(start: Start, supervised: str) -> None:
    server = begin(start, supervised, DOOMED)
    (server.marks / "doomed").touch()
    victim, other = sorted(server.workers())
    os.kill(victim, signal.SIGKILL)
    server.await_text("starts in 0.4 s")
    assert "cannot begin to serve: app.py:" in server.said and "ValueError: broken on purpose" in server.said
    assert "died: exit code 3; the next one" in server.said
    assert server.said.count("cannot begin to serve") <= 4, "ever more slowly"
    assert other in server.workers() and server.get()[0] == 200
    (server.marks / "doomed").unlink()
    server.await_serving(2)
    assert server.stop() == 0


def test_a_load_that_fails_late_is_no_storm(start: Start) -> None:
    """A load of two seconds is no life: the back-off goes on."""
    more = DOOMED.replace("    raise", "    time.sleep(1.2)\n    raise")
    server = begin(start, "2x1", more)
    (server.marks / "doomed").touch()
    os.kill(min(server.workers()), signal.SIGKILL)
    server.await_text("starts in 0.2 s")
    (server.marks / "doomed").unlink()
    server.await_serving(2)
    assert server.stop() == 0


def test_a_reload_loads_in_the_trial_and_in_each_worker(start: Start, supervised: str, tmp_path: Path) -> None:
    server = begin(start, supervised)
    (tmp_path / "app.py").write_text(PER_WORKER.replace("VERSION = 1", "VERSION = 2"))
    server.send(signal.SIGHUP)
    wait_for(lambda: server.get() == (200, "2 True True"), "the new code")
    server.await_serving(2)
    (tmp_path / "app.py").write_text("raise ValueError('broken on purpose')\n")
    server.send(signal.SIGHUP)
    server.await_text(
        "reload failed, the server goes on as it was: exit code 3: app.py:1: ValueError: broken on purpose"
    )
    assert server.get() == (200, "2 True True")
    assert server.stop() == 0


def test_a_reload_that_only_the_trial_can_load_keeps_the_old_workers(start: Start, tmp_path: Path) -> None:
    server = begin(start, "2x1")
    is_worker = "import sys\nif 'poorhttp.process.supervisor' in sys.modules:\n    raise ValueError('a worker')\n"
    before = server.workers()
    (tmp_path / "app.py").write_text(PER_WORKER + is_worker)
    server.send(signal.SIGHUP)
    server.await_text("cannot begin to serve: app.py:")
    assert before <= server.workers()
    assert server.get()[1].startswith("1 ")
    (tmp_path / "app.py").write_text(PER_WORKER.replace("VERSION = 1", "VERSION = 2"))
    wait_for(lambda: not before & server.workers(), "the old workers to be replaced", seconds=20)
    assert server.get()[1].startswith("2 ")
    assert server.stop() == 0


def test_workers_are_replaced_as_ever(start: Start) -> None:
    server = begin(start, "2x1", "", "--max-requests=3")
    before = server.workers()
    while server.workers() & before:
        assert server.get() == (200, "1 True True")
    server.await_serving(2)
    assert server.stop() == 0


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
def test_a_stop_does_not_wait_for_a_load(start: Start, signum: int) -> None:
    server = begin(start, "2x1", SLOW)
    (server.marks / "slow").touch()
    os.kill(min(server.workers()), signal.SIGKILL)
    wait_for(lambda: list(server.marks.glob("loading-*")), "a worker to load")
    began = time.monotonic()
    assert server.stop(signum) == 0
    assert time.monotonic() - began < 8, "graceful_timeout is 30 s"


def test_a_client_that_waits_for_a_load_is_answered_before_a_stop(launch: Start, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(PER_WORKER + SLOW)
    (tmp_path / "marks").mkdir()
    (tmp_path / "marks" / "slow").touch()
    server = launch("app.py", "--bind=127.0.0.1:0", "--type=forking", "--preload=no")
    server.await_address()
    wait_for(lambda: list(server.marks.glob("loading-*")), "a worker to load")
    connection = server.connection()
    connection.request("GET", "/")
    server.send(signal.SIGTERM)
    server.await_text("stopping")
    (server.marks / "go").touch()
    assert connection.getresponse().read().startswith(b"1 ")
    connection.close()
    assert server.end() == 0


def test_what_a_load_starts_hears_signals(start: Start) -> None:
    """As when it is loaded before the fork, where nothing is blocked."""
    more = """
import subprocess
STATUS = subprocess.run(["grep", "Sig[BI]", "/proc/self/status"], capture_output=True, text=True).stdout
def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [STATUS.encode()]
"""
    told = []
    for preload in ("yes", "no"):
        server = start("2x1", f"--preload={preload}", source=PER_WORKER + more)
        told.append(server.get()[1].split())
        assert server.stop() == 0
    assert told[1][:2] == ["SigBlk:", "0000000000000000"]
    ignored = [int(each[3], 16) for each in told]
    assert not ignored[1] & ~ignored[0] & ~(1 << signal.SIGTTIN - 1 | 1 << signal.SIGTTOU - 1)


CONNECTED = """
import os, socket, sqlite3
database = sqlite3.connect("kept.db")
database.execute("create table kept (one)")
server = socket.create_server(("127.0.0.1", 0))
there = socket.create_connection(server.getsockname())
here, _ = server.accept()
pair = socket.socketpair()
telling = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
telling.connect(("127.0.0.1", 9))
def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [f"{there.getpeername()[1]} {there.gettimeout()}".encode()]
"""


def test_connections_are_told_that_all_workers_share(start: Start, tmp_path: Path) -> None:
    server = start("2x1", source=CONNECTED)
    port = server.get()[1].split()[0]
    assert server.stop() == 0
    (told,) = [line for line in server.said.splitlines() if "[W]" in line]
    shared = told.partition("they share ")[2].partition("; begin it")[0].split(", ")
    assert f"the database {tmp_path / 'kept.db'}" in shared
    assert f"the connection to 127.0.0.1:{port}" in shared
    assert len(shared) == 3, "and that from there"
    server = start("1x4", source=CONNECTED.replace("create table", "create table if not exists"))
    assert server.stop() == 0
    assert "[W]" not in server.said


POOL = """
from concurrent.futures import ThreadPoolExecutor
pool = ThreadPoolExecutor(1)
pool.submit(int).result()
def application(environ, start_response):
    pool.submit(int).result()
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"done"]
"""


@pytest.mark.parametrize("arguments", [(), ("--preload=no",)], ids=["preloaded", "not"])
def test_check_asks_as_a_worker_is_asked(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    (tmp_path / "app.py").write_text(POOL)
    words = ("check", "app.py", "--port=0", "--type=forking", "--request-timeout=1", *arguments)
    command = [sys.executable, "-m", "poorhttp", *words]
    done = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True, timeout=30)
    if arguments:
        assert (done.returncode, done.stdout) == (0, "ok\n")
        assert "preload" not in done.stderr
    else:
        assert done.returncode == 3
        assert "note: the workers do not get all that" in done.stderr and "'ThreadPoolExecutor-0_0'" in done.stderr
        assert "error: app.py:6: GET / was not answered in 1 s" in done.stderr


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("    raise ValueError\n", "error: app.py:3: GET / fails: ValueError"),
        ("    os._exit(0)\n", "error: app.py ends the process when it is called"),
        ("    os.abort()\n", "error: app.py:3: the process died while it called the application: killed by SIGABRT"),
    ],
)
def test_check_tells_what_a_fork_died_of(tmp_path: Path, body: str, told: str) -> None:
    (tmp_path / "app.py").write_text(f"import os\ndef application(environ, start_response):\n{body}")
    command = [sys.executable, "-m", "poorhttp", "check", "app.py", "--port=0", "--type=forking"]
    done = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True, timeout=30)
    assert done.returncode == 3
    assert [line for line in done.stderr.splitlines() if line.startswith("error")] == [told]


def test_dev_serves_with_the_process_that_loads(launch: Start, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(PER_WORKER)
    server = launch("dev", "app.py", "--port=0", "--type=forking", "--preload=no")
    server.await_address()
    assert server.get() == (200, "1 True True")
    assert "autoreload, single, 1 process x 1 thread\nnote: preload = no: " in server.said
    assert server.stop() == 0
