"""Flask, Bottle, Pyramid and Django served for real: routes, forms, files, cookies, streams, redirects, errors.

Knows the frameworks from their manuals; asks with `requests`, a client that others wrote.
"""

from __future__ import annotations

import hashlib
import io
import random
from collections.abc import Iterator
from typing import Any

import pytest
import requests

FLASK = """
from flask import Flask, Response, jsonify, redirect, request, send_file
import hashlib, io, os

app = Flask(__name__, static_folder=os.environ["TEST_DIRECTORY"], static_url_path="/static")

@app.route("/")
def home():
    return "hello from flask"

@app.route("/name/<name>")
def name(name):
    return name

@app.route("/form", methods=["POST"])
def form():
    files = {key: file.read().decode() for key, file in request.files.items()}
    request.close()  # the files, which Flask leaves to the collector
    return jsonify(fields=request.form.to_dict(), files=files)

@app.route("/json", methods=["POST"])
def json():
    return jsonify(request.get_json())

@app.route("/raw", methods=["POST"])
def raw():
    return str(len(request.get_data()))

@app.route("/cookie")
def cookie():
    response = Response(request.cookies.get("one", "") + request.cookies.get("two", ""))
    response.set_cookie("one", "1")
    response.set_cookie("two", "2")
    return response

@app.route("/stream")
def stream():
    return Response((str(number) + " " for number in range(1000)), mimetype="text/plain")

@app.route("/file")
def file():
    return send_file(io.BytesIO(b"f" * 100000), mimetype="application/octet-stream")

@app.route("/own-file")
def own_file():
    return send_file(__file__, mimetype="text/plain")

@app.route("/error")
def error():
    raise ZeroDivisionError("declared")

@app.route("/url")
def url():
    return request.url

@app.route("/query")
def query():
    return jsonify(request.args.getlist("a"))

@app.route("/method", methods=["PUT", "PATCH", "DELETE"])
def method():
    return request.method + " " + request.get_data(as_text=True)

@app.route("/login", methods=["POST"])
def login():
    response = redirect("/whoami")
    response.set_cookie("user", request.form["user"], httponly=True, samesite="Lax")
    return response

@app.route("/whoami")
def whoami():
    return request.cookies["user"]

@app.route("/upload", methods=["POST"])
def upload():
    digest = hashlib.sha256(request.files["f"].read()).hexdigest()
    request.close()
    return digest

@app.route("/broken")
def broken():
    def pieces():
        yield "begun"
        raise ZeroDivisionError("declared")
    return Response(pieces(), mimetype="text/plain")

framework = app
"""

BOTTLE = """
import bottle

app = bottle.Bottle()

@app.route("/")
def home():
    return "hello from bottle"

@app.route("/name/<name>")
def name(name):
    return name

@app.post("/form")
def form():
    files = {key: upload.file.read().decode() for key, upload in bottle.request.files.items()}
    for upload in bottle.request.files.values():
        upload.file.close()  # Bottle leaves it to the collector
    forms = bottle.request.forms.decode()
    return {"fields": {key: value for key, value in forms.items() if key not in files}, "files": files}

@app.post("/json")
def json():
    return bottle.request.json

@app.post("/raw")
def raw():
    return str(len(bottle.request.body.read()))

@app.route("/cookie")
def cookie():
    given = (bottle.request.get_cookie("one") or "") + (bottle.request.get_cookie("two") or "")
    bottle.response.set_cookie("one", "1")
    bottle.response.set_cookie("two", "2")
    return given

@app.route("/stream")
def stream():
    for number in range(1000):
        yield str(number) + " "

@app.route("/file")
def file():
    import io
    return io.BytesIO(b"f" * 100000)

@app.route("/own-file")
def own_file():
    import os
    return bottle.static_file(os.path.basename(__file__), root=os.path.dirname(os.path.abspath(__file__)))

@app.route("/error")
def error():
    raise ZeroDivisionError("declared")

@app.route("/url")
def url():
    return bottle.request.url

@app.route("/query")
def query():
    import json
    return json.dumps(bottle.request.query.decode().getall("a"))

@app.route("/method", method=["PUT", "PATCH", "DELETE"])
def method():
    return bottle.request.method + " " + bottle.request.body.read().decode()

@app.post("/login")
def login():
    bottle.response.set_cookie("user", bottle.request.forms.user, httponly=True, samesite="lax")
    bottle.redirect("/whoami", 302)

@app.route("/whoami")
def whoami():
    return bottle.request.get_cookie("user")

@app.post("/upload")
def upload():
    import hashlib
    with bottle.request.files["f"].file as file:
        return hashlib.sha256(file.read()).hexdigest()

@app.route("/static/<name>")
def static(name):
    import os
    return bottle.static_file(name, root=os.environ["TEST_DIRECTORY"])

@app.route("/broken")
def broken():
    yield "begun"
    raise ZeroDivisionError("declared")

framework = app
"""

PYRAMID = """
import hashlib, io, os
from pyramid.config import Configurator
from pyramid.httpexceptions import HTTPFound
from pyramid.response import FileIter, FileResponse, Response

config = Configurator()

def page(pattern, **predicates):
    def add(view):
        config.add_route(pattern, pattern)
        config.add_view(view, route_name=pattern, **predicates)
        return view
    return add

@page("/")
def home(request):
    return Response("hello from pyramid")

@page("/name/{name}")
def name(request):
    return Response(request.matchdict["name"])

@page("/form", request_method="POST", renderer="json")
def form(request):
    files = {key: value for key, value in request.POST.items() if hasattr(value, "file")}
    texts = {}
    for key, value in files.items():
        with value.file as file:
            texts[key] = file.read().decode()
    return {"fields": {key: value for key, value in request.POST.items() if key not in files}, "files": texts}

@page("/json", request_method="POST", renderer="json")
def json(request):
    return request.json_body

@page("/raw", request_method="POST")
def raw(request):
    return Response(str(len(request.body)))

@page("/cookie")
def cookie(request):
    response = Response(request.cookies.get("one", "") + request.cookies.get("two", ""))
    response.set_cookie("one", "1")
    response.set_cookie("two", "2")
    return response

@page("/stream")
def stream(request):
    return Response(app_iter=(b"%d " % number for number in range(1000)), content_type="text/plain")

@page("/file")
def file(request):
    return Response(app_iter=FileIter(io.BytesIO(b"f" * 100000)), content_type="application/octet-stream")

@page("/own-file")
def own_file(request):
    return FileResponse(__file__, request=request, content_type="text/plain")

@page("/error")
def error(request):
    raise ZeroDivisionError("declared")

@page("/url")
def url(request):
    return Response(request.url)

@page("/query", renderer="json")
def query(request):
    return request.GET.getall("a")

@page("/method", request_method=("PUT", "PATCH", "DELETE"))
def method(request):
    return Response(request.method + " " + request.text)

@page("/login", request_method="POST")
def login(request):
    response = HTTPFound("/whoami")
    response.set_cookie("user", request.POST["user"], httponly=True, samesite="Lax")
    return response

@page("/whoami")
def whoami(request):
    return Response(request.cookies["user"])

@page("/upload", request_method="POST")
def upload(request):
    with request.POST["f"].file as file:
        return Response(hashlib.sha256(file.read()).hexdigest())

@page("/broken")
def broken(request):
    def pieces():
        yield b"begun"
        raise ZeroDivisionError("declared")
    return Response(app_iter=pieces(), content_type="text/plain")

config.add_static_view("static", os.environ["TEST_DIRECTORY"])
framework = config.make_wsgi_app()
"""

DJANGO = """
import hashlib
import io
import os
import django
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import FileResponse, HttpResponse, HttpResponseRedirect, JsonResponse, StreamingHttpResponse
from django.urls import path
from django.views.static import serve

settings.configure(
    ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, SECRET_KEY="for the test", USE_TZ=True, LOGGING_CONFIG=None
)

def home(request):
    return HttpResponse("hello from django")

def name(request, name):
    return HttpResponse(name)

def form(request):
    files = {key: file.read().decode() for key, file in request.FILES.items()}
    return JsonResponse({"fields": request.POST.dict(), "files": files})

def json(request):
    import json
    return JsonResponse(json.loads(request.body))

def raw(request):
    return HttpResponse(str(len(request.body)))

def cookie(request):
    response = HttpResponse(request.COOKIES.get("one", "") + request.COOKIES.get("two", ""))
    response.set_cookie("one", "1")
    response.set_cookie("two", "2")
    return response

def stream(request):
    return StreamingHttpResponse((str(number) + " " for number in range(1000)), content_type="text/plain")

def file(request):
    return FileResponse(io.BytesIO(b"f" * 100000), content_type="application/octet-stream")

def own_file(request):
    return FileResponse(open(__file__, "rb"), content_type="text/plain")

def error(request):
    raise ZeroDivisionError("declared")

def url(request):
    return HttpResponse(request.build_absolute_uri())

def query(request):
    return JsonResponse(request.GET.getlist("a"), safe=False)

def method(request):
    return HttpResponse(request.method + " " + request.body.decode())

def login(request):
    response = HttpResponseRedirect("/whoami")
    response.set_cookie("user", request.POST["user"], httponly=True, samesite="Lax")
    return response

def whoami(request):
    return HttpResponse(request.COOKIES["user"])

def upload(request):
    return HttpResponse(hashlib.sha256(request.FILES["f"].read()).hexdigest())

def broken(request):
    def pieces():
        yield "begun"
        raise ZeroDivisionError("declared")
    return StreamingHttpResponse(pieces(), content_type="text/plain")

urlpatterns = [
    path("", home), path("name/<str:name>", name), path("form", form), path("json", json), path("raw", raw),
    path("cookie", cookie), path("stream", stream), path("file", file), path("own-file", own_file),
    path("error", error), path("url", url), path("query", query), path("method", method), path("login", login),
    path("whoami", whoami), path("upload", upload), path("broken", broken),
    path("static/<str:path>", serve, {"document_root": os.environ["TEST_DIRECTORY"]}),
]
framework = get_wsgi_application()
"""

# Tells which answers came through the server's file wrapper.
WATCHED = """
from gate import note

def application(environ, start_response):
    answer = framework(environ, start_response)
    if isinstance(answer, environ["wsgi.file_wrapper"]):
        note("wrapped " + environ["PATH_INFO"])
    return answer
"""

FRAMEWORKS = {"flask": FLASK, "bottle": BOTTLE, "pyramid": PYRAMID, "django": DJANGO}
LARGE = 32 << 20  # bytes of a download that fits into no buffer


@pytest.fixture(params=FRAMEWORKS)
def framework(request: pytest.FixtureRequest) -> str:
    pytest.importorskip(request.param)
    name: str = request.param
    return name


@pytest.fixture
def server(serve: Any, any_shape: Any, framework: str) -> Any:
    warnings = "default"
    if framework == "bottle":
        warnings += ",ignore::ResourceWarning"  # its last request of each thread stays open, with the files of that
    if framework == "pyramid":
        # It imports pkg_resources and cgi, which warn, and leaves WebOb's copy of an upload to the collector.
        warnings += ",ignore::UserWarning,ignore::DeprecationWarning,ignore::ResourceWarning"
    environment = {"PYTHONWARNINGS": warnings}
    return serve(FRAMEWORKS[framework] + WATCHED, any_shape, errors=["declared"], environment=environment)


@pytest.fixture
def session() -> Iterator[requests.Session]:
    with requests.Session() as session:
        session.trust_env = False
        yield session


def url(server: Any, path: str) -> str:
    return f"http://{server.address[0]}:{server.address[1]}{path}"


def test_routes(server: Any, session: requests.Session, framework: str) -> None:
    assert session.get(url(server, "/"), timeout=20).text == f"hello from {framework}"
    assert session.get(url(server, "/name/p%C5%99%C3%ADklad"), timeout=20).text == "p\u0159\xedklad"
    assert session.get(url(server, "/not/there"), timeout=20).status_code == 404
    assert session.head(url(server, "/"), timeout=20).text == ""


def test_form_and_files(server: Any, session: requests.Session) -> None:
    answer = session.post(url(server, "/form"), data={"a": "1", "b": "\u017elu\u0165"}, timeout=20)
    assert answer.json()["fields"] == {"a": "1", "b": "\u017elu\u0165"}
    answer = session.post(
        url(server, "/form"), data={"a": "1"}, files={"f": ("f.txt", io.BytesIO(b"text " * 100_000))}, timeout=20
    )
    assert answer.json() == {"fields": {"a": "1"}, "files": {"f": "text " * 100_000}}


def test_json(server: Any, session: requests.Session) -> None:
    assert session.post(url(server, "/json"), json={"a": [1, "\u20ac"]}, timeout=20).json() == {"a": [1, "\u20ac"]}


def test_a_chunked_upload(server: Any, session: requests.Session) -> None:
    """Also Django, which reads only as much as CONTENT_LENGTH says: the server has counted."""
    answer = session.post(url(server, "/raw"), data=(b"x" * 1000 for _ in range(500)), timeout=20)
    assert answer.text == "500000"
    assert session.get(url(server, "/"), timeout=20).status_code == 200


def test_an_upload_larger_than_memory_is_given(server: Any, session: requests.Session) -> None:
    """Above body_memory the body waits in a temporary file; length and chunks make no difference."""
    content = random.Random(3).randbytes(3 << 20)
    prepared = session.prepare_request(requests.Request("POST", url(server, "/upload"), files={"f": ("f", content)}))
    assert session.send(prepared, timeout=20).text == hashlib.sha256(content).hexdigest()
    body = prepared.body
    assert isinstance(body, bytes)
    pieces = (body[i : i + 100_000] for i in range(0, len(body), 100_000))
    kind = {"Content-Type": prepared.headers["Content-Type"]}
    answer = session.post(url(server, "/upload"), data=pieces, headers=kind, timeout=20)
    assert answer.text == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
def test_methods_with_a_body(method: str, server: Any, session: requests.Session) -> None:
    answer = session.request(method, url(server, "/method"), data=b"body", timeout=20)
    assert answer.text == f"{method} body"


def test_a_query_with_repeated_names(server: Any, session: requests.Session) -> None:
    told = {"a": ["1", "\u017elu\u0165 &=+", ""]}
    assert session.get(url(server, "/query"), params=told, timeout=20).json() == told["a"]


def test_a_login_that_redirects(server: Any, session: requests.Session) -> None:
    """POST, 302 with a cookie, GET with that cookie, on the same connection."""
    answer = session.post(url(server, "/login"), data={"user": "karel"}, timeout=20)
    assert answer.text == "karel" and answer.url == url(server, "/whoami")
    (hop,) = answer.history
    assert hop.status_code == 302 and "httponly" in hop.headers["Set-Cookie"].lower()


def test_cookies(server: Any, session: requests.Session) -> None:
    assert session.get(url(server, "/cookie"), timeout=20).text == ""
    assert session.get(url(server, "/cookie"), timeout=20).text == "12"


def test_stream(server: Any, session: requests.Session) -> None:
    for _ in range(3):
        assert session.get(url(server, "/stream"), timeout=20).text == "".join(f"{number} " for number in range(1000))


def test_files(server: Any, session: requests.Session) -> None:
    assert session.get(url(server, "/file"), timeout=20).content == b"f" * 100000
    own = (server.directory / "app.py").read_bytes()
    for _ in range(3):
        assert session.get(url(server, "/own-file"), timeout=20).content == own


def test_static_files(server: Any, session: requests.Session, framework: str) -> None:
    """Whole, asked whether it has changed, in part, and its head; all whole ones through wsgi.file_wrapper."""
    content = random.Random(5).randbytes(200_000)
    (server.directory / "file.bin").write_bytes(content)
    target = url(server, "/static/file.bin")
    whole = session.get(target, timeout=20)
    assert whole.content == content and whole.headers["Content-Length"] == "200000"
    server.await_note("wrapped /static/file.bin")
    head = session.head(target, timeout=20)
    assert head.headers["Content-Length"] == "200000" and head.content == b""
    same = session.get(target, headers={"If-Modified-Since": whole.headers["Last-Modified"]}, timeout=20)
    assert same.status_code == 304 and same.content == b""
    part = session.get(target, headers={"Range": "bytes=1000-1999"}, timeout=20)
    # Django serves files in whole only.
    assert (part.status_code, part.content) == ((200, content) if framework == "django" else (206, content[1000:2000]))
    assert session.get(url(server, "/static/none"), timeout=20).status_code == 404
    assert session.get(url(server, "/"), timeout=20).status_code == 200


def test_a_large_download(server: Any, session: requests.Session) -> None:
    """Sent as the client reads, whatever it does in between, and at no cost of memory."""
    with (server.directory / "large.bin").open("wb") as file:
        file.truncate(LARGE)
        file.seek(LARGE - 3)
        file.write(b"end")
    before = server.memory()
    with session.get(url(server, "/static/large.bin"), stream=True, timeout=20) as answer:
        size, last = 0, b""
        for piece in answer.iter_content(1 << 20):
            size, last = size + len(piece), piece
            if size <= 4 << 20:
                assert session.get(url(server, "/"), timeout=20).status_code == 200
    assert size == LARGE and last.endswith(b"end")
    assert server.memory() - before < LARGE / 2


def test_error(server: Any, session: requests.Session) -> None:
    """500, and nothing of the cause in it: nobody has asked for debugging."""
    answer = session.get(url(server, "/error"), timeout=20)
    assert answer.status_code == 500
    assert "declared" not in answer.text and "Traceback" not in answer.text and "app.py" not in answer.text
    assert session.get(url(server, "/"), timeout=20).status_code == 200


def test_a_stream_that_fails(server: Any, session: requests.Session) -> None:
    """The client sees that it is incomplete; the next request is served."""
    with pytest.raises(requests.exceptions.ChunkedEncodingError):
        session.get(url(server, "/broken"), timeout=20)
    assert session.get(url(server, "/"), timeout=20).status_code == 200


def test_the_url_of_the_request(server: Any, session: requests.Session) -> None:
    asked = url(server, "/url?a=b%20c")
    assert session.get(asked, timeout=20).text == asked
