"""Requests to a dispatch table whose answers must be the same under each server that runs it.

Knows the table, its files, the requests, and what of an answer belongs to the connection and the clock. Knows no
server.
"""

from __future__ import annotations

import http.client
import re
import socket
import ssl
from collections.abc import Callable, Iterable
from pathlib import Path

Answer = tuple[int, str, list[tuple[str, str]], bytes]
Ask = Callable[..., Answer]

# What the connection and the clock decide, and what is made at random for each answer.
OF_SERVER = ("date", "server", "connection", "keep-alive", "transfer-encoding")
VARYING = re.compile(rb"\d\d:\d\d:\d\d|(md5|sha1): \w+|Python version: [^;]*|<pre>Copyright.*?</pre>", re.DOTALL)
BOUNDARY = re.compile("(?<=--)[0-9a-f]{24}|(?<=boundary=)[0-9a-f]{24}")

INI = """
[http]
webmaster = gr\u00fc\u00dfe@example.com
document = {directory}/www
index = yes
[application]
Greeting = ahoj sv\u011bte
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
    names = ("REQUEST_METHOD", "SCRIPT_NAME", "PATH_INFO", "QUERY_STRING", "SERVER_PROTOCOL",
             "CONTENT_TYPE", "CONTENT_LENGTH", "HTTP_HOST", "HTTP_X_TEXT", "HTTP_COOKIE", "HTTP_AUTHORIZATION")
    facts = {name: req.environ.get(name) or "" for name in names}
    facts["target"] = req.environ.get("REQUEST_URI") or req.environ.get("RAW_URI") or "?"
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

Request = tuple[str, str, "bytes | None", dict[str, "str | bytes"]]

REQUESTS: list[Request] = [
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
    ("GET", "/send/5/-1", None, {}),
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


def write_files(directory: Path) -> None:
    """The files that the requests ask for, as `document`."""
    (directory / "page.txt").write_text("0123456789" * 20000)
    (directory / "page.cs.html").write_text("<p>ahoj")
    (directory / "archive.tar.gz").write_bytes(b"\x1f\x8b")
    (directory / "directory").mkdir()


def asker(port: int, context: ssl.SSLContext | None = None) -> Ask:
    """context: for https, at localhost."""

    def ask(
        method: str, path: str, body: bytes | Iterable[bytes] | None = None, **fields: str | bytes | list[str]
    ) -> Answer:
        """Status, reason, fields but those of the connection and the time, and the body with the time left out."""
        if context is None:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        else:
            connection = http.client.HTTPSConnection("localhost", port, timeout=20, context=context)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in {"Host": "example.com", **fields}.items():
                connection.putheader(name.replace("_", "-"), value)
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            told = sorted((name.lower(), text) for name, text in answer.getheaders() if name.lower() not in OF_SERVER)
            return (
                answer.status,
                answer.reason,
                [(name, BOUNDARY.sub("", text)) for name, text in told],
                BOUNDARY.sub("", VARYING.sub(b"", answer.read()).decode("latin-1")).encode("latin-1"),
            )
        finally:
            connection.close()

    return ask


def exchange(connection: socket.socket, *pieces: bytes) -> bytes:
    """Send the pieces, and read to the end that the server makes."""
    with connection:
        for piece in pieces:
            connection.sendall(piece)
        answer = b""
        while block := connection.recv(65536):
            answer += block
        return answer
