"""Commands about a server that runs already, found by its pidfile: stop, reload, status and the like.

Knows pidfiles, signals and /proc. Does not know how a server is started or what it serves.
Contract: a signal goes to the process that wrote the pidfile or to none: numbers are used again. Each command says in
words what it found and did, and in its exit code: 0 done, 1 it failed; `status` 0 running, 1 not, but a pidfile is
running.left, 3 not running, 4 not known (LSB).
"""

from __future__ import annotations

from poorhttp.errors import ConfigError
from poorhttp.status import reader, running
from poorhttp.status.scoreboard import REPLACING, SUCCEEDED, TRYING
from poorhttp.stdlib import os, signal, time
from poorhttp.system import procfs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from poorhttp.config.config import Config
    from poorhttp.operate.watch import Rates

STOPPED, FAILED = 0, 1
RUNNING, DEAD, ABSENT, UNKNOWN = 0, 1, 3, 4
"""Exit codes of `status`, as the Linux Standard Base has them for init scripts."""

GRACE = 5.0
"""Seconds beyond graceful_timeout after which `stop` kills."""

GLANCE = 0.05
"""Seconds between two looks at a reload."""


def stop(settings: Config, say: Callable[[str], object]) -> int:
    """Ask the server to finish, wait for its end, and end it if it is late."""
    pid = running.find(settings)
    if pid <= 0:
        say(_absent(settings))
        return STOPPED
    _send(pid, signal.SIGTERM)
    if procfs.wait_for_end(pid, settings.graceful_timeout + GRACE):
        say(f"stopped (was pid {pid})")
    else:
        say(f"pid {pid} did not stop in {settings.graceful_timeout + GRACE:.0f} s; killed")
        orphans = [*procfs.children(pid)]
        _send(pid, signal.SIGKILL)
        if not procfs.wait_for_end(pid, GRACE):
            return FAILED
        end = time.monotonic() + running.ORPHANED
        for each in orphans:  # they have its sockets
            procfs.wait_for_end(each, end - time.monotonic())
    from poorhttp.status import pidfile

    # Where it became another user it may not have been able to, as where it was killed.
    pidfile.remove(settings.pidfile, pid)
    return STOPPED


def _absent(settings: Config) -> str:
    """Say why no server is found, and where there is one of the same ini file."""
    pid, _ = running.named(settings)
    why = f"there is no pidfile {settings.pidfile}"
    if pid:
        why = running.other(settings) or f"a dead process has left {settings.pidfile}"
    return "; ".join(filter(None, (f"not running: {why}", running.elsewhere(settings))))


def reload(settings: Config, say: Callable[[str], object], patience: float) -> int:
    """Ask the server to try its code and configuration anew, and say how that ends.

    patience: seconds for that. Where nobody can tell (`dev`, or another user) it only asks.
    """
    from poorhttp.status.reader import last_reload

    pid = running.find(settings)
    if pid <= 0:
        say(_absent(settings))
        return FAILED
    end = time.monotonic() + patience
    try:
        before = last_reload(pid)
        # One that goes on may have read the code of before, and while its image loads there is no board.
        while _is_loading(settings, pid, before) and procfs.lives(pid) and time.monotonic() < end:
            time.sleep(GLANCE)
            before = last_reload(pid)
        is_told = before is not None or _is_loading(settings, pid, before)
    except PermissionError:
        before, is_told = None, False
    if before and not before["can_reload"]:
        say(f"pid {pid}: poorhttp.run() cannot start the program anew; restart it")
        return FAILED
    if running.find(settings) != pid:
        say(f"pid {pid} has ended; the error log tells why")
        return FAILED
    _send(pid, signal.SIGUSR2)
    if not is_told:
        say(f"pid {pid}: reload asked for; the error log tells how it ends")
        return STOPPED
    while time.monotonic() < end:
        last = last_reload(pid) or before or {}  # for a moment there is none, or an empty one: the next image begins
        is_it = last.get("time") != (before or {}).get("time")  # and not the end of one that was going on
        if is_it and last.get("result", TRYING) not in (TRYING, REPLACING):
            why = f", {last['why']}; the error log tells more" if last["why"] else ""
            say(f"pid {pid}: reload {last['result']}{why}")
            return STOPPED if last["result"] == SUCCEEDED else FAILED
        if not procfs.lives(pid):
            say(f"pid {pid} has ended; the error log tells why")
            return FAILED
        time.sleep(GLANCE)
    say(f"pid {pid}: the reload has no end after {patience:g} s; the error log will tell, or a longer --wait")
    return FAILED


def _is_loading(settings: Config, pid: int, last: dict[str, Any] | None) -> bool:
    """Whether a reload goes on there. `dev` has no board at any time."""
    return not running.is_dev(settings, pid) if last is None else last.get("result") == TRYING


def logrotate(settings: Config, say: Callable[[str], object]) -> int:
    """Ask the server to open its logs anew."""
    pid = running.find(settings)
    if pid <= 0:
        say(_absent(settings))
        return FAILED
    _send(pid, signal.SIGUSR1)
    say(f"pid {pid}: asked to open its logs anew; the error log tells what it could not open")
    return STOPPED


def status(settings: Config, say: Callable[[str], object], rates: Rates | None = None, width: int = 0) -> int:
    """Say whether the server runs, since when, with which workers, what they do, and what all weigh together, with what
    the application has started.

    rates: to tell requests per second. width: of a terminal.
    """
    try:
        pid = running.find(settings)
    except ConfigError as error:
        say(f"not known: {error}")
        return UNKNOWN
    if pid <= 0:
        say(_absent(settings))
        return DEAD if pid else ABSENT
    workers = list(procfs.children(pid))
    told, is_told = None, True
    try:
        told = reader.of(pid)
    except PermissionError:
        is_told = False
    say(f"running: pid {pid}{_since(pid, ', for {}')}"[: width or None])
    if workers:
        each_since = (f"{each}{_since(each, ' (for {})')}" for each in workers)
        say(f"workers: {', '.join(each_since)}"[: width or None])
    elif told is not None and told["is_supervised"]:
        say("no workers (WINCH); TTIN or HUP starts them"[: width or None])
    tree = {pid, *procfs.below([pid], procfs.processes())}
    sizes = [procfs.pss(each) for each in tree if procfs.lives(each)]
    say(f"memory: {sum(sizes) / 1024:.1f} MiB" if all(sizes) else "memory: not told to this user")
    if not procfs.stat(pid):
        say(f"what it does is not known: {procfs.HIDDEN}"[: width or None])
    elif not is_told:
        say(f"what it does is told to its user (after `user`: to root) only: /proc/{pid}/fd"[: width or None])
    elif told is None:
        say("what it does is not known: it does not serve yet, or is of another version"[: width or None])
    else:
        for line in reader.text(told, rates.of(told, time.monotonic()) if rates else None, width):
            say(line)
    return RUNNING


def facts(settings: Config) -> tuple[int, str]:
    """The same as JSON, and the exit code: `state` (running, dead, absent, unknown), `pidfile`; of a running server and
    of each of its `workers` `pid`, `seconds` since the start and `pss` in bytes, null where this user may not know; and
    `board`, what `poorhttp.status.reader.of` tells, or null (then `error` may say why).
    """
    from poorhttp.stdlib import json

    told: dict[str, object] = {"state": "running", "pidfile": settings.pidfile}
    try:
        pid = running.find(settings)
    except ConfigError as error:
        return UNKNOWN, json.dumps(told | {"state": "unknown", "error": error.message})
    if pid <= 0:
        code, state = (DEAD, "dead") if pid else (ABSENT, "absent")
        why = "; ".join(filter(None, (running.other(settings) if pid else "", running.elsewhere(settings))))
        return code, json.dumps(told | {"state": state} | ({"error": why} if why else {}))
    told |= _weight(pid) | {"workers": [_weight(each) for each in procfs.children(pid)], "board": None}
    try:
        told["board"] = reader.of(pid)
    except PermissionError:
        told["error"] = f"/proc/{pid}/fd is not for this user" if procfs.stat(pid) else procfs.HIDDEN
    return RUNNING, json.dumps(told)


def _weight(pid: int) -> dict[str, object]:
    seconds = procfs.age(pid)
    return {
        "pid": pid,
        "seconds": None if seconds is None else round(seconds, 1),
        "pss": procfs.pss(pid) * 1024 or None,
    }


def _since(pid: int, text: str) -> str:
    """The text with its age; "" where that is not known."""
    seconds = procfs.age(pid)
    return "" if seconds is None else text.format(reader.duration(seconds))


def _send(pid: int, signum: int) -> None:
    try:
        os.kill(pid, signum)
    except ProcessLookupError:
        return
    except PermissionError:
        raise ConfigError(f"no permission to signal pid {pid}", "be its user, or root") from None
