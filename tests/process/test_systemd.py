"""Passed sockets, what a service manager is told, and its watchdog: with sockets of our own in its place."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from starter import APPLICATION, PATIENCE, ROOT, SHAPES, Server, Start, UnixConnection, wait_for

MISSING = "systemd is not installed: apt-get install systemd"

HELD = 16
"""Requests in which the application hangs: enough for every thread, however they are spread."""

SOURCE = (
    APPLICATION
    + """
def told(environ):
    return ",".join(name for name in os.environ if name.startswith(("LISTEN_", "NOTIFY_", "WATCHDOG_")))
"""
)


@pytest.fixture
def passed() -> Iterator[list[socket.socket]]:
    """Two listening sockets, as a service manager has them."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]


def port(sock: socket.socket) -> int:
    return int(sock.getsockname()[1])


def reaches(server: Server, sock: socket.socket) -> bool:
    """Whether the server answers at this socket."""
    server.port = port(sock)
    return server.get("/pid")[0] == 200


def is_left_waiting(sock: socket.socket) -> bool:
    """Whether who connects now waits in the queue, for a server to come."""
    with socket.create_connection(sock.getsockname(), timeout=PATIENCE) as client:
        client.settimeout(0.1)
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        try:
            client.recv(1)
        except TimeoutError:
            return True
    return False


def test_passed_sockets_take_the_place_of_addresses(
    launch: Start, tmp_path: Path, shape: str, passed: list[socket.socket]
) -> None:
    (tmp_path / "app.py").write_text(SOURCE)
    server = launch("app.py", *SHAPES[shape], passed=passed)
    server.await_address()
    assert reaches(server, passed[0]) and reaches(server, passed[1])
    assert server.get("/told") == (200, "")
    pid = server.process.pid
    server.send(signal.SIGHUP)
    server.await_text("reloaded: ")
    assert reaches(server, passed[0]) and reaches(server, passed[1])
    assert server.get("/told") == (200, "")
    assert server.process.pid == pid
    assert server.stop() == 0
    assert is_left_waiting(passed[0])


def test_a_socket_is_found_by_its_name(launch: Start, tmp_path: Path, passed: list[socket.socket]) -> None:
    (tmp_path / "app.py").write_text(SOURCE)
    binds = ("--bind=fd:admin", "--bind=127.0.0.1:0")
    server = launch("app.py", *binds, passed=passed, LISTEN_FDNAMES="web:admin")
    server.await_address()
    own = int(server.said.split(", http://127.0.0.1:")[1].split("/")[0])
    assert reaches(server, passed[1]) and own not in map(port, passed)
    server.port = own
    assert server.get("/pid")[0] == 200
    assert is_left_waiting(passed[0])
    server.send(signal.SIGHUP)
    server.await_text("reloaded: ")
    assert reaches(server, passed[1])
    server.port = own
    assert server.get("/pid")[0] == 200
    assert server.stop() == 0


def test_a_number_needs_no_service_manager(launch: Start, tmp_path: Path, passed: list[socket.socket]) -> None:
    (tmp_path / "app.py").write_text(SOURCE)
    server = launch("app.py", "--bind=fd:4", passed=passed, LISTEN_FDS="", LISTEN_PID="")
    server.await_address()
    assert reaches(server, passed[1])
    server.send(signal.SIGHUP)
    server.await_text("reloaded: ")
    assert reaches(server, passed[1])
    assert server.stop() == 0


def test_a_passed_socket_is_left_open_where_a_reload_took_it(
    launch: Start, tmp_path: Path, passed: list[socket.socket]
) -> None:
    """A stop lets nobody in any more at sockets that are the server's own, which those before the reload were."""
    ini = tmp_path / "poorhttp.ini"
    ini.write_text("[http]\napplication = app.py\ntype = forking\nprocesses = 2\nbind = 127.0.0.1:0\n")
    (tmp_path / "app.py").write_text(SOURCE)
    server = launch("-c", "poorhttp.ini", passed=passed, LISTEN_FDNAMES="3:4")
    server.await_address()
    server.await_serving(2)
    ini.write_text(ini.read_text().replace("127.0.0.1:0", "fd:3"))
    server.send(signal.SIGHUP)
    server.await_text("reloaded: ")
    assert reaches(server, passed[0])
    wait_for(lambda: server.said.count("left: exit code 0") == 2, "the old workers to be gone")
    assert server.stop() == 0
    assert is_left_waiting(passed[0])


def test_a_name_that_is_not_there(launch: Start, tmp_path: Path, passed: list[socket.socket]) -> None:
    (tmp_path / "app.py").write_text(SOURCE)
    server = launch("app.py", "--bind=fd:wb", passed=passed, LISTEN_FDNAMES="web:admin")
    assert server.end() == 4
    assert "no socket was passed as fd:wb" in server.said and "admin, web" in server.said


def test_sockets_of_another_process_are_not_ours(launch: Start, tmp_path: Path, passed: list[socket.socket]) -> None:
    (tmp_path / "app.py").write_text(SOURCE)
    server = launch("app.py", "--bind=127.0.0.1:0", passed=passed, LISTEN_PID="1")
    server.await_address()
    assert server.port not in map(port, passed)
    assert "LISTEN_PID is 1, this process is " in server.said
    assert server.stop() == 0


def test_no_listening_socket(launch: Start, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(SOURCE)
    with socket.socket() as idle:
        server = launch("app.py", passed=[idle])
        assert server.end() == 4
    assert "no listening stream socket" in server.said


def test_a_passed_unix_socket_stays(launch: Start, tmp_path: Path, shape: str) -> None:
    (tmp_path / "app.py").write_text(SOURCE)
    path = tmp_path / "passed.sock"
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(path))
        sock.listen()
        for _ in range(2):  # the second server finds it as the first one did
            server = launch("app.py", *SHAPES[shape], passed=[sock])
            server.await_address()
            with contextlib.closing(UnixConnection(path)) as connection:
                connection.request("GET", "/pid")
                assert connection.getresponse().status == 200
            assert server.stop() == 0
            assert path.exists()


def is_listening(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == 0


@pytest.mark.skipif(shutil.which("systemd-socket-activate") is None, reason=MISSING)
def test_a_server_that_systemd_starts_for_the_first_client(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APPLICATION)
    path = tmp_path / "activated.sock"
    environ = [f"--setenv={name}={value}" for name, value in (("PYTHONPATH", ROOT), ("MARKS", tmp_path))]
    command = ["systemd-socket-activate", f"--listen={path}", "--fdname=web", *environ]
    process = subprocess.Popen(
        [*command, sys.executable, "-m", "poorhttp", "app.py", "--bind=fd:web"],
        cwd=tmp_path,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(lambda: path.exists() and is_listening(path), "the socket")
        with contextlib.closing(UnixConnection(path)) as connection:
            connection.request("GET", "/pid")
            assert int(connection.getresponse().read()) == process.pid
        process.terminate()
        assert process.wait(PATIENCE) == 0
        assert path.exists()
    finally:
        process.kill()
        process.wait()


class Told:
    """What the service manager was told, datagram by datagram."""

    def __init__(self, address: str, sock: socket.socket) -> None:
        self.address = address
        self._sock = sock
        self._sock.setblocking(False)
        self._all: list[dict[str, str]] = []

    def all(self) -> list[dict[str, str]]:
        with contextlib.suppress(BlockingIOError):
            while True:
                lines = self._sock.recv(4096).decode().split("\n")
                self._all.append(dict(line.split("=", 1) for line in lines))
        return self._all

    def count(self, name: str) -> int:
        return sum(name in each for each in self.all())

    def await_(self, name: str, count: int = 1) -> dict[str, str]:
        wait_for(lambda: self.count(name) >= count, f"{name} for the {count}. time; told: {self._all}")
        return [each for each in self._all if name in each][count - 1]


@pytest.fixture(params=["path", "abstract"])
def told(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Told]:
    address = str(tmp_path / "notify") if request.param == "path" else f"@poorhttp-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(address.replace("@", "\0") if request.param == "abstract" else address)
        yield Told(address, sock)


def test_the_manager_is_told_of_start_reload_and_stop(start: Start, shape: str, told: Told, tmp_path: Path) -> None:
    server = start(shape, source=SOURCE, NOTIFY_SOCKET=told.address)
    ready = told.await_("READY")
    assert ready["MAINPID"] == str(server.process.pid) and "serv" in ready["STATUS"]
    assert server.get("/told") == (200, "")
    (tmp_path / "app.py").write_text(SOURCE + "\ndef told(environ):\n    return 'again'\n")
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    server.send(signal.SIGHUP)
    reloading = told.await_("RELOADING")
    assert before < int(reloading["MONOTONIC_USEC"]) <= time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    told.await_("READY", 2)
    assert {server.get("/told") for _ in range(20)} == {(200, "again")}, "nobody is answered by the old code now"
    server.await_text("reloaded: ")
    assert told.count("STOPPING") == 0
    assert server.stop() == 0
    told.await_("STOPPING")
    assert [name for each in told.all() for name in each if name in ("READY", "RELOADING", "STOPPING")] == [
        "READY",
        "RELOADING",
        "READY",
        "STOPPING",
    ]


def test_the_manager_is_told_of_a_reload_that_fails(start: Start, shape: str, told: Told, tmp_path: Path) -> None:
    server = start(shape, NOTIFY_SOCKET=told.address)
    told.await_("READY")
    (tmp_path / "app.py").write_text("import no_such_module\n")
    server.send(signal.SIGHUP)
    assert "reload failed" in told.await_("READY", 2)["STATUS"]
    assert server.get("/pid")[0] == 200
    assert server.stop() == 0


@pytest.mark.parametrize("name", ["1x1", "2x1"])
def test_the_manager_is_told_of_what_is_tried_again(start: Start, name: str, told: Told, tmp_path: Path) -> None:
    """And that the old workers answer meanwhile, or else nothing: then it may start the server anew."""
    server = start(name, NOTIFY_SOCKET=told.address, WATCHDOG_USEC="400000")
    told.await_("READY")
    away = 'if os.path.exists("tried"):\n    raise ConnectionError("away")\nopen("tried", "w").close()\n'
    (tmp_path / "app.py").write_text(APPLICATION + away)
    server.send(signal.SIGHUP)
    server.await_text("trying again in 4 s")
    before = told.count("WATCHDOG")
    if name == "2x1":
        told.await_("WATCHDOG", before + 3)
        assert server.said.count("trying again") == 3, "all of them within one pause"
    else:
        server.await_text("trying again in 8 s")
        assert told.count("WATCHDOG") == before
    last = [each for each in told.all() if "STATUS" in each][-1]
    assert last["STATUS"].endswith(": ConnectionError: away")
    assert ("READY" in last, "no clients are served" in last["STATUS"]) == (
        (True, False) if name == "2x1" else (False, True)
    )
    assert server.stop() == 0


LOADS_SLOWLY = """
if "POORHTTP_IS_TRIAL" in os.environ:
    with open("poorhttp.ini", "a") as file:
        file.write("nonsense = 1\\n")
elif os.path.exists("slow"):
    open("loading", "w").close()
    while not os.path.exists("go"):
        time.sleep(0.01)
    open("loaded", "w").close()
"""


def test_a_worker_that_begins_to_serve_while_it_is_tried_again_does_not_hide_that(
    launch: Start, told: Told, tmp_path: Path
) -> None:
    text = "[http]\napplication = app.py\ntype = forking\nprocesses = 2\npreload = no\nbind = 127.0.0.1:0\n"
    (tmp_path / "poorhttp.ini").write_text(text)
    (tmp_path / "app.py").write_text(APPLICATION + LOADS_SLOWLY)
    server = launch("-c", "poorhttp.ini", NOTIFY_SOCKET=told.address)
    server.await_serving(2)
    (tmp_path / "slow").touch()
    os.kill(min(server.workers()), signal.SIGKILL)
    wait_for((tmp_path / "loading").exists, "the next worker")
    server.send(signal.SIGHUP)
    server.await_text("trying again in 1 s")
    (tmp_path / "go").touch()
    wait_for((tmp_path / "loaded").exists, "the next worker to be loaded")
    server.await_serving(2)
    server.await_text("trying again in 4 s")
    statuses = [each["STATUS"] for each in told.all() if "STATUS" in each]
    first = next(number for number, each in enumerate(statuses) if "reload failed" in each)
    assert all("reload failed" in each for each in statuses[first:]), statuses
    assert server.stop() == 0


def test_a_server_whose_workers_do_not_start_is_not_ready(start: Start, told: Told) -> None:
    doomed = APPLICATION + "\nos.register_at_fork(after_in_child=lambda: os._exit(7))\n"
    server = start("2x1", source=doomed, NOTIFY_SOCKET=told.address, WATCHDOG_USEC="200000")
    server.await_text("starts in 0.4 s")
    assert told.count("READY") == told.count("WATCHDOG") == 0
    assert server.stop() == 0


def held(server: Server, introduction: bytes) -> tuple[int, bytes]:
    """Make a request that the application does not answer before the test says so."""
    with contextlib.closing(server.connection()) as connection:
        connection.connect()
        connection.sock.sendall(introduction)
        connection.request("GET", "/held")
        answer = connection.getresponse()
        return answer.status, answer.read()


@pytest.mark.parametrize(
    ("more", "introduction"),
    [((), b""), (("--health=/health",), b""), (("--health=/health", "--proxy-protocol"), b"PROXY UNKNOWN\r\n")],
    ids=["alone", "health", "proxy"],
)
def test_the_watchdog_hears_of_a_server_that_answers(
    start: Start, shape: str, told: Told, more: tuple[str, ...], introduction: bytes
) -> None:
    """Not of one that only answers for itself, as one process with `health` does while all its threads hang."""
    log = "--accesslog=access.log"
    server = start(shape, log, *more, NOTIFY_SOCKET=told.address, WATCHDOG_USEC="400000")
    told.await_("WATCHDOG", 5)
    with ThreadPoolExecutor(HELD) as pool:
        answers = [pool.submit(held, server, introduction) for _ in range(HELD)]
        try:
            wait_for(lambda: not heard_for(told, 0.6), "the watchdog to hear no more")
        finally:
            (server.marks / "release").touch()
        assert {each.result(PATIENCE) for each in answers} == {(200, b"released")}
    count = told.count("WATCHDOG")
    told.await_("WATCHDOG", count + 2)
    assert server.stop() == 0
    assert (server.directory / "access.log").read_text().count("\n") == HELD, "nobody else is in the log"


def heard_for(told: Told, seconds: float) -> int:
    """How often the watchdog hears of the server in this time."""
    before = told.count("WATCHDOG")
    time.sleep(seconds)
    return told.count("WATCHDOG") - before


def test_the_watchdog_of_another_process_is_not_ours(start: Start, told: Told) -> None:
    server = start("1x1", NOTIFY_SOCKET=told.address, WATCHDOG_USEC="100000", WATCHDOG_PID="1")
    told.await_("READY")
    assert heard_for(told, 0.3) == 0
    assert server.stop() == 0


def test_a_manager_that_is_gone_is_no_reason_not_to_serve(start: Start, shape: str, tmp_path: Path) -> None:
    server = start(shape, NOTIFY_SOCKET=str(tmp_path / "nobody"), WATCHDOG_USEC="200000")
    assert server.get("/pid")[0] == 200
    assert server.stop() == 0


def test_in_the_background_the_manager_hears_who_serves(tmp_path: Path, told: Told) -> None:
    """Not the process that it started; and who waits for the output of the command does not wait for a log program."""
    (tmp_path / "app.py").write_text(APPLICATION)
    settings = "bind = unix:server.sock\npidfile = run.pid\nerrorlog = error.log\naccesslog = |sh -c 'cat >requests'\n"
    (tmp_path / "poorhttp.ini").write_text(f"[http]\napplication = app.py\n{settings}")
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "MARKS": str(tmp_path), "NOTIFY_SOCKET": told.address}

    def run(action: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "poorhttp", action, "-c", "poorhttp.ini"]
        return subprocess.run(
            command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=PATIENCE, check=False
        )

    try:
        assert run("start").returncode == 0
        assert told.await_("READY")["MAINPID"] == (tmp_path / "run.pid").read_text().strip()
    finally:
        stopped = run("stop")
    assert stopped.returncode == 0
    told.await_("STOPPING")


@pytest.mark.parametrize(
    ("environ", "code"),
    [
        ({"LISTEN_FDS": "200"}, 2),
        ({"LISTEN_FDS": "9" * 5000}, 2),
        ({"LISTEN_FDS": "x"}, 0),
        ({"NOTIFY_SOCKET": "/nowhere", "WATCHDOG_USEC": "9" * 5000}, 0),
        ({"NOTIFY_SOCKET": "/nowhere", "WATCHDOG_USEC": "0"}, 0),
        ({"NOTIFY_SOCKET": "nowhere", "WATCHDOG_USEC": "1"}, 0),
    ],
)
def test_what_no_manager_says(tmp_path: Path, environ: dict[str, str], code: int) -> None:
    """It is refused in words, or of no consequence."""
    (tmp_path / "app.py").write_text(APPLICATION)
    script = "import os, sys; os.environ['LISTEN_PID'] = str(os.getpid()); sys.argv[0] = 'poorhttp'\n"
    script += "from poorhttp.listen.systemd import Manager, passed\nfrom poorhttp.errors import ConfigError\n"
    script += "try:\n    passed(os.environ, print)\nexcept ConfigError as error:\n    print(error)\n    sys.exit(2)\n"
    script += "assert 0 <= Manager.of(os.environ).watchdog <= 86400\n"
    command = [sys.executable, "-c", script]
    environ = {"PYTHONPATH": str(ROOT), **environ}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=30)
    assert (done.returncode, done.stderr) == (code, "")
