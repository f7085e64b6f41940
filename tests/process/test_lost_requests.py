"""A worker that dies in a request: the error log names it, and the access log has its line.

However it ends, and however soon after the call began: nobody is there any more who could tell.
"""

import http.client
import json
import os
import re
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from starter import PATIENCE, Server, Start, wait_for

SOURCE = """
import ctypes
import os
import signal
import time

MARKS = os.environ["MARKS"]


def die(how):
    if how == "segfault":
        ctypes.string_at(0)
    if how == "leave":
        os._exit(0)
    os.kill(os.getpid(), signal.SIGKILL)


def stream():
    yield b"x" * 1_000_000
    die("segfault")


def application(environ, start_response):
    name = environ["PATH_INFO"].strip("/").partition("/")[0]
    if name == "held":
        open(os.path.join(MARKS, environ["PATH_INFO"].strip("/").replace("/", "-")), "w").close()
        while True:
            try:  # RequestTimeout may be raised anywhere in here
                if os.path.exists(os.path.join(MARKS, "release")):
                    break
                time.sleep(0.01)
            except BaseException:
                continue
    elif name not in ("", "stream"):
        die(name)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return stream() if name == "stream" else [str(os.getpid()).encode()]
"""

LOST = re.compile(r": \[(\S+)\] \[E\] request lost with worker (\d+): (.*), at work for (\d+\.\d) s\n")


def lost(server: Server) -> list[tuple[str, str]]:
    """Client and request of each line."""
    return [(client, about) for client, _, about, _ in LOST.findall(server.said)]


def lose(server: Server, target: str, *fields: str) -> None:
    """Ask for what kills who answers."""
    with closing(server.connection()) as connection:
        connection.putrequest("GET", target)
        for field in fields:
            connection.putheader(*field.split(": "))
        connection.endheaders()
        with pytest.raises((OSError, http.client.HTTPException)):
            connection.getresponse().read()


@pytest.mark.parametrize("how", ["segfault", "leave", "kill"])
def test_the_request_of_a_dead_worker_is_named(start: Start, supervised: str, tmp_path: Path, how: str) -> None:
    access = tmp_path / "access.log"
    server = start(supervised, f"--accesslog={access}", source=SOURCE)
    lose(server, f"/{how}/a%1Bb?q=1")
    server.await_text("request lost with worker ")
    assert lost(server) == [("127.0.0.1", f"GET /{how}/a%1Bb?q=1")]
    wait_for(lambda: access.read_text().endswith("\n"), "the line of the access log")
    line = access.read_text().removesuffix("\n")
    time = r"\d\d/\w{3}/\d{4} \d\d:\d\d:\d\d"
    assert re.fullmatch(rf'127\.0\.0\.1:\d+ 127\.0\.0\.1 - \[{time}\] "GET /{how}/a%1Bb\?q=1 HTTP/1\.1" 500 0', line), (
        line
    )
    assert server.get()[0] == 200
    assert server.stop() == 0
    assert len(lost(server)) == 1, "who was in no request lost none"


def test_it_is_named_while_a_program_is_written_too(launch: Start, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(SOURCE)
    server = launch("dev", "app.py", "--port=0", "--type=forking", "--processes=2")
    server.await_address()
    assert server.get()[0] == 200
    lose(server, "/kill")
    server.await_text("request lost with worker ")
    assert lost(server) == [("127.0.0.1", "GET /kill")]
    assert server.stop(signal.SIGINT) == 0


@pytest.mark.parametrize("form", ["combined", "json"])
def test_the_line_of_the_access_log_has_its_format(start: Start, tmp_path: Path, form: str) -> None:
    """The client and the id are those that the front server tells."""
    access = tmp_path / "access.log"
    settings = (f"--accesslog={access}", f"--accesslog-format={form}", "--forwarded=x-forwarded", "--request-id=yes")
    server = start("2x1", *settings, source=SOURCE)
    lose(server, "/kill", "X-Forwarded-For: 2001:db8::7", "X-Forwarded-Host: www.example", "X-Request-ID: id-17")
    wait_for(lambda: access.exists() and access.read_text().endswith("\n"), "the line of the access log")
    line = access.read_text()
    if form == "json":
        told = json.loads(line)
        assert told.pop("time")
        assert told == {
            "client": "2001:db8::7",
            "host": f"127.0.0.1:{server.port}",
            "method": "GET",
            "target": "/kill",
            "version": "HTTP/1.1",
            "status": 500,
            "length": 0,
            "request_id": "id-17",
        }
    else:
        assert re.fullmatch(r'2001:db8::7 - - \[[^]]+ [+-]\d{4}\] "GET /kill HTTP/1\.1" 500 0 "-" "-"\n', line), line
    server.await_text("request lost with worker ")
    assert lost(server) == [("2001:db8::7", "GET /kill (request id id-17)")]
    assert server.stop() == 0


def test_all_requests_that_a_worker_was_in_are_named(start: Start) -> None:
    server = start("2x2", "--processes=1", "--threads=3", "--slow-request=0", source=SOURCE)
    with ThreadPoolExecutor(2) as pool:
        held = [pool.submit(lose, server, f"/held/{number}") for number in range(2)]
        server.await_mark("held-0")
        server.await_mark("held-1")
        lose(server, "/kill")
        for each in held:
            each.result(PATIENCE)
    wait_for(lambda: len(lost(server)) == 3, "three lines")
    assert {about for _, about in lost(server)} == {"GET /held/0", "GET /held/1", "GET /kill"}
    assert server.stop() == 0


def test_a_stream_is_lost_too(start: Start) -> None:
    """Its head was sent in a call that is long over; who died went on with it."""
    server = start("2x1", "--processes=1", source=SOURCE)
    lose(server, "/stream?first")
    server.await_text("request lost with worker ")
    assert lost(server) == [("127.0.0.1", "GET /stream?first")]
    assert server.stop() == 0


def test_a_client_without_an_address_and_a_target_that_is_too_long(start: Start, tmp_path: Path) -> None:
    access = tmp_path / "access.log"
    server = start("2x1", f"--bind=unix:{tmp_path}/s", f"--accesslog={access}", source=SOURCE)
    with closing(socket.socket(socket.AF_UNIX)) as client:
        client.settimeout(PATIENCE)
        client.connect(f"{tmp_path}/s")
        client.sendall(b"GET /kill/" + b"x" * 5000 + b" HTTP/1.0\r\nHost: a\r\n\r\n")
        assert client.recv(1) == b""
    server.await_text("request lost with worker ")
    ((client_name, about),) = lost(server)
    assert client_name == "-" and re.fullmatch("GET /kill/x{100,}", about) and len(about) < 512
    wait_for(lambda: access.exists() and access.read_text().endswith("\n"), "the line of the access log")
    assert re.fullmatch(rf'- - - \[[^]]+\] "{about} HTTP/1\.0" 500 0\n', access.read_text())
    assert server.stop() == 0


def test_a_stop_names_what_it_cuts_off(start: Start) -> None:
    server = start("2x1", "--processes=1", "--graceful-timeout=0.2", source=SOURCE)
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(lose, server, "/held/long")
        server.await_mark("held-long")
        assert server.stop() == 1
        held.result(PATIENCE)
    assert lost(server) == [("127.0.0.1", "GET /held/long")]


def test_a_call_that_was_given_up_is_logged_as_it_was_answered(start: Start, tmp_path: Path) -> None:
    access = tmp_path / "access.log"
    server = start("2x1", "--processes=1", f"--accesslog={access}", "--request-timeout=0.5", source=SOURCE)
    assert server.get("/held")[0] == 504
    wait_for(lambda: access.exists() and access.read_text().endswith("\n"), "the line of the access log")
    assert '"GET /held HTTP/1.1" 504 0\n' in access.read_text()
    assert server.stop() == 0


def test_a_worker_that_is_in_no_request_loses_none(start: Start, supervised: str) -> None:
    server = start(supervised, source=SOURCE)
    assert server.get()[0] == 200
    before = server.workers()
    server.send(signal.SIGHUP)
    wait_for(lambda: server.said.count(" left: exit code 0") == len(before), "the old workers to leave")
    victim = min(server.workers())
    os.kill(victim, signal.SIGKILL)
    server.await_text(f"worker {victim} died: killed by SIGKILL")
    assert server.get()[0] == 200
    assert server.stop() == 0
    assert lost(server) == []
