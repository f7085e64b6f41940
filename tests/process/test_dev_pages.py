"""Error pages of failed requests: in whichever way an application fails, under `debug` with and without autoreload."""

import contextlib
import http.client
import json
from pathlib import Path

import pytest
from starter import SHAPES, Server, Start

SOURCE = """
def application(environ, start_response):
    path = environ["PATH_INFO"]
    if path == "/call":
        seen = "in the call"
        raise ValueError("failed")
    start_response("200 OK", [("X-First", "1")])
    if path == "/iteration":
        return failing()
    if path == "/late":
        return failing_late()
    if path == "/file":
        return environ["wsgi.file_wrapper"](open(__file__, "rb"))
    if path == "/exit":
        raise SystemExit(3)
    return [b"good"]

def failing():
    seen = "in the iteration"
    raise ValueError("failed")
    yield b""

def failing_late():
    yield b"x" * 100_000
    raise ValueError("failed")
"""

TABLE = """
from poorhttp import http

def failing(req):
    seen = "in the handler"
    raise ValueError("failed")

handlers = {"/call": (http.METHOD_GET, failing)}
"""


def ask(server: Server, path: str, **fields: str) -> http.client.HTTPResponse:
    with contextlib.closing(server.connection()) as connection:
        connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in fields.items()})
        answer = connection.getresponse()
        answer.text = answer.read().decode()  # type: ignore[attr-defined]
        return answer


@pytest.fixture(params=["dev", "debug"])
def server(request: pytest.FixtureRequest, launch: Start, tmp_path: Path, shape: str) -> Server:
    (tmp_path / "app.py").write_text(SOURCE)
    words = ("dev", "app.py") if request.param == "dev" else ("app.py", "--debug")
    server = launch(*words, "--port=0", *SHAPES[shape])
    server.await_address()
    return server


def test_a_failed_request_has_a_page(server: Server) -> None:
    for path, seen in ("/call", "in the call"), ("/iteration", "in the iteration"):
        answer = ask(server, path, Accept="text/html")
        assert answer.status == 500 and answer.getheader("X-First") is None
        assert "ValueError: failed" in answer.text and seen in answer.text and "app.py:" in answer.text
        assert "poorhttp/dev" not in answer.text and "poorhttp/worker" not in answer.text
        told = json.loads(ask(server, path, Accept="application/json").text)
        assert told["detail"] == "ValueError: failed" and told["frames"][-1]["file"].endswith("app.py")
        assert ask(server, path).text.startswith("Traceback (most recent call last):\n")
        for fields in {"Host": "attacker.example"}, {"X_Forwarded_For": "192.0.2.1"}:
            assert "failed" not in ask(server, path, Accept="text/html", **fields).text.replace(
                "application failed", ""
            )
    assert server.get() == (200, "good")
    server.await_text("ValueError: failed")
    assert ask(server, "/file").text == SOURCE
    with pytest.raises(http.client.IncompleteRead):
        ask(server, "/late")
    assert server.get() == (200, "good")


def test_a_dispatch_table_has_the_same_page(launch: Start, tmp_path: Path) -> None:
    (tmp_path / "dispatch_table.py").write_text(TABLE)
    server = launch("dev", "--port=0")
    server.await_address()
    answer = ask(server, "/call", Accept="text/html")
    assert answer.status == 500 and "in the handler" in answer.text and "dispatch_table.py:6" in answer.text
    assert ask(server, "/call").text.startswith("Traceback")
    assert "ValueError" not in ask(server, "/call", Host="attacker.example").text
    (tmp_path / "dispatch_table.py").write_text(TABLE.replace("raise ValueError", "req.write"))
    assert "returned None" in ask(server, "/call").text


def test_a_program_that_fails_to_load_is_shown_to_its_author_only(launch: Start, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("raise ValueError('hidden')\n")
    server = launch("dev", "app.py", "--port=0")
    server.await_address()
    assert "hidden" in ask(server, "/", Accept="text/html").text
    assert "hidden" not in ask(server, "/", Accept="text/html", Host="attacker.example").text


def test_flask_lets_exceptions_through(launch: Start, tmp_path: Path) -> None:
    pytest.importorskip("flask")
    (tmp_path / "app.py").write_text(
        "import flask\napp = flask.Flask(__name__)\n@app.get('/')\ndef index():\n    seen = 'a view'\n    return 1 / 0\n"
    )
    server = launch("dev", "app.py", "--port=0")
    server.await_address()
    answer = ask(server, "/", Accept="text/html")
    assert answer.status == 500 and "a view" in answer.text and "ZeroDivisionError" in answer.text


def test_without_debug_nothing_of_it_is_there(launch: Start, tmp_path: Path) -> None:
    """The wall: a server in production has not imported any of `poorhttp.dev`."""
    (tmp_path / "app.py").write_text(
        "import sys\ndef application(environ, start_response):\n    start_response('200 OK', [])\n"
        "    return [' '.join(name for name in sys.modules if name.startswith('poorhttp.')).encode()]\n"
    )
    server = launch("app.py", "--port=0")
    server.await_address()
    loaded = server.get()[1].split()
    assert "poorhttp.worker" in loaded
    assert not [name for name in loaded if name.startswith("poorhttp.dev")]
