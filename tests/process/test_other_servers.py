"""The dispatch table and sessions under gunicorn, uWSGI and waitress: the answers are those under poorhttp."""

from __future__ import annotations

import hashlib
import http.client
import random
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from comparing import INI, REQUESTS, TABLE, Request, asker, exchange, write_files
from login import COOKIE, LOGIN, SQLITE, Browser
from other_servers import SERVERS, serving
from server import Server

APP = """
import sys
from wsgiref.util import shift_path_info

import bottle
from flask import Flask, request

import bodies
import cookie_login
import dispatch_table
import sqlite_login
from poorhttp.dispatch import application as dispatch
from poorhttp.sessions import SessionMiddleware

STORE = "sqlite:DIRECTORY/data/frameworks.db"

flask_app = Flask(__name__)

@flask_app.get("/count")
def count():
    session = request.environ["poorhttp.session"]
    session["count"] = session.get("count", 0) + 1
    return str(session["count"])

bottle_app = bottle.Bottle()

@bottle_app.get("/count")
def count():
    session = bottle.request.environ["poorhttp.session"]
    session["count"] = session.get("count", 0) + 1
    return str(session["count"])

@bottle_app.get("/stream")
def stream():
    session = bottle.request.environ["poorhttp.session"]
    session["streamed"] = True
    for number in range(5):
        yield f"{number} "

table = dispatch(dispatch_table, webmaster="gr\u00fc\u00dfe@example.com", document="DIRECTORY/www", index=True,
                 options={"greeting": "ahoj sv\u011bte"})
mounted = {
    "login-sqlite": dispatch(sqlite_login), "login-cookie": dispatch(cookie_login), "bodies": dispatch(bodies),
    "flask": SessionMiddleware(flask_app, STORE), "bottle": SessionMiddleware(bottle_app, STORE),
}

def application(environ, start_response):
    first = environ["PATH_INFO"].strip("/").partition("/")[0]
    if first in mounted:
        shift_path_info(environ)
        return mounted[first](environ, start_response)
    return table(environ, start_response)
"""

BODIES = """
import hashlib, os, time
from poorhttp import http

DATA = "DIRECTORY/data/"

def form(req):
    return {name: req.form.getlist(name) for name in ("a", "b")}

def upload(req):
    content = req.files["f"].file.read()
    return f"{len(content)} {hashlib.sha256(content).hexdigest()} {req.form['a']}"

def raw(req):
    digest = hashlib.sha256()
    while block := req.read(50_000):
        digest.update(block)
    return digest.hexdigest()

def yielded(req):
    yield "before "
    end = time.monotonic() + 20
    while not os.path.exists(DATA + req.args["gate"]):
        assert time.monotonic() < end
        time.sleep(0.005)
    yield "after"

def cut(req):
    yield "first"
    raise ValueError("in the middle")

handlers = {"/" + function.__name__: (http.METHOD_GET_POST, function) for function in (form, upload, raw, yielded, cut)}
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("site")
    texts = {
        "app": APP,
        "bodies": BODIES,
        "dispatch_table": TABLE,
        "sqlite_login": LOGIN.replace("SESSIONS", SQLITE),
        "cookie_login": LOGIN.replace("SESSIONS", COOKIE),
    }
    for name in ("code", "data", "www"):
        (directory / name).mkdir()
    for name, text in texts.items():
        (directory / "code" / f"{name}.py").write_text(text.replace("DIRECTORY", str(directory)))
    write_files(directory / "www")
    return directory


@pytest.fixture(scope="module", params=SERVERS)
def port(request: pytest.FixtureRequest, site: Path) -> Iterator[int]:
    with serving(request.param, site / "code") as port:
        yield port


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda each: f"{each[0]} {each[1]}")
def test_the_answers_are_those_of_poorhttp(
    port: int, site: Path, serve: Callable[..., Server], request_: Request
) -> None:
    method, path, body, fields = request_
    ours = asker(serve(str(site / "code"), errors=("on purpose",), ini=INI.format(directory=site)).address[1])
    theirs = asker(port)
    if method.islower():  # some of them refuse such a method themselves
        assert theirs(method, path)[0] in (400, 501)
        return
    assert theirs(method, path, body, **fields) == ours(method, path, body, **fields)
    if method == "GET":
        assert theirs("HEAD", path, **fields) == ours("HEAD", path, **fields)


@pytest.mark.parametrize("name", ["sqlite", "cookie"])
def test_a_client_logs_in_and_out(port: int, name: str) -> None:
    """Processes share the sessions, and the links lead below the mount point."""
    browser = Browser(asker(port))
    place = f"/login-{name}"
    assert browser.ask("GET", f"{place}/") == (200, b"nobody")
    assert browser.ask("POST", f"{place}/login", b"user=anna")[0] == 302
    assert browser.cookie.startswith("session=")
    for _ in range(4):
        assert browser.ask("GET", f"{place}/") == (200, b"anna")
    assert browser.ask("GET", f"{place}/broken")[0] == 500
    before = browser.cookie
    assert browser.ask("POST", f"{place}/login", b"user=bert")[0] == 302
    assert browser.ask("GET", f"{place}/") == (200, b"bert") and browser.cookie != before
    assert browser.ask("POST", f"{place}/logout", b"")[0] == 302
    assert browser.ask("GET", f"{place}/") == (200, b"nobody")


def test_many_requests_of_one_browser_lose_nothing(port: int) -> None:
    browser = Browser(asker(port))
    assert browser.ask("GET", "/login-sqlite/count") == (200, b"1")
    fields = {"Host": "localhost", "Cookie": browser.cookie}
    with ThreadPoolExecutor(4) as pool:
        counts = list(pool.map(lambda _: int(asker(port)("GET", "/login-sqlite/count", **fields)[3]), range(20)))
    assert sorted(counts) == list(range(2, 22))


@pytest.mark.parametrize("framework", ["flask", "bottle"])
def test_frameworks_have_sessions(port: int, framework: str) -> None:
    browser = Browser(asker(port))
    assert [browser.ask("GET", f"/{framework}/count") for _ in range(3)] == [(200, b"1"), (200, b"2"), (200, b"3")]
    assert browser.cookie.startswith("session=")
    if framework == "bottle":
        assert browser.ask("GET", "/bottle/stream") == (200, b"0 1 2 3 4 ")


def test_an_upload_of_some_megabytes_arrives(port: int) -> None:
    content = random.Random(2).randbytes(5_000_000)
    head = b'--b\r\nContent-Disposition: form-data; name="f"; filename="x"\r\n\r\n'
    body = head + content + b'\r\n--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--b--\r\n'
    told = asker(port)("POST", "/bodies/upload", body, Content_Type="multipart/form-data; boundary=b")[3]
    assert told.decode() == f"5000000 {hashlib.sha256(content).hexdigest()} 1"
    assert asker(port)("POST", "/bodies/raw", body)[3].decode() == hashlib.sha256(body).hexdigest()


def test_a_chunked_body_is_read_or_refused(port: int, request: pytest.FixtureRequest) -> None:
    head = b"POST /bodies/form HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n"
    kind = b"Content-Type: application/x-www-form-urlencoded\r\n\r\n"
    answer = exchange(connect(port), head + kind + b"3\r\na=1\r\n2\r\n2&\r\n3\r\nb=3\r\n0\r\n\r\n")
    if "uwsgi" in request.node.name:
        assert answer.startswith(b"HTTP/1.1 411 ")
    else:
        assert answer.partition(b"\r\n\r\n")[2] == b'{"a":["12"],"b":["3"]}'


@pytest.mark.parametrize(
    ("path", "kind", "body"),
    [
        ("/bodies/form", "application/x-www-form-urlencoded", b"a=12"),
        (
            "/bodies/upload",
            "multipart/form-data; boundary=b",
            b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n1',
        ),
        ("/bodies/raw", "application/octet-stream", b"x" * 100_000),
        ("/bodies/raw", "application/octet-stream", b""),
    ],
)
def test_of_a_body_that_was_cut_nothing_is_used(port: int, site: Path, path: str, kind: str, body: bytes) -> None:
    """The client gets 408, or the end of the connection, and the application has no traceback."""
    client = connect(port)
    client.sendall(
        f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: {kind}\r\nContent-Length: 200000\r\n\r\n".encode()
    )
    client.sendall(body)
    client.shutdown(socket.SHUT_WR)
    answer = exchange(client)
    assert answer == b"" or answer.split()[1] in (b"400", b"408")
    assert "[E] POST /bodies" not in (site / "code" / "output").read_text()


def test_what_a_generator_yields_arrives_before_the_rest_is_made(
    port: int, site: Path, request: pytest.FixtureRequest
) -> None:
    gate = "".join(filter(str.isalnum, request.node.name))
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", f"/bodies/yielded?gate={gate}")
    answer = connection.getresponse()
    assert answer.read(7) == b"before "
    (site / "data" / gate).touch()
    assert answer.read() == b"after"
    connection.close()


def test_an_answer_that_breaks_off_is_not_ended_as_if_it_were_whole(port: int, request: pytest.FixtureRequest) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", "/bodies/cut")
    answer = connection.getresponse()
    if "uwsgi" in request.node.name:  # it marks the end of every answer without a length by that of the connection
        assert answer.read() == b"first"
    else:
        with pytest.raises(http.client.IncompleteRead):
            answer.read()
    connection.close()


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), 20)
