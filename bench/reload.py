"""From a save to the first answer of the new code, by `poorhttp dev` and by peers that reload.

Knows when they are saved, and what clients notice meanwhile; what is saved, and how, is in `edits`. An answer is stale
if its request began after the save was done; a save is missed if it shows in no answer. Times are milliseconds unless a
name says otherwise.
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

from bench import edits, launch, proc, scenario
from bench.client import Failure
from bench.edits import APPS, CROWD, IMPORT, MANY, WAYS, Way
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
RESTED = 20.0  # seconds until a server must have come to rest
KEEPING, OPENING = 4, 4  # clients that keep their connection, and that open one for each request
POLLING = ("flask-run", "runserver", "gunicorn")
SOON, UNDER_LOAD = (0.3, 0.6), (0.15, 0.15)  # seconds between an answer and the next save
# As SOON, for servers that look at the files each second or have much to make ready for the next save.
AT_LEISURE = (1.1, 2.1)
WATCHED = re.compile(rb"watching (\d+) file")
PATH = re.compile(rb"reloaded .* ms \(([^)]+)")


@dataclass(frozen=True)
class Size:
    saves: int
    loaded: int
    peers: int  # saves, for servers that are only there to compare
    idle: float  # seconds


FULL = Size(saves=50, loaded=100, peers=30, idle=30.0)
QUICK = Size(saves=3, loaded=3, peers=3, idle=0.5)


@dataclass
class Seen:
    """What clients noticed. closed: kept connections that were, before they carried a request whole; streams: that were
    opened.
    """

    stale: int = 0
    refused: int = 0
    reset: int = 0
    timeouts: int = 0
    other: int = 0
    closed: int = 0
    streams: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, kind: str) -> None:
        with self.lock:
            setattr(self, kind, getattr(self, kind) + 1)

    def faults(self) -> int:
        return self.stale + self.refused + self.reset + self.timeouts + self.other


@dataclass(frozen=True)
class Served:
    port: int
    work: Path  # where the application is
    log: Path
    process: int


def reloading(
    server: Server, setting: Setting, size: Size, app: str, is_slow: bool = False, is_same_length: bool = False
) -> dict[str, object]:
    """Save again and again, each time with another length; see `saving`.

    is_same_length: always with the same one, and soon. Python takes compiled code for that of a file if its length and
    its time in whole seconds are the same.
    """
    is_late = is_slow or (server.name in POLLING and not is_same_length)
    ways = {"": edits.resaving(app, is_same_length)}
    return saving(server, setting, app, ways, size.saves, AT_LEISURE if is_late else SOON)


def styles(server: Server, setting: Setting, size: Size) -> dict[str, object]:
    """Save in each way in turn."""
    return saving(server, setting, "styles", WAYS, max(size.saves, len(WAYS)), SOON)


def loaded(server: Server, setting: Setting, size: Size) -> dict[str, object]:
    """Save under load: clients that ask what takes its time, and one that reads a stream."""
    saves = size.loaded if server.name in OURS else size.peers
    lines = 3 if server.name == "single" else 1 << 30  # a stream holds its only thread
    seen, saved, is_over = Seen(), [0], threading.Event()
    with serving(server, setting, "flask") as served:
        threads = [
            threading.Thread(target=client, args=(served.port, number < KEEPING, seen, saved, is_over))
            for number in range(KEEPING + OPENING)
        ]
        threads.append(threading.Thread(target=follow, args=(served.port, lines, seen, saved, is_over)))
        for thread in threads:
            thread.start()
        try:
            numbers = saves_of(served, {"": edits.resaving("flask")}, saves, UNDER_LOAD, seen, saved)
        finally:
            is_over.set()
            for thread in threads:
                thread.join()
    return {**numbers, **account(seen), "closed": seen.closed, "streams": seen.streams}


def saving(
    server: Server, setting: Setting, app: str, ways: dict[str, Way], saves: int, pause: tuple[float, float]
) -> dict[str, object]:
    with serving(server, setting, app) as served:
        seen = Seen()
        return {**saves_of(served, ways, saves, pause, seen, [0]), **account(seen)}


def saves_of(
    served: Served, ways: dict[str, Way], saves: int, pause: tuple[float, float], seen: Seen, saved: list[int]
) -> dict[str, object]:
    """Save, in each way in turn; ask, each time on a new connection, until the answer is the new one; have a pause; and
    again. saved: is told the number of each save.
    """
    took: dict[str, list[float]] = {name: [] for name in ways}
    missed, faulty = 0, Counter[str]()
    time.sleep(REST)
    for number in range(1, saves + 1):
        name, way = list(ways.items())[(number - 1) % len(ways)]
        way(served.work, number)
        saved[0], begin, before = number, time.monotonic(), seen.faults()
        while (answer := ask_anew(served.port, "/", seen)) != number and time.monotonic() < begin + PATIENCE:
            if answer is not None:
                seen.note("stale")
            time.sleep(AGAIN)
        if answer == number:
            took[name].append((time.monotonic() - begin) * 1000)
        else:
            missed += 1
        faulty[name] += answer != number or seen.faults() > before
        if missed == MOST_MISSED:
            break
        time.sleep(random.uniform(*pause))
    log = served.log.read_bytes()
    every = [each for times in took.values() for each in times]
    if not every:
        raise Failure(f"no save shows; log: {launch.last_line(log) or 'empty'}")
    remarks = [paths(log), f"given up after {number} of {saves} saves" if missed == MOST_MISSED else ""]
    if len(ways) > 1:
        middles = {name: percentile(times, 50) for name, times in took.items() if times}
        remarks.append("p50: " + ", ".join(f"{name} {middle:.0f}" for name, middle in middles.items()))
        remarks.append(", ".join(f"faults after {count} x {name}" for name, count in faulty.items() if count))
    return {
        "p50": percentile(every, 50), "p95": percentile(every, 95), "max": max(every), "missed": missed,
        "remark": "; ".join(filter(None, remarks)),
    }  # fmt: skip


def account(seen: Seen) -> dict[str, object]:
    return {kind: getattr(seen, kind) for kind in ("stale", "refused", "reset", "timeouts", "other")}


def paths(log: bytes) -> str:
    """How often `poorhttp dev` came by the new code in which way, as its log says; "" for others' logs."""
    return ", ".join(f"{count} {path.decode()}" for path, count in Counter(PATH.findall(log)).most_common())


def idle(server: Server, setting: Setting, size: Size, app: str) -> dict[str, object]:
    """Let nothing happen, and see what the processes take of one core meanwhile."""
    with serving(server, setting, app) as served:
        rest(served.process, size.idle)
        begin, before = time.monotonic(), proc.exact_cpu(served.process)
        time.sleep(size.idle)
        share = 100 * (proc.exact_cpu(served.process) - before) / (time.monotonic() - begin)
        watched = WATCHED.findall(served.log.read_bytes())
        return {"share": share, "remark": f"watches {watched[-1].decode()} files" if watched else ""}


def memory(server: Server, setting: Setting, size: Size) -> dict[str, object]:
    """Save two modules in turns, until all is ready for the next save; weigh the tree, and each process that waits."""
    ways = {name: WAYS[name] for name in ("package", "renamed")}
    with serving(server, setting, "styles") as served:
        if saves_of(served, ways, 6, AT_LEISURE, Seen(), [0])["missed"]:
            raise Failure("a save was missed")
        rest(served.process, size.idle)
        process, parent = map(int, fetch(served.port, "/process").split())
        at_work = {served.process, *proc.tree(process if parent == served.process else parent)}
        weights = proc.pss_of_each(served.process)
        waiting = sorted(weight for pid, weight in weights.items() if pid not in at_work)
        if not waiting:
            raise Failure("no process waits for the next save")
        each = ", ".join(f"{weight / 1e6:.1f}" for weight in waiting)
        remark = f"processes that wait: {each} MB; {paths(served.log.read_bytes())}"
    return {"tree": sum(weights.values()), "waiting": waiting[-1], "count": len(waiting), "remark": remark}


def rest(process: int, least: float) -> None:
    """Wait until all is made ready for the next save: until nothing has been done for a while."""
    begin, span = time.monotonic(), min(least, 2.0)
    while time.monotonic() < begin + RESTED:
        before = proc.exact_cpu(process)
        time.sleep(span)
        if abs(proc.exact_cpu(process) - before) < span / 100:
            return


@contextlib.contextmanager
def serving(server: Server, setting: Setting, app: str) -> Iterator[Served]:
    """Start the server so that it reloads, and wait until it answers."""
    with tempfile.TemporaryDirectory(dir=setting.work) as directory, launch.pinned(CORES):
        work, log, port = Path(directory) / "work", Path(directory) / "log", launch.free_port()
        edits.create(work, app)
        module = "main" if "main.py" in APPS[app] else "served"
        workload = Workload("reload", "", (), module=module, app="application", processes=1, threads=16)
        environment = launch.environment(server.name in OURS)
        if server.name not in OURS:
            del environment["PYTHONPATH"]  # some look at all files of all its directories
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*launch.ENDS_WITH_US, *launch.fill(server, workload, setting, port)], cwd=work, env=environment,
                start_new_session=True, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            )  # fmt: skip
        try:
            end, nobody = time.monotonic() + READY, Seen()
            while ask_anew(port, "/", nobody) != 0:
                if time.monotonic() > end or process.poll() is not None:
                    launch.ensure_installed(server, workload, setting)
                    raise Failure(f"does not serve: {launch.last_line(log.read_bytes())}")
                time.sleep(0.05)
            yield Served(port, work, log, process.pid)
        finally:
            launch.stop(process)


def client(port: int, keeps: bool, seen: Seen, saved: list[int], is_over: threading.Event) -> None:
    """Ask what takes its time, again and again."""
    with contextlib.closing(connection_to(port)) as connection:
        while not is_over.is_set():
            before = saved[0]
            number = ask(connection, "/slow", seen)
            if number is not None and number < before:
                seen.note("stale")
            if not keeps:
                connection.close()
            time.sleep(AGAIN)


def follow(port: int, lines: int, seen: Seen, saved: list[int], is_over: threading.Event) -> None:
    """Read the stream, and open it again where it ends: after so many lines, or as its process has had its time."""
    while not is_over.is_set():
        before, number = saved[0], None
        with contextlib.closing(connection_to(port)) as connection:
            try:
                connection.request("GET", f"/stream?lines={lines}")
                response = connection.getresponse()
                while not is_over.is_set() and (line := response.readline()):
                    if number is None:
                        number = int(line)
                        seen.note("streams" if number >= before else "stale")
            except ConnectionRefusedError:
                seen.note("refused")
            except TimeoutError:
                seen.note("timeouts")
            except (OSError, http.client.HTTPException):
                if number is None:
                    seen.note("reset")
            except ValueError:
                seen.note("other")
        time.sleep(AGAIN)


def connection_to(port: int) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)


def ask_anew(port: int, path: str, seen: Seen) -> int | None:
    with contextlib.closing(connection_to(port)) as connection:
        return ask(connection, path, seen)


def ask(connection: http.client.HTTPConnection, path: str, seen: Seen) -> int | None:
    """The number that is served; None where there is none, which is noted. On a kept connection that is closed
    meanwhile it is asked for once more, as a browser would.
    """
    is_kept = connection.sock is not None
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        is_kept = False
        return int(response.read())
    except ConnectionRefusedError:
        seen.note("refused")
    except TimeoutError:
        seen.note("timeouts")
    except (OSError, http.client.HTTPException):
        seen.note("closed" if is_kept else "reset")
    except ValueError:
        is_kept = False
        seen.note("other")
    connection.close()
    return ask(connection, path, seen) if is_kept else None


def fetch(port: int, path: str) -> str:
    """An answer, or a Failure."""
    with contextlib.closing(connection_to(port)) as connection:
        try:
            connection.request("GET", path)
            return connection.getresponse().read().decode()
        except (OSError, http.client.HTTPException) as error:
            raise Failure(f"no answer: {error or type(error).__name__}") from error


# fmt: off
SEEN = {"missed saves": "missed", "stale": "stale", "refused": "refused", "reset": "reset", "timeouts": "timeouts",
        "other answers": "other"}
COLUMNS = {"p50 ms": "p50", "p95 ms": "p95", "max ms": "max", **SEEN}
WHOLE = (*(Limit(text, name, "<=", 0) for text, name in SEEN.items()),)


def within(p50: float, p95: float) -> tuple[Limit, ...]:
    return Limit("p50", "p50", "<=", p50, "ms"), Limit("p95", "p95", "<=", p95, "ms"), *WHOLE


ALL = (
    Scenario("bare", "one function", partial(reloading, app="bare"), within(30, 60), COLUMNS,
             (*OURS, "gunicorn", "granian", "watchfiles"), attempts=4),
    Scenario("flask", "Flask, three routes", partial(reloading, app="flask"), within(30, 60), COLUMNS,
             (*OURS, "flask-run", "granian", "watchfiles"), attempts=4),
    Scenario("cold", "Flask, in an application that sets the class of loggers, so that each start is cold",
             partial(reloading, app="cold"), WHOLE, COLUMNS, ("single",)),
    Scenario("django", "Django with its admin, and a save of the views", partial(reloading, app="django"), WHOLE,
             COLUMNS, ("single", "runserver")),
    Scenario("heavy", "Flask, which also imports NumPy, pandas and SQLAlchemy",
             partial(reloading, app="heavy", is_slow=True), within(36, 72), {**COLUMNS, "p50 x flask": "p50/flask"},
             ("single", "flask-run"), attempts=4),
    Scenario("leaf", f"Flask, {IMPORT} s of the author's own imports, and a save of what is imported after them",
             partial(reloading, app="leaf"), within(60, 60), COLUMNS, ("single", "flask-run"), attempts=4),
    Scenario("hasty", "one function, saved again soon, always with the same length",
             partial(reloading, app="bare", is_same_length=True), WHOLE, COLUMNS,
             ("single", "gunicorn", "granian", "watchfiles")),
    Scenario("styles", f"Flask with a template and a .env, saved in {len(WAYS)} ways in turn", styles, WHOLE, COLUMNS),
    Scenario("load", f"Flask, a save every 150 ms under {KEEPING + OPENING} clients with calls of {edits.SLOW} s and a "
             "stream", loaded, WHOLE, {**COLUMNS, "kept, but closed": "closed", "streams": "streams"},
             (*OURS, "flask-run")),
    Scenario("memory", "Flask, two modules saved in turns: processes that wait for the next save", memory,
             (Limit("PSS of the largest process that waits", "waiting", "<=", 30, "MB"),),
             {"PSS MB": "tree", "largest that waits, MB": "waiting", "they are": "count"}),
    Scenario("idle", f"one function and {MANY} modules, of which none is saved", partial(idle, app="many"),
             (Limit("CPU, of one core", "share", "<=", 0.1, "%"),), {"CPU %": "share"}),
    Scenario("crowd", f"one function that has read {CROWD:,} files, of which none is saved", partial(idle, app="crowd"),
             (Limit("CPU, of one core", "share", "<=", 1, "%"),), {"CPU %": "share"}, ("single",)),
)
# fmt: on
SCENARIOS = {each.name: each for each in ALL}
targets = partial(scenario.targets, ALL)
rows = partial(scenario.rows, ALL, servers=RELOADING)
