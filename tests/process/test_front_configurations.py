"""The printed configurations, in the hands of the programs that they are for: each is accepted, and a request through
it arrives as its client's, whatever the client writes into the fields that front servers set.
"""

import csv
import http.client
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from fronts import PORTS, before, printed, program
from starter import ROOT, Start, wait_for

FAMILIES = {"x-forwarded": ("--forwarded=x-forwarded",), "forwarded": ("--forwarded=forwarded",)}

FORGED = {
    "X-Forwarded-For": "6.6.6.6",
    "X-Forwarded-Proto": "https",
    "X-Forwarded-Host": "evil.example",
    "X-Forwarded-Prefix": "/evil",
    "X-Forwarded-User": "admin",
    "X-Real-IP": "6.6.6.6",
    "Forwarded": "for=6.6.6.6;proto=https;host=evil.example",
    "X-Request-ID": "forged",
}

APPLICATION = """
import json
import os
import time
from types import SimpleNamespace

from poorhttp import http
from poorhttp.dispatch import application as dispatch

HERE = os.path.dirname(os.path.abspath(__file__))


def send(req):
    return http.sendfile(req, os.path.join(HERE, "a file.txt"))


table = dispatch(SimpleNamespace(handlers={"/handler": (http.METHOD_GET, send)}))


def events():
    while True:
        yield b"data: event\\n\\n"
        time.sleep(0.05)


def failing():
    yield b"x" * 50_000
    raise ValueError("declared")


def application(environ, start_response):
    if environ["PATH_INFO"] in ("/short", "/short-length", "/failing"):
        length = [("Content-Length", "60000")] if environ["PATH_INFO"] != "/failing" else []
        start_response("200 OK", [("Content-Type", "text/plain"), *length])
        return [b"x" * 50_000] if environ["PATH_INFO"] == "/short" else failing()
    if environ["PATH_INFO"] == "/file":
        start_response("200 OK", [("Content-Type", "text/x-test")])
        return environ["wsgi.file_wrapper"](open(os.path.join(HERE, "a file.txt"), "rb"))
    if environ["PATH_INFO"] == "/handler":
        return table(environ, start_response)
    if environ["PATH_INFO"] == "/sleep":
        time.sleep(0.3)
    if environ["PATH_INFO"] == "/stream":
        start_response("200 OK", [("Content-Type", "text/event-stream"), ("X-Accel-Buffering", "no")])
        return events()
    if environ["PATH_INFO"] == "/answer":
        start_response("200 OK", [("Set-Cookie", f"c{number}=" + "c" * 4000) for number in range(7)])
        return [b""]
    told = {name: value for name, value in environ.items() if isinstance(value, str)}
    told["pid"] = os.getpid()
    told["length"] = len(environ["wsgi.input"].read())
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(told).encode()]
"""

Front = Callable[..., int]


@pytest.fixture
def front(launch: Start, tmp_path: Path) -> Iterator[Front]:
    """front(name, *arguments, backends=2): the port of that program before so many servers."""
    with ExitStack() as running:

        def begin(name: str, *arguments: str, backends: int = 2, unix: bool = False, host: str = "127.0.0.1") -> int:
            program(name)
            (tmp_path / "app.py").write_text(APPLICATION)
            (tmp_path / "a file.txt").write_text("the file")
            places = []
            for number in range(backends):
                place = f"unix:{tmp_path}/{number}.sock" if unix else "127.0.0.1:0"
                server = launch("app.py", f"--bind={place}", *arguments)
                server.await_address()
                places.append(place if unix else f"127.0.0.1:{server.port}")
            text = printed(name, f"--bind={', '.join(places)}", *arguments)
            return running.enter_context(before(name, text, tmp_path, host))

        yield begin


def ask(
    port: int, path: str = "/", body: bytes = b"", host: str = "127.0.0.1", **fields: str
) -> tuple[int, dict[str, str], bytes]:
    with closing(http.client.HTTPConnection(host, port, timeout=20)) as connection:
        headers = {"Host": f"www.example:{port}"} | fields
        connection.request("POST" if body else "GET", path, body=body or None, headers=headers)
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read()


def told(port: int, **keywords: Any) -> dict[str, Any]:
    status, _, body = ask(port, **keywords)
    assert status == 200, body
    environ: dict[str, Any] = json.loads(body)
    return environ


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", PORTS)
def test_a_request_arrives_as_that_of_its_client(front: Front, name: str, family: str) -> None:
    port = front(name, *FAMILIES[family], "--request-id=yes")
    for fields in {}, FORGED:
        environ = told(port, path="/a%20b?c", **fields)
        assert environ["REMOTE_ADDR"] == "127.0.0.1"
        assert environ["wsgi.url_scheme"] == "http"
        assert environ["HTTP_HOST"] == f"www.example:{port}"
        assert (environ["SERVER_NAME"], environ["SERVER_PORT"]) == ("www.example", str(port))
        assert (environ["SCRIPT_NAME"], environ["PATH_INFO"], environ["QUERY_STRING"]) == ("", "/a b", "c")
        assert environ["poorhttp.request_id"] not in ("", "forged")
        text = json.dumps(environ)
        assert "6.6.6.6" not in text
        assert "evil" not in text
        assert "admin" not in text


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", PORTS)
def test_a_client_over_ipv6(front: Front, name: str, family: str) -> None:
    port = front(name, *FAMILIES[family], host="[::1]")
    environ = told(port, host="::1", **FORGED)
    assert (environ["REMOTE_ADDR"], environ["HTTP_HOST"]) == ("::1", f"www.example:{port}")


@pytest.mark.parametrize("name", PORTS)
def test_all_servers_get_requests_and_bodies_pass(front: Front, name: str) -> None:
    port = front(name, "--forwarded=x-forwarded", backends=3)
    # Who has the fewest requests gets the next one: nine at a time.
    with ThreadPoolExecutor(9) as pool:
        environs = list(pool.map(lambda _: told(port, path="/sleep"), range(9)))
    assert len({environ["pid"] for environ in environs}) == 3
    assert told(port, body=b"x" * 3_000_000)["length"] == 3_000_000


@pytest.mark.parametrize("name", [*PORTS, "nginx unbuffered"])
def test_a_refusal_arrives_while_the_body_is_still_sent(launch: Start, tmp_path: Path, name: str) -> None:
    """The front server takes larger bodies than the server behind it; it, too, writes before it reads."""
    program_name, _, is_unbuffered = name.partition(" ")
    program(program_name)
    (tmp_path / "app.py").write_text(APPLICATION)
    server = launch("app.py", "--bind=127.0.0.1:0", "--max-body=1m")
    server.await_address()
    text = printed(program_name, f"--bind=127.0.0.1:{server.port}", "--forwarded=x-forwarded")
    if is_unbuffered:
        text = text.replace("proxy_http_version 1.1;", "proxy_http_version 1.1; proxy_request_buffering off;")
    with before(program_name, text, tmp_path) as port:
        for _ in range(3):
            assert ask(port, body=bytes(20_000_000))[0] == 413


@pytest.mark.parametrize("name", PORTS)
def test_over_unix_sockets(front: Front, name: str) -> None:
    port = front(name, "--forwarded=x-forwarded", "--socket-mode=666", unix=True)
    environ = told(port, **FORGED)
    assert (environ["REMOTE_ADDR"], environ["SERVER_NAME"]) == ("127.0.0.1", "www.example")


@pytest.mark.parametrize(("name", "field"), [("lighttpd", "X-Sendfile"), ("nginx", "X-Accel-Redirect /poorhttp-files")])
def test_the_front_server_sends_files(front: Front, name: str, field: str) -> None:
    port = front(name, "--forwarded=x-forwarded", f"--sendfile-header={field}")
    status, fields, body = ask(port, "/file")
    assert (status, body) == (200, b"the file")
    assert fields["Content-Type"] == "text/x-test"
    assert "X-Sendfile" not in fields
    assert "X-Accel-Redirect" not in fields
    status, fields, body = ask(port, "/file", Range="bytes=4-")
    assert (status, body) == (206, b"file"), "poorhttp has no ranges: it was the front server"
    assert ask(port, "/poorhttp-files/etc/passwd")[0] == (404 if name == "nginx" else 200)


@pytest.mark.parametrize(
    ("name", "field"),
    [("lighttpd", "X-Sendfile"), ("nginx", "X-Accel-Redirect /poorhttp-files"), *((name, "") for name in PORTS)],
)
def test_a_file_that_the_client_has_is_not_sent_again(front: Front, name: str, field: str) -> None:
    port = front(name, "--forwarded=x-forwarded", *([f"--sendfile-header={field}"] if field else []))
    status, fields, body = ask(port, "/handler")
    fields = {known.lower(): value for known, value in fields.items()}  # HAProxy writes them so
    assert (status, body, fields["content-type"]) == (200, b"the file", "text/plain")
    for known, asked in {"etag": "If-None-Match", "last-modified": "If-Modified-Since"}.items():
        status, _, body = ask(port, "/handler", **{asked: fields[known]})
        assert (status, body) == (304, b"")
        status, _, body = ask(port, "/handler", **{asked: '"other"'})
        assert (status, body) == (200, b"the file")


@pytest.mark.parametrize("name", PORTS)
def test_a_stream_arrives_while_it_goes_on(front: Front, name: str) -> None:
    port = front(name, "--forwarded=x-forwarded", backends=1)
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=20)) as connection:
        connection.request("GET", "/stream", headers={"Host": "www.example"})
        response = connection.getresponse()
        assert response.status == 200
        assert [response.readline() for _ in range(4)] == [b"data: event\n", b"\n"] * 2


def test_haproxy_finds_each_server_well_by_a_check_written_by_hand(launch: Start, tmp_path: Path) -> None:
    """With the two lines of docs/proxy.md, and with those of HAProxy's manual. Without a path it asks the application."""
    text = (ROOT / "docs" / "proxy.md").read_text()
    by_hand = re.findall(r"^ +(option httpchk)\n +(http-check send .*)\n", text, re.M)
    checks = [*by_hand, ("option httpchk",), ("option httpchk /health",), ("option httpchk GET /health",), ()]
    assert len(checks) == 5
    server = launch(str(ROOT / "examples"), "--bind=127.0.0.1:0", "--health=/health")
    server.await_address()
    lines = ["defaults", "    mode http", "    timeout connect 5s", "    timeout client 5s", "    timeout server 5s"]
    lines += ["frontend web", "    bind :80", "    stats enable", "    stats uri /stats"]
    for number, check in enumerate(checks):
        lines += [f"backend check{number}", *(f"    {line}" for line in check)]
        lines.append(f"    server web 127.0.0.1:{server.port} check inter 200ms fall 1")

    def found(port: int) -> list[str]:
        rows = csv.DictReader(ask(port, "/stats;csv")[2].decode().splitlines())
        return [row["check_status"] for row in rows if row["svname"] == "web"]

    with before("haproxy", "\n".join([*lines, ""]), tmp_path) as port:
        wait_for(lambda: "INI" not in found(port), "all servers to be checked")
        assert found(port) == ["L7OK"] * 4 + ["L4OK"]


@pytest.mark.parametrize("name", PORTS)
def test_large_heads_pass(front: Front, name: str) -> None:
    """Of requests as large ones as the server takes, where the front server can; of answers some 30 KB."""
    port = front(name, "--forwarded=x-forwarded", backends=1)
    for fields in {"Cookie": "c" * 60_000}, {f"X-{number}": "h" * 300 for number in range(190)}:
        environ = told(port, **fields)
        assert sum(len(value) for key, value in environ.items() if key.startswith("HTTP_")) > 57_000
    ticket = {"Authorization": "Negotiate " + "k" * 87_380}
    if name == "lighttpd":
        assert ask(port, **ticket)[0] == 431, "its own limit is 64 KB"
    else:
        assert len(told(port, **ticket)["HTTP_AUTHORIZATION"]) == 87_390
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=20)) as connection:
        connection.request("GET", "/answer")
        cookies = connection.getresponse().headers.get_all("Set-Cookie") or []
        assert len("".join(cookies)) > 28_000


@pytest.mark.parametrize("name", PORTS)
def test_an_answer_that_breaks_off_does_so_for_the_client_too(front: Front, name: str) -> None:
    """At once: lighttpd would wait for the client, or take for all of an answer what ends in order without its last chunk."""
    port = front(name, "--forwarded=x-forwarded", backends=1)
    for path in "/short", "/short-length", "/failing":
        began = time.monotonic()
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            ask(port, path)
        assert time.monotonic() - began < 4, path


def test_haproxy_speaks_the_proxy_protocol(front: Front) -> None:
    port = front("haproxy", "--proxy-protocol", "--health=/health")
    environ = told(port, **FORGED)
    assert environ["REMOTE_ADDR"] == "127.0.0.1"
    assert environ["REMOTE_PORT"] not in ("", "0")


@pytest.mark.parametrize("more", ["--forwarded=x-forwarded", "--proxy-protocol"])
def test_haproxy_sends_nobody_to_who_says_that_he_is_not_to_be_asked(launch: Start, tmp_path: Path, more: str) -> None:
    """He listens and answers all the same: here the application says it, at the path where he does not."""
    leaving = APPLICATION.replace(
        "    told = {name", '    if environ["PATH_INFO"] == "/health":\n        1 / 0\n    told = {name'
    )
    servers, places = [], []
    for source, words in ((APPLICATION, ("--health=/health",)), (leaving, ())):
        name = f"app{len(servers)}.py"
        (tmp_path / name).write_text(source)
        servers.append(launch(name, "--bind=127.0.0.1:0", more, *words))
        servers[-1].await_address()
        places.append(f"127.0.0.1:{servers[-1].port}")
    text = printed("haproxy", more, "--health=/health", f"--bind={', '.join(places)}")
    with before("haproxy", text, tmp_path) as port:
        # In turns, as long as it takes both to be well.
        wait_for(lambda: {told(port)["pid"] for _ in range(6)} == {servers[0].process.pid}, "one of two to be left out")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--print-nginx", "--port=0"], "port 0"),
        (["--print-nginx", "--proxy-protocol"], "PROXY protocol"),
        (["--print-lighttpd", "--proxy-protocol"], "PROXY protocol"),
        (["--print-nginx", "--sendfile-header=X-Sendfile"], "X-Accel-Redirect"),
        (["--print-haproxy", "--sendfile-header=X-Sendfile"], "HAProxy sends no files"),
    ],
)
def test_what_cannot_be_is_told(arguments: list[str], text: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "poorhttp", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert text in done.stderr


def test_the_files_of_a_dispatch_table_are_handed_over(start: Start) -> None:
    source = """
from types import SimpleNamespace
from poorhttp import http
from poorhttp.dispatch import application as dispatch


def send(req):
    req.content_type = "text/plain"
    req.sendfile(__file__)
    return http.DONE


application = dispatch(SimpleNamespace(handlers={"/": (http.METHOD_GET, send)}))
"""
    server = start("1x1", "--sendfile-header=X-Sendfile", source=source)
    with closing(server.connection()) as connection:
        connection.request("GET", "/")
        response = connection.getresponse()
        assert (response.status, response.read()) == (200, b"")
        assert response.headers["X-Sendfile"] == str((server.directory / "app.py").resolve())


@pytest.mark.parametrize("bind", ["unix:@name", "fd:web", "127.0.0.1:0"])
@pytest.mark.parametrize("name", PORTS)
def test_a_socket_that_no_front_server_can_find(name: str, bind: str) -> None:
    command = [sys.executable, "-m", "poorhttp", f"--print-{name}", f"--bind={bind}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ") and "hint: " in done.stderr
