"""What a server tells of itself while it serves: `poorhttp status`, the status page, the control socket, slow requests."""

import contextlib
import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fronts import free_port
from starter import PATIENCE, ROOT, SUPERVISED, Server, Start, UnixConnection, ask, wait_for

APP = """
import ctypes
import os
import subprocess
import sys
import time

MARKS = os.environ["MARKS"]
CHILD = "import sys; kept = b'x' * (40 << 20); print('x', flush=True); sys.stdin.read()"
started = []


def application(environ, start_response):
    path = environ["PATH_INFO"]
    if path == "/fail":
        start_response("503 Service Unavailable", [("Content-Length", "0")])
        return [b""]
    if path == "/moved":
        start_response("302 Found", [("Content-Length", "0"), ("Location", "/")])
        return [b""]
    if path == "/hog":
        # One call that keeps the interpreter, as long on any machine.
        open(os.path.join(MARKS, "hog"), "w").close()
        ctypes.PyDLL(None).sleep(4)
    if path == "/start":
        child = subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        child.stdout.readline()
        started.append(child)  # it ends with this process
    if path == "/stream":
        return stream(start_response)
    if path.startswith("/held"):
        open(os.path.join(MARKS, f"held-{environ['QUERY_STRING']}"), "w").close()
        while not os.path.exists(os.path.join(MARKS, "release")):
            time.sleep(0.01)
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "3")])
    return [b"app"]


def stream(start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    for _ in range(3):
        time.sleep(0.4)
        yield b"x"
"""

THREADS = {"1x1": 1, "1x4": 4, "2x1": 2, "2x2": 4}


def status(server: Server, *arguments: str) -> tuple[int, str]:
    done = subprocess.run(command(server, *arguments), check=False, cwd=server.directory, env=ENV, **PIPES)  # type: ignore[call-overload]
    return done.returncode, done.stdout.decode()


ENV = {**os.environ, "PYTHONPATH": str(ROOT)}
PIPES = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "timeout": PATIENCE}


def command(server: Server, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "poorhttp", "status", f"--pidfile={server.directory / 'run.pid'}", *arguments]


def told(server: Server) -> dict[str, Any]:
    """What `status --json` knows of the board."""
    code, said = status(server, "--json")
    assert code == 0, said
    board: dict[str, Any] = json.loads(said)["board"]
    return board


@pytest.fixture
def begin(start: Start) -> Start:
    def begun(shape: str, *arguments: str, **environ: str) -> Server:
        server = start(shape, "--pidfile=run.pid", *arguments, source=APP, **environ)
        if shape in SUPERVISED:
            wait_for(lambda: len(server.workers()) == 2, "two workers")
        return server

    return begun


@contextlib.contextmanager
def held(server: Server, count: int, path: str = "/held") -> Iterator[list[threading.Thread]]:
    """So many requests are in the application, until this is over."""
    threads = [threading.Thread(target=server.get, args=(f"{path}?{number}",)) for number in range(count)]
    begun = []
    try:
        for number, thread in enumerate(threads):  # one after the other, or one worker would accept two
            thread.start()
            begun.append(thread)
            server.await_mark(f"held-{number}")
        yield threads
    finally:
        (server.marks / "release").touch()
        for thread in begun:
            thread.join(PATIENCE)


def test_status_knows_what_all_threads_are_stuck_in(begin: Start, shape: str) -> None:
    server = begin(shape, "--request-timeout=0", "--health=/health")
    count = THREADS[shape]
    with held(server, count, "/held/%1B[2J<b>"):
        wait_for(
            lambda: sum(len(each["calls"]) for each in told(server)["processes"]) == count, "all calls on the board"
        )
        board = told(server)
        assert (board["busy"], board["threads"], board["connections"]) == (count, count, count)
        calls = [call for each in board["processes"] for call in each["calls"]]
        assert {(call["method"], call["path"]) for call in calls} == {("GET", "/held/%1B[2J<b>")}, "without its query"
        assert all(0 < call["seconds"] < 60 for call in calls)
        assert all(each["pss"] and each["state"] == "serving" for each in board["processes"])
        code, said = status(server)
        assert code == 0 and said.count(" s  GET /held/%1B[2J<b>\n") == count
        assert f"threads: {count} of {count} busy" in said
    wait_for(lambda: told(server)["busy"] == 0, "nobody to be busy")
    board = told(server)
    assert not any(each["calls"] for each in board["processes"])
    assert (board["requests"], board["answers"]["2xx"]) == (count, count)
    assert server.stop() == 0


def test_status_weighs_what_the_application_has_started(begin: Start) -> None:
    server = begin("2x1")
    assert server.get("/start")[0] == 200
    code, said = status(server)
    found = re.search(r"^memory: (\d+\.\d) MiB$", said, re.MULTILINE)
    assert code == 0 and found, said
    assert float(found[1]) > 40 + sum(each["pss"] for each in told(server)["processes"]) / (1 << 20)
    assert server.stop() == 0


def test_a_call_that_keeps_the_interpreter_is_seen_and_logged(begin: Start) -> None:
    server = begin("1x1", "--slow-request=0.3")
    thread = threading.Thread(target=server.get, args=("/hog?a=1",))
    thread.start()
    server.await_mark("hog")
    server.await_text("slow request: GET /hog?a=1 has been at work for ")
    assert [each["path"] for each in told(server)["processes"][0]["calls"]] == ["/hog"]
    thread.join(PATIENCE)
    assert server.said.count("slow request") == 1


def test_counters_sum_up_under_load_and_outlive_a_worker(begin: Start, shape: str) -> None:
    server = begin(shape)

    def load() -> None:
        with contextlib.closing(server.connection()) as connection:
            for number in range(60):
                connection.request("GET", ("/", "/fail", "/moved")[number % 3])
                connection.getresponse().read()

    threads = [threading.Thread(target=load) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    with contextlib.closing(socket.create_connection(("127.0.0.1", server.port), PATIENCE)) as client:
        client.sendall(b"GET / HTTP/9.9\r\n\r\n")
        assert b" 505 " in client.recv(4096)
    board = told(server)
    assert (board["requests"], board["refused"]) == (240, 1)
    assert board["answers"] == {"1xx": 0, "2xx": 80, "3xx": 80, "4xx": 0, "5xx": 81}
    assert board["accepted"] == 5
    wait_for(lambda: told(server)["connections"] == 0, "the connections to be closed")
    if shape in SUPERVISED:
        gone = board["processes"][0]["pid"]
        os.kill(gone, signal.SIGKILL)
        wait_for(lambda: gone not in server.workers() and len(told(server)["processes"]) == 2, "another worker")
        after = told(server)
        assert gone not in {each["pid"] for each in after["processes"]}
        assert (after["requests"], after["answers"]) == (240, board["answers"])
    assert server.stop() == 0


@pytest.mark.parametrize("shape", ["1x1", "2x2"])
def test_the_last_reload_and_its_result(begin: Start, shape: str) -> None:
    server = begin(shape)
    server.await_serving(2 if shape == "2x2" else 1)
    old = {each["pid"] for each in told(server)["processes"]} if shape == "2x2" else set()
    assert told(server)["last_reload"] is None
    (server.directory / "app.py").write_text("import no_such_module\n")
    server.send(signal.SIGHUP)
    wait_for(lambda: (told(server)["last_reload"] or {}).get("result") == "failed", "the failure to be known")
    assert "exit code 3" in told(server)["last_reload"]["why"] and "last reload: failed, " in status(server)[1]
    assert server.get() == (200, "app")
    (server.directory / "app.py").write_text(APP)
    server.send(signal.SIGHUP)
    wait_for(lambda: ((told(server) or {}).get("last_reload") or {}).get("result") == "succeeded", "the success")

    def is_renewed() -> bool:
        processes = told(server)["processes"]
        are_new = not any(each["pid"] in old for each in processes)
        return are_new and [each["state"] for each in processes] == ["serving"] * (2 if shape == "2x2" else 1)

    wait_for(is_renewed, "only new processes")
    assert server.stop() == 0


def test_old_workers_are_seen_while_they_leave(begin: Start) -> None:
    server = begin("2x1", "--slow-request=0")
    with held(server, 1):
        old = server.workers()
        server.send(signal.SIGHUP)
        server.await_text("reloaded: ")

        def leaving() -> list[dict[str, Any]]:
            return [
                each
                for each in (told(server) or {"processes": []})["processes"]
                if each["pid"] in old and each["calls"]
            ]

        wait_for(
            lambda: any(each["state"] in ("draining", "stopping") for each in leaving()), "the old worker to leave"
        )
        assert leaving()[0]["calls"][0]["path"] == "/held"
    wait_for(lambda: not old & server.workers(), "the old workers to be gone")


def test_a_request_is_told_to_be_slow_once(begin: Start) -> None:
    server = begin("1x4", "--slow-request=0.2", "--request-id=yes")
    assert server.get("/stream") == (200, "xxx")
    with held(server, 1):
        server.await_text("slow request: GET /held?0 (request id ")
    lines = [line for line in server.said.splitlines() if "slow request" in line]
    assert [re.sub(r"[0-9a-f]{32}|\d\.\d s", "#", line.partition(": ")[2]) for line in lines] == [
        f"[127.0.0.1] [W] slow request: GET {target} (request id #) has been at work for # and goes on"
        for target in ("/stream", "/held?0")
    ]


@pytest.mark.parametrize("arguments", [("--slow-request=0",), ("--slow-request=0.1", "--log-level=error")])
def test_nothing_is_said_of_slow_requests_unless_wanted(begin: Start, arguments: tuple[str, ...]) -> None:
    server = begin("1x1", *arguments)
    with held(server, 1):
        wait_for(lambda: any(each["seconds"] > 0.6 for each in told(server)["processes"][0]["calls"]), "a long call")
    assert "slow request" not in server.said


# The page


def test_the_page_in_its_three_forms(begin: Start, shape: str) -> None:
    server = begin(shape, "--status-path=/server-status")
    code, kind, body = ask(server, "/server-status")
    assert (code, kind) == (200, "application/json") and json.loads(body)["pid"] == server.process.pid
    with held(server, 1, "/held/<script>") if shape != "1x1" else contextlib.nullcontext():
        if shape != "1x1":
            wait_for(lambda: any(each["calls"] for each in told(server)["processes"]), "a call on the board")
        code, kind, body = ask(server, "/server-status", Accept="text/html")
        assert (code, kind) == (200, "text/html; charset=utf-8") and "<table " in body
        assert "<script" not in body and ("GET /held/&lt;script&gt;" in body) is (shape != "1x1")
    code, kind, body = ask(server, "/server-status/metrics")
    assert code == 200 and kind.startswith("text/plain; version=0.0.4") and "\npoorhttp_requests_total " in body
    assert ask(server, "/server-status?prometheus")[2].startswith("# HELP")
    assert ask(server, "/server-status?json", Accept="text/html")[1] == "application/json"
    for path in ("/server-statusx", "/server-status/", "/server-status/metrics/", "/", "/Server-Status"):
        assert ask(server, path)[2] == "app"
    assert server.stop() == 0


def test_there_is_no_page_unless_it_is_wanted(begin: Start) -> None:
    server = begin("1x1")
    assert [ask(server, path)[2] for path in ("/server-status", "/server-status/metrics")] == ["app", "app"]
    assert server.stop() == 0


OUTSIDE = [
    {"X_Forwarded_For": "203.0.113.9"},
    {"X_Forwarded_For": "127.0.0.1, 203.0.113.9"},
    {"X_Forwarded_For": "203.0.113.9, 127.0.0.1"},
]


@pytest.mark.parametrize("shape", ["1x1", "2x2"])
@pytest.mark.parametrize("bind", ["127.0.0.1:0", "unix:server.sock"])
def test_a_client_from_outside_through_a_front_server_gets_the_application(begin: Start, shape: str, bind: str) -> None:
    server = begin(shape, f"--bind={bind}", "--status-path=/server-status", "--forwarded=x-forwarded")
    assert ask(server, "/server-status")[1] == "application/json"
    assert ask(server, "/server-status", X_Forwarded_For="127.0.0.1")[1] == "application/json"
    behind = [{"Via": "1.1 front"}, {"Forwarded": "for=127.0.0.1"}, {"X_Client_IP": "203.0.113.9"}]
    behind += [{name: "127.0.0.1"} for name in ("X_Real_IP", "CF_Connecting_IP", "True_Client_IP")]
    for fields in [*OUTSIDE, *behind, *({"X_Forwarded_For": "127.0.0.1"} | each for each in behind)]:
        assert ask(server, "/server-status", **fields)[2] == "app", fields
    told = {"X_Forwarded_For": "127.0.0.1", "X_Forwarded_Proto": "https", "X_Forwarded_Server": "front"}
    assert ask(server, "/server-status", **told)[1] == "application/json", "those tell of nobody else"
    assert server.stop() == 0


@pytest.mark.parametrize("bind", ["127.0.0.1:0", "unix:server.sock"])
def test_nor_where_the_settings_do_not_know_that_front_server(begin: Start, bind: str) -> None:
    server = begin("1x1", f"--bind={bind}", "--status-path=/server-status")
    server.await_text("note: status_path: a front server on this machine needs forwarded")
    assert ask(server, "/server-status")[1] == "application/json"
    for fields in [*OUTSIDE, {"X_Forwarded_For": "127.0.0.1"}, {"X_Forwarded_Proto": "https"}, {"Via": "1.1 front"}]:
        assert ask(server, "/server-status", **fields)[2] == "app", fields
    assert server.stop() == 0


@pytest.mark.parametrize("bind", ["127.0.0.1:0", "unix:server.sock"])
def test_nor_one_whose_address_is_not_told(begin: Start, bind: str) -> None:
    server = begin("1x1", f"--bind={bind}", "--status-path=/server-status", "--forwarded=forwarded")
    assert ask(server, "/server-status", Forwarded="for=127.0.0.1")[1] == "application/json"
    for value in ("for=unknown", "for=_hidden", "for=203.0.113.9", 'for="[2001:db8::1]"'):
        assert ask(server, "/server-status", Forwarded=value)[2] == "app", value
    assert server.stop() == 0


@pytest.mark.parametrize("bind", ["127.0.0.1:0", "unix:server.sock"])
def test_nor_by_the_proxy_protocol(begin: Start, bind: str) -> None:
    server = begin(
        "1x1", f"--bind={bind}", "--status-path=/server-status", "--proxy-protocol", "--control-socket=control.sock"
    )
    for header, expected in [
        (b"PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\n", "application/json"),
        (b"PROXY TCP4 203.0.113.9 127.0.0.1 1 2\r\n", "text/plain"),
        (b"PROXY UNKNOWN\r\n", "text/plain"),
    ]:
        assert ask(server, "/server-status", header)[1] == expected, header
    assert ask(server, "/server-status", b"PROXY TCP4 203.0.113.9 127.0.0.1 1 2\r\n", X_Forwarded_For="::1")[2] == "app"
    assert control(server)["pid"] == server.process.pid, "no such header is awaited there"
    assert server.stop() == 0


@pytest.mark.parametrize("bind", ["127.0.0.1:0", "unix:server.sock"])
def test_no_web_page_reads_it_under_a_name_of_its_own(begin: Start, bind: str) -> None:
    """A name that leads here (DNS rebinding) makes a browser on this machine ask for its page's owner."""
    server = begin("1x1", f"--bind={bind}", "--status-path=/server-status", "--forwarded=x-forwarded")
    for host in ("127.0.0.1", f"127.0.0.1:{server.port}", "[::1]:80", "192.0.2.1", "LocalHost:1", "a.localhost"):
        assert ask(server, "/server-status", host=host)[1] == "application/json", host
    for host in ("page.example", "page.example:80", "localhost.page.example", "127.0.0.1.page.example", "1.2.3"):
        for path in ("/server-status", "/server-status?json", "/server-status/metrics"):
            assert ask(server, path, host=host)[2] == "app", host
    assert ask(server, "http://page.example/server-status")[2] == "app"
    told = {"X_Forwarded_For": "127.0.0.1", "X_Forwarded_Host": "page.example"}
    assert ask(server, "/server-status", **told)[2] == "app"
    assert ask(server, "/server-status", **told | {"X_Forwarded_Host": "localhost"})[1] == "application/json"
    assert server.stop() == 0


def test_the_name_on_which_it_listens_is_its_own(begin: Start) -> None:
    name = socket.gethostname()
    try:
        address = socket.getaddrinfo(name, None, socket.AF_INET)[0][4][0]
        socket.create_server((address, 0)).close()
    except OSError:
        pytest.skip("this machine does not know its own name")
    port = free_port(address)
    server = begin("1x1", f"--bind=127.0.0.1:0,{name}:{port}", "--status-path=/server-status")
    assert ask(server, "/server-status", host=f"{name.upper()}:{port}")[1] == "application/json"
    assert ask(server, "/server-status", host=f"{name}.example")[2] == "app"
    assert server.stop() == 0


def test_what_is_told_is_kept_by_nobody(begin: Start) -> None:
    server = begin("1x1", "--status-path=/server-status")
    with contextlib.closing(server.connection()) as connection:
        connection.request("GET", "/server-status")
        answer = connection.getresponse()
        assert (answer.getheader("Cache-Control"), answer.getheader("Vary")) == ("no-store", "Accept")
    assert server.stop() == 0


# The control socket


def control(server: Server, path: str = "/", method: str = "GET") -> Any:
    with contextlib.closing(UnixConnection(server.directory / "control.sock")) as connection:
        connection.request(method, path)
        answer = connection.getresponse()
        body = answer.read().decode()
        return json.loads(body) if answer.getheader("Content-Type") == "application/json" else (answer.status, body)


def test_the_control_socket_tells_and_is_gone_at_the_end(begin: Start, shape: str) -> None:
    server = begin(shape, "--control-socket=control.sock")
    path = server.directory / "control.sock"
    assert path.stat().st_mode & 0o777 == 0o600
    processes = 2 if shape in SUPERVISED else 1
    wait_for(lambda: len(control(server)["processes"]) == processes, "each process to have its row")
    assert control(server)["pid"] == server.process.pid
    wait_for(lambda: control(server)["busy"] == 0, "who tells it not to count")
    assert control(server, "/anything?json")["pid"] == server.process.pid
    assert control(server, "/?prometheus")[1].startswith("# HELP")
    assert control(server, method="POST") == (405, "")
    assert server.get() == (200, "app"), "and there clients are served as before"
    server.send(signal.SIGHUP)
    server.await_text("reloaded: ")
    wait_for(lambda: (control(server)["last_reload"] or {}).get("result") == "succeeded", "the new image to answer")
    assert "control.sock" not in server.said
    assert server.stop() == 0
    assert not path.exists()


def test_a_control_socket_that_is_wanted_anew_and_then_no_more(begin: Start, tmp_path: Path) -> None:
    ini = tmp_path / "poorhttp.ini"
    ini.write_text("[http]\n")
    server = begin("2x1", "--config=poorhttp.ini")
    ini.write_text("[http]\ncontrol_socket = control.sock\n")
    server.send(signal.SIGHUP)
    server.await_text("reloaded: ")
    wait_for(lambda: control(server)["pid"] == server.process.pid, "an answer")
    ini.write_text("[http]\n")
    server.send(signal.SIGHUP)
    wait_for(lambda: not (tmp_path / "control.sock").exists(), "it to be gone")
    wait_for(lambda: server.get() == (200, "app"), "an answer")
    assert server.stop() == 0


def test_a_kill_leaves_nothing_but_the_files(begin: Start) -> None:
    server = begin("2x2", "--control-socket=control.sock", "--status-path=/server-status")
    assert control(server)["pid"] == server.process.pid
    server.workers()
    server.process.kill()
    server.process.wait(PATIENCE)
    wait_for(lambda: not server.left(), "the workers to end")
    left = {each.name for each in server.directory.iterdir()}
    assert left - {"__pycache__"} == {"app.py", "marks", "run.pid", "control.sock"}
    assert status(server)[0] == 1
    again = begin("2x2", "--control-socket=control.sock")
    assert control(again)["pid"] == again.process.pid, "the socket of a dead server is replaced"
    assert again.stop() == 0


def test_a_control_socket_in_a_home_directory_is_refused(launch: Start, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "run").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "run")
    for path in ("control.sock", "run/control.sock", f"{tmp_path}/link/../control.sock", "unix:control.sock", "."):
        server = launch("app.py", "--bind=127.0.0.1:0", f"--control-socket={path}", HOME=str(tmp_path))
        assert server.end() == 2
        assert "control_socket must be a path outside of the home directory" in server.said
    server = launch("app.py", "--bind=127.0.0.1:0", "--control-socket=@abstract", HOME="/")
    assert server.end() == 2 and "control_socket must be the path of a unix socket" in server.said


# In a terminal


Mode = list[Any]
"""Of a terminal."""


def watch(server: Server, *arguments: str) -> tuple[subprocess.Popen[bytes], int, Mode]:
    """`status --watch` in a terminal of its own, that, and how it was before."""
    ours, its = pty.openpty()
    mode = termios.tcgetattr(ours)
    process = subprocess.Popen(
        command(server, "--watch", *arguments),
        cwd=server.directory,
        env=ENV,
        stdin=its,
        stdout=its,
        stderr=its,
        preexec_fn=lambda: (os.setsid(), __import__("fcntl").ioctl(0, termios.TIOCSCTTY, 0)),  # type: ignore[func-returns-value]
    )
    os.close(its)
    return process, ours, mode


def read_until(descriptor: int, wanted: bytes) -> bytes:
    """What is written there, up to what is wanted."""
    seen = b""
    end = time.monotonic() + PATIENCE
    while wanted not in seen:
        assert select.select([descriptor], [], [], max(end - time.monotonic(), 0))[0], seen
        try:
            seen += os.read(descriptor, 65536)
        except OSError:
            pytest.fail(f"it ended after {seen!r}")
    return seen


@pytest.mark.parametrize("key", [b"q", b"\x03", b"TERM", b"HUP"])
def test_watch_in_a_terminal_leaves_it_as_it_was(begin: Start, key: bytes) -> None:
    server = begin("2x1")
    process, terminal, before = watch(server)
    try:
        seen = read_until(terminal, b"req/s")
        assert b"\x1b[?1049h" in seen
        assert not termios.tcgetattr(terminal)[3] & (termios.ECHO | termios.ICANON)
        seen = read_until(terminal, b"/s;")
        if key in (b"TERM", b"HUP"):
            process.send_signal(getattr(signal, f"SIG{key.decode()}"))
        else:
            os.write(terminal, key)
        read_until(terminal, b"\x1b[?1049l")
        assert process.wait(PATIENCE) == 0
        assert termios.tcgetattr(terminal) == before
    finally:
        process.kill()
        process.wait()
        os.close(terminal)
    assert server.stop() == 0


def test_watch_ends_with_the_server(begin: Start) -> None:
    server = begin("1x1")
    process, terminal, _ = watch(server)
    try:
        read_until(terminal, b"req/s")
        assert server.stop() == 0
        assert b"\x1b[?1049l" in read_until(terminal, b"/run.pid\r\n")
        assert process.wait(PATIENCE) == 3
    finally:
        process.kill()
        process.wait()
        os.close(terminal)


def test_watch_ends_with_its_terminal(begin: Start) -> None:
    server = begin("1x1")
    process, terminal, _ = watch(server)
    try:
        read_until(terminal, b"req/s")
        os.close(terminal)
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()
    assert server.stop() == 0


@pytest.mark.parametrize("arguments", [(), ("--json",), ("--watch",), ("--watch", "--json")])
def test_where_nothing_can_be_written_one_line_says_so(begin: Start, arguments: tuple[str, ...]) -> None:
    server = begin("1x1")
    for redirection, why in ((">&-", "it is closed"), ("> /dev/full", "No space left on device")):
        done = subprocess.run(
            ["sh", "-c", f'exec "$@" {redirection}', "sh", *command(server, *arguments)],
            cwd=server.directory,
            env=ENV,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 4
        assert done.stderr.decode() == f"error: cannot write to standard output: {why}\n"
    assert server.stop() == 0


def test_watch_in_a_pipe_writes_block_after_block(begin: Start) -> None:
    server = begin("1x1")
    server.await_serving(1)
    for arguments in ((), ("--json",)):
        process = subprocess.Popen(
            command(server, "--watch", *arguments),
            cwd=server.directory,
            env=ENV,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdout and process.stderr
        try:
            if arguments:
                blocks = [json.loads(process.stdout.readline()) for _ in range(2)]
                assert all(each["board"]["threads"] == 1 for each in blocks)
            else:
                lines = [process.stdout.readline() for _ in range(16)]
                assert sum(line.startswith(b"running: pid ") for line in lines) == 2
                assert b"\x1b" not in b"".join(lines)
        finally:
            process.stdout.close()
            errors = process.stderr.read()
            assert process.wait(PATIENCE) == 0 and errors == b"", "its reader is gone: no fault"
            process.stderr.close()
    assert server.stop() == 0


def test_a_user_who_may_not_look_is_told_why(begin: Start) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    server = begin("1x1")
    os.chmod(server.directory / "run.pid", 0o644)
    code = (
        "import os, sys\n"
        "from poorhttp.config import reading\nfrom poorhttp.config.flags import parse_flags\nfrom poorhttp.operate import control\nfrom poorhttp.status import running\n"
        "settings = reading.read(parse_flags(sys.argv[1:], '/'), {}, '/')\n"
        "find, running.find = running.find, lambda settings: int(sys.argv[1].rpartition('/')[2])\n"
        "os.setgid(65534); os.setuid(65534)\n"
        "raise SystemExit(control.status(settings, print))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, f"/{server.process.pid}"],
        env=ENV,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    said = done.stdout.decode()
    assert done.returncode == 0, done.stderr
    assert f"running: pid {server.process.pid}, for " in said and "memory: not told to this user" in said
    assert f"what it does is told to its user (after `user`: to root) only: /proc/{server.process.pid}/fd" in said
    assert server.stop() == 0


def test_a_server_that_does_not_serve_yet_has_nothing_to_tell(launch: Start, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("import time\ntime.sleep(60)\n")
    server = launch("app.py", "--bind=127.0.0.1:0", "--pidfile=run.pid")
    wait_for((tmp_path / "run.pid").exists, "its pidfile")
    assert "what it does is not known: it does not serve yet" in status(server)[1]
    assert json.loads(status(server, "--json")[1])["board"] is None
    assert server.stop() == 0


def test_an_idle_server_does_not_wake_up_for_the_board(begin: Start) -> None:
    server = begin("1x4", "--status-path=/server-status", "--control-socket=control.sock")
    assert server.get() == (200, "app")

    def switches() -> int:
        total = 0
        for task in Path(f"/proc/{server.process.pid}/task").iterdir():
            total += sum(
                int(line.split()[1]) for line in (task / "status").read_text().splitlines() if "ctxt_switches" in line
            )
        return total

    def sleeps() -> bool:
        before = switches()
        time.sleep(0.5)
        return switches() == before

    wait_for(sleeps, "half a second without a wake-up")
    before = switches()
    time.sleep(2)
    assert switches() == before


def test_fields_that_are_dropped_are_counted(begin: Start) -> None:
    """For an underscore, by which a name could pass for another one, and what CGI would take for a proxy's address."""
    server = begin("1x1")
    with contextlib.closing(server.connection()) as connection:
        for fields in ({}, {"X_User": "a", "x_a_b": "b"}, {"Proxy": "c", "X-User": "d"}):
            connection.request("GET", "/", headers=fields)
            assert connection.getresponse().read() == b"app"
    board = told(server)
    assert (board["requests"], board["dropped"], board["processes"][0]["dropped"]) == (3, 3, 3)
    assert server.stop() == 0
