"""HUP: new code and configuration in the place of the old ones, after a trial, without losing a request."""

import contextlib
import http.client
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from processes import suspend
from starter import EVERY_SHAPE, PATIENCE, ROOT, Server, Start, wait_for, within
from versions import VERSION, write

from poorhttp.status import layout, reader

pytestmark = pytest.mark.timeout(120)


def reload(server: Server, version: str, more: str = "") -> None:
    """Reload until every worker has the new version."""
    write(server.directory, version, more)
    server.send(signal.SIGHUP)
    wait_for(lambda: server.get()[1].startswith(version + " "), f"version {version}")
    wait_for(lambda: all(answer.startswith(version + " ") for answer in answers(server)), f"version {version} alone")


def answers(server: Server) -> list[str]:
    return [server.get()[1] for _ in range(8)]


class Clients:
    """Four clients that keep their connections and four that do not, all asking as fast as they are answered.

    Who says nothing for a second may be closed. A client that did so, since it had to wait for a core, has not failed:
    any client has to ask again then (RFC 9112 9.5).
    """

    def __init__(self, server: Server) -> None:
        self.server = server
        self.failures: list[str] = []
        self.answered = 0
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(number % 2 == 0,)) for number in range(8)]

    def __enter__(self) -> "Clients":
        for thread in self._threads:
            thread.start()
        wait_for(lambda: self.answered > 8, "the clients to be served")
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(PATIENCE)

    def _ask(self, keeps: bool) -> None:
        connection = self.server.connection()
        said = silence = 0.0
        while not self._over.is_set():
            try:
                if connection.sock is None:
                    said, silence = time.monotonic(), 0.0
                    connection.connect()
                try:
                    # Not auto-opened: one that the server closed between two requests would be opened again unseen.
                    connection.request("GET", "/")
                finally:
                    silence = time.monotonic() - said
                    said += silence
                answer = connection.getresponse()
                answer.read()
                assert answer.status == 200
                self.answered += 1
                if not keeps or answer.will_close:
                    connection.close()
            except (OSError, http.client.HTTPException, AssertionError) as error:
                if silence < 1 or not isinstance(error, ConnectionError):
                    self.failures.append(f"keeps={keeps}, silent for {silence:.3f} s: {error!r}")
                connection.close()
        connection.close()


@EVERY_SHAPE
def test_new_code_takes_over_under_load_and_nothing_is_lost(start: Start, shape: str) -> None:
    server = start(shape, source=VERSION.format(version="0", more=""))
    pid = server.process.pid
    with Clients(server) as clients:
        for version in ("1", "2", "3"):
            reload(server, version)
    assert clients.failures == []
    assert server.process.pid == pid and server.process.poll() is None
    assert server.stop() == 0


INSTALLED = """
import os
import poorhttp

def application(environ, start_response):
    body = f"{poorhttp.__version__} {os.getpid()}".encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
"""

REMOVED_ENGINE = re.compile(r"/poorhttp/_engine\.\S* \(deleted\)")


def test_a_new_poorhttp_takes_over_where_it_is_installed(
    start: Start, tmp_path_factory: pytest.TempPathFactory, shape: str
) -> None:
    """By USR2, which is HUP by another name. The old one is removed before, as pip does it; the new one has an engine of
    its own.
    """
    site = tmp_path_factory.mktemp("site")
    server = start(shape, "--pidfile=run.pid", source=INSTALLED, PYTHONPATH=str(install(site, "9.8.7")))
    pid = server.process.pid
    with Clients(server) as clients:
        assert server.get()[1].startswith("9.8.7 ")
        install(site, "9.8.8")
        wait_for(lambda: old_ones(server) == server.workers() | {pid}, "all to have what is not there any more")
        server.send(signal.SIGUSR2)
        wait_for(lambda: server.get()[1].startswith("9.8.8 "), "the new version")
        wait_for(lambda: not old_ones(server), "the new version alone")
        asked = clients.answered
        wait_for(lambda: clients.answered > asked + 8, "the clients to be served by it")
        assert all(each.startswith("9.8.8 ") for each in answers(server))
    assert clients.failures == []
    assert server.process.poll() is None and int((server.directory / "run.pid").read_text()) == pid
    told = reader.read_server(pid)
    assert told is not None and (told["version"], told["pid"]) == ("9.8.8", pid)
    assert server.stop() == 0
    assert not (server.directory / "run.pid").exists()


def old_ones(server: Server) -> set[int]:
    """The processes that have an engine which is not installed any more."""
    return {pid for pid in (server.process.pid, *server.workers()) if REMOVED_ENGINE.search(maps_of(pid))}


def maps_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return ""


def install(site: Path, version: str) -> Path:
    """Put a copy of poorhttp that says to be this version in the place of the one that is there."""
    shutil.rmtree(site / "poorhttp", ignore_errors=True)
    shutil.copytree(ROOT / "poorhttp", site / "poorhttp", ignore=shutil.ignore_patterns("__pycache__"))
    source = site / "poorhttp" / "__init__.py"
    text, count = re.subn(r'(?m)^__version__ = ".*"$', f'__version__ = "{version}"', source.read_text())
    assert count == 1
    source.write_text(text)
    return site


def test_a_mistake_stays_harmless(start: Start, shape: str) -> None:
    server = start(shape, source=VERSION.format(version="good", more=""))
    with Clients(server) as clients:
        write(server.directory, "bad", "import no_such_module")
        server.send(signal.SIGHUP)
        server.await_text("reload failed")
        assert server.get()[1].startswith("good ")
        write(server.directory, "worse", "raise SystemExit(0)")
        server.send(signal.SIGHUP)
        wait_for(lambda: server.said.count("reload failed") == 2, "the second failure")
        reload(server, "better")
    assert clients.failures == []
    server.await_text("ModuleNotFoundError: No module named 'no_such_module'")
    assert server.stop() == 0


END = "print('ok', flush=True)\nos._exit(0)"
FORK = "if os.fork(): os.wait(), os._exit(0)"
CLOSE = "os.closerange(3, 100)"


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (END, "exit code 0 before the application was loaded"),
        (FORK, "exit code 0 before the application was loaded"),
        (CLOSE, "which is the server's"),
    ],
    ids=["ends", "forks", "closes"],
)
def test_an_application_that_ends_a_trial_is_not_taken_for_loaded(
    start: Start, shape: str, more: str, why: str
) -> None:
    server = start(shape, source=VERSION.format(version="0", more=""))
    write(server.directory, "1", more)
    server.send(signal.SIGHUP)
    server.await_text("reload failed")
    assert why in server.said
    assert server.get()[1].startswith("0 ")
    reload(server, "2")
    assert server.stop() == 0


def test_two_reloads_at_once_end_with_the_last_code(start: Start, shape: str) -> None:
    server = start(shape, source=VERSION.format(version="0", more=""))
    write(server.directory, "1")
    server.send(signal.SIGHUP)
    server.await_text("reload: trying")
    reload(server, "2")
    assert server.stop() == 0


def test_a_reload_told_twice_is_one(start: Start, shape: str) -> None:
    """A process manager tells a process and then its group: the second signal comes while the first is heard."""
    for version, microseconds in enumerate((0, 300, 1000, 3000), 1):
        server = start(shape, source=VERSION.format(version="0", more=""))
        write(server.directory, str(version))
        server.send(signal.SIGHUP)
        time.sleep(microseconds / 1e6)  # what is tried out
        server.send(signal.SIGHUP)
        wait_for(lambda server=server, version=version: server.get()[1].startswith(f"{version} "), "the new code")
        assert server.stop() == 0
        assert "Error" not in server.said


TELL_TRIAL = """
import atexit
import sys
import traceback

def tell():
    for frame in sys._current_frames().values():
        if "_has_succeeded" in "".join(traceback.format_stack(frame)):
            print("the interpreter ends before the trial's thread does", file=sys.stderr, flush=True)

atexit.register(tell)
"""


def test_a_stop_ends_a_trial(start: Start, shape: str, tmp_path: Path) -> None:
    """The trial imports for ever; a stop does not wait for it."""
    server = start(shape, source=VERSION.format(version="0", more=TELL_TRIAL))
    write(tmp_path, "endless", f"open({str(tmp_path / 'trial')!r}, 'w').write(str(os.getpid()))\ntime.sleep(3600)")
    server.send(signal.SIGHUP)
    wait_for(lambda: (tmp_path / "trial").exists() and (tmp_path / "trial").read_text(), "the trial")
    trial = int((tmp_path / "trial").read_text())
    assert server.stop() == 0
    wait_for(lambda: not psutil.pid_exists(trial), "the end of the trial")
    assert "reload failed" not in server.said
    assert server.said.count("reload: given up, as the server stops") == 1
    assert "before the trial's thread" not in server.said


def test_a_later_reload_does_not_wait_for_a_trial_that_hangs(start: Start, shape: str, tmp_path: Path) -> None:
    """The trial imports for ever; the author mends that and asks again. The next trial, though, is waited for."""
    server = start(shape, source=VERSION.format(version="0", more=""))
    write(tmp_path, "endless", "while True: time.sleep(0.01)")
    server.send(signal.SIGHUP)
    wait_for(server.trials, "the trial")
    gate = f"while not os.path.exists({str(tmp_path / 'gate')!r}): time.sleep(0.01)"
    write(tmp_path, "1", gate)
    server.send(signal.SIGHUP)
    server.await_text("reload: the trial is abandoned, as another reload is asked for")
    wait_for(lambda: server.said.count("reload: trying") == 2 and server.trials(), "the next trial")
    write(tmp_path, "2")
    server.send(signal.SIGHUP)
    (tmp_path / "gate").touch()
    wait_for(lambda: server.get()[1].startswith("2 "), "the last code")
    assert server.stop() == 0
    assert server.said.count("is abandoned") == 1 and "reload failed" not in server.said


def test_nothing_outlives_a_killed_supervisor_after_a_reload(start: Start, supervised: str) -> None:
    def orphaned() -> float:
        server = start(supervised, source=VERSION.format(version="0", more=""))
        reload(server, "1")
        wait_for(lambda: len(server.workers()) == 2, "the new workers alone")
        return server.orphan()

    within(1, orphaned)


def test_no_child_of_an_image_before_is_left_dead(start: Start, tmp_path: Path) -> None:
    """The process that was to wait for it is not there any more."""
    server = start("1x1", source=VERSION.format(version="0", more="os.posix_spawn('/bin/true', ['true'], os.environ)"))
    reload(server, "1")
    wait_for(lambda: psutil.Process(server.process.pid).children() == [], "no child, not even a dead one")
    assert server.stop() == 0


def test_workers_leave_one_after_the_other(start: Start, supervised: str) -> None:
    """Memory never doubles: never more than one worker too many, and never fewer than there should be that serve."""
    server = start(supervised, source=VERSION.format(version="0", more=""))
    counts = set()
    wait_for(lambda: len(server.workers()) == 2, "two workers")
    before = server.workers()
    write(server.directory, "1")
    server.send(signal.SIGHUP)

    def replaced() -> bool:
        now = server.workers()
        trials = sum("POORHTTP_TRIAL" in environ_of(pid) for pid in now)
        if server.workers() == now:  # else it was looked at while it changed, which shows what never was at once
            counts.add(len(now) - trials)
        return not before & now and len(now) == 2

    wait_for(replaced, "new workers in the place of the old ones")
    assert counts <= {2, 3}
    assert server.stop() == 0


def environ_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().decode("latin-1")
    except OSError:
        return ""


def test_a_reload_asked_for_while_one_waits_loses_nothing(start: Start, shape: str) -> None:
    server = start(shape, "--log-level=debug")
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(server.get, "/held")
        server.await_mark("held")
        server.send(signal.SIGHUP)
        server.await_text("reload: trying")
        wait_for(lambda: not server.trials(), "the end of the trial")
        for _ in range(3):
            server.send(signal.SIGHUP)
            others = [pool.submit(server.get, "/pid")]
        (server.marks / "release").touch()
        assert held.result(PATIENCE) == (200, "released")
        assert all(other.result(PATIENCE)[0] == 200 for other in others)
    server.await_text("reloaded: ")
    assert server.get("/pid")[0] == 200
    assert server.stop() == 0


def test_a_worker_that_leaves_keeps_no_socket_open(start: Start) -> None:
    """Else who comes when all others stop would be reset at its end."""
    server = start("1x4", "--type=forking", "--processes=1")
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(server.get, "/held")
        server.await_mark("held")
        [old] = [psutil.Process(pid) for pid in server.workers()]
        server.send(signal.SIGHUP)
        server.await_text("reloaded: ")
        wait_for(lambda: not any(each.status == "LISTEN" for each in old.net_connections()), "the socket to be closed")
        assert server.get("/pid")[0] == 200
        (server.marks / "release").touch()
        assert held.result(PATIENCE) == (200, "released")
    assert server.stop() == 0


@pytest.mark.parametrize("more", [(), ("--type=threading",)], ids=["1x1", "1x16"])
def test_a_stop_behind_a_reload_leaves_nothing_behind(launch: Start, tmp_path: Path, more: tuple[str, ...]) -> None:
    (tmp_path / "app.py").write_text(VERSION.format(version="0", more=""))
    for milliseconds in range(0, 200, 20):
        server = launch("app.py", "--bind=unix:server.sock", "--pidfile=run.pid", *more)
        server.await_address()
        server.send(signal.SIGHUP)
        time.sleep(milliseconds / 1000)  # the moment is what differs
        assert server.stop() == 0
        assert not (tmp_path / "run.pid").exists() and not (tmp_path / "server.sock").exists()


def result(server: Server) -> str | None:
    return (reader.read_last_reload(server.process.pid) or {}).get("result")


def test_a_reload_is_over_when_no_old_worker_accepts(start: Start) -> None:
    """One that has yet to hear that it is to leave would answer one more client with the old code."""
    server = start("2x1", source=VERSION.format(version="0", more=""))
    server.await_serving(2)
    before = server.workers()
    deaf = min(before)
    suspend(deaf)
    write(server.directory, "1")
    server.send(signal.SIGHUP)
    wait_for(lambda: server.workers() & before == {deaf}, "the other old worker to leave")
    server.await_serving(3)  # the board has not heard either
    new = min(server.workers() - before)
    os.kill(new, signal.SIGKILL)
    server.await_text(f"worker {new} died")  # so whatever it would have made of the reload is done
    assert result(server) == layout.REPLACING
    os.kill(deaf, signal.SIGCONT)
    wait_for(lambda: result(server) == layout.SUCCEEDED, "the end of the reload")
    assert server.stop() == 0


def test_a_reload_waits_for_no_call(start: Start, supervised: str) -> None:
    server = start(supervised)
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(server.get, "/held")
        server.await_mark("held")
        server.send(signal.SIGHUP)
        wait_for(lambda: result(server) == layout.SUCCEEDED, "the end of the reload")
        assert not held.done()
        (server.marks / "release").touch()
        assert held.result(PATIENCE) == (200, "released")
    assert server.stop() == 0


HOG = """
import ctypes
import time

def application(environ, start_response):
    if environ["PATH_INFO"] != "/":
        time.sleep(float(environ["PATH_INFO"][1:]))
        open("called", "w").close()
        ctypes.PyDLL(None).open(b"fifo", 0)  # keeps the interpreter until somebody opens the other end
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]
"""


@pytest.mark.parametrize("seconds", [0.0, 0.3])
@pytest.mark.parametrize("threads", [1, 3])
def test_a_reload_waits_for_no_call_that_keeps_the_interpreter(
    start: Start, tmp_path: Path, threads: int, seconds: float
) -> None:
    """Nor for the thread that waits for clients, if there is one: after a moment another one does."""
    os.mkfifo(tmp_path / "fifo")
    server = start("1x1", "--type=forking", "--processes=1", f"--threads={threads}", source=HOG)
    with ThreadPoolExecutor(1) as pool:
        hog = pool.submit(server.get, f"/{seconds}")
        wait_for((tmp_path / "called").exists, "the call")
        server.send(signal.SIGHUP)
        wait_for(lambda: result(server) == layout.SUCCEEDED, "the end of the reload")
        assert not hog.done()
        os.close(os.open(tmp_path / "fifo", os.O_WRONLY))
        assert hog.result(PATIENCE) == (200, "ok")
    assert server.stop() == 0


def test_more_and_fewer_workers(start: Start, supervised: str) -> None:
    server = start(supervised, source=VERSION.format(version="0", more=""))
    wait_for(lambda: len(server.workers()) == 2, "two workers")
    with Clients(server) as clients:
        server.send(signal.SIGTTIN)
        wait_for(lambda: len(server.workers()) == 3, "a third worker")
        server.send(signal.SIGTTOU)
        wait_for(lambda: len(server.workers()) == 2, "two workers again")
        server.send(signal.SIGTTOU)
        wait_for(lambda: len(server.workers()) == 1, "one worker")
        server.send(signal.SIGTTOU)
        assert server.get()[0] == 200
    assert clients.failures == []
    assert len(server.workers()) == 1
    assert server.stop() == 0


AT_EXIT = """
import atexit

def at_exit():
    with open("exits", "a") as file:
        file.write("begin ")
    time.sleep({seconds})
    with open("exits", "a") as file:
        file.write("end ")

atexit.register(at_exit)
"""


@pytest.fixture(params=["1x1", "1x4"])
def alone(request: pytest.FixtureRequest) -> str:
    """A shape without a supervisor, which executes the new image itself."""
    return str(request.param)


def test_what_is_done_at_the_exit_is_done_once_and_to_its_end(start: Start, alone: str, tmp_path: Path) -> None:
    more = AT_EXIT.format(seconds=1)
    server = start(alone, source=VERSION.format(version="0", more=more))
    reload(server, "1", more)
    assert (tmp_path / "exits").read_text() == "begin end "
    assert server.stop() == 0
    assert (tmp_path / "exits").read_text() == "begin end begin end "
    assert "did not return" not in server.said


def test_what_is_done_at_the_exit_has_the_time_of_a_stop(start: Start, alone: str, tmp_path: Path) -> None:
    source = VERSION.format(version="0", more=AT_EXIT.format(seconds=3600))
    server = start(alone, "--graceful-timeout=1", source=source)
    reload(server, "1")
    assert (tmp_path / "exits").read_text() == "begin "
    assert server.said.count("reload: the application did not return in time; its calls are given up") == 1
    assert server.stop() == 0


def test_what_is_done_at_the_exit_ends_before_the_watchdog_ends_the_process(start: Start, tmp_path: Path) -> None:
    """Where a call does not return, which has taken the time of a stop."""
    source = VERSION.format(version="0", more=AT_EXIT.format(seconds=3600)).replace(
        "time.sleep(0.03)", "while environ['PATH_INFO'] == '/stuck': time.sleep(1)"
    )
    server = start("1x4", "--graceful-timeout=1", "--request-timeout=0", source=source)
    with contextlib.closing(server.connection()) as stuck:
        stuck.request("GET", "/stuck")
        reload(server, "1")
    assert (tmp_path / "exits").read_text() == "begin "
    assert server.stop() == 0


@pytest.mark.parametrize("signals", [(signal.SIGINT, signal.SIGTERM), (signal.SIGQUIT,)], ids=["INT, TERM", "QUIT"])
def test_a_fast_stop_does_not_wait_for_what_is_done_at_the_exit(
    start: Start, alone: str, tmp_path: Path, signals: tuple[int, ...]
) -> None:
    server = start(alone, source=VERSION.format(version="0", more=AT_EXIT.format(seconds=3600)))
    write(tmp_path, "1")
    server.send(signal.SIGHUP)
    wait_for((tmp_path / "exits").exists, "the end of the old image")
    for each in signals:
        server.send(each)
        wait_for(lambda: "stopping: " in server.said, "the first signal, so that another is a second one")
    code = server.end(PATIENCE)
    # A second one that comes at once is the first one told twice; where the machine is slow, it is a second one.
    assert code - 128 in signals
    if len(signals) == 2:
        assert (code == 128 + signal.SIGINT) == ("did not return in time" in server.said)
    assert "reloaded" not in server.said


def test_a_stop_between_two_images_answers_who_waits(start: Start, alone: str, tmp_path: Path) -> None:
    """The old one serves no more, what it does at the exit takes its time, and the new one is not there."""
    server = start(alone, source=VERSION.format(version="0", more=AT_EXIT.format(seconds=1)))
    write(tmp_path, "1")
    server.send(signal.SIGHUP)
    wait_for((tmp_path / "exits").exists, "the end of the old image")
    with contextlib.ExitStack() as stack:
        waiting = [stack.enter_context(contextlib.closing(server.connection())) for _ in range(4)]
        for each in waiting:
            each.request("GET", "/")
        server.send(signal.SIGTERM)
        assert [each.getresponse().read()[:2] for each in waiting] == [b"1 "] * 4
    assert server.end() == 0


@pytest.fixture
def script(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A program of its own that calls poorhttp.run."""
    text = (
        VERSION.format(version="0", more="")
        + '\nimport poorhttp\npoorhttp.run(application, bind="127.0.0.1:0", pidfile="run.pid")\n'
    )
    (tmp_path / "program.py").write_text(text)
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, "program.py"], cwd=tmp_path, env=environ, stderr=subprocess.PIPE, text=True
    )
    yield process
    process.kill()
    process.communicate(timeout=PATIENCE)


def test_a_program_that_calls_run_is_not_started_anew(script: "subprocess.Popen[str]", tmp_path: Path) -> None:
    assert script.stderr is not None
    while "single" not in script.stderr.readline():
        assert script.poll() is None
    script.send_signal(signal.SIGHUP)
    assert "reload ignored: poorhttp.run()" in script.stderr.readline()
    command = [sys.executable, "-m", "poorhttp", "reload", f"--pidfile={tmp_path / 'run.pid'}"]
    asked = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=PATIENCE, check=False)
    assert asked.returncode == 1 and "poorhttp.run() cannot start the program anew" in asked.stdout
    script.send_signal(signal.SIGTERM)
    assert script.wait(PATIENCE) == 0


def test_a_stop_ends_though_clients_come_again_at_once(start: Start, shape: str) -> None:
    """Accepted clients are served, later ones are refused: the stop does not last for as long as clients come."""
    server = start(shape, source=VERSION.format(version="0", more=""))
    with Clients(server):
        began = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - began < 10, "a third of graceful_timeout"


def test_a_client_from_before_a_stop_is_served_though_others_keep_coming(start: Start) -> None:
    """New connections are taken in turns: not until nobody comes any more."""
    server = start("1x1", source=VERSION.format(version="0", more=""))
    kept = server.connection()
    kept.request("GET", "/")
    kept.getresponse().read()
    with Clients(server) as clients:
        for _ in range(3):
            before = clients.answered
            kept.request("GET", "/")
            assert kept.getresponse().read().startswith(b"0 ")
            assert clients.answered - before < 40
    kept.close()
    assert server.stop() == 0
