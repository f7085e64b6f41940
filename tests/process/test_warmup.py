"""warmup: requests that the application answers in the process that loads it, before the server serves and forks."""

import contextlib
import json
import os
import re
import signal
import time
from pathlib import Path

import pytest
from starter import EVERY_SHAPE, SUPERVISED, Server, Start, ask, run, wait_for

from poorhttp import __version__

APPLICATION = """
import os, socket, sqlite3, sys, threading, time

calls, kept = [], []


def mark(name):
    open(name, "w").close()
    return True


def application(environ, start):
    path = environ["PATH_INFO"]
    calls.append(f"{path} {os.getpid()}")
    if path == "/fails":
        raise ValueError("failed as asked")
    if path == "/exits":
        sys.exit(3)
    if path == "/leaves":
        os._exit(7)
    if path == "/leaves-quietly":
        try:
            os._exit(7)
        except BaseException:
            pass
    if path == "/forks" and os.fork():
        os.wait()
    while path == "/sleeps":
        time.sleep(0.01)  # a signal that comes right before it is heard behind it
    while path == "/insists":
        try:
            time.sleep(100)
        except BaseException:
            pass
    if path == "/deaf":  # neither signals nor exceptions reach it
        import ctypes
        mutex = ctypes.create_string_buffer(64)
        while True:
            ctypes.CDLL(None).pthread_mutex_lock(mutex)
    if path == "/thread":
        threading.Thread(target=time.sleep, args=(1000,), daemon=True, name="ticker").start()
    if path == "/database":
        kept.append(sqlite3.connect("kept.db"))
        kept[0].execute("create table if not exists one (two)")
    status = {"/503": "503 Later", "/400": "400 Bad Request", "/404": "404 Not Found"}.get(path, "200 OK")
    start(status, [("Content-Type", "text/plain")])
    return Body(path)


class Body:
    def __init__(self, path):
        self.path = path

    def __iter__(self):
        yield ", ".join(calls).encode()
        calls.append(f"iterated {self.path}")

    def close(self):
        calls.append(f"closed {self.path}")
"""


def warnings(server: Server) -> list[str]:
    return [line.partition("[W] ")[2] for line in server.said.splitlines() if "[W]" in line]


@EVERY_SHAPE
def test_it_is_asked_once_by_the_process_that_loads(start: Start, shape: str) -> None:
    server = start(shape, "--warmup=/a, /b?c=d", source=APPLICATION)
    status, body = server.get("/")
    loader = server.process.pid
    asked = body.split(", ")
    assert status == 200
    assert asked[:3] == [f"/a {loader}", "iterated /a", "closed /a"]
    assert asked[3:6] == [f"/b {loader}", "iterated /b", "closed /b"]
    assert re.fullmatch(r"/ \d+", asked[6]) and len(asked) == 7
    assert (asked[6] == f"/ {loader}") == (shape not in SUPERVISED)
    assert server.said.count("[I] warm-up: GET /a is answered 200 OK, in ") == 1
    assert server.said.count("[I] warm-up: GET /b?c=d is answered 200 OK, in ") == 1
    assert server.stop() == 0
    assert warnings(server) == []


@EVERY_SHAPE
def test_without_it_nothing_is_asked(start: Start, shape: str) -> None:
    server = start(shape, source=APPLICATION)
    assert re.fullmatch(r"/ \d+", server.get()[1])
    assert server.stop() == 0
    assert "warm-up" not in server.said


@pytest.mark.parametrize("shape", ["1x1", "2x1"])
def test_a_bad_answer_is_told_and_the_server_serves(start: Start, shape: str) -> None:
    server = start(shape, "--warmup=/fails /503 /400 /404 /fine", "--bind=127.0.0.1:0", source=APPLICATION)
    assert server.get()[0] == 200
    assert server.stop() == 0
    told = warnings(server)
    assert told[0] == (
        "warm-up: app.py:16: GET /fails fails: ValueError: failed as asked; the server serves all the same"
    )
    trace = server.said.partition("GET /fails fails")[2].partition("[W]")[0]
    assert 'app.py", line 16, in application' in trace and "    ValueError: failed as asked\n" in trace
    assert "question.py" not in trace, "frames of the server say nothing to the author"
    assert told[1].startswith("warm-up: GET /503 is answered 503 Later, in ")
    assert told[2].startswith("warm-up: GET /400 is answered 400 Bad Request, in ")
    assert "with Host: 127.0.0.1; " in told[2] and "warmup = https://www.example.com/" in told[2]
    assert told[3].startswith("warm-up: GET /404 is answered 404 Not Found, in ") and "is the path right?" in told[3]
    assert len(told) == 4


FAULTS = [
    ("/exits", r"app\.py:18: GET /exits ends the process, in the warm-up: SystemExit: 3"),
    ("/leaves", r"app\.py:20: GET /leaves ends the process, in the warm-up: os\._exit\(7\)"),
    ("/leaves-quietly", r"app\.py: GET /leaves-quietly ends the process, in the warm-up: os\._exit\(7\)"),
    ("/forks", r"app\.py: GET /forks forks the process, in the warm-up"),
    ("/sleeps", r"app\.py:(28|29): GET /sleeps was not answered in 0\.5 s, in the warm-up"),
    ("/insists", r"app\.py:32: GET /insists was not answered in 0\.5 s, in the warm-up"),
    ("/deaf", r"app\.py:39: GET /deaf was not answered in 0\.5 s, in the warm-up"),
]


@pytest.mark.parametrize("more", [("--type=single",), ("--type=forking",), ("--type=forking", "--preload=no")], ids=str)
@pytest.mark.parametrize(("path", "told"), FAULTS, ids=[each[0] for each in FAULTS])
def test_what_a_request_must_not_do_is_a_failed_load(
    launch: Start, tmp_path: Path, path: str, told: str, more: tuple[str, ...]
) -> None:
    (tmp_path / "app.py").write_text(APPLICATION)
    words = ("--bind=unix:s.sock", "--pidfile=run.pid", f"--warmup=/,{path}", "--request-timeout=0.5", *more)
    server = launch("app.py", *words)
    assert server.end() == 3
    assert re.search(rf"(?m)^error: {told}$", server.said), server.said
    assert "\nhint: " in server.said
    assert not (tmp_path / "s.sock").exists() and not (tmp_path / "run.pid").exists()


@pytest.mark.parametrize(("path", "told"), FAULTS, ids=[each[0] for each in FAULTS])
def test_check_tells_it_too(tmp_path: Path, path: str, told: str) -> None:
    (tmp_path / "app.py").write_text(APPLICATION)
    words = ("app.py", "--port=0", "--type=forking", f"--warmup={path}", "--request-timeout=0.5")
    for command in ("check", *words), (*words, "--check-config"):
        code, said = run(tmp_path, *command)
        assert code == 3 and re.search(rf"(?m)^error: {told}$", said), said


def test_check_warms_up_and_then_asks(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(
        APPLICATION.replace("    calls.append(f", "    print(path)\n    calls.append(f", 1)
    )
    words = ("--port=0", "--type=forking", "--warmup=/a,/fails,/database")
    code, said = run(tmp_path, "check", "app.py", *words)
    assert code == 0, said
    assert said.index("warm-up: GET /a is answered 200 OK") < said.index("GET / is answered 200 OK")
    assert re.search(r"(?m)^note: warm-up: app\.py:17: GET /fails fails: ValueError: failed as asked; ", said)
    assert "note: the workers do not get all that" in said and "they share the database" in said
    assert said.endswith("ok\n")


@pytest.mark.parametrize("shape", SUPERVISED)
def test_threads_and_connections_that_it_leaves_are_told(start: Start, shape: str, tmp_path: Path) -> None:
    server = start(shape, "--warmup=/thread,/database", source=APPLICATION)
    assert server.get()[0] == 200
    assert server.stop() == 0
    (told,) = warnings(server)
    assert "when it was loaded or warmed up: they lack the thread 'ticker'; they share the database " in told
    assert f"{tmp_path / 'kept.db'}; begin it in each worker" in told


def test_what_is_closed_before_the_fork_is_not_told(start: Start) -> None:
    """Also by a hook that is registered after the server's own."""
    hook = "\nos.register_at_fork(before=lambda: [each.close() for each in kept])\n"
    server = start("2x1", "--warmup=/database", source=APPLICATION + hook)
    assert server.get()[0] == 200
    assert server.stop() == 0
    assert warnings(server) == []


@pytest.mark.parametrize("shape", ["1x4", "2x1"])
def test_a_reload_warms_up_anew_and_a_fault_keeps_the_old_code(start: Start, shape: str, tmp_path: Path) -> None:
    server = start(shape, "--warmup=/a", "--request-timeout=0.5", source=APPLICATION)
    loader = server.process.pid
    for fault in "sys.exit(4)", "os._exit(5)", "time.sleep(100)", "os.fork()":
        (tmp_path / "app.py").write_text(
            APPLICATION.replace("    calls.append(f", f"    {fault}\n    calls.append(f", 1)
        )
        before = server.said.count("reload failed, the server goes on as it was: exit code 3: app.py")
        server.send(signal.SIGHUP)
        wait_for(
            lambda before=before: server.said.count("goes on as it was: exit code 3: app.py") > before, "the reload"
        )
        assert server.get()[1].startswith(f"/a {loader}, ")
    (tmp_path / "app.py").write_text(APPLICATION.replace('{path} {os.getpid()}"', 'new {path} {os.getpid()}"'))
    server.send(signal.SIGHUP)
    wait_for(lambda: server.get()[1].startswith(f"new /a {loader}, "), "the new code")
    assert server.stop() == 0
    assert server.said.count("[I] warm-up: GET /a is answered") == 2, "what the trial says is not logged"


def test_a_worker_that_takes_the_place_of_another_is_warm_already(start: Start) -> None:
    server = start("2x1", "--warmup=/a", source=APPLICATION)
    server.await_serving(2)
    before = server.workers()
    os.kill(min(before), signal.SIGKILL)
    wait_for(lambda: len(server.workers() - before) == 1, "another worker")
    server.await_serving(2)
    loader = server.process.pid
    assert all(server.get()[1].startswith(f"/a {loader}, ") for _ in range(10))
    assert server.said.count("warm-up") == 1
    assert server.stop() == 0


def test_without_preload_each_worker_warms_up_itself(start: Start) -> None:
    server = start("2x1", "--warmup=/a", "--preload=no", source=APPLICATION)
    server.await_serving(2)
    first, *_, last = server.get()[1].split(", ")
    assert first.split(" ")[1] == last.split(" ")[1] != str(server.process.pid)
    assert server.said.count("[I] warm-up: GET /a is answered") == 2
    assert server.stop() == 0


def test_a_stop_while_it_is_asked_is_clean(launch: Start, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APPLICATION.replace('while path == "/sleeps":', 'while mark("asked"):'))
    server = launch("app.py", "--bind=unix:s.sock", "--pidfile=run.pid", "--type=forking", "--warmup=/sleeps")
    wait_for((tmp_path / "asked").exists, "the application to be asked")
    began = time.monotonic()
    assert server.stop() == 0
    assert time.monotonic() - began < 10, "request_timeout is 60 s"
    assert not (tmp_path / "s.sock").exists() and not (tmp_path / "run.pid").exists()


TELLS = """
import json
seen = []

def application(environ, start):
    seen.append({name: repr(value) for name, value in environ.items()})
    start("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(seen).encode()]
"""
NOT_ALIKE = {"REMOTE_PORT", "SERVER_PORT", "wsgi.input", "wsgi.file_wrapper"}
"""Ports, of which one was chosen by the kernel; objects of other classes, with the same methods."""


@pytest.mark.parametrize("shape", ["1x1", "2x2"])
@pytest.mark.parametrize("more", [(), ("--debug", "--webmaster=me@b", "--server-header=x")], ids=["plain", "more"])
def test_the_environ_is_that_of_a_client(start: Start, shape: str, more: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "p.ini").write_text("[http]\n[application]\na = b\n[environ]\nC = d\n")
    server = start(shape, "-c", "p.ini", "--warmup=/a%20b/%C3%A9?q=%20", *more, source=TELLS)
    fields = {"Accept": "*/*", "User_Agent": f"poorhttp/{__version__}"}
    *_, body = ask(server, "/a%20b/%C3%A9?q=%20", host="127.0.0.1", **fields)
    warm, client = json.loads(body)
    assert set(warm) == set(client) - {"HTTP_CONNECTION", "poorhttp.error_page"}
    different = {name for name in set(warm) - NOT_ALIKE if warm[name] != client[name]}
    assert not different, {name: (warm[name], client[name]) for name in different}
    assert server.stop() == 0


def test_requests_come_with_the_host_of_the_first_address_or_of_a_url(start: Start) -> None:
    source = TELLS.replace("repr(value)", "value if isinstance(value, str) else ''")
    server = start("2x1", "--warmup=/, https://www.example.com:8443/x", source=source)
    first, second, _ = json.loads(server.get()[1])
    assert (first["HTTP_HOST"], first["SERVER_NAME"], first["wsgi.url_scheme"]) == ("127.0.0.1", "127.0.0.1", "http")
    names = ("HTTP_HOST", "SERVER_NAME", "SERVER_PORT", "PATH_INFO", "wsgi.url_scheme")
    assert [second[each] for each in names] == ["www.example.com:8443", "www.example.com", "8443", "/x", "https"]
    assert server.stop() == 0


IMPORTS = """
def application(environ, start):
    import colorsys
    start("200 OK", [("Content-Type", "text/plain")])
    def body():
        import fractions
        yield b"done"
    return body()
"""


def test_the_debug_log_names_what_a_worker_imports_late(start: Start) -> None:
    server = start("2x1", "--log-level=debug", source=IMPORTS)
    with contextlib.closing(server.connection()) as connection:
        for _ in range(3):
            connection.request("GET", "/")
            assert connection.getresponse().read() == b"done"
    server.await_text("fractions")
    told = re.findall(r"\[D\] worker \d+ has imported (.*); import them with the application", server.said)
    assert told[0] == "colorsys" and "fractions" in told[1].split(", ")
    assert server.stop() == 0
    server = start("2x1", "--log-level=debug", "--warmup=/", source=IMPORTS)
    assert server.get() == (200, "done")
    assert server.stop() == 0
    assert "has imported" not in server.said


@pytest.mark.parametrize("text", ["a", "ftp://a/", "/\xe9", "/a, http://a:b/"])
def test_what_is_no_path_is_refused(tmp_path: Path, text: str) -> None:
    code, said = run(tmp_path, "app.py", f"--warmup={text}")
    assert code == 2 and "warmup must be a path such as /, or a URL such as" in said
