"""httplint, which others wrote, over the answers of a real server: pages, errors, refusals, files, redirects.

Knows how each answer is got, and the linter's levels. Contract: no note of level bad or warning on any answer but those
that ACCEPTED names, each with its reason.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest

httplint = pytest.importorskip("httplint")

EXAMPLES = Path(__file__).parents[2] / "examples"

PLAIN = """
import os, time

def application(environ, start_response):
    path = environ["PATH_INFO"]
    text = [("Content-Type", "text/plain; charset=utf-8")]
    if path == "/stream":
        start_response("200 OK", text)
        return (b"piece %d\\n" % number for number in range(100))
    if path == "/write":
        start_response("200 OK", text)(b"written\\n")
        return [b"returned\\n"]
    if path == "/one":
        start_response("200 OK", text)
        return [b"one\\n"]
    if path == "/file":
        size = str(os.path.getsize(__file__))
        start_response("200 OK", [("Content-Type", "text/x-python; charset=utf-8"), ("Content-Length", size)])
        return environ["wsgi.file_wrapper"](open(__file__, "rb"))
    if path == "/file-without-length":
        start_response("200 OK", [("Content-Type", "text/x-python; charset=utf-8")])
        return environ["wsgi.file_wrapper"](open(__file__, "rb"))
    if path == "/204":
        start_response("204 No Content", [])
        return []
    if path == "/304":
        start_response("304 Not Modified", [("ETag", '"1"'), ("Cache-Control", "max-age=60")])
        return []
    if path == "/cookie":
        start_response("200 OK", text + [("Set-Cookie", "one=1; Path=/; SameSite=Lax"), ("Cache-Control", "no-store")])
        return [b"cookie\\n"]
    if path.startswith("/30"):
        start_response(path[1:] + " Elsewhere", text + [("Location", "/one")])
        return [b"elsewhere\\n"]
    if path == "/error":
        raise ZeroDivisionError("declared")
    if path == "/nothing":
        return []
    if path == "/slow":
        while True:
            time.sleep(0.01)
    environ["wsgi.input"].read()
    start_response("200 OK", text)
    return [b"taken\\n"]
"""

TABLE = """
from poorhttp import http
from poorhttp.dispatch import application as made_of

def moved(req):
    http.redirect(req, "/here")

def gone_for_good(req):
    http.redirect(req, "/here", 1)

def failing(req):
    raise ZeroDivisionError("declared")

def status(req):
    return int(req.uri[1:])

def streamed(req):
    req.content_type = "text/plain"
    for number in range(10):
        req.write("piece %d\\\\n" % number)
        req.flush()
    return http.DONE

def file(req):
    req.content_type = "text/x-python; charset=utf-8"
    req.sendfile(__file__)
    return http.DONE

class table:
    handlers = {"/moved": (http.METHOD_GET, moved), "/gone": (http.METHOD_GET, gone_for_good),
        "/failing": (http.METHOD_GET, failing), "/streamed": (http.METHOD_GET, streamed),
        "/file": (http.METHOD_GET, file), "/post": (http.METHOD_POST, streamed),
        **{"/%d" % code: (http.METHOD_GET, status) for code in (204, 304, 400, 403, 404, 410, 413, 500, 501, 503)}}

application = made_of(table)
"""


class Case(NamedTuple):
    """An answer: of which application, to which bytes, with which status; settings of the server."""

    app: str
    request: bytes
    status: int
    settings: dict[str, Any] = {}  # noqa: RUF012  # read only


def asked(target: str, *lines: str, method: str = "GET", version: str = "1.1", body: bytes = b"") -> bytes:
    length = (f"Content-Length: {len(body)}",) if body else ()
    head = (f"{method} {target} HTTP/{version}", "Host: example.com", *lines, *length, "", "")
    return "\r\n".join(head).encode() + body


def cases() -> dict[str, Case]:
    found: dict[str, Case] = {}
    table = str(EXAMPLES)
    for method in ("GET", "HEAD"):
        for target in ("/", "/light", "/heavy"):
            found[f"example {method} {target}"] = Case(table, asked(target, method=method), 200)
        found[f"example {method} 404"] = Case(table, asked("/not/there", method=method), 404)
        found[f"hello {method}"] = Case(str(EXAMPLES / "hello.py"), asked("/", method=method), 200)
        found[f"simple {method}"] = Case(str(EXAMPLES / "simple.py"), asked("/?text=%C5%BElu", method=method), 200)
        found[f"simple {method} 404"] = Case(str(EXAMPLES / "simple.py"), asked("/x", method=method), 404)
        for target in ("stream", "write", "one", "file", "file-without-length", "cookie"):
            found[f"plain {method} {target}"] = Case(PLAIN, asked(f"/{target}", method=method), 200)
        for status in (204, 301, 302, 303, 307, 308, 304):
            line = ('If-None-Match: "1"',) if status == 304 else ()
            found[f"plain {method} {status}"] = Case(PLAIN, asked(f"/{status}", *line, method=method), status)
        found[f"plain {method} error"] = Case(PLAIN, asked("/error", method=method), 500)
        found[f"plain {method} nothing"] = Case(PLAIN, asked("/nothing", method=method), 500)
        for target, status in (("moved", 302), ("gone", 301), ("failing", 500), ("streamed", 200), ("file", 200)):
            found[f"table {method} {target}"] = Case(TABLE, asked(f"/{target}", method=method), status)
        for status in (204, 304, 400, 403, 404, 410, 413, 500, 501, 503):
            found[f"table {method} {status}"] = Case(TABLE, asked(f"/{status}", method=method), status)
        found[f"table {method} 405"] = Case(TABLE, asked("/post", method=method), 405)
    for target in ("one", "stream", "file", "error"):
        status = 500 if target == "error" else 200
        found[f"plain HTTP/1.0 {target}"] = Case(PLAIN, asked(f"/{target}", version="1.0"), status)
        found[f"plain kept HTTP/1.0 {target}"] = Case(
            PLAIN, asked(f"/{target}", "Connection: keep-alive", version="1.0"), status
        )
        found[f"plain close {target}"] = Case(PLAIN, asked(f"/{target}", "Connection: close"), status)
    found["example 405"] = Case(table, asked("/light", method="POST", body=b"a"), 405)
    found["example 501"] = Case(table, asked("/light", method="BREW"), 501)
    form = asked("/", "Content-Type: application/x-www-form-urlencoded", method="POST", body=b"text=a")
    found["simple POST"] = Case(str(EXAMPLES / "simple.py"), form, 200)
    found["simple 405"] = Case(str(EXAMPLES / "simple.py"), asked("/", method="PUT"), 405)
    found["server 504"] = Case(PLAIN, asked("/slow"), 504, {"request_timeout": "0.3"})
    found["server OPTIONS *"] = Case(PLAIN, asked("*", method="OPTIONS"), 204)
    return found | refusals()


def refusals() -> dict[str, Case]:
    """What the server answers without asking an application."""
    body = asked("/x", "Content-Length: 5000", method="POST")
    return {
        "server 400 no host": Case(PLAIN, b"GET / HTTP/1.1\r\n\r\n", 400),
        "server 400 garbage": Case(PLAIN, b"\x16\x03\x01", 400),
        "server 400 HEAD": Case(PLAIN, b"HEAD / HTTP/1.1\r\n\r\n", 400),
        "server 408 head": Case(PLAIN, b"GET / HT", 408, {"head_timeout": "0.2"}),
        "server 408 body": Case(PLAIN, body, 408, {"body_timeout": "0.2"}),
        "server 413": Case(PLAIN, body, 413, {"max_body": "100"}),
        "server 414": Case(PLAIN, asked("/" + "a" * 10000), 414),
        "server 417": Case(PLAIN, asked("/", "Expect: magic"), 417),
        "server 431 bytes": Case(PLAIN, asked("/", "A: " + "a" * 140000), 431),
        "server 431 fields": Case(PLAIN, asked("/", *["A: b"] * 200), 431),
        "server 501 coding": Case(PLAIN, asked("/", "Transfer-Encoding: gzip, chunked"), 501),
        "server 501 CONNECT": Case(PLAIN, asked("example.com:80", method="CONNECT"), 501),
        "server 503": Case(
            # Files take nothing beyond what the logs need.
            f"import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, -1))\n{PLAIN}",
            asked("/x", method="POST", body=b"x" * 100_000),
            503,
            {"body_memory": "100"},
        ),
        "server 505": Case(PLAIN, asked("/", version="2.0"), 505),
    }


CASES = cases()

SUCCESSES = frozenset({200, 301, 410})

ACCEPTED = {
    "FRESHNESS_HEURISTIC": (SUCCESSES, "How long an answer may be kept is the application's to say, not the server's."),
    "STATUS_BAD_REQUEST": (frozenset({400}), "Says that the request was wrong, as 400 does."),
    "STATUS_URI_TOO_LONG": (frozenset({414}), "Says that the request was too long, as 414 does."),
    "STATUS_VERSION_NOT_SUPPORTED": (frozenset({505}), "Says what 505 does."),
}
"""Notes of level bad or warning: on which statuses they come, and why they say nothing against the answer."""

ABOUT_THE_REQUEST = {400: "STATUS_BAD_REQUEST", 414: "STATUS_URI_TOO_LONG", 505: "STATUS_VERSION_NOT_SUPPORTED"}
"""Those that must come, or the linter has not seen what it should."""


def linted(status: int, reason: str, headers: list[tuple[str, str]], body: bytes, request: bytes) -> list[Any]:
    """The notes on one answer to the request with these bytes."""
    line, *fields = request.partition(b"\r\n\r\n")[0].split(b"\r\n")
    linter = httplint.HttpResponseLinter(start_time=time.time())
    if line.count(b" ") == 2:
        linter.request = httplint.HttpRequestLinter()
        linter.request.process_request_topline(*line.split(b" "))
        linter.request.process_headers(
            [(name, value.strip()) for name, _, value in (x.partition(b":") for x in fields)]
        )
    linter.is_head_response = line.startswith(b"HEAD ")
    linter.process_response_topline(b"HTTP/1.1", str(status).encode(), reason.encode())
    linter.process_headers([(name.encode(), value.encode()) for name, value in headers])
    if body:
        linter.feed_content(body)
    linter.finish_content(True)
    return list(linter.notes)


def alarming(notes: list[Any]) -> dict[str, str]:
    """Those of level bad or warning: name -> what they say."""
    levels = (httplint.levels.BAD, httplint.levels.WARN)
    return {type(note).__name__: f"{note.subject}: {note}" for note in notes if note.level in levels}


@pytest.fixture(params=CASES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def response(name: str, serve: Any) -> Any:
    """The answer of a case."""
    case = CASES[name]
    errors = ["declared", "RequestTimeout", "/nothing"]
    server = serve(case.app, errors=errors, **case.settings)
    method = "HEAD" if case.request.startswith(b"HEAD ") else "GET"
    version = "1.0" if case.request.partition(b"\r\n")[0].endswith(b"1.0") else "1.1"
    with server.connect() as client:
        response = client.send(case.request).response(method, version)
    assert response.status == case.status
    return response


def test_no_bad_note(name: str, response: Any) -> None:
    notes = alarming(linted(response.status, response.reason, response.headers, response.body, CASES[name].request))
    accepted = {note for note, (statuses, _) in ACCEPTED.items() if response.status in statuses}
    assert not notes.keys() - accepted, notes
    if response.status in ABOUT_THE_REQUEST:
        assert ABOUT_THE_REQUEST[response.status] in notes


def test_an_answer_says_what_it_is(name: str, response: Any) -> None:
    """Content-Type on every page, of the server too; Allow with 405, Location with a redirect; close on a refusal."""
    assert (response.header("Content-Type") is None) == (response.status in (204, 304))
    assert (response.header("Allow") is not None) == (response.status == 405)
    assert (response.header("Location") is not None) == (response.status in (301, 302, 303, 307, 308))
    assert response.header("Server") == "poorhttp"
    if name in refusals():
        assert response.closes


@pytest.mark.parametrize(
    ("status", "headers", "note"),
    [
        (200, [("Content-Type", "text/plain"), ("Content-Length", "9")], "CL_INCORRECT"),
        (201, [("Content-Type", "text/plain")], "CREATED_WITHOUT_LOCATION"),
        (302, [("Content-Type", "text/plain")], "REDIRECT_WITHOUT_LOCATION"),
        (200, [("Content-Type", "text/plain"), ("Date", "yesterday")], "BAD_DATE_SYNTAX"),
    ],
)
def test_the_linter_sees_a_fault(status: int, headers: list[tuple[str, str]], note: str) -> None:
    assert note in alarming(linted(status, "Reason", headers, b"text", asked("/")))
