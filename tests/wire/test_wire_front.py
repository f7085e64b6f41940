"""What a front server gets beside answers: request ids, the health of the server, and files to send itself."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ID = re.compile(r"[0-9a-f]{32}")
Ask = Callable[..., Any]


def told(response: Any) -> dict[str, str]:
    assert response.status == 200, response
    environ: dict[str, str] = response.json()["environ"]
    return environ


# ------------------------------------------------------------------------------------------------------ request id


def test_no_request_has_an_id_by_default(serve: Ask) -> None:
    environ = told(serve("echo").get("/", "X-Request-ID: mine"))
    assert environ["HTTP_X_REQUEST_ID"] == "mine"
    assert "poorhttp.request_id" not in environ


def test_each_request_has_its_own(serve: Ask, compose: Callable[..., bytes]) -> None:
    with serve("echo", request_id="yes").connect() as client:
        client.send(compose() * 50)
        responses = [client.response() for _ in range(50)]
    ids = {told(response)["poorhttp.request_id"] for response in responses}
    assert len(ids) == 50
    assert all(map(ID.fullmatch, ids))
    assert {told(response)["HTTP_X_REQUEST_ID"] for response in responses} == ids
    assert responses[0].header("X-Request-ID") is None


def test_workers_make_different_ones(serve: Ask) -> None:
    server = serve("echo", (2, 2), request_id="yes")
    ids = {told(server.get())["poorhttp.request_id"] for _ in range(40)}
    assert len(ids) == 40


@pytest.mark.parametrize(
    ("given", "is_taken"),
    [
        (["0123-abc_DEF.:+/=@"], True),
        (["x" * 128], True),
        (["x" * 129], False),
        ([""], False),
        (["a b"], False),
        (['"'], False),
        (["a\\"], False),
        (["\xe9"], False),
        (["a,b"], False),
        (["a", "b"], False),
    ],
)
def test_that_of_a_front_server_is_taken_where_it_is_plain(serve: Ask, given: list[str], is_taken: bool) -> None:
    environ = told(serve("echo", request_id="yes").get("/", *(f"X-Request-ID: {each}" for each in given)))
    assert (environ["poorhttp.request_id"] == given[0]) is is_taken
    assert is_taken or ID.fullmatch(environ["poorhttp.request_id"])
    assert environ["HTTP_X_REQUEST_ID"] == environ["poorhttp.request_id"]


def test_that_of_a_client_is_not(serve: Ask) -> None:
    environ = told(serve("echo", request_id="yes", trusted_proxies="none").get("/", "X-Request-ID: forged"))
    assert ID.fullmatch(environ["HTTP_X_REQUEST_ID"])


def test_it_is_answered_and_logged(start: Ask) -> None:
    server = start("echo", request_id="answer", accesslog_format="json", health="/health")
    assert server.get("/health", "X-Request-ID: of-health").header("X-Request-ID") == "of-health"
    response = server.get("/", "X-Request-ID: from-the-front")
    assert response.header("X-Request-ID") == "from-the-front"
    made = server.get("/made")
    assert made.header("X-Request-ID") == told(made)["poorhttp.request_id"]
    with server.connect() as client:
        asked = client.request("*", "X-Request-ID: of-the-server", method="OPTIONS")
    assert asked.header("X-Request-ID") == "of-the-server"
    lines = [json.loads(line) for line in server.request_lines(4)[-3:]]
    assert [line["request_id"] for line in lines] == ["from-the-front", made.header("X-Request-ID"), "of-the-server"]


def test_an_application_may_answer_with_its_own(start: Ask) -> None:
    source = """
    def application(environ, start_response):
        if environ["PATH_INFO"] == "/fails":
            raise KeyError("boom")
        start_response("200 OK", [("x-request-id", "its own")] if environ["PATH_INFO"] == "/own" else [])
        return [b"x"]
    """
    server = start(source, request_id="answer", errors=["boom"])
    assert server.get("/own").header("X-Request-ID") == "its own"
    assert ID.fullmatch(server.get("/").header("X-Request-ID"))
    failed = server.get("/fails")
    assert (failed.status, bool(ID.fullmatch(failed.header("X-Request-ID")))) == (500, True)


@pytest.mark.parametrize(
    ("request_text", "status", "is_taken"),
    [
        ("BAD LINE\r\n", 400, False),
        ("GET / HTTP/1.1\r\nHost: a\r\nX-Request-ID: mine\r\nExpect: magic\r\n\r\n", 417, True),
        ("GET / HTTP/1.1\r\nX-Request-ID: mine\r\n\r\n", 400, True),
        ("POST / HTTP/1.1\r\nHost: a\r\nX-Request-ID: mine\r\nContent-Length: 9\r\n\r\nab", 408, True),
        ("POST / HTTP/1.1\r\nHost: a\r\nX-Request-ID: a b\r\nContent-Length: 99999999999\r\n\r\n", 413, False),
    ],
)
def test_a_refused_request_has_one_too(start: Ask, request_text: str, status: int, is_taken: bool) -> None:
    """In the answer, where that is asked for, and the same one in the access log."""
    server = start("echo", request_id="answer", accesslog_format="json", body_timeout=0.3)
    with server.connect() as client:
        client.send(request_text)
        response = client.response()
    answered = response.header("X-Request-ID")
    assert response.status == status
    assert answered == "mine" if is_taken else ID.fullmatch(answered)
    lines = [json.loads(line) for line in server.request_lines(2)]
    assert lines[-1]["request_id"] == answered
    with start("echo", request_id="yes").connect() as client:
        client.send("BAD LINE\r\n")
        assert client.response().header("X-Request-ID") is None


def test_of_a_head_that_was_refused_nothing_stays(start: Ask) -> None:
    source = """
    def application(environ, start_response):
        try:
            start_response("200 OK", [("X-Request-ID", "its own"), ("Upgrade", "x"), ("X-Bad", "line\\n")])
        except ValueError:
            start_response("200 OK", [])
        return [b"x"]
    """
    server = start(source, request_id="answer")
    assert ID.fullmatch(server.get("/").header("X-Request-ID"))
    assert "left out" not in server.errors()


# ---------------------------------------------------------------------------------------------------------- health

BUSY = """
import time
from gate import note, opened, wait


def application(environ, start_response):
    note(environ["PATH_INFO"])
    if environ["PATH_INFO"] == "/wait":
        wait("open")
    end = time.monotonic() + 20
    while environ["PATH_INFO"] == "/spin" and not opened("open") and time.monotonic() < end:
        pause = time.monotonic() + 0.1  # between two looks, which let others have the interpreter
        while time.monotonic() < pause:
            pass
    start_response("200 OK", [("Content-Length", "5")])
    return [b"hello"]
"""


def test_the_server_answers_for_itself(serve: Ask, any_shape: Any, until: Ask) -> None:
    server = serve("hello", any_shape, health="/health")
    response = server.get("/health")
    assert (response.status, response.body, response.header("Cache-Control")) == (200, b"serving\n", "no-store")
    assert server.get("/health?verbose").status == 200
    head = server.get("/health", method="HEAD")
    assert (head.status, head.body, head.header("Content-Length")) == (200, b"", "8")
    assert server.get("/health", version="1.0").status == 200
    assert "/health" not in server.notes()
    for target in "/health/", "/healthy", "/Health":
        server.get(target)
        assert target in server.notes()
    assert server.get("/health", method="POST", body=b"x").body == b"hello"
    with server.connect() as client:
        assert client.send("GET /health HTTP/1.1\r\n\r\n").response().status == 400
    until(lambda: '/health HTTP/1.1" 400 ' in server.requests(), "the line of the refusal")
    assert 'GET /health HTTP/1.1" 200' not in server.requests(), "it would fill the log"


CHECKS = {
    "HAProxy, option httpchk /health": b"OPTIONS /health HTTP/1.0\r\n\r\n",
    "HAProxy, option httpchk GET /health": b"GET /health HTTP/1.0\r\n\r\n",
    "HAProxy, option httpchk HEAD /health": b"HEAD /health HTTP/1.0\r\n\r\n",
    "HAProxy, http-check send": b"GET /health HTTP/1.1\r\nhost: www.example.com\r\nconnection: close\r\n\r\n",
    "nginx_upstream_check": b"GET /health HTTP/1.0\r\n\r\n",
    "Varnish": b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
    "Apache mod_proxy_hcheck": b"HEAD /health HTTP/1.0\r\nHost: 127.0.0.1:8080\r\n\r\n",
    "keepalived": b"GET /health HTTP/1.0\r\nUser-Agent: KeepAliveClient\r\nHost: 127.0.0.1:8080\r\n\r\n",
    "keepalived 1.1": (
        b"GET /health HTTP/1.1\r\nUser-Agent: KeepAliveClient\r\nConnection: close\r\nHost: 127.0.0.1:8080\r\n\r\n"
    ),
    "monit": (
        b"GET /health HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: Monit/5.33.0\r\nAccept: */*\r\n"
        b"Accept-Encoding: identity\r\nConnection: close\r\n\r\n"
    ),
    "check_http -I": (
        b"GET /health HTTP/1.0\r\nUser-Agent: check_http/v2.3.3 (monitoring-plugins 2.3.3)\r\nConnection: close\r\n\r\n"
    ),
    "check_http -H -j HEAD": (
        b"HEAD /health HTTP/1.1\r\nUser-Agent: check_http/v2.3.3 (monitoring-plugins 2.3.3)\r\n"
        b"Connection: close\r\nHost: www.example:8080\r\n\r\n"
    ),
    "Kubernetes": (
        b"GET /health HTTP/1.1\r\nHost: 10.0.0.5:8080\r\nUser-Agent: kube-probe/1.29\r\nAccept: */*\r\n"
        b"Connection: close\r\n\r\n"
    ),
}
"""What each program sends, byte for byte, where it is told the path and no more, or as its manual shows."""


def test_each_load_balancer_is_answered(serve: Ask, until: Ask) -> None:
    server = serve("hello", health="/health")
    notes, lines = len(server.notes()), len(server.requests())  # the server may be that of another test
    for name, check in CHECKS.items():
        with server.connect() as client:
            method = check.partition(b" ")[0].decode()
            response = client.send(check).response(method=method)
            assert (response.status, response.body) == (200, b"" if method == "HEAD" else b"serving\n"), name
            assert client.rest() == b"", f"{name} waits for the end"
    with server.connect():
        pass  # as HAProxy, keepalived and Kubernetes check a port
    assert server.get("/last").body == b"hello"
    until(lambda: "/last" in server.requests(), "the last line")
    assert server.notes()[notes:] == ["/last"], "they are not the application's"
    assert "/health" not in server.requests()[lines:], "they would fill the log"


def test_no_path_is_the_servers_by_default(serve: Ask) -> None:
    assert serve("hello").get("/health").body == b"hello"


def test_in_a_pipeline_each_has_its_answer(serve: Ask, compose: Callable[..., bytes]) -> None:
    with serve("hello", health="/health").connect() as client:
        client.send((compose("/health") + compose("/a")) * 30 + compose("/health") * 2000)
        bodies = [client.response().body for _ in range(2060)]
    assert bodies == [b"serving\n", b"hello"] * 30 + [b"serving\n"] * 2000


@pytest.mark.parametrize("path", ["/wait", "/spin"])
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_it_answers_while_every_thread_is_busy(start: Ask, threads: int, path: str) -> None:
    """And what waits meanwhile is served as soon as a thread is back."""
    server = start(BUSY, (1, threads), health="/health")
    busy = []
    for count in range(1, threads + 1):
        busy.append(server.connect().send(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"))
        server.await_note(path, count)
    waiting = [server.connect().send("GET /waiting HTTP/1.1\r\nHost: a\r\n\r\n") for _ in range(3)]
    for _ in range(5):
        assert server.get("/health").status == 200
        with server.connect() as client:  # also on a connection that is kept
            assert [client.request("/health").status, client.request("/health").status] == [200, 200]
    assert "/waiting" not in server.notes(), "they were not busy after all"
    server.open_gate("open")
    for client in [*busy, *waiting]:
        assert client.response().body == b"hello"
    assert server.get("/after").body == b"hello"


def test_a_busy_process_leaves_requests_to_the_others(start: Ask) -> None:
    server = start(BUSY, (2, 1), health="/health")
    busy = server.connect().send("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n")
    server.await_note("/wait")
    for _ in range(50):
        assert server.get("/other").body == b"hello"
        assert server.get("/health").status == 200
    server.open_gate("open")
    assert busy.response().body == b"hello"


def test_a_thread_that_comes_back_serves_at_once(start: Ask) -> None:
    """The caretaker lays the baton down; many times, for there are many ways to miss that."""
    source = """
    import time


    def application(environ, start_response):
        time.sleep(0.003)
        start_response("200 OK", [("Content-Length", "5")])
        return [b"hello"]
    """
    for threads in 1, 2:
        server = start(source, (1, threads), health="/health")
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(server.connect()) for _ in range(4)]
            for _ in range(150):
                for client in clients:
                    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                assert server.get("/health").status == 200
                begun = time.monotonic()
                for client in clients:
                    assert client.response().body == b"hello"
                assert time.monotonic() - begun < 5


def test_it_says_so_when_the_server_leaves(start: Ask, any_shape: Any, until: Ask) -> None:
    server = start(BUSY, any_shape, health="/health")
    busy = server.connect().send(f"GET {'/' if any_shape == (2, 1) else '/wait'} HTTP/1.1\r\nHost: a\r\n\r\n")
    if any_shape != (2, 1):  # a worker of several that has only one thread answers for itself between calls
        server.await_note("/wait")
    kept = [server.connect() for _ in range(8)]
    for client in kept:
        # A head that has begun is finished during a stop.
        client.send("GET /health HTTP/1.1\r\nHost: a\r\n")
    until(lambda: all(_unread(client) == 0 for client in kept), "the beginnings are read")
    server.signal(signal.SIGTERM)
    until(lambda: _refuses(server), "a stop")
    for client in kept:
        response = client.send("\r\n").response()
        assert (response.status, response.body, response.closes) == (503, b"leaving\n", True)
    server.open_gate("open")
    assert busy.response().body == b"hello"
    assert server.wait() == 0


def _refuses(server: Any) -> bool:
    try:
        server.get("/health")
    except (ConnectionError, EOFError):
        return True
    return False


def _unread(client: Any) -> int:
    """Bytes that were sent and that the other side has not taken."""
    import array
    import fcntl

    size = array.array("i", [0])
    fcntl.ioctl(client.sock, 0x5411, size)
    return size[0]


def test_it_says_so_while_a_successor_comes(start: Ask, until: Ask) -> None:
    server = start(BUSY, health="/health")
    busy = server.connect().send("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n")
    server.await_note("/wait")
    server.signal(signal.SIGHUP)
    until(lambda: server.get("/health").status == 503, "the old image to leave")
    server.open_gate("open")
    assert busy.response().body == b"hello"
    until(lambda: server.get("/health").status == 200, "the new image to serve")


# ----------------------------------------------------------------------------------------------------------- files

FILES = """
import os
HERE = os.environ["TEST_DIRECTORY"]


def application(environ, start_response):
    path = environ["PATH_INFO"]
    file = open(os.path.join(HERE, "a b\\xe9%.txt"), "rb", buffering=0 if path == "/raw" else -1)
    headers = [("Content-Type", "text/x-test")]
    status = "200 OK"
    if path == "/length":
        headers.append(("Content-Length", "10"))
    if path == "/part":
        file.seek(2)
    if path == "/short":
        headers.append(("Content-Length", "4"))
    if path == "/status":
        status = "206 Partial Content"
    if path == "/coded":
        headers.append(("Content-encoding", "gzip"))
    if path == "/gone":
        os.rename(file.name, file.name + ".old")
        os.unlink(file.name + ".old")
    start_response(status, headers)
    return environ["wsgi.file_wrapper"](file)
"""


@pytest.fixture
def files(start: Ask) -> Ask:
    def get(header: str, **settings: Any) -> Any:
        server = start(FILES, sendfile_header=header, **settings)
        (Path(server.directory) / "a b\xe9%.txt").write_bytes(b"0123456789")
        return server

    return get


@pytest.mark.parametrize(
    ("setting", "name", "prefix"),
    [("X-Sendfile", "X-Sendfile", ""), ("X-Accel-Redirect /files/", "X-Accel-Redirect", "/files")],
)
def test_a_whole_file_is_left_to_the_front_server(files: Ask, setting: str, name: str, prefix: str) -> None:
    server = files(setting)
    with server.connect() as client:
        for path in "/", "/length", "/raw":
            response = client.request(path)
            place = os.path.realpath(server.directory)
            assert response.header(name) == f"{prefix}{place}/a%20b%C3%A9%25.txt"
            assert (response.body, response.header("Content-Length")) == (b"", "0")
            assert response.header("Content-Type") == "text/x-test"
        response = client.request("/", method="HEAD")
        assert response.header(name)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/part", b"23456789"),
        ("/short", b"0123"),
        ("/status", b"0123456789"),
        ("/gone", b"0123456789"),
        ("/coded", b"0123456789"),
    ],
)
def test_what_is_not_a_whole_file_is_sent(files: Ask, path: str, body: bytes) -> None:
    response = files("X-Sendfile").get(path)
    assert (response.header("X-Sendfile"), response.body) == (None, body)


def test_a_client_gets_the_file_itself(files: Ask) -> None:
    server = files("X-Sendfile", trusted_proxies="127.0.0.2")
    response = server.get("/")
    assert (response.header("X-Sendfile"), response.body) == (None, b"0123456789")
    sock = socket.create_connection(server.address, timeout=20, source_address=("127.0.0.2", 0))
    with sock:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        received = b""
        while data := sock.recv(65536):
            received += data
    assert b"\r\nX-Sendfile: /" in received


def test_files_are_sent_by_default(files: Ask) -> None:
    assert files("").get("/").body == b"0123456789"
