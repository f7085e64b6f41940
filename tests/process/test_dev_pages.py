"""Error pages of failed requests: in whichever way an application fails, under `debug` with and without autoreload."""

import contextlib
import http.client
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from starter import SHAPES, Server, Start, wait_for

SOURCE = """
import os
import time

def application(environ, start_response):
    path = environ["PATH_INFO"]
    if path == "/call":
        seen = "in the call"
        raise ValueError("failed")
    if path in FORGOTTEN:
        return FORGOTTEN[path](environ)
    if path == "/long":
        raise ValueError("x" * 10_000_000)
    if path == "/refused":
        start_response("no status", [])
    if path == "/first step":
        return beginning(start_response, [b"", b"good"])
    if path == "/empty":
        return beginning(start_response, [b""])
    if path == "/written":
        start_response("200 OK", [("Content-Length", "4")])(b"good")
        return []
    start_response("200 OK", [("X-First", "1")])
    if path == "/iteration":
        return failing()
    if path == "/broken":
        return failing_late()
    if path == "/file":
        return environ["wsgi.file_wrapper"](open(__file__, "rb"))
    if path == "/exit":
        raise SystemExit("failed")
    if path == "/interrupt":
        raise KeyboardInterrupt("failed")
    if path == "/base":
        raise Strange("failed")
    if path == "/stop":
        return stopping()
    if path == "/wait":
        open(os.environ["MARKS"] + "/waiting", "w").close()
        time.sleep(60)
    while path == "/late":
        time.sleep(0.01)
    if path == "/forked":
        if os.fork() == 0:
            raise SystemExit(7)
        return [b"%d" % os.waitstatus_to_exitcode(os.wait()[1])]
    if path == "/environ":
        return [repr("poorhttp.forwarded" in environ).encode()]
    if path in RETURNED:
        return RETURNED[path]
    return [b"good"]

class Strange(BaseException):
    pass

RETURNED = {"/none": None, "/str": "good", "/int": 200, "/bytes": b"good", "/block": ["good"], "/mixed": ("", None)}

FORGOTTEN = {
    "/list": lambda environ: [b"good"],
    "/tuple": lambda environ: (b"go", b"od"),
    "/nothing": lambda environ: [],
    "/blocks": lambda environ: (block for block in (b"", b"good")),
    "/only empty": lambda environ: iter([b""]),
    "/lost file": lambda environ: environ["wsgi.file_wrapper"](open(__file__, "rb")),
}

def beginning(start_response, blocks):
    yield b""
    start_response("200 OK", [("X-First", "1")])
    yield from blocks

def stopping():
    seen = "in the iteration"
    raise SystemExit("failed")
    yield b""

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

def misreturning(req):
    return ("hidden", "hidden")

handlers = {"/call": (http.METHOD_GET, failing), "/value": (http.METHOD_GET, misreturning)}
errors = {404: misreturning}
"""


def ask(server: Server, path: str, method: str = "GET", **fields: str) -> http.client.HTTPResponse:
    with contextlib.closing(server.connection()) as connection:
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in fields.items()})
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
    with pytest.raises(ConnectionResetError):
        ask(server, "/broken")
    assert server.get() == (200, "good")


def test_the_log_has_as_much_of_a_failure_as_the_page(server: Server) -> None:
    shown = ask(server, "/long").text
    assert "ValueError: xxx" in shown and len(shown) < 10_000
    ask(server, "/call")
    server.await_text("ValueError: failed")
    assert "/long: ValueError\n" in server.said and "ValueError: xxx" in server.said and len(server.said) < 20_000


@pytest.mark.parametrize("words", [("dev",), ("--debug",)], ids=" ".join)
def test_places_open_in_the_editor(launch: Start, tmp_path: Path, words: tuple[str, ...]) -> None:
    source = 'def application(environ, start_response):\n    raise ValueError("failed")\n'
    (tmp_path / "my <app>.py").write_text(source)
    server = launch(*words, "my <app>.py", "--port=0")
    server.await_address()
    href = f"vscode://file{tmp_path}/my%20%3Capp%3E.py:2"
    assert ask(server, "/", Accept="text/html").text.count(f'<a href="{href}"><code>') == 2
    assert "<a" not in ask(server, "/", Accept="text/html", Host="attacker.example").text
    server = launch(*words, "my <app>.py", "--port=0", "--editor=")
    server.await_address()
    shown = ask(server, "/", Accept="text/html").text
    assert "my &lt;app&gt;.py:2" in shown and "<a" not in shown
    if words == ("dev",):  # what cannot be loaded, too
        (tmp_path / "my <app>.py").write_text("\napplicatoin\n")
        server = launch("dev", "my <app>.py", "--port=0", POORHTTP_EDITOR="x://{path}?{line}")
        server.await_address()
        shown = ask(server, "/", Accept="text/html").text
        assert shown.count(f'<a href="x://{tmp_path}/my%20%3Capp%3E.py?2">') == 2


def test_whatever_an_application_raises_or_returns_has_a_page(server: Server) -> None:
    """What is no Exception too, and what is no body; a late call and a child that it forked are not shown."""
    for path, name in ("/exit", "SystemExit"), ("/interrupt", "KeyboardInterrupt"), ("/base", "Strange"):
        answer = ask(server, path, Accept="text/html")
        assert answer.status == 500 and f"{name}: failed" in answer.text and "app.py:" in answer.text
        assert answer.getheader("Cache-Control") == "no-store" and answer.getheader("Vary") == "Accept"
    assert "SystemExit: failed" in ask(server, "/stop").text
    for path, what in [
        ("/none", "the application returned None, which is no iterable of bytes"),
        ("/int", "the application returned a value of type int, which is no iterable of bytes"),
        ("/str", 'the application returned str; return a list of bytes: [b"..."]'),
        ("/bytes", 'the application returned bytes; return a list of bytes: [b"..."]'),
        ("/block", "the application gave a value of type str as a block of the body, not bytes"),
        ("/mixed", "the application gave a value of type str as a block of the body, not bytes"),
    ]:
        answer = ask(server, path)
        assert answer.status == 500 and f"TypeError: {what}\n" in answer.text
        assert "dev/guard" not in answer.text
        assert what not in ask(server, path, Host="attacker.example").text
    server.await_text("KeyboardInterrupt: failed")
    assert ask(server, "/forked").text == "7"
    assert server.get() == (200, "good")


def test_a_body_without_start_response_has_a_page(server: Server) -> None:
    """`start_response` may be called until the first block that is not empty (PEP 3333)."""
    what = "RuntimeError: the application returned a body but did not call start_response\n"
    for path in "/list", "/tuple", "/nothing", "/blocks", "/only%20empty", "/lost%20file":
        answer = ask(server, path)
        assert answer.status == 500 and what in answer.text and "dev/guard" not in answer.text
        assert what not in ask(server, path, Host="attacker.example").text
        answer = ask(server, path, method="HEAD")
        assert answer.status == 500 and answer.getheader("Content-Type") == "text/plain; charset=utf-8"
    for path, text in ("/first%20step", "good"), ("/empty", ""), ("/written", "good"):
        assert (ask(server, path).status, ask(server, path).text) == (200, text)
        assert ask(server, path, method="HEAD").status == 200
    server.await_text(what)
    answer = ask(server, "/refused", Accept="text/html")
    assert answer.status == 500 and "app.py:" in answer.text and "no status" in answer.text
    assert server.get() == (200, "good")


def test_a_late_call_is_answered_as_ever(launch: Start, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(SOURCE)
    server = launch("app.py", "--debug", "--port=0", "--request-timeout=0.2")
    server.await_address()
    answer = ask(server, "/late")
    assert answer.status == 504 and "RequestTimeout" not in answer.text
    assert server.get() == (200, "good")


def test_ctrl_c_ends_what_shows_a_page_for_an_interrupt(server: Server) -> None:
    assert "KeyboardInterrupt" in ask(server, "/interrupt").text
    with contextlib.closing(server.connection()) as connection:
        connection.request("GET", "/wait")
        wait_for((server.marks / "waiting").exists, "the application to be called")
        assert server.stop(signal.SIGINT) in (0, 128 + signal.SIGINT)


@pytest.mark.parametrize("mode", [("dev", "app.py"), ("app.py", "--debug"), ("dev", ".")], ids=" ".join)
@pytest.mark.parametrize("trusted", [(), ("--trusted-proxies=none",), ("--forwarded=x-forwarded-for",)], ids=str)
def test_a_proxy_whose_fields_were_left_out_is_shown_nothing(
    launch: Start, tmp_path: Path, mode: tuple[str, ...], trusted: tuple[str, ...]
) -> None:
    """The engine takes them away, so that the application sees a peer of this machine only."""
    (tmp_path / "app.py").write_text(SOURCE)
    (tmp_path / "dispatch_table.py").write_text(TABLE)
    server = launch(*mode, "--port=0", *trusted)
    server.await_address()
    for fields in [
        {"X_Forwarded_Host": "localhost"},
        {"X_Forwarded_Proto": "http"},
        {"X_Forwarded_For": "127.0.0.1"},
        {"Forwarded": "for=127.0.0.1"},
        {"X_Real_IP": "127.0.0.1"},
        {"Via": "1.1 front"},
        {"CF_Connecting_IP": "127.0.0.1"},
        {"True_Client_IP": "127.0.0.1"},
    ]:
        for accept in "text/html", "application/json", "*/*":
            answer = ask(server, "/call", Accept=accept, **fields)
            assert answer.status == 500
            assert "ValueError" not in answer.text and "Traceback" not in answer.text, fields
            assert answer.getheader("Cache-Control") == "no-store" and answer.getheader("Vary") == "Accept"
    assert "ValueError: failed" in ask(server, "/call").text


def test_a_proxy_is_not_shown_why_a_program_fails_to_load(launch: Start, tmp_path: Path) -> None:
    """Without `debug` either."""
    (tmp_path / "app.py").write_text("raise ValueError('hidden')\n")
    server = launch("app.py", "--reload", "--port=0", "--trusted-proxies=none")
    server.await_address()
    assert "hidden" in ask(server, "/").text
    assert "hidden" not in ask(server, "/", X_Forwarded_For="192.0.2.1").text


def test_an_application_is_told_of_it_with_debug_only(launch: Start, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(SOURCE)
    for word, told in ("--debug", "True"), ("--no-debug", "False"):
        server = launch("app.py", "--port=0", "--trusted-proxies=none", word)
        server.await_address()
        assert ask(server, "/environ", X_Forwarded_For="192.0.2.1").text == told
        assert ask(server, "/environ").text == "False"


def test_a_dispatch_table_has_the_same_page(launch: Start, tmp_path: Path) -> None:
    (tmp_path / "dispatch_table.py").write_text(TABLE)
    server = launch("dev", "--port=0")
    server.await_address()
    answer = ask(server, "/call", Accept="text/html")
    assert answer.status == 500 and "in the handler" in answer.text and "dispatch_table.py:6" in answer.text
    assert ask(server, "/call").text.startswith("Traceback")
    assert "ValueError" not in ask(server, "/call", Host="attacker.example").text
    for path in "/value", "/nowhere":
        for accept, kind in (
            ("text/html", "text/html"),
            ("*/*", "text/plain"),
            ("application/json", "application/problem"),
        ):
            answer = ask(server, path, Accept=accept)
            assert answer.status == 500 and "returned a value of type tuple" in answer.text
            assert "hidden" not in answer.text and kind in str(answer.getheader("Content-Type"))
            for fields in {"Host": "attacker.example"}, {"X_Forwarded_For": "192.0.2.1"}:
                assert "returned" not in ask(server, path, Accept=accept, **fields).text
    assert "hidden" not in server.said
    (tmp_path / "dispatch_table.py").write_text(TABLE.replace("raise ValueError", "str"))
    assert "returned None" in ask(server, "/call").text


def test_a_program_that_fails_to_load_is_shown_to_its_author_only(launch: Start, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("raise ValueError('hidden')\n")
    server = launch("dev", "app.py", "--port=0")
    server.await_address()
    assert "hidden" in ask(server, "/", Accept="text/html").text
    assert "hidden" not in ask(server, "/", Accept="text/html", Host="attacker.example").text


def test_nobody_is_shown_a_page_through_a_unix_socket(launch: Start, tmp_path: Path) -> None:
    """A front server there may serve anybody, and add no field."""
    (tmp_path / "app.py").write_text(SOURCE)
    server = launch("dev", "app.py", "--bind=unix:server.sock")
    server.await_address()
    for accept in "text/html", "application/json", "*/*":
        answer = ask(server, "/call", Accept=accept)
        assert answer.status == 500 and "ValueError" not in answer.text and "Traceback" not in answer.text
    server.await_text("ValueError: failed")


def test_a_django_project_needs_no_name(launch: Start, tmp_path: Path) -> None:
    pytest.importorskip("django")
    subprocess.run([sys.executable, "-m", "django", "startproject", "site_of_mine", "."], cwd=tmp_path, check=True)
    server = launch("dev", "--port=0")
    server.await_address()
    urls = tmp_path / "site_of_mine" / "urls.py"
    for text in "one", "two":
        urls.write_text(
            "from django.http import HttpResponse\nfrom django.urls import path\n"
            f"urlpatterns = [path('', lambda request: HttpResponse({text!r}))]\n"
        )
        assert ask(server, "/").text == text


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
    assert "poorhttp.process.worker" in loaded
    assert not [name for name in loaded if name.startswith("poorhttp.dev")]
