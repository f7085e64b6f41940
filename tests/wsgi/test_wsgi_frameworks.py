"""Flask, Bottle and Django served for real: routes, forms, files, JSON, cookies, streams, errors.

Knows the frameworks from their manuals; asks with `requests`, a client that others wrote.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pytest
import requests

FLASK = """
from flask import Flask, Response, jsonify, request, send_file
import io

app = Flask(__name__)

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
"""

DJANGO = """
import io
import django
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import FileResponse, HttpResponse, JsonResponse, StreamingHttpResponse
from django.urls import path

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

urlpatterns = [
    path("", home), path("name/<str:name>", name), path("form", form), path("json", json), path("raw", raw),
    path("cookie", cookie), path("stream", stream), path("file", file), path("own-file", own_file),
    path("error", error), path("url", url),
]
application = get_wsgi_application()
"""
FRAMEWORKS = {"flask": FLASK, "bottle": BOTTLE, "django": DJANGO}


@pytest.fixture(params=FRAMEWORKS)
def framework(request: pytest.FixtureRequest) -> str:
    pytest.importorskip(request.param)
    name: str = request.param
    return name


@pytest.fixture
def server(serve: Any, any_shape: Any, framework: str) -> Any:
    return serve(FRAMEWORKS[framework], any_shape, errors=["declared"], environment={"PYTHONWARNINGS": "default"})


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


def test_a_chunked_upload(server: Any, session: requests.Session, framework: str) -> None:
    """Frameworks that honour wsgi.input_terminated, or take the stream as it is, read all of it."""
    answer = session.post(url(server, "/raw"), data=(b"x" * 1000 for _ in range(500)), timeout=20)
    assert answer.status_code == 200
    # Django reads only as much as CONTENT_LENGTH says.
    assert answer.text in (("500000", "0") if framework == "django" else ("500000",))
    assert session.get(url(server, "/"), timeout=20).status_code == 200


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


def test_error(server: Any, session: requests.Session) -> None:
    assert session.get(url(server, "/error"), timeout=20).status_code == 500
    assert session.get(url(server, "/"), timeout=20).status_code == 200


def test_the_url_of_the_request(server: Any, session: requests.Session) -> None:
    asked = url(server, "/url?a=b%20c")
    assert session.get(asked, timeout=20).text == asked
