"""From a save to the first answer of the new code, by `poorhttp dev` and by peers that reload.

Knows the applications, how each server is told to reload, and what its clients notice meanwhile. An answer is stale if
its request began after the save was done. Times are milliseconds unless a name says otherwise.
"""

from __future__ import annotations

import contextlib
import http.client
import random
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from bench import launch, scenario
from bench.client import Failure
from bench.launch import LOAD_CORE, SERVER_CORE, Setting
from bench.scenario import Limit, Scenario
from bench.servers import OURS, Server
from bench.workloads import Workload

CORES = frozenset({SERVER_CORE, LOAD_CORE})
PATIENCE = 20.0  # seconds until a save that shows in no answer is missed
AGAIN = 0.002  # seconds between two tries
SLOW = 0.3  # seconds that a slow call takes
CLIENTS = ("/", "/", "/", "/", "/slow", "/slow", "/slow", "/slow")

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
MAIN = """
import slow
from served import application
"""
IMPORT = 0.8  # seconds that the author's own module `slow` takes


@dataclass(frozen=True)
class Size:
    saves: int
    pause: tuple[float, float]  # seconds between two saves, at random, so that who polls is met at any phase


FULL = Size(50, (1.2, 2.2))
QUICK = Size(3, (0.5, 0.6))


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


def reloading(
    server: Server, setting: Setting, size: Size, source: str, is_loaded: bool = False, main: str = ""
) -> dict[str, float]:
    """Save again and again; each time ask, on a new connection, until the answer is the new one. main: a module that
    imports the one that is saved, "" where that is the application itself.
    """
    seen, took, saved, is_over = Seen(), [], [0], threading.Event()
    pause = (0.15, 0.15) if is_loaded and size is FULL else size.pause
    with serving(server, setting, source, main) as (port, path):
        threads = [threading.Thread(target=clients, args=(port, each, seen, saved, is_over)) for each in CLIENTS]
        for thread in threads if is_loaded else ():
            thread.start()
        try:
            time.sleep(1.5)
            for number in range(1, size.saves + 1):
                save(path, source, number)
                saved[0], begin = number, time.monotonic()
                while (answer := ask(port, "/", seen)) != number:
                    if answer is not None:
                        seen.note("stale")
                    if time.monotonic() > begin + PATIENCE:
                        raise Failure(f"save {number} shows in no answer")
                    time.sleep(AGAIN)
                took.append((time.monotonic() - begin) * 1000)
                time.sleep(random.uniform(*pause))
        finally:
            is_over.set()
            for thread in threads if is_loaded else ():
                thread.join()
    took.sort()
    return {
        "p50": took[len(took) // 2], "p95": took[min(int(len(took) * 0.95), len(took) - 1)], "max": took[-1],
        "stale": seen.stale, "refused": seen.refused, "broken": seen.broken, "other": seen.other,
    }  # fmt: skip


@contextlib.contextmanager
def serving(server: Server, setting: Setting, source: str, main: str) -> Iterator[tuple[int, Path]]:
    """Start the server so that it reloads; its port, and the file to save."""
    with tempfile.TemporaryDirectory(dir=setting.work) as directory, launch.pinned(CORES):
        path, port = Path(directory) / "served.py", launch.free_port()
        save(path, source, 0)
        module = "main" if main else "served"
        path.with_name("main.py").write_text(main)
        path.with_name("slow.py").write_text(f"import time\ntime.sleep({IMPORT})\n")
        workload = Workload("reload", "", (), module=module, app="application", processes=1, threads=16)
        if server.name in OURS:
            words = [
                setting.python,
                "-m",
                "poorhttp",
                "dev",
                f"{module}.py",
                "--port",
                str(port),
                "--type",
                server.name,
            ]
        else:
            words = [*launch.fill(server, workload, setting, port), "--reload"]
        with (Path(directory) / "log").open("wb") as log:
            process = subprocess.Popen(
                words, cwd=directory, env=launch.environment(server.name in OURS), start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        try:
            end, nobody = time.monotonic() + PATIENCE, Seen()
            while ask(port, "/", nobody) != 0:
                if time.monotonic() > end or process.poll() is not None:
                    raise Failure(f"does not serve: {launch.last_line((Path(directory) / 'log').read_bytes())}")
                time.sleep(0.05)
            yield port, path
        finally:
            launch.stop(process)


def save(path: Path, source: str, number: int) -> None:
    fresh = path.with_name("fresh")
    fresh.write_text(source.replace("NUMBER", str(number)))
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
COLUMNS = {"p50 ms": "p50", "p95 ms": "p95", "max ms": "max", "stale": "stale", "refused": "refused",
           "broken": "broken", "other answers": "other"}
QUICKLY = (Limit("p50", "p50", "<=", 30, "ms"), Limit("p95", "p95", "<=", 60, "ms"))
WHOLE = tuple(Limit(f"{name} answers", name, "<=", 0) for name in ("stale", "refused", "broken", "other"))
PEERS = ("gunicorn", "granian")
ALL = (
    Scenario("bare", "one function", partial(reloading, source=BARE), QUICKLY + WHOLE, COLUMNS,
             (*OURS, *PEERS)),
    Scenario("flask", "Flask, one route", partial(reloading, source=FLASK), QUICKLY + WHOLE, COLUMNS,
             (*OURS, *PEERS)),
    Scenario("leaf", f"{IMPORT} s of the author's own imports, and a save of what is imported after them",
             partial(reloading, source=BARE, main=MAIN),
             (Limit("p50", "p50", "<=", 60, "ms"), Limit("p95", "p95", "<=", 60, "ms"), *WHOLE), COLUMNS,
             (*OURS, *PEERS)),
    Scenario("load", "Flask, a save every 150 ms under 8 clients, 4 of them with calls of 0.3 s",
             partial(reloading, source=FLASK, is_loaded=True), WHOLE, COLUMNS, ("threading",)),
)
# fmt: on
SCENARIOS = {each.name: each for each in ALL}
targets = partial(scenario.targets, ALL)
rows = partial(scenario.rows, ALL)
