"""Under the real Apache with mod_python a dispatch table gives the answers that it gives under poorhttp, but for times."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from apache import Apache, Answer, Ask, Site, asker, exchange, needs_apache
from processes import package_home
from server import Server

pytestmark = needs_apache

OPTIONS = """
    PythonOption poorhttp.webmaster "gr\u00fc\u00dfe@example.com"
    PythonOption poorhttp.document DIRECTORY/www
    PythonOption poorhttp.index yes
    PythonOption greeting "ahoj sv\u011bte"
"""

INI = """
[http]
webmaster = gr\u00fc\u00dfe@example.com
document = {directory}/www
index = yes
[application]
greeting = ahoj sv\u011bte
"""

TABLE = """
import os

from poorhttp import http

HERE = os.path.dirname(os.path.abspath(__file__))

def form(req):
    req.content_type = "text/plain"
    for name in ("a", "b"):
        req.write(f"{name}={req.form.getlist(name)}\\n")
    for upload in req.files.list:
        req.write(f"{upload.name} {upload.filename} {upload.type} {upload.file.read()!r}\\n")
    req.write(repr(req.args.getlist("q")) + repr(req.headers_in.get("X-Text")))
    return http.DONE

def told(req):
    names = ("REQUEST_METHOD", "REQUEST_URI", "SCRIPT_NAME", "PATH_INFO", "QUERY_STRING", "SERVER_PROTOCOL",
             "CONTENT_TYPE", "CONTENT_LENGTH", "HTTP_HOST", "HTTP_X_TEXT", "HTTP_COOKIE", "HTTP_AUTHORIZATION")
    facts = {name: req.environ.get(name) or "" for name in names}
    return {**facts, "body": req.read().decode("latin-1"), "hostname": req.hostname, "path": req.uri}

def cookie(req):
    req.set_cookie("one", "1")
    req.set_cookie("two", "2")
    req.headers_out["X-Latin"] = "\\xe9"
    req.headers_out["X-Bytes"] = "h\u00e1\u010dek".encode().decode("latin-1")
    req.headers_out.add("Link", "</a>; rel=next")
    req.headers_out.add("Link", "</b>; rel=prev")
    return {"cookies": req.cookies, "options": req.get_options()}

def user(req, name, number):
    return f"{name} {number} {req.url_for('user', name=name, number=number)} {req.uri} {req.construct_url('/x')}"

def moved(req):
    http.redirect(req, "/cookie")

def broken(req):
    raise ValueError("on purpose")

def status(req, code):
    return http.Response("text of " + str(code), code)

def stream(req):
    yield "first "
    yield b"second"

def nothing(req):
    return ""

def send(req, offset, length):
    req.headers_out["X-Length"] = str(req.sendfile(HERE + "/dispatch_table.py", offset, length))
    return http.DONE

def page(req):
    req.set_etag("one")
    req.set_last_modified(1_700_000_000)
    if status := req.meets_conditions():
        return status
    return "p" * 1000

def lacking(req):
    return http.HTTP_FORBIDDEN

def forbidden(req):
    req.headers_out["X-Error"] = "yes"
    return "not for you"

handlers = {
    "/form": (http.METHOD_GET | http.METHOD_POST, form), "/cookie": (http.METHOD_GET, cookie),
    "/told": (http.METHOD_ALL, told), "/told/<rest:path>": (http.METHOD_ALL, lambda req, rest: told(req)),
    "/user/<name>/<number:int>": (http.METHOD_GET, user), "/moved": (http.METHOD_GET, moved),
    "/broken": (http.METHOD_GET, broken), "/status/<code:int>": (http.METHOD_GET, status),
    "/stream": (http.METHOD_GET, stream), "/nothing": (http.METHOD_GET, nothing),
    "/send/<offset:int>/<length:int>": (http.METHOD_GET, send), "/page": (http.METHOD_GET, page),
    "/lacking": (http.METHOD_GET, lacking),
}
errors = {http.HTTP_FORBIDDEN: forbidden}
"""

UPLOAD = (
    b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n\xc5\x99\r\n'
    b'--b\r\nContent-Disposition: form-data; name="f"; filename="x.bin"\r\nContent-Type: image/png\r\n\r\n\x00\xff\r\n--b--\r\n'
)
JSON = {"Content_Type": "application/json"}

REQUESTS: list[tuple[str, str, bytes | None, dict[str, str | bytes]]] = [
    ("GET", "/form?q=%C5%99&q=a+b", None, {"X_Text": "h\xc5\x99"}),
    ("POST", "/form", b"a=%C5%99&b=1&b=2", {"Content_Type": "application/x-www-form-urlencoded"}),
    ("POST", "/form", UPLOAD, {"Content_Type": "multipart/form-data; boundary=b"}),
    ("POST", "/form", UPLOAD[:-9], {"Content_Type": "multipart/form-data; boundary=b"}),
    ("GET", "/cookie", None, {"Cookie": "a=1; b=2"}),
    ("GET", "/told", None, {"X_Text": b"\xff\xe9 \xc5\x99", "Cookie": b"a=\xe9"}),
    ("GET", "/told/%C5%99%20%3B;a%3F?b=%FF&c=%C5%99+%2B", None, {"Authorization": "Basic YTpi"}),
    ("GET", "/told/%FF", None, {}),
    ("PUT", "/told", b"{}", JSON),
    ("PATCH", "/told", b"\x00\xff", JSON),
    ("DELETE", "/told", None, {}),
    ("POST", "/told", b"", {}),
    ("GET", "/user/%C5%99%20x/-7", None, {}),
    ("GET", "/moved", None, {}),
    ("GET", "/missing%3Cb%3E", None, {}),
    ("GET", "/%FF", None, {}),
    ("DELETE", "/cookie", None, {}),
    ("OPTIONS", "/cookie", None, {}),
    ("OPTIONS", "/page.txt", None, {}),
    ("PROPFIND", "/cookie", None, {}),
    ("get", "/cookie", None, {}),
    ("GET", "/broken", None, {}),
    ("GET", "/lacking", None, {}),
    ("GET", "/nothing", None, {}),
    ("GET", "/status/201", None, {}),
    ("GET", "/status/204", None, {}),
    ("GET", "/status/205", None, {}),
    ("GET", "/status/304", None, {}),
    ("GET", "/status/418", None, {}),
    ("GET", "/status/499", None, {}),
    ("GET", "/stream", None, {}),
    ("GET", "/page", None, {"Range": "bytes=0-4"}),
    ("GET", "/page", None, {"If_None_Match": '"one"'}),
    ("GET", "/page", None, {"If_Modified_Since": "Tue, 14 Nov 2023 22:13:20 GMT"}),
    ("GET", "/page", None, {"If_Match": '"two"'}),
    ("GET", "/send/0/-1", None, {}),
    ("GET", "/send/0/-1", None, {"If_None_Match": "*"}),
    ("GET", "/send/5/7", None, {}),
    ("GET", "/page.txt", None, {}),
    ("GET", "/page.txt", None, {"Range": "bytes=5-14"}),
    ("GET", "/page.txt", None, {"Range": "bytes=5-14,100-109"}),
    ("GET", "/page.txt", None, {"Range": "bytes=-3"}),
    ("GET", "/page.txt", None, {"Range": "bytes=5-14", "If_Range": '"other"'}),
    ("GET", "/page.txt", None, {"Range": "bytes=900000-"}),
    ("GET", "/page.txt", None, {"If_None_Match": "*"}),
    ("GET", "/page.cs.html", None, {}),
    ("GET", "/archive.tar.gz", None, {}),
    ("GET", "/directory?a", None, {}),
    ("GET", "/directory/", None, {}),
    ("GET", "/", None, {}),
]


@pytest.fixture(scope="module")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apache]:
    made = tmp_path_factory.mktemp("made") / "hello"
    command = [sys.executable, "-m", "poorhttp", "init", str(made)]
    subprocess.run(command, check=True, capture_output=True, timeout=30)
    started = Apache(
        Site("table", TABLE, OPTIONS),
        Site("examples", Path(package_home()) / "examples", OPTIONS),
        Site("made", made, host="ServerAdmin root@localhost"),
        Site("unowned", made),
    )
    www = started.directory / "www"
    (www / "page.txt").write_text("0123456789" * 20000)
    (www / "page.cs.html").write_text("<p>ahoj")
    (www / "archive.tar.gz").write_bytes(b"\x1f\x8b")
    (www / "directory").mkdir()
    (started.directory / "apache" / "page").mkdir()  # what Apache's own files have is never seen
    try:
        yield started.start()
    finally:
        started.stop()


@pytest.fixture
def both(apache: Apache, serve: Callable[..., Server]) -> tuple[Ask, Ask]:
    """Ask Apache, and poorhttp with the same table."""
    ours = serve(str(apache.application("table")), errors=("on purpose",), ini=INI.format(directory=apache.directory))
    return apache.ask("table"), asker(ours.address[1])


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda each: f"{each[0]} {each[1]}")
def test_the_answers_are_those_of_poorhttp(
    both: tuple[Ask, Ask], request_: tuple[str, str, bytes | None, dict[str, str | bytes]]
) -> None:
    """Status, reason, fields and body; for GET also those of HEAD."""
    method, path, body, fields = request_
    under_apache, under_poorhttp = (ask(method, path, body, **fields) for ask in both)
    assert under_apache == under_poorhttp
    if method == "GET":
        under_apache, under_poorhttp = (ask("HEAD", path, **fields) for ask in both)
        # Apache leaves out a length of 0, as RFC 9110 section 8.6 allows.
        assert [field for field in under_poorhttp[2] if field != ("content-length", "0")] == under_apache[2]
        assert under_apache[:2] == under_poorhttp[:2]


def test_an_http_1_0_client_without_host_is_served(apache: Apache) -> None:
    answer = exchange(apache.connect("table"), b"GET /told HTTP/1.0\r\n\r\n")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK") and b'"hostname":"localhost"' in body
    assert exchange(apache.connect("table"), b"GET /stream HTTP/1.0\r\n\r\n").endswith(b"\r\n\r\nfirst second")


@pytest.mark.parametrize("path", ["/", "/light", "/heavy", "/missing"])
def test_the_examples_are_the_same(apache: Apache, serve: Callable[..., Server], path: str) -> None:
    ours = asker(serve(str(apache.application("examples")), ini=INI.format(directory=apache.directory)).address[1])
    assert apache.ask("examples")("GET", path) == ours("GET", path)
    assert "Initialisation ..." in apache.log()


def test_the_table_that_init_writes_is_the_same(apache: Apache, serve: Callable[..., Server]) -> None:
    ours = asker(serve(str(apache.application("made"))).address[1])
    for path in ("/", "/missing"):
        assert apache.ask("made")("GET", path) == ours("GET", path)
    assert b"It works" in apache.ask("made")("GET", "/")[3]
    assert b"no address given" not in apache.ask("unowned")("GET", "/missing")[3]
