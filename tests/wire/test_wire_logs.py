"""The Server field and the access log in its three formats; nothing that a client sends forges a line or a field.

Knows the formats by what they must look like.
"""

from __future__ import annotations

import json
import re
import signal
import ssl
import time
from typing import Any

import psutil
import pytest

POOR = re.compile(r'(\S+) (\S+) - \[(\d\d/[A-Z][a-z]{2}/\d{4} \d\d:\d\d:\d\d)\] "((?:[^"\\]|\\.)*)" (\d{3}) (\d+|-)')
COMBINED = re.compile(
    r'(\S+) - (\S+) \[(\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4})\] "((?:[^"\\]|\\.)*)" (\d{3}) (\d+|-)'
    r' "((?:[^"\\]|\\.)*)" "((?:[^"\\]|\\.)*)"'
)
FORGERIES = {
    "quote": b'a" 200 5 "x" "y',
    "backslash": b"a\\",
    "backslash-quote": b'a\\" 200',
    "latin-1": b"caf\xe9 \x80\x9b31m \xff",
    "json": b'","status":200,"x":"',
    "percent": b"%0a%0d%22 %s %d %n",
    "brackets": b"[18/Sep/2013 23:29:01] - - []",
    "utf-8": "\u2028\u0085\u202e".encode(),
    "tab": b"a\tb",
    "long": b"a" * 6000,
}


def send(server: Any, value: bytes) -> None:
    with server.connect() as client:
        client.send(
            b"GET /f HTTP/1.1\r\nHost: a\r\nConnection: close\r\nUser-Agent: %s\r\nReferer: %s\r\n\r\n" % (value, value)
        )
        assert client.response().status == 200


# ------------------------------------------------------------------------------------------------------- formats


def test_poor_format(start: Any, any_shape: Any) -> None:
    server = start("hello", any_shape)
    before = len(server.request_lines(1))
    server.get("/a?b=c")
    line = server.request_lines(before + 1)[-1]
    match = POOR.fullmatch(line)
    assert match, line
    assert match[2] == "127.0.0.1"
    assert match[4] == "GET /a?b=c HTTP/1.1"
    assert (match[5], match[6]) == ("200", "5")


def test_combined_format(start: Any, any_shape: Any) -> None:
    server = start("hello", any_shape, accesslog_format="combined")
    before = len(server.request_lines(1))
    server.get("/a", "User-Agent: agent/1.0", "Referer: http://from.example/")
    server.get("/b")
    lines = server.request_lines(before + 2)[before:]  # in any order: each process writes its own
    first, second = (COMBINED.fullmatch(next(line for line in lines if target in line)) for target in ("/a", "/b"))
    assert first and second, lines
    assert first[1] == "127.0.0.1"
    assert first[4] == "GET /a HTTP/1.1"
    assert (first[5], first[6]) == ("200", "5")
    assert (first[7], first[8]) == ("http://from.example/", "agent/1.0")
    assert (second[7], second[8]) == ("-", "-")


def test_json_format(start: Any, any_shape: Any) -> None:
    server = start("hello", any_shape, accesslog_format="json")
    before = len(server.request_lines(1))
    server.get("/a?b", "User-Agent: agent/1.0", "Referer: http://from.example/")
    record = json.loads(server.request_lines(before + 1)[-1])
    values = [str(value) for value in record.values()]
    for expected in ("127.0.0.1", "200", "5", "agent/1.0", "http://from.example/"):
        assert expected in values, record
    assert any("GET" in value for value in values)
    assert any("/a?b" in value for value in values)


def test_every_response_has_a_line(start: Any, any_shape: Any, compose: Any) -> None:
    """In order on one connection: answers of the application, of the server, HEAD without bytes, a refusal."""
    server = start("hello", any_shape)
    before = len(server.request_lines(1))
    with server.connect() as client:
        client.send(
            compose("/1")
            + compose("*", method="OPTIONS")
            + compose("/2", method="HEAD")
            + compose("/3", method="CONNECT")
        )
        assert client.response().status == 200
        assert client.response().status in (200, 204)
        assert client.response("HEAD").status == 200
        assert client.response().status >= 400
    lines = [POOR.fullmatch(line) for line in server.request_lines(before + 4)[before:]]
    assert [match[5][0] for match in lines if match] == ["2", "2", "2", lines[-1][5][0]]
    assert lines[0][4] == "GET /1 HTTP/1.1"
    assert lines[2][4] == "HEAD /2 HTTP/1.1"
    assert lines[2][6] in ("0", "-")


def test_no_access_log(start: Any) -> None:
    server = start("hello", accesslog="")
    assert server.get("/").status == 200
    assert server.requests() == ""


def test_access_log_on_stdout(start: Any, until: Any) -> None:
    server = start("hello", accesslog="-")
    server.get("/on-stdout")
    until(lambda: '"GET /on-stdout HTTP/1.1" 200 5' in server.output(), "the line on stdout")


def test_error_log_on_stderr(start: Any, until: Any) -> None:
    server = start("hello", errorlog="-")
    server.get("/ok")
    assert server.get("/x", "Bad Name: 1").status == 400
    until(
        lambda: re.search(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d: \[127\.0\.0\.1\] \[[A-Z]\] ", server.output(), re.M),
        "the line",
    )


def test_lines_of_concurrent_clients_are_whole(start: Any, any_shape: Any, compose: Any) -> None:
    server = start("hello", any_shape)
    before = len(server.request_lines(1))
    clients = [server.connect() for _ in range(20)]
    for client in clients:
        client.send(compose("/x" + "y" * 300) * 50)
    for client in clients:
        for _ in range(50):
            assert client.response().status == 200
        client.close()
    lines = server.request_lines(before + 1000)[before:]
    assert len(lines) == 1000
    assert all(POOR.fullmatch(line) for line in lines)


# ------------------------------------------------------------------------------------------------------- forgeries


@pytest.mark.parametrize("name", FORGERIES)
def test_combined_cannot_be_forged(serve: Any, name: str) -> None:
    server = serve("hello", accesslog_format="combined")
    before = len(server.request_lines(1))
    send(server, FORGERIES[name])
    lines = server.request_lines(before + 1)[before:]
    assert len(lines) == 1
    assert lines[0].isascii() and lines[0].isprintable(), lines[0]
    match = COMBINED.fullmatch(lines[0])
    assert match, lines[0]
    assert (match[4], match[5], match[6]) == ("GET /f HTTP/1.1", "200", "5")


@pytest.mark.parametrize("name", FORGERIES)
def test_json_cannot_be_forged(serve: Any, name: str) -> None:
    server = serve("hello", accesslog_format="json")
    before = len(server.request_lines(1))
    send(server, FORGERIES[name])
    lines = server.request_lines(before + 1)[before:]
    assert len(lines) == 1
    assert lines[0].isascii() and lines[0].isprintable(), lines[0]
    pairs = json.loads(lines[0], object_pairs_hook=list)
    assert len({key for key, _ in pairs}) == len(pairs), "no key twice"
    values = [value for _, value in pairs]
    assert 200 in values or "200" in values
    text = FORGERIES[name].decode("latin-1")
    if len(text) < 1000:
        assert values.count(text) == 2, "a real encoder gives back what was sent"


@pytest.mark.parametrize("target", ['/a"b', "/a?x=%0d%0a%22", '/"%20200%205', "/a\\x"])
@pytest.mark.parametrize("kind", ["poor", "combined"])
def test_a_target_cannot_forge(serve: Any, kind: str, target: str) -> None:
    server = serve("hello", accesslog_format=kind)
    before = len(server.request_lines(1))
    server.get(target)
    lines = server.request_lines(before + 1)[before:]
    assert len(lines) == 1
    assert lines[0].isascii() and lines[0].isprintable()
    assert (POOR if kind == "poor" else COMBINED).fullmatch(lines[0]), lines[0]


@pytest.mark.parametrize("host", ['a"b', "a b", "a\\b", "a.example - [x]"])
def test_a_host_cannot_forge(serve: Any, host: str) -> None:
    server = serve("hello")
    before = len(server.request_lines(1))
    with server.connect() as client:
        client.send(f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")
        assert client.response().status == 400
    lines = server.request_lines(before + 1)[before:]
    assert len(lines) == 1
    assert POOR.fullmatch(lines[0]), lines[0]


@pytest.mark.parametrize("kind", ["poor", "combined", "json"])
@pytest.mark.parametrize(
    "raw", [b"GET /\x1b[31m HTTP/1.1\r\n", b'"\r\n', b"\x00\xff\r\n", b"GET /a HTTP/1.1\r\nX: \x1b]0;x\x07\r\n"]
)
def test_a_bad_request_cannot_forge(serve: Any, kind: str, raw: bytes) -> None:
    server = serve("hello", accesslog_format=kind)
    before, errors = len(server.request_lines(1)), len(server.error_lines())
    with server.connect() as client:
        client.send(raw)
        assert client.response().status == 400
    lines = server.request_lines(before + 1)[before:]
    assert len(lines) == 1
    assert lines[0].isascii() and lines[0].isprintable(), lines[0]
    if kind == "json":
        json.loads(lines[0])
    else:
        assert (POOR if kind == "poor" else COMBINED).fullmatch(lines[0]), lines[0]
    assert all(line.isprintable() for line in server.error_lines()[errors:])


# ---------------------------------------------------------------------------------------------------- Server field


def test_server_header_by_default(serve: Any, any_shape: Any) -> None:
    assert serve("hello", any_shape).get("/").header("Server") == "poorhttp"


def test_server_header_set(serve: Any) -> None:
    server = serve("hello", server_header="my/1.0 (own)")
    assert server.get("/").header("Server") == "my/1.0 (own)"
    assert server.get("/", "Bad Name: 1").header("Server") == "my/1.0 (own)"


def test_server_header_removed(serve: Any) -> None:
    server = serve("hello", server_header="")
    assert server.get("/").header("Server") is None
    assert server.get("/", "Bad Name: 1").header("Server") is None


# ------------------------------------------------------------------------------------------------------- error log

LATE = """
    import types
    from poorhttp import http
    from poorhttp.dispatch import application

    def page(req):
        req.write("part of the answer")
        req.flush()
        raise ValueError("too late for a page")

    application = application(types.SimpleNamespace(handlers={"/late": (http.METHOD_GET, page)}))
"""


def test_an_exception_behind_part_of_an_answer_is_told_once(start: Any, until: Any) -> None:
    server = start(LATE, errors=["too late for a page"])
    with server.connect() as client:
        client.send(b"GET /late HTTP/1.1\r\nHost: a\r\n\r\n")
        assert b"part of the answer" in client.rest_or_reset()
    until(lambda: "too late for a page" in server.errors(), "a traceback in the error log")
    assert server.errors().count("Traceback") == 1


# -------------------------------------------------------------------------------------------------------- signals

DEAF = """
import signal, threading
from gate import note, wait

ours = -1

def application(environ, start_response):
    global ours
    name = environ["PATH_INFO"].strip("/")
    if name:
        if threading.current_thread() is threading.main_thread():
            # -1 first, as the end of an asyncio loop does that had signal handlers; then as it was.
            ours = signal.set_wakeup_fd(ours)
        note(name)
        wait(name)
    start_response("200 OK", [("Content-Length", "4")])
    return [b"here"]
"""


@pytest.mark.parametrize("shape", [(1, 1), (1, 4)], ids=["1x1", "1x4"])
def test_signals_are_heard_though_the_application_took_the_wakeup_descriptor(
    start: Any, shape: Any, compose: Any, until: Any
) -> None:
    """Whether the main thread waits for events or for work."""
    server = start(DEAF, shape)

    def in_each_thread(name: str) -> None:
        clients = [server.connect().send(compose("/" + name)) for _ in range(shape[1])]
        server.await_note(name, shape[1])  # one of them in the main thread
        server.open_gate(name)
        for client in clients:
            assert client.response().body == b"here"

    def sleeps() -> bool:
        times = psutil.Process(server.pid).cpu_times()
        time.sleep(0.05)
        return bool(psutil.Process(server.pid).cpu_times() == times)

    in_each_thread("deaf")
    log = server.directory / "access.log"
    for turn in range(5):
        until(sleeps, "the server to be idle")
        log.rename(server.directory / f"access.{turn}")
        server.signal(signal.SIGUSR1)
        until(log.exists, "the log to be opened anew")
        assert server.get("/").body == b"here"
    in_each_thread("hearing")


# ------------------------------------------------------------------------------------------------------- refusals


def test_the_line_of_a_refusal_names_the_request(serve: Any) -> None:
    server = serve("hello")
    assert server.get("/refused?a=b", "Bad Name: 1").status == 400
    assert any("] 400 " in line and line.endswith("(GET /refused?a=b)") for line in server.error_lines())


def test_a_client_that_asks_for_https_is_told_of_in_the_log(serve: Any, until: Any) -> None:
    server = serve("hello")
    context = ssl.create_default_context()
    with server.connect() as client, pytest.raises((ssl.SSLError, OSError)):
        context.wrap_socket(client.sock, server_hostname="localhost")
    until(lambda: any("400 Bad Request: the client speaks TLS" in line for line in server.error_lines()))


@pytest.mark.parametrize("raw", [b"GET \x01", b"G\x01", b"\x01"])
def test_a_request_line_that_could_not_be_read_is_logged_as_none(start: Any, raw: bytes) -> None:
    server = start("hello")
    before = len(server.request_lines(1))
    with server.connect() as client:
        client.send(raw)
        assert client.response().status == 400
    assert server.request_lines(before + 1)[-1].split('"')[1] == "-"
    assert not server.error_lines()[-1].endswith(")")


def test_exhausted_descriptors_are_told_once(start: Any, until: Any) -> None:
    """When they run out, and when they do no longer; not ten times a second."""
    app = """
        import os
        kept = []

        def application(environ, start_response):
            if environ["PATH_INFO"] == "/take":
                try:
                    while True:
                        kept.append(os.open("/dev/null", os.O_RDONLY))
                except OSError:
                    pass
            elif environ["PATH_INFO"] == "/give":
                while kept:
                    os.close(kept.pop())
            start_response("200 OK", [("Content-Length", "4")])
            return [b"here"]
    """
    server = start(app, descriptors=64)
    with server.connect() as client:
        assert client.request("/take").body == b"here"
        with server.connect() as other:
            other.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            until(lambda: "no descriptor is left" in server.errors(), "the first line")
            time.sleep(0.5)  # it is tried again five times meanwhile
            assert client.request("/give").body == b"here"
            assert other.response().body == b"here"
    until(lambda: "connections are accepted again" in server.errors(), "the second line")
    assert server.errors().count("no descriptor is left") == 1
