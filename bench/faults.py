"""What clients notice of reloads, killed workers, stops, and backends that go away behind lighttpd.

Knows the scenarios, what is done to a server in each, and what its clients may notice of it. The clients are those of
`clients`: each answer is checked, what fails is counted by kind and tried once more. Times are seconds unless a name
says otherwise (`gap`, `born`, `shown`: milliseconds).
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from statistics import median

from bench import front, launch, proc, scenario
from bench.client import Failure
from bench.clients import KINDS, Answer, Clients, Fault
from bench.launch import LOAD_CORE, READY, Running, Setting, running
from bench.robust import until
from bench.scenario import Limit, Scenario
from bench.servers import OURS, Server
from bench.workloads import Workload

PAGE = Workload("faults", "answers that tell their process", (), module="faults", app="application", processes=4)
OPTIONS = {
    "threading": ("--threads", "16"),
    "gthread": ("--threads", "16"),
    # Off and 3.5 by default: without the first a dead worker ends the server, with 3.5 a reload takes 14 s.
    "granian": ("--respawn-failed-workers", "--respawn-interval", "0.5"),
}
KILL_EVERY = 0.2  # seconds
DEATH = 0.02  # seconds in which a client has surely met the death of its worker
NOTICED = 5.0  # seconds until a reload that shows in no answer has failed
REST = 2.0  # seconds of load after the last fault


@dataclass(frozen=True)
class Size:
    """How much of everything: all of it, or a little to see whether the bench works."""

    reloads: int
    every: float  # seconds from one reload to the next, or from one killed backend to the next
    kills: float  # seconds
    stops: int
    restarts: int


FULL = Size(reloads=100, every=1.0, kills=60.0, stops=20, restarts=20)
QUICK = Size(reloads=3, every=0.5, kills=2.0, stops=2, restarts=2)


@contextlib.contextmanager
def serving(server: Server, setting: Setting, name: str) -> Iterator[Running]:
    """The server; where it is ours, its log must tell of no panic."""
    with running(server, replace(PAGE, name=name), setting, OPTIONS.get(server.name, ())) as run:
        yield run
    if server.name in OURS and b"panic" in (setting.work / f"{server.name}-{name}.log").read_bytes():
        raise Failure("a panic in the engine")


# Reloads --------------------------------------------------------------------------------------------------------------


def reloads(server: Server, setting: Setting, size: Size) -> dict[str, float]:
    """HUP every so often; four clients with kept and four with new connections, 300 ms for each request."""
    shown: list[float] = []
    done, remark = 0, ""
    with serving(server, setting, "reload") as run:
        with Clients(run.port, 4, 4, 300) as clients:
            require(lambda: len(clients.answers()) > 8, "the clients are not served")
            for done in range(1, size.reloads + 1):  # noqa: B007
                begin = time.monotonic()
                run.process.send_signal(signal.SIGHUP)
                if until(lambda since=begin: any(each.loaded > since for each in clients.recent(1)), NOTICED):
                    shown.append(time.monotonic() - begin)
                if run.process.poll() is not None:
                    remark = f"ended with status {run.process.returncode}"
                    break
                time.sleep(max(0.0, begin + size.every - time.monotonic()))
            time.sleep(REST)
        numbers = clients.numbers()
    return {
        **numbers, "reloads": done, "unseen": done - len(shown),
        "shown": median(shown) * 1e3 if shown else NOTICED * 1e3, "remark": remark,
    }  # fmt: skip


def require(condition: Callable[[], bool], otherwise: str) -> None:
    if not until(condition, READY):
        raise Failure(otherwise)


# Killed workers -------------------------------------------------------------------------------------------------------


@dataclass
class Kill:
    pid: int
    at: float
    gone: float = 0.0  # when the process was no more


def kills(server: Server, setting: Setting, size: Size) -> dict[str, float]:
    """SIGKILL to a worker every 200 ms under 64 clients, half of them with kept connections."""
    killed: list[Kill] = []
    chance = random.Random(1)
    remark = ""
    with serving(server, setting, "kill") as run:
        with Clients(run.port, 32, 32) as clients:
            require(lambda: len({answer.process for answer in clients.answers()}) == PAGE.processes,
                    "not all workers answer")  # fmt: skip
            begin = time.monotonic()
            for number in range(1, round(size.kills / KILL_EVERY) + 1):
                # A process that answered lately and lives is a worker; the server may have others.
                alive = sorted({answer.process for answer in clients.recent(1)} & set(proc.tree(run.process.pid)))
                gone = {run.process.pid, *(each.pid for each in killed)}  # one may not have been reaped yet
                if alive := [pid for pid in alive if pid not in gone]:
                    killed.append(kill(chance.choice(alive)))
                if run.process.poll() is not None:
                    remark = f"the supervisor ended with status {run.process.returncode}"
                    break
                time.sleep(max(0.0, begin + number * KILL_EVERY - time.monotonic()))
            time.sleep(REST)
        numbers = clients.numbers()
    if not killed:
        raise Failure("no worker could be killed")
    born = births(killed, clients.answers())
    first = [fault for fault in clients.faults() if not fault.is_retry]
    # A killed worker without a successor counts as if its successor had come at the end.
    waits = born + [clients.end - each.at for each in killed[len(born) :]]
    return {
        **numbers, "kills": len(killed), "elsewhere": sum(not met(fault, killed) for fault in first),
        "unborn": len(killed) - len(born), "born": median(waits) * 1e3,
        "latest": max(waits) * 1e3, "remark": remark,
    }  # fmt: skip


def kill(pid: int) -> Kill:
    """Kill a process and wait until it is gone, which is when its connections are."""
    done = Kill(pid, time.monotonic())
    os.kill(pid, signal.SIGKILL)
    until(lambda: proc.is_gone(pid), 5)
    done.gone = time.monotonic()
    return done


def met(fault: Fault, killed: list[Kill]) -> bool:
    """Whether a worker died while the request that failed was in flight, or since its kept connection last was asked:
    an answer may lie there for a while before a client that is one of many reads it.
    """
    since = fault.sent if fault.kept_since is None else fault.kept_since
    return any(since <= each.gone + DEATH and each.at <= fault.failed for each in killed)


def births(killed: list[Kill], answers: list[Answer]) -> list[float]:
    """How long after each kill a process answered that had not answered before: the n-th new one is for the n-th."""
    first: dict[int, float] = {}
    for answer in answers:
        first.setdefault(answer.process, answer.read)
    new = sorted(when for when in first.values() if when > killed[0].at)
    return [max(0.0, when - each.at) for each, when in zip(killed, new, strict=False)]


# Stops ----------------------------------------------------------------------------------------------------------------


def stops(server: Server, setting: Setting, size: Size) -> dict[str, float]:
    """TERM under 32 clients, half of them with kept connections, 50 ms for each request; again and again.

    A new request that is refused afterwards is no fault, as that is what a stop is; one that had failed and is refused
    when it is tried once more is `lost`. All else that fails is a fault: `before`, what was sent before the stop;
    `dropped`, what was sent afterwards on a connection that the server had let connect; `kept`, what was sent
    afterwards on a kept connection that the server was just closing, which is a client's risk (RFC 9112, 9.3.1).
    """
    total: dict[str, float] = {"stops": size.stops, "unclean": 0, "took": 0, "in flight": 0, "gap": 0}
    for _ in range(size.stops):
        with serving(server, setting, "stop") as run, Clients(run.port, 16, 16, 50, until_refused=True) as clients:
            require(lambda clients=clients: len(clients.answers()) > 64, "the clients are not served")
            at = time.monotonic()
            run.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                run.process.wait(40)
            took = time.monotonic() - at
        numbers = clients.numbers()
        first = [fault for fault in clients.faults() if not fault.is_retry]
        faults = [fault for fault in first if fault.kind != "refused" or fault.sent < at]
        numbers["refused"] -= numbers["failed"] - len(faults)
        numbers["failed"] = len(faults)
        late = [fault for fault in faults if fault.sent >= at]
        numbers["before"] = len(faults) - len(late)
        numbers["kept"] = sum(fault.kept_since is not None for fault in late)
        numbers["dropped"] = len(late) - numbers["kept"]
        total["in flight"] += sum(each.sent < at < each.read for each in clients.answers())
        total["unclean"] += run.process.returncode != 0
        total["took"] = max(total["took"], took)
        total["gap"] = max(total["gap"], numbers["gap"])
        for name in ("sent", "failed", "before", "dropped", "kept", *KINDS, "retried", "lost"):
            total[name] = total.get(name, 0) + numbers[name]
    return total


# Behind lighttpd ------------------------------------------------------------------------------------------------------


def restarts(server: Server, setting: Setting, size: Size, signum: int) -> dict[str, float]:
    """Two backends behind lighttpd under 16 clients, 20 ms for each request; one after the other gets the signal and,
    once it has ended, is started again. What fails is tried again when nothing is left of it: the processes of a
    killed server die one after the other, so a request that met the first might meet the last one next.
    """
    with contextlib.ExitStack() as stack:
        runs = [_backend(server, setting, stack) for _ in range(2)]
        through = stack.enter_context(front.lighttpd([run.port for run in runs], setting, LOAD_CORE))
        calm = threading.Event()  # set unless a backend is ending
        calm.set()
        with Clients(through.port, 8, 8, 20, before_again=partial(calm.wait, READY)) as clients:
            require(lambda: len(clients.answers()) > 32, "the clients are not served through lighttpd")
            away = back = 0.0
            for number in range(size.restarts):
                begin = time.monotonic()
                run = runs[number % 2]
                calm.clear()
                _end(run, signum)
                calm.set()
                runs[number % 2] = _backend(server, setting, stack, run.port)
                now = time.monotonic()
                away = max(away, now - begin)
                # lighttpd leaves it alone for a while; the next one goes when both share the load again.
                require(partial(_shares, clients, begin, now), "lighttpd does not come back to a backend")
                back = max(back, time.monotonic() - now)
                time.sleep(max(0.2, begin + size.every - time.monotonic()))
        numbers = clients.numbers()
    return {**numbers, "restarts": size.restarts, "away": away, "back": back}


def _shares(clients: Clients, begin: float, since: float) -> bool:
    """Whether what was loaded after `begin` answers requests of after `since`: for one from before, the kernel may have
    tried its connection once more, while lighttpd sends nothing new there.
    """
    return any(each.loaded > begin and each.sent > since for each in clients.recent(1))


def _backend(server: Server, setting: Setting, stack: contextlib.ExitStack, where: launch.Where = 0) -> Running:
    workload = replace(PAGE, name="backend")
    log = stack.enter_context((setting.work / f"{server.name}-backend.log").open("ab"))
    run = launch.start(server, workload, setting, log.fileno(), OPTIONS.get(server.name, ()), where)
    stack.callback(launch.stop, run.process)
    launch.wait_until_right(run, workload, launch.expected(workload, setting))
    return run


def _end(run: Running, signum: int) -> None:
    """A killed server dies with all its processes, as on a machine that is short of memory or power."""
    processes = proc.tree(run.process.pid)
    if signum == signal.SIGKILL:
        os.killpg(run.process.pid, signum)
    else:
        run.process.send_signal(signum)
    try:
        run.process.wait(40)
    except subprocess.TimeoutExpired as error:
        raise Failure("does not end within 40 s of a TERM") from error
    require(lambda: all(map(proc.is_gone, processes)), "leaves a process behind")


# What is run, and what it may come to ---------------------------------------------------------------------------------

# fmt: off
ACCOUNT = {"sent": "sent", "failed": "failed", "refused": "refused", "reset": "reset", "silent": "silent",
           "5xx": "5xx", "wrong": "wrong", "retried": "retried", "lost": "lost", "longest gap ms": "gap"}
AWAY = {"longest away s": "away", "longest until used again s": "back"}
NOTHING_FAILED = Limit("requests failed", "failed", "<=", 0)
NOTHING_LOST = Limit("requests that failed again when tried once more", "lost", "<=", 0)
ONE_PROCESS = "one process without a supervisor: if it is killed, the server is gone"
NO_WORKERS = {"single": ONE_PROCESS, "threading": ONE_PROCESS, "waitress": ONE_PROCESS}
NO_RELOAD = {"waitress": "has no reload: HUP ends it"}
SUPERVISED = ("forking", "gunicorn", "gthread", "granian", "uwsgi")
ALL = (
    Scenario("reload", "100 reloads under load", reloads,
             (NOTHING_FAILED, Limit("reloads that show in no answer within 5 s", "unseen", "<=", 0)),
             {"reloads": "reloads", **ACCOUNT, "not seen": "unseen", "new code after ms": "shown"},
             (*OURS, *SUPERVISED[1:]), NO_RELOAD),
    Scenario("kill", "a worker killed every 200 ms for 60 s under load", kills,
             (Limit("requests failed that were not in flight", "elsewhere", "<=", 0), NOTHING_LOST,
              Limit("longest time until a new worker answers", "latest", "<=", 500, "ms"),
              Limit("killed workers without a successor", "unborn", "<=", 0)),
             {"kills": "kills", **ACCOUNT, "not in flight": "elsewhere", "new worker ms": "born",
              "longest": "latest", "never": "unborn"},
             SUPERVISED, NO_WORKERS),
    Scenario("stop", "20 stops (TERM) under load", stops,
             (Limit("requests that failed, but by being refused", "failed", "<=", 0),
              Limit("exit codes other than 0", "unclean", "<=", 0)),
             {"stops": "stops", "sent": "sent", "in flight, answered": "in flight", "in flight, failed": "before",
              "later, new connection": "dropped", "later, kept": "kept", "failed": "failed",
              **{kind: kind for kind in KINDS}, "retried": "retried", "lost": "lost",
              "longest gap ms": "gap", "longest stop s": "took", "exit code not 0": "unclean"},
             (*OURS, *SUPERVISED[1:], "waitress")),
    Scenario("restart", "two backends behind lighttpd, one stopped (TERM) and started again, 20 times",
             partial(restarts, signum=signal.SIGTERM), (NOTHING_FAILED,),
             {"restarts": "restarts", **ACCOUNT, **AWAY}, (*OURS, *SUPERVISED[1:], "waitress")),
    Scenario("crash", "two backends behind lighttpd, one killed (KILL) and started again, 20 times",
             partial(restarts, signum=signal.SIGKILL), (NOTHING_LOST,),
             {"restarts": "restarts", **ACCOUNT, **AWAY}, (*OURS, *SUPERVISED[1:], "waitress")),
)
# fmt: on
SCENARIOS = {each.name: each for each in ALL}
targets = partial(scenario.targets, ALL)
rows = partial(scenario.rows, ALL)
