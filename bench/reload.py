"""From a save to the first answer of the new code, by `poorhttp dev` and by peers that reload.

Knows the applications, when they are saved, and what clients notice meanwhile. An answer is stale if its request began
after the save was done; a save is missed if it shows in no answer. Times are milliseconds unless a name says otherwise.
"""

from __future__ import annotations

import contextlib
import http.client
import random
import re
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from bench import launch, proc, scenario
from bench.client import Failure
from bench.launch import LOAD_CORE, SERVER_CORE, Setting
from bench.report import percentile
from bench.scenario import Limit, Scenario
from bench.servers import OURS, RELOADING, Server
from bench.workloads import Workload

CORES = frozenset({SERVER_CORE, LOAD_CORE})
READY = 20.0  # seconds until a server must have answered for the first time
PATIENCE = 8.0  # seconds until a save that shows in no answer is missed
MOST_MISSED = 3  # then it is given up
REST = 1.5  # seconds between the first answer and the first save
AGAIN = 0.002  # seconds between two tries
SLOW = 0.3  # seconds that a slow call takes
IMPORT = 0.8  # seconds that the author's own module `slow` takes
MANY = 500  # modules of the author's own
CLIENTS = ("/", "/", "/", "/", "/slow", "/slow", "/slow", "/slow")
POLLING = ("flask-run", "runserver", "gunicorn")
SOON, UNDER_LOAD = (0.3, 0.6), (0.15, 0.15)  # seconds between an answer and the next save
AT_LEISURE = (1.1, 2.1)  # the same for who looks at the files each second, or has much to make ready for the next save
PATH = re.compile(rb"reloaded .* ms \(([^)]+)")

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
"""
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
APPS = {
    "bare": {"served.py": BARE},
    "flask": {"served.py": FLASK},
    "django": {"main.py": WSGI, "settings.py": SETTINGS, "urls.py": URLS, "served.py": VIEWS},
    "heavy": {"served.py": f"import numpy\nimport pandas\nimport sqlalchemy.orm\n{FLASK}"},
    "leaf": {"main.py": "import slow\nfrom served import application\n",
             "slow.py": f"import time\ntime.sleep({IMPORT})\n", "served.py": FLASK},
    "many": {"main.py": "from served import application\n", **{f"part{number}.py": "" for number in range(MANY)},
             "served.py": "".join(f"import part{number}\n" for number in range(MANY)) + BARE},
}  # `served` has the answer and is what is saved; `main`, or else `served`, has the application
# fmt: on


@dataclass(frozen=True)
class Size:
    saves: int
    hasty: int
    loaded: int
    idle: float  # seconds


FULL = Size(saves=30, hasty=15, loaded=100, idle=20.0)
QUICK = Size(saves=3, hasty=3, loaded=3, idle=0.5)


@dataclass
class Seen:
    """What clients noticed."""

    stale: int = 0
    refused: int = 0
    broken: int = 0
    other: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, kind: str) -> None:
        with self.lock:
            setattr(self, kind, getattr(self, kind) + 1)


@dataclass(frozen=True)
class Served:
    port: int
    path: Path  # the file to save
    log: Path
    process: int


def reloading(
    server: Server, setting: Setting, size: Size, app: str, is_loaded: bool = False, is_slow: bool = False
) -> dict[str, object]:
    """Save again and again, each time with another length; see `saving`."""
    if is_loaded:
        return saving(server, setting, app, size.loaded, UNDER_LOAD, is_loaded=True)
    return saving(server, setting, app, size.saves, AT_LEISURE if is_slow or server.name in POLLING else SOON)


def hasty(server: Server, setting: Setting, size: Size, app: str) -> dict[str, object]:
    """Save again at once, always with the same length: Python takes compiled code for that of a file if its length and
    its time in whole seconds are the same.
    """
    return saving(server, setting, app, size.hasty, SOON, is_same_length=True)


def idle(server: Server, setting: Setting, size: Size) -> dict[str, object]:
    """Let nothing happen, and see what the processes take of one core meanwhile."""
    with serving(server, setting, "many") as served:
        time.sleep(2 * REST)  # in which all is made ready for the next save
        begin, before = time.monotonic(), proc.exact_cpu(served.process)
        time.sleep(size.idle)
        return {"share": 100 * (proc.exact_cpu(served.process) - before) / (time.monotonic() - begin)}


def saving(
    server: Server, setting: Setting, app: str, saves: int, pause: tuple[float, float], is_loaded: bool = False,
    is_same_length: bool = False,
) -> dict[str, object]:  # fmt: skip
    """Save; ask, each time on a new connection, until the answer is the new one; have a pause; and again."""
    seen, took, missed, saved, is_over = Seen(), [], 0, [0], threading.Event()
    source = APPS[app]["served.py"]
    with serving(server, setting, app) as served:
        threads = [threading.Thread(target=clients, args=(served.port, each, seen, saved, is_over)) for each in CLIENTS]
        for thread in threads if is_loaded else ():
            thread.start()
        try:
            time.sleep(REST)
            for number in range(1, saves + 1):
                save(served.path, source, number, 4 if is_same_length else 4 + number % 5)
                saved[0], begin = number, time.monotonic()
                while (answer := ask(served.port, "/", seen)) != number and time.monotonic() < begin + PATIENCE:
                    if answer is not None:
                        seen.note("stale")
                    time.sleep(AGAIN)
                if answer == number:
                    took.append((time.monotonic() - begin) * 1000)
                else:
                    missed += 1
                    if missed == MOST_MISSED:
                        break
                time.sleep(random.uniform(*pause))
        finally:
            is_over.set()
            for thread in threads if is_loaded else ():
                thread.join()
        log = served.log.read_bytes()
    if not took:
        raise Failure(f"no save shows; log: {launch.last_line(log) or 'empty'}")
    remarks = [paths(log), f"given up after {number} of {saves} saves" if missed == MOST_MISSED else ""]
    return {
        "p50": percentile(took, 50), "p95": percentile(took, 95), "max": max(took), "missed": missed,
        "stale": seen.stale, "refused": seen.refused, "broken": seen.broken, "other": seen.other,
        "remark": "; ".join(filter(None, remarks)),
    }  # fmt: skip


def paths(log: bytes) -> str:
    """How often `poorhttp dev` came by the new code in which way, as its log says; "" for others' logs."""
    return ", ".join(f"{count} {path.decode()}" for path, count in Counter(PATH.findall(log)).most_common())


@contextlib.contextmanager
def serving(server: Server, setting: Setting, app: str) -> Iterator[Served]:
    """Start the server so that it reloads. Its directory has the application's files and nothing else: some watch
    whatever is there.
    """
    with tempfile.TemporaryDirectory(dir=setting.work) as directory, launch.pinned(CORES):
        work, log, port = Path(directory) / "work", Path(directory) / "log", launch.free_port()
        work.mkdir()
        for name, source in APPS[app].items():
            save(work / name, source, 0)
        module = "main" if "main.py" in APPS[app] else "served"
        workload = Workload("reload", "", (), module=module, app="application", processes=1, threads=16)
        environment = launch.environment(server.name in OURS)
        if server.name not in OURS:
            del environment["PYTHONPATH"]  # some look at all files of all its directories
        with log.open("wb") as output:
            process = subprocess.Popen(
                launch.fill(server, workload, setting, port), cwd=work, env=environment, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            )  # fmt: skip
        try:
            end, nobody = time.monotonic() + READY, Seen()
            while ask(port, "/", nobody) != 0:
                if time.monotonic() > end or process.poll() is not None:
                    raise Failure(f"does not serve: {launch.last_line(log.read_bytes())}")
                time.sleep(0.05)
            yield Served(port, work / "served.py", log, process.pid)
        finally:
            launch.stop(process)


def save(path: Path, source: str, number: int, digits: int = 4) -> None:
    """Put a new file in the place of the old one, which is written elsewhere: only that is to be noticed."""
    fresh = path.parent.with_name("fresh")
    fresh.write_text(source.replace("NUMBER", f"{number:0{digits}}"))
    fresh.rename(path)


def clients(port: int, path: str, seen: Seen, saved: list[int], is_over: threading.Event) -> None:
    while not is_over.is_set():
        before = saved[0]
        number = ask(port, path, seen)
        if number is not None and number < before:
            seen.note("stale")
        time.sleep(AGAIN)


def ask(port: int, path: str, seen: Seen) -> int | None:
    """The number that is served; None where there is none, which is noted."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as connection:
        try:
            connection.request("GET", path)
            return int(connection.getresponse().read())
        except ConnectionRefusedError:
            seen.note("refused")
        except (OSError, http.client.HTTPException):
            seen.note("broken")
        except ValueError:
            seen.note("other")
    return None


# fmt: off
COLUMNS = {"p50 ms": "p50", "p95 ms": "p95", "max ms": "max", "missed saves": "missed", "stale": "stale",
           "refused": "refused", "broken": "broken", "other answers": "other"}
WHOLE = (*(Limit(f"{name} answers", name, "<=", 0) for name in ("stale", "refused", "broken", "other")),
         Limit("missed saves", "missed", "<=", 0))


def within(p50: float, p95: float) -> tuple[Limit, ...]:
    return Limit("p50", "p50", "<=", p50, "ms"), Limit("p95", "p95", "<=", p95, "ms"), *WHOLE


ALL = (
    Scenario("bare", "one function", partial(reloading, app="bare"), within(30, 60), COLUMNS,
             (*OURS, "gunicorn", "granian", "watchfiles"), attempts=4),
    Scenario("flask", "Flask, two routes", partial(reloading, app="flask"), within(30, 60), COLUMNS,
             (*OURS, "flask-run", "gunicorn", "granian", "watchfiles"), attempts=4),
    Scenario("django", "Django with its admin, and a save of the views", partial(reloading, app="django"), WHOLE,
             COLUMNS, ("single", "runserver", "gunicorn")),
    Scenario("heavy", "Flask, which also imports NumPy, pandas and SQLAlchemy",
             partial(reloading, app="heavy", is_slow=True), within(36, 72), COLUMNS,
             ("single", "flask-run", "gunicorn"), attempts=4),
    Scenario("leaf", f"Flask, {IMPORT} s of the author's own imports, and a save of what is imported after them",
             partial(reloading, app="leaf"), within(60, 60), COLUMNS, ("single", "flask-run", "gunicorn"), attempts=4),
    Scenario("hasty", "one function, saved again soon, always with the same length",
             partial(hasty, app="bare"), WHOLE, COLUMNS, ("single", "gunicorn", "granian", "watchfiles")),
    Scenario("load", "Flask, a save every 150 ms under 8 clients, 4 of them with calls of 0.3 s",
             partial(reloading, app="flask", is_loaded=True), WHOLE, COLUMNS, ("threading",)),
    Scenario("idle", f"one function and {MANY} modules, of which none is saved", idle,
             (Limit("CPU, of one core", "share", "<=", 0.1, "%"),), {"CPU %": "share"},
             (*OURS, "gunicorn", "granian", "watchfiles")),
)
# fmt: on
SCENARIOS = {each.name: each for each in ALL}
targets = partial(scenario.targets, ALL)
rows = partial(scenario.rows, ALL, servers=RELOADING)
