"""The applications that `bench reload` saves, and the ways in which they are saved.

An application answers with the largest number that stands anywhere in it, so the last save shows in its answer wherever
it was made. Knows no server. A way has saved when it returns: a request that is sent then must be answered by the new
code.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from pathlib import Path

SLOW = 0.3  # seconds that a slow call takes
EACH = 0.1  # seconds between two lines of a stream
IMPORT = 0.8  # seconds that the author's own module `slow` takes
MANY = 500  # modules of the author's own
CROWD = 13_000  # files that the application has read
PARTS = 20  # modules that are saved at once
BETWEEN = 0.005  # seconds between two steps of one save

# fmt: off
BARE = f"""
import time
def application(environ, start_response):
    if environ["PATH_INFO"] == "/slow":
        time.sleep({SLOW})
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"NUMBER"]
"""
FLASK = f"""
import time
import flask
application = flask.Flask(__name__)
@application.get("/")
def index():
    return "NUMBER"
@application.get("/slow")
def slow():
    time.sleep({SLOW})
    return "NUMBER"
@application.get("/stream")
def stream():
    def lines(count):
        for _ in range(count):
            yield "NUMBER\\n"
            time.sleep({EACH})
    return flask.Response(lines(int(flask.request.args["lines"])), mimetype="text/event-stream")
"""
COLD = f"""
import logging
class Logger(logging.Logger):
    pass
logging.setLoggerClass(Logger)
{FLASK}"""
STYLES = f"""
import importlib
import os
import pathlib
import flask
import added
import first
import package
import recreated
parts = [importlib.import_module(f"part{{number}}") for number in range({PARTS})]
value = "NUMBER"
values = [value, added.value, first.value, package.value, recreated.value, min(int(each.value) for each in parts),
          pathlib.Path(".env").read_text().partition("=")[2]]
application = flask.Flask(__name__)
@application.get("/")
def index():
    return str(max(map(int, [*values, flask.render_template("page.html")])))
@application.get("/process")
def process():
    return f"{{os.getpid()}} {{os.getppid()}}"
"""
CROWDED = f"""
import pathlib
for place in pathlib.Path("data").glob("*/*"):
    place.read_text()
{BARE}"""
SETTINGS = """
DEBUG = True
SECRET_KEY = "of the bench"
ROOT_URLCONF = "urls"
INSTALLED_APPS = ["django.contrib.admin", "django.contrib.auth", "django.contrib.contenttypes",
                  "django.contrib.sessions", "django.contrib.messages"]
MIDDLEWARE = ["django.middleware.security.SecurityMiddleware",
              "django.contrib.sessions.middleware.SessionMiddleware",
              "django.middleware.common.CommonMiddleware", "django.middleware.csrf.CsrfViewMiddleware",
              "django.contrib.auth.middleware.AuthenticationMiddleware",
              "django.contrib.messages.middleware.MessageMiddleware"]
TEMPLATES = [{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True,
              "OPTIONS": {"context_processors": ["django.template.context_processors.request",
                                                 "django.contrib.auth.context_processors.auth",
                                                 "django.contrib.messages.context_processors.messages"]}}]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
STATIC_URL = "static/"
"""
URLS = """
from django.contrib import admin
from django.urls import path
import served
urlpatterns = [path("admin/", admin.site.urls), path("", served.index)]
"""
VIEWS = """
from django.http import HttpResponse
def index(request):
    return HttpResponse("NUMBER")
"""
WSGI = """
import os
from django.core.wsgi import get_wsgi_application
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "settings")
application = get_wsgi_application()
"""
VALUE = 'value = "NUMBER"\n'
APPS = {
    "bare": {"served.py": BARE},
    "flask": {"served.py": FLASK},
    "django": {"main.py": WSGI, "settings.py": SETTINGS, "urls.py": URLS, "served.py": VIEWS},
    "heavy": {"served.py": f"import numpy\nimport pandas\nimport sqlalchemy.orm\n{FLASK}"},
    "leaf": {"main.py": "import slow\nfrom served import application\n",
             "slow.py": f"import time\ntime.sleep({IMPORT})\n", "served.py": FLASK},
    "cold": {"served.py": COLD},
    "styles": {"main.py": "import first\nfrom served import application\n", "served.py": STYLES,
               **dict.fromkeys(("first.py", "recreated.py", "new0.py", "package/__init__.py"), VALUE),
               **{f"part{number}.py": VALUE for number in range(PARTS)}, "added.py": "from new0 import value\n",
               ".env": "SAVED=NUMBER\n", "templates/page.html": "NUMBER"},
    "many": {"main.py": "from served import application\n", **{f"part{number}.py": "" for number in range(MANY)},
             "served.py": "".join(f"import part{number}\n" for number in range(MANY)) + BARE},
    "crowd": {"served.py": CROWDED, **{f"data/{number // 100}/{number}": "" for number in range(CROWD)}},
}  # `served` has the answer and is what is saved; `main`, or else `served`, has the application
# fmt: on

Way = Callable[[Path, int], None]  # the directory of the application, and the number to be saved


def text(app: str, name: str, number: int, digits: int = 4) -> str:
    return APPS[app][name].replace("NUMBER", f"{number:0{digits}}")


def put(work: Path, name: str, source: str, older: float = 0) -> None:
    """Put a new file in the place of the old one, which is written elsewhere: only that is to be noticed.

    older: by so many seconds than the old one.
    """
    fresh = work.with_name("fresh")
    fresh.write_text(source)
    if older:
        before = (work / name).stat().st_mtime - older
        os.utime(fresh, (before, before))
    fresh.rename(work / name)


def create(work: Path, app: str) -> None:
    """The application with the number 0, and nothing else in its directory: some watch whatever is there."""
    work.mkdir()
    for name in APPS[app]:
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        put(work, name, text(app, name, 0))


def resaving(app: str, is_same_length: bool = False) -> Way:
    """Rename a new `served` over the old one; each has another length than the one before, or all have the same."""
    return lambda work, number: put(
        work, "served.py", text(app, "served.py", number, 4 if is_same_length else 4 + number % 5)
    )


def in_place(work: Path, number: int) -> None:
    with (work / "served.py").open("r+") as file:
        file.write(text("styles", "served.py", number, 4 + number % 5))
        file.truncate()


def in_pieces(work: Path, number: int) -> None:
    source = text("styles", "served.py", number).encode()
    with (work / "served.py").open("wb", buffering=0) as file:
        file.write(source[: len(source) // 2])
        time.sleep(BETWEEN)
        file.write(source[len(source) // 2 :])


def renamed(work: Path, number: int) -> None:
    put(work, "served.py", text("styles", "served.py", number, 4 + number % 5))


def older(work: Path, number: int) -> None:
    put(work, "served.py", text("styles", "served.py", number), older=3600)


def same_size(work: Path, number: int) -> None:
    """As long as before, and changed within the same second: Python takes old compiled code for that of the file."""
    path = work / "served.py"
    digits, second = len(re.findall(r'"(\d+)"', path.read_text())[0]), path.stat().st_mtime_ns // 10**9
    fresh = work.with_name("fresh")
    fresh.write_text(text("styles", "served.py", number, digits))
    os.utime(fresh, ns=(second * 10**9 + number, second * 10**9 + number))
    fresh.rename(path)


def template(work: Path, number: int) -> None:
    (work / "templates" / "page.html").write_text(text("styles", "templates/page.html", number))


def env(work: Path, number: int) -> None:
    (work / ".env").write_text(text("styles", ".env", number))


def first_imported(work: Path, number: int) -> None:
    put(work, "first.py", text("styles", "first.py", number))


def package(work: Path, number: int) -> None:
    put(work, "package/__init__.py", text("styles", "package/__init__.py", number))


def new_module(work: Path, number: int) -> None:
    (work / f"new{number}.py").write_text(text("styles", "new0.py", number))
    put(work, "added.py", f"from new{number} import value\n")


def recreated(work: Path, number: int) -> None:
    (work / "recreated.py").unlink()
    time.sleep(BETWEEN)
    (work / "recreated.py").write_text(text("styles", "recreated.py", number))


def at_once(work: Path, number: int) -> None:
    for part in range(PARTS):
        put(work, f"part{part}.py", text("styles", f"part{part}.py", number))


WAYS: dict[str, Way] = {
    "in place": in_place, "in two pieces": in_pieces, "renamed": renamed, "older": older,
    "same size and second": same_size, "template": template, ".env": env, "first imported": first_imported,
    "package": package, "new module": new_module, "deleted and written": recreated, f"{PARTS} files": at_once,
}  # of the application `styles`  # fmt: skip
