"""docs/warmup.md: its examples, served by two workers after a warm-up; and what happens without their hooks."""

import contextlib
import re
import sqlite3
from pathlib import Path

import pytest
from starter import ROOT, Server, Start

SNIPPETS = {
    snippet.partition("\n")[0].removeprefix("# "): snippet
    for snippet in re.findall(
        r"^```python\n(.*?)^```$", (ROOT / "docs" / "warmup.md").read_text(), re.MULTILINE | re.DOTALL
    )
}
HOOK = re.compile(r"^os\.register_at_fork\(.*\)\n", re.MULTILINE)


def serve(launch: Start, application: str, *arguments: str) -> Server:
    words = ("--bind=127.0.0.1:0", "--type=forking", "--processes=2", "--warmup=/", *arguments)
    server = launch(application, *words)
    server.await_address()
    server.await_serving(2)
    return server


def stop(server: Server) -> list[str]:
    """Stop it; the warnings that it has logged."""
    assert server.stop() == 0
    return [line.partition("[W] ")[2] for line in server.said.splitlines() if "[W]" in line]


def of_each_worker(server: Server) -> list[str]:
    """An answer of each of the two workers: a kept connection holds one, so that the other takes the next client."""
    bodies: dict[str, str] = {}
    for _ in range(200):
        with contextlib.closing(server.connection()) as connection:
            connection.request("GET", "/")
            answer = connection.getresponse()
            bodies.setdefault(answer.headers["X-Pid"], answer.read().decode())
        if len(bodies) == 2:
            break
    assert len(bodies) == 2, bodies
    return list(bodies.values())


def make_database(path: Path) -> None:
    """Make one that is not empty: an empty file shows nowhere that it is one."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("create table one (two)")


def test_the_page_has_an_example_for_each_library() -> None:
    assert list(SNIPPETS) == ["mysite/wsgi.py", "notes.py", "dice.py"]


DJANGO = {
    "mysite/__init__.py": "",
    "mysite/settings.py": """
ALLOWED_HOSTS = ["127.0.0.1", "localhost"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "site.db", "CONN_MAX_AGE": None}}
MIDDLEWARE = ["django.middleware.common.CommonMiddleware"]
ROOT_URLCONF = "mysite.urls"
SECRET_KEY = "for the test"
""",
    "mysite/urls.py": """
import os
from django.db import connection
from django.db.backends.signals import connection_created
from django.http import HttpResponse
from django.urls import path

openers = []
connection_created.connect(lambda **named: openers.append(os.getpid()), weak=False)

def home(request):
    with connection.cursor() as cursor:
        cursor.execute("select 1")
    return HttpResponse(f"{os.getpid() == openers[-1]} {len(openers)}", headers={"X-Pid": str(os.getpid())})

def fails(request):
    raise ValueError("failed as asked")

urlpatterns = [path("", home), path("fails", fails)]
""",
}


@pytest.fixture
def django(tmp_path: Path) -> Path:
    pytest.importorskip("django", reason="to be installed: pip install -e '.[test]'")
    for name, text in {**DJANGO, "mysite/wsgi.py": SNIPPETS["mysite/wsgi.py"]}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    make_database(tmp_path / "site.db")
    return tmp_path


def test_django(launch: Start, django: Path) -> None:
    server = serve(launch, "mysite.wsgi")
    assert of_each_worker(server) == ["True 2", "True 2"], "one connection in the warm-up, then one of its own"
    assert stop(server) == []


def test_django_without_the_hook(launch: Start, django: Path) -> None:
    text = HOOK.sub("", SNIPPETS["mysite/wsgi.py"])
    (django / "mysite" / "wsgi.py").write_text(text)
    server = serve(launch, "mysite.wsgi")
    assert of_each_worker(server) == ["False 1", "False 1"]
    (told,) = stop(server)
    assert f"they share the database {django / 'site.db'}" in told


def test_django_refuses_the_host(launch: Start, django: Path) -> None:
    settings = django / "mysite" / "settings.py"
    settings.write_text(settings.read_text().replace('["127.0.0.1", "localhost"]', '["www.example.com"]'))
    (told,) = stop(serve(launch, "mysite.wsgi"))
    assert "GET / is answered 400 Bad Request, in " in told and "(ALLOWED_HOSTS)" in told
    server = serve(launch, "mysite.wsgi", "--warmup=http://www.example.com/")
    assert stop(server) == []
    assert "GET http://www.example.com/ is answered 200 OK" in server.said


def test_what_django_answers_with_500_is_told_with_its_traceback(launch: Start, django: Path) -> None:
    server = serve(launch, "mysite.wsgi", "--warmup=/fails")
    (told,) = stop(server)
    assert told.startswith("warm-up: GET /fails is answered 500 Internal Server Error, in ")
    assert '/mysite/urls.py", line 17, in fails\n' in server.said and "    ValueError: failed as asked\n" in server.said


OPENERS = """
from sqlalchemy import event
openers = []
event.listen(engine, "connect", lambda *arguments: openers.append(os.getpid()))
serve = application

def application(environ, start_response):
    list(serve(environ, lambda *arguments: None))
    start_response("200 OK", [("X-Pid", str(os.getpid()))])
    return [f"{os.getpid() == openers[-1]} {len(openers)}".encode()]
"""


@pytest.mark.parametrize(
    ("hook", "bodies", "is_told"),
    [
        ("", ["True 2"] * 2, False),
        ("os.register_at_fork(after_in_child=lambda: engine.dispose(close=False))\n", ["True 2"] * 2, True),
        ("\n", ["False 1"] * 2, True),
    ],
    ids=["as shown", "in the child", "without"],
)
def test_sqlalchemy(launch: Start, tmp_path: Path, hook: str, bodies: list[str], is_told: bool) -> None:
    pytest.importorskip("sqlalchemy", reason="to be installed: pip install -e '.[test]'")
    text = HOOK.sub(lambda _: hook, SNIPPETS["notes.py"]) if hook else SNIPPETS["notes.py"]
    (tmp_path / "notes.py").write_text(text + OPENERS)
    make_database(tmp_path / "notes.db")
    server = serve(launch, "notes.py")
    assert of_each_worker(server) == bodies
    told = stop(server)
    assert len(told) == is_told
    assert not told or f"they share the database {tmp_path / 'notes.db'}" in told[0]


PID = """
@app.after_request
def pid(response):
    response.headers["X-Pid"] = str(os.getpid())
    return response
"""


def test_flask(launch: Start, tmp_path: Path) -> None:
    pytest.importorskip("flask", reason="to be installed: pip install -e '.[test]'")
    (tmp_path / "dice.py").write_text(SNIPPETS["dice.py"] + PID)
    server = serve(launch, "dice.py")
    one, other = of_each_worker(server)
    assert one.rpartition(" ")[2] != other.rpartition(" ")[2]
    assert "[]" not in one + other, "the thread runs in each worker"
    assert stop(server) == []


def test_flask_without_the_hooks(launch: Start, tmp_path: Path) -> None:
    pytest.importorskip("flask", reason="to be installed: pip install -e '.[test]'")
    (tmp_path / "dice.py").write_text(HOOK.sub("", SNIPPETS["dice.py"]) + PID)
    server = serve(launch, "dice.py")
    one, other = of_each_worker(server)
    assert one == other and one.startswith("[] ")
    assert stop(server) == []


def test_what_flask_answers_with_500_is_told_with_its_traceback(launch: Start, tmp_path: Path) -> None:
    pytest.importorskip("flask", reason="to be installed: pip install -e '.[test]'")
    (tmp_path / "dice.py").write_text(SNIPPETS["dice.py"].replace("dice.random()", "dice.missing()"))
    server = serve(launch, "dice.py")
    (told,) = stop(server)
    assert told.startswith("warm-up: GET / is answered 500 INTERNAL SERVER ERROR, in ")
    trace = server.said.partition(told)[2]
    assert 'dice.py", line 26, in home\n' in trace and "    AttributeError: 'Random' object has no attribute" in trace
