"""check_path: new code that loads but cannot answer does not replace the old code, and does not start."""

import re
import signal
from pathlib import Path

import psutil
import pytest
from starter import Server, Start, lives, run, wait_for

from poorhttp.app import question
from poorhttp.config import reading
from poorhttp.config.flags import parse_flags

ASKED = "--check-path=/"
LAZY = '''
import os, pathlib

calls, source = [], pathlib.Path(__file__).with_name("urls.py")
text = source.read_text()  # now, so that each worker of this version has the pages of this version

def application(environ, start_response):
    """Makes its pages at a request, as Django does at the first one."""
    urls = {}
    exec(compile(text, source, "exec"), urls)
    calls.append(environ["PATH_INFO"])
    start_response(urls["STATUS"], [("Content-Type", "text/plain")])
    return [f"{urls['PAGE']} {len(calls)} {os.environ.get('POORHTTP_IS_TRIAL')}".encode()]
'''
GOOD = "STATUS, PAGE = '200 OK', 'old'\n"
BAD = "STATUS, PAGE = '200 OK', 'new'\ndef (\n"


def put(directory: Path, text: str) -> None:
    draft = directory / "draft"
    draft.write_text(text)
    draft.replace(directory / "urls.py")


def reloads(server: Server) -> int:
    return server.said.count("reloaded: ")


def test_new_code_that_cannot_answer_does_not_replace_the_old(start: Start, shape: str, tmp_path: Path) -> None:
    put(tmp_path, GOOD)
    server = start(shape, ASKED, source=LAZY)
    assert server.get() == (200, "old 1 None"), "what is asked in a child leaves nothing in who serves"
    put(tmp_path, BAD)
    server.send(signal.SIGHUP)
    server.await_text("reload failed, the server goes on as it was: exit code 3: urls.py:2: GET / fails: SyntaxError")
    assert 'app.py", line 10, in application' in server.said, "the traceback"
    assert server.get()[1].startswith("old ")
    put(tmp_path, GOOD.replace("200 OK", "503 Later"))
    server.send(signal.SIGHUP)
    server.await_text("exit code 3: GET / is answered 503 Later, in ")
    assert reloads(server) == 0 and server.get()[1].startswith("old ")
    put(tmp_path, GOOD.replace("old", "new"))
    server.send(signal.SIGHUP)
    wait_for(lambda: server.get()[1].startswith("new "), "the new code")
    assert server.stop() == 0


def test_without_it_nothing_is_asked(start: Start, tmp_path: Path) -> None:
    """A request is the application's business: it may count it, send mail, or need a database that comes later."""
    put(tmp_path, GOOD)
    server = start("1x1", source=LAZY)
    put(tmp_path, BAD)
    server.send(signal.SIGHUP)
    server.await_text("reloaded: ")
    assert server.get()[0] == 500
    assert server.stop() == 0


@pytest.mark.parametrize("command", [("app.py",), ("app.py", "--check-config"), ("check", "app.py")])
def test_what_cannot_answer_does_not_start(tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "app.py").write_text(LAZY)
    put(tmp_path, BAD)
    code, told = run(tmp_path, *command, "--bind=unix:s.sock", "--pidfile=run.pid", "--check-path=/?a=b")
    assert code == 3
    assert "Traceback (most recent call last):" in told
    assert "error: urls.py:2: GET /?a=b fails: SyntaxError" in told
    assert not (tmp_path / "s.sock").exists() and not (tmp_path / "run.pid").exists()


def test_in_the_background_too(tmp_path: Path) -> None:
    """And a restart stops nobody."""
    (tmp_path / "app.py").write_text(LAZY)
    ini = "[http]\napplication = app.py\nbind = unix:s.sock\npidfile = run.pid\nerrorlog = error.log\ncheck_path = /\n"
    (tmp_path / "poorhttp.ini").write_text(ini)
    put(tmp_path, BAD)
    code, told = run(tmp_path, "start", "-c", "poorhttp.ini")
    assert code == 3 and "error: urls.py:2: GET / fails: SyntaxError" in told
    assert run(tmp_path, "status", "-c", "poorhttp.ini")[0] == 3
    put(tmp_path, GOOD)
    code, told = run(tmp_path, "start", "-c", "poorhttp.ini")
    try:
        assert code == 0 and told.startswith("GET / is answered 200 OK, in 7 bytes\n"), told
        pid = int((tmp_path / "run.pid").read_text())
        put(tmp_path, BAD)
        code, told = run(tmp_path, "restart", "-c", "poorhttp.ini")
        assert code == 3 and "error: urls.py:2: GET / fails: SyntaxError" in told
        code, told = run(tmp_path, "reload", "-c", "poorhttp.ini")
        assert code != 0 and "GET / fails: SyntaxError" in told
        assert psutil.pid_exists(pid) and int((tmp_path / "run.pid").read_text()) == pid
    finally:
        assert run(tmp_path, "stop", "-c", "poorhttp.ini")[0] == 0


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("start('302 Found', [('Location', '/x')]); return []", ""),
        ("start('400 Bad Request', []); return [b'a']", ""),
        ("start('404 Not Found', []); yield b''; yield b'a'", ""),
        ("start('200 OK', [])(b'a'); return []", ""),
        ("start('200 OK', []); return environ['wsgi.file_wrapper'](open(__file__, 'rb'))", ""),
        ("start('500 Oh', []); return [b'a']", "error: GET / is answered 500 Oh, in 1 bytes"),
        ("start('200 OK', []); return b'a'", "PEP 3333: the application returned bytes; return a list of bytes: ["),
        ("start('200 OK', []); return b''", ""),
        ("start('200 OK', []); return 5", "app.py: GET / fails: TypeError: 'int' object is not iterable"),
        (
            "start('200 OK', []); return ['a']",
            "the answer to GET / breaks PEP 3333: the body must consist of bytes",
        ),
        (
            "start(200, []); return []",
            "app.py:2: the answer to GET / breaks PEP 3333: the status is a str, not int",
        ),
        (
            "start('199 No', []); return []",
            'PEP 3333: the status does not begin with a number from 200 to 599: "199 No"',
        ),
        ("start('200 OK', [('X', 'a\\n')]); return []", 'PEP 3333: a header value holds a control character: "X"'),
        ("start('200 OK', [('a b', '')]); return []", 'PEP 3333: a header name is not a token: "a b"'),
        ("start('200 OK', ()); return []", "PEP 3333: the headers are a list of tuples, not tuple"),
        ("start('200 OK', [['a', 'b']]); return []", "PEP 3333: a header is a tuple (name, value), not list"),
        ("start('200 OK', [('Content-Length', '9' * 20)]); return []", "PEP 3333: Content-Length is not a number"),
        ("start('200 OK', [('Content-Length', '2')]); return [b'a']", "PEP 3333: the body has 1 bytes, and Content-"),
        ("start('304 Not Modified', [('Content-Length', '2')]); return []", ""),
        ("yield b'a'; start('200 OK', [])", "PEP 3333: a body came before start_response was called"),
        ("return []", "error: app.py: the answer to GET / breaks PEP 3333: start_response was not called"),
        ("start('200 OK', []); yield b'a'; environ['no']", "app.py:2: GET / fails: KeyError: 'no'"),
        ("raise SystemExit(0)", "app.py:2: GET / fails: SystemExit: 0"),
        ("import os; os._exit(0)", "app.py ends the process when it is called"),
        ("import os; os.abort()", "app.py:2: the process died while it called the application: killed by SIGABRT"),
    ],
)
def test_only_an_error_of_the_server_fails(tmp_path: Path, answer: str, told: str) -> None:
    (tmp_path / "app.py").write_text(f"def application(environ, start):\n    {answer}\n")
    code, said = run(tmp_path, "app.py", "--check-config", ASKED)
    assert code == (3 if told else 0), said
    assert told in said


def test_an_answer_is_closed_and_a_stream_without_an_end_is_left(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(
        "def application(environ, start):\n    start('200 OK', [])\n    try:\n        while True:\n"
        "            yield b'x' * 600_000\n    finally:\n        open('closed', 'w').close()\n"
    )
    code, told = run(tmp_path, "app.py", "--check-config", ASKED)
    assert (code, told) == (0, "GET / is answered 200 OK, in 1200000 bytes\nok\n")
    assert (tmp_path / "closed").exists()


SLOW = """
import os, time
def application(environ, start):
    open(f"asked-{os.getpid()}", "w").close()
    while "POORHTTP_IS_TRIAL" in os.environ:
        try:
            time.sleep(0.01)
        except Exception:
            pass
    start("200 OK", [])
    return [b"old"]
"""


@pytest.mark.parametrize("shape", ["1x1", "2x1"])
def test_an_answer_has_a_time_limit(start: Start, shape: str, tmp_path: Path) -> None:
    ini = tmp_path / "late.ini"
    ini.write_text("[http]\n")
    server = start(shape, "-c", "late.ini", "--request-timeout=1", source=SLOW)
    ini.write_text("[http]\ncheck_path = /\n")
    server.send(signal.SIGHUP)
    server.await_text("reload failed")
    assert "exit code 3: app.py:" in server.said and ": GET / was not answered in 1 s" in server.said
    assert "| hint: the application must return" in server.said
    assert server.get() == (200, "old")
    assert server.stop() == 0


def test_a_stop_while_it_is_asked_is_clean(launch: Start, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(SLOW)
    server = launch("app.py", "--bind=unix:s.sock", ASKED)
    wait_for(lambda: list(tmp_path.glob("asked-*")), "the application to be asked")
    (asked,) = (psutil.Process(int(each.name.partition("-")[2])) for each in tmp_path.glob("asked-*"))
    assert server.stop() == 0
    wait_for(lambda: not lives(asked), "the end of who asks")
    assert not (tmp_path / "s.sock").exists()


def test_a_lost_thread_is_replaced_by_code_that_cannot_answer(start: Start, tmp_path: Path) -> None:
    """What the lost one waits for keeps the new code from answering too, and there is nothing to go back to."""
    source = SLOW.replace('while "POORHTTP_IS_TRIAL" in os.environ', 'while os.path.exists("outage")').replace(
        "except Exception", "except BaseException"
    )
    server = start("1x1", ASKED, "--request-timeout=0.5", source=source)
    (tmp_path / "outage").touch()
    assert server.get()[0] == 504
    server.await_text("reloaded: ")
    (tmp_path / "outage").unlink()
    assert server.get() == (200, "old")
    assert server.stop() == 0


DJANGO = """
import os
from django.conf import settings
settings.configure(
    ALLOWED_HOSTS=["www.example.com"], ROOT_URLCONF="urls", SECRET_KEY="for the test",
    SECURE_SSL_REDIRECT=os.path.exists("redirect"),
    MIDDLEWARE=["django.middleware.security.SecurityMiddleware", "django.middleware.common.CommonMiddleware"],
)
from django.core.wsgi import get_wsgi_application
application = get_wsgi_application()
"""
URLS = """
from django.http import HttpResponse
from django.urls import path
urlpatterns = [path("", lambda request: HttpResponse("home"))]
"""


def test_django(tmp_path: Path) -> None:
    """It refuses another Host, and redirects to https, before it looks at the URLs: so a URL may be asked for."""
    pytest.importorskip("django")
    (tmp_path / "app.py").write_text(DJANGO)
    put(tmp_path, URLS)
    for asked, answer in ("/", "400 Bad Request"), ("http://www.example.com/", "200 OK"):
        code, told = run(tmp_path, "app.py", "--check-config", f"--check-path={asked}")
        assert code == 0 and f"GET {asked} is answered {answer}, in " in told
    (tmp_path / "redirect").touch()
    for asked, answer in ("http://www.example.com/", "301 Moved"), ("https://www.example.com/", "200 OK"):
        code, told = run(tmp_path, "app.py", "--check-config", f"--check-path={asked}")
        assert code == 0 and f"GET {asked} is answered {answer}" in told
    put(tmp_path, URLS + "def (\n")
    code, told = run(tmp_path, "app.py", "--check-config", "--check-path=https://www.example.com/")
    assert code == 3
    assert "error: urls.py:5: GET https://www.example.com/ fails: SyntaxError" in told


CHAINED = """
def application(environ, start_response, times=20):
    try:
        application(environ, start_response, times - 1) if times else 1 / 0
    finally:
        raise ValueError(f"once more, {times}")
"""


def test_of_many_tracebacks_the_first_and_the_last_lines_are_told(tmp_path: Path) -> None:
    """Django tells a mistake in urls.py eight times, in some 400 lines."""
    (tmp_path / "app.py").write_text(CHAINED)
    code, told = run(tmp_path, "app.py", "--port=0", ASKED)
    assert code == 3 and told.count("Traceback") < 6 and len(told.splitlines()) < 40
    assert re.search(r"\n\[left out: \d+ lines\]\n", told) and "\nValueError: once more, 20\n" in told


COLOURED = """
def application(environ, start_response):
    raise ValueError("a\\x1b[31mb\\x9bc\\r\\nd\\x07")
"""


@pytest.mark.parametrize("command", [("app.py",), ("app.py", "--check-config"), ("check", "app.py")])
def test_what_a_terminal_would_obey_is_escaped(tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "app.py").write_text(COLOURED)
    code, told = run(tmp_path, *command, "--port=0", ASKED)
    assert code == 3 and told.replace("\n", "").isprintable(), told
    assert "\nValueError: a\\x1b[31mb\\x9bc\\r\nd\\x07\n" in told


def test_what_is_left_out_of_a_failed_reload_is_told(start: Start, tmp_path: Path) -> None:
    put(tmp_path, GOOD)
    server = start("1x1", ASKED, source=LAZY)
    put(tmp_path, "for number in range(100):\n    print('noise', number, file=__import__('sys').stderr)\n1 / 0\n")
    server.send(signal.SIGHUP)
    server.await_text("reload failed, the server goes on as it was")
    told = re.findall(r"\[E\] \| (.*)\n", server.said)
    assert told[0] == "[the first lines are left out]" and "noise 99" in told
    assert told[-1] == "error: urls.py:3: GET / fails: ZeroDivisionError: division by zero"
    assert server.stop() == 0


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ("--check-path=/a%20b/%C3%A9?q=%20", "--port=81"),
            ("http", "127.0.0.1:81", "127.0.0.1", "81", "/a b/\xc3\xa9"),
        ),
        (("--check-path=/", "--bind=:8000"), ("http", "localhost:8000", "localhost", "8000", "/")),
        (("--check-path=/", "--bind=[::1]:80"), ("http", "[::1]", "[::1]", "80", "/")),
        (("--check-path=/", "--bind=unix:s"), ("http", "localhost", "localhost", "80", "/")),
        (("--check-path=https://a.b",), ("https", "a.b", "a.b", "443", "/")),
        (("--check-path=http://a.b:8/c",), ("http", "a.b:8", "a.b", "8", "/c")),
    ],
)
def test_the_environ_is_that_of_a_client(tmp_path: Path, arguments: tuple[str, ...], expected: tuple[str, ...]) -> None:
    seen: list[dict[str, object]] = []

    def application(environ, start_response):  # type: ignore[no-untyped-def]
        seen.append(environ)
        start_response("200 OK", [])
        return []

    settings = reading.read(parse_flags(["app.py", *arguments], str(tmp_path)), {}, str(tmp_path))
    question.judge(question.ask(application, settings, settings.check_path), settings.check_path)
    names = ("wsgi.url_scheme", "HTTP_HOST", "SERVER_NAME", "SERVER_PORT", "PATH_INFO")
    assert tuple(seen[0][name] for name in names) == expected


def test_what_is_no_path_and_no_url_is_refused(tmp_path: Path) -> None:
    code, told = run(tmp_path, "app.py", "--check-config", "--check-path=http://[::1/")
    what = (
        "must be a path such as /, or a URL such as https://www.example.com/ or http://[::1]:8000/, not 'http://[::1/'"
    )
    assert code == 2 and what in told
