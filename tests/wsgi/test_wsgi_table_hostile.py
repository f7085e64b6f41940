"""Whatever a client sends to a table with forms, files and sessions: one whole answer, nothing of it markup, no traceback.

Each request goes to a real server over a connection of its own. Tracebacks are looked for in its log when it is stopped.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from server import Server

SECRET = b"nobody may read this"

TABLE = """
from poorhttp import http
from poorhttp.sessions import Sessions

sessions = Sessions("memory:", secure=False)


def form(req):
    return {"form": [(each.name, each.value) for each in req.form.list], "files": [each.filename for each in req.files.list]}


def json(req):
    return {"json": req.json}


def echo(req):
    return {"cookies": req.cookies, "query": [(each.name, each.value) for each in req.args.list], "headers": req.headers_in.items()}


def session(req):
    req.session["count"] = req.session.get("count", 0) + 1
    return str(req.session["count"])


def login(req):
    req.session.rotate()
    req.session["user"] = req.args.getfirst("user", "root")
    return "welcome"


def state(req):
    req.set_etag("v1")
    req.set_last_modified(10**9)
    return req.meets_conditions() or "page"


def place(req):
    return req.construct_url(req.url_for("named", name="x", number=1))


def named(req, name, number):
    http.abort(http.HTTP_GONE, name)


handlers = {f"/{each.__name__}": (http.METHOD_ALL, each) for each in (form, json, echo, session, login, state, place)}
handlers["/named/<name>/<number:int>"] = (http.METHOD_GET_POST, named)
"""

PIECES = [
    "..", ".", "", "www", "a.txt", "sub", "out", "secret.txt", "~", ".hidden", "index.html", "\\", "\0", "\r\nX-Evil: 1",
    "<script>alert(1)</script>", "\"'><img src=x>", "\u202e", "%2e%2e", "\xff", "named", "7", "9" * 5000, "x" * 300,
]  # fmt: skip
HANDLERS = ["form", "json", "echo", "session", "login", "state", "place", "named/x/7"]
PATHS = st.sampled_from(HANDLERS).map("/".__add__) | st.lists(
    st.sampled_from(PIECES) | st.text(st.characters(max_codepoint=255), max_size=4), max_size=5
).map(lambda pieces: "/" + quote("/".join(pieces).encode("latin-1", "replace"), safe="/.~\\<>\"'"))
QUERIES = st.just("") | st.sampled_from(
    ["a=1&a=2", "sort=-size", "sort=<script>", "user=%3Cscript%3E", "%00=%0d%0a&%", "&" * 2000, "a=%ff"]
)
VALUES = st.text(st.characters(min_codepoint=33, max_codepoint=255, exclude_characters="\x7f"), max_size=12)
FIELDS = {
    "Cookie": VALUES | st.sampled_from(["session=" + "A" * 43, "session=x; " * 300, 'a="<script>', "=;=;=", "session=" + "x" * 6000]),
    "Range": st.sampled_from(["bytes=0-", "bytes=-1,-2", "bytes=" + "0-1," * 200, "bytes=9-1", "bytes=" + "9" * 400 + "-"]),
    "If-Range": VALUES | st.just('"v1"'),
    "If-None-Match": VALUES | st.sampled_from(["*", '"v1"', '"' * 200]),
    "If-Match": VALUES | st.sampled_from(["*", '"v1"']),
    "If-Modified-Since": VALUES | st.sampled_from(["Sun, 06 Nov 1994 08:49:37 GMT", "9" * 5000, "Sun, " * 500]),
    "If-Unmodified-Since": VALUES,
    "Accept-Encoding": VALUES | st.sampled_from(["gzip;q=9,br", "gzip" + ";" * 500, "*;q=0." + "9" * 500]),
    "Accept": st.sampled_from(["text/html", "*/*", "application/json"]),
    "User-Agent": VALUES,
    "Referer": VALUES,
    "Content-Type": VALUES
    | st.sampled_from(
        [
            "application/x-www-form-urlencoded", "multipart/form-data; boundary=b", "application/json",
            "multipart/form-data; boundary=<script>", "multipart/form-data", "multipart/form-data; boundary=" + "b" * 80,
        ]
    ),
}  # fmt: skip
BODIES = st.binary(max_size=60) | st.sampled_from(
    [
        b"a=1&b=%3Cscript%3E", b"&" * 2000, b"%", b"[" * 5000, b"9" * 5000, b"1e999", b'"\\ud800"', b'{"a": "<script>"}',
        b'--b\r\nContent-Disposition: form-data; name="<script>"\r\n\r\nx\r\n--b--\r\n',
        b'--b\r\nContent-Disposition: form-data; name="f"; filename="../<img>"\r\n\r\nx\r\n--b--\r\n',
        b"--b\r\n" + b"X: y\r\n" * 3000, b"--b\r\nX" + b"x" * 9000, b"--b" * 3000,
    ]
)  # fmt: skip
STATUSES = {200, 204, 206, 301, 304, 400, 404, 405, 410, 412, 413, 414, 415, 416, 431, 501}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("site")
    (place / "dispatch_table.py").write_text(TABLE)
    (place / "secret.txt").write_bytes(SECRET)
    www = place / "www"
    (www / "sub").mkdir(parents=True)
    (www / "a.txt").write_bytes(b"0123456789")
    (www / "sub" / "<script>alert(1)<").write_bytes(b"x")
    (www / ".hidden").write_bytes(SECRET)
    (www / "out").symlink_to("../secret.txt")
    return place


@pytest.fixture(params=[False, True], ids=["", "debug"])
def server(serve: Callable[..., Server], site: Path, request: pytest.FixtureRequest) -> Server:
    return serve(str(site), document=site / "www", index=True, debug=request.param)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    st.sampled_from(["GET", "HEAD", "POST", "PUT", "OPTIONS", "BREW"]),
    PATHS,
    QUERIES,
    st.fixed_dictionaries({}, optional=FIELDS),
    BODIES,
)
@example("GET", "/sub/", "sort=<script>", {"Accept": "text/html"}, b"")
@example("POST", "/json", "", {"Content-Type": "application/json", "Accept": "text/html"}, b"1e999")
@example("POST", "/form", "", {"Content-Type": "multipart/form-data; boundary=b"}, b"--b\r\nX: y")
def test_one_whole_answer_without_markup_or_traceback(
    server: Server, method: str, path: str, query: str, fields: dict[str, str], body: bytes
) -> None:
    lines = [f"{method} {path}{'?' + query if query else ''} HTTP/1.1", "Host: localhost", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in fields.items()]
    head = "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode("latin-1")
    with server.connect() as client:
        client.send(head + body)
        answer = client.response(method)
        assert answer.complete
        client.expect_close()
    assert answer.status in STATUSES
    assert answer.header("X-Evil") is None and SECRET not in answer.body
    assert (answer.header("Location") or "/")[:2] not in ("//", "/\\")
    if "html" in (answer.header("Content-Type") or "") and not path.startswith("/login"):
        page = answer.body.partition(b"<body")[2]
        assert b"<script" not in page and b"<img" not in page
