"""Commands about a running server, found by its pidfile: stop, reload, logrotate and status.

Knows signals and exit codes. Does not know how a server is started or what it serves. A signal goes to the process that
wrote the pidfile or to none. Exit codes: 0 done, 1 failed; those of `status` are below.
"""

from __future__ import annotations

from poorhttp.errors import ConfigError
from poorhttp.status import reader, render, running
from poorhttp.status.layout import REPLACING, SUCCEEDED, TRYING
from poorhttp.stdlib import os, signal, time
from poorhttp.system import procfs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from poorhttp.config.model import Config

STOPPED, FAILED = 0, 1
RUNNING, DEAD, ABSENT, UNKNOWN = 0, 1, 3, 4
"""Exit codes of `status`, those of the Linux Standard Base for init scripts."""

GRACE = 5.0
"""Seconds beyond graceful_timeout after which `stop` kills."""

GLANCE = 0.05
"""Seconds between two looks at a reload."""


def stop(settings: Config, say: Callable[[str], object]) -> int:
    """Send TERM, wait for the end of the server, and kill it if it is late."""
    pid = _find(settings, say)
    if pid <= 0:
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
        for each in orphans:  # they still hold its sockets
            procfs.wait_for_end(each, end - time.monotonic())
    from poorhttp.status import pidfile

    # The server could not remove it if it was killed, or if after `user` the directory is not writable for it.
    pidfile.remove(settings.pidfile, pid)
    return STOPPED


def _find(settings: Config, say: Callable[[str], object]) -> int:
    """As `running.find`. If no server runs, say why, and whether one of the same ini file has another pidfile."""
    pid = running.find(settings)
    if pid <= 0:
        why = f"there is no pidfile {settings.pidfile}"
        if pid:
            why = running.describe_other_program(settings) or f"a dead process has left {settings.pidfile}"
        say("; ".join(filter(None, (f"not running: {why}", running.describe_server_of_ini(settings)))))
    return pid


def reload(settings: Config, say: Callable[[str], object], patience: float) -> int:
    """Ask the server to reload, and say how the reload ends; if that cannot be seen (`dev`, another user), only ask.
    patience: seconds to wait for the end.
    """
    pid = _find(settings, say)
    if pid <= 0:
        return FAILED
    end = time.monotonic() + patience
    try:
        before = reader.read_last_reload(pid)
        # A reload that goes on may have read the old code. While its program loads there is no scoreboard.
        while _is_loading(settings, pid, before) and procfs.lives(pid) and time.monotonic() < end:
            time.sleep(GLANCE)
            before = reader.read_last_reload(pid)
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
        last = reader.read_last_reload(pid) or before or {}  # while the new program begins there is none
        is_it = last.get("time") != (before or {}).get("time")  # not the end of an earlier reload
        if is_it and last.get("result", TRYING) not in (TRYING, REPLACING):
            why = f", {last['why']}; the error log tells more" if last["why"] else ""
            say(f"pid {pid}: reload {last['result']}{why}")
            return STOPPED if last["result"] == SUCCEEDED else FAILED
        if not procfs.lives(pid):
            say(f"pid {pid} has ended; the error log tells why")
            return FAILED
        time.sleep(GLANCE)
    say(f"pid {pid}: the reload has not ended in {patience:g} s; the error log tells more, --wait waits longer")
    return FAILED


def _is_loading(settings: Config, pid: int, last: dict[str, Any] | None) -> bool:
    """Whether a reload goes on in this server. `dev` never has a scoreboard."""
    return not running.is_dev(settings, pid) if last is None else last.get("result") == TRYING


def logrotate(settings: Config, say: Callable[[str], object]) -> int:
    """Ask the server to reopen its logs."""
    pid = _find(settings, say)
    if pid <= 0:
        return FAILED
    _send(pid, signal.SIGUSR1)
    say(f"pid {pid}: asked to reopen its logs; the error log names those that it could not open")
    return STOPPED


def status(settings: Config, say: Callable[[str], object], rates: Rates | None = None, width: int = 0) -> int:
    """Say whether the server runs, since when, with which workers, what they do, and how much memory all its processes
    take together, children of the application included. rates: to show requests per second. width: of the terminal in
    characters, 0: any.
    """
    try:
        pid = _find(settings, say)
    except ConfigError as error:
        say(f"not known: {error}")
        return UNKNOWN
    if pid <= 0:
        return DEAD if pid else ABSENT
    workers = list(procfs.children(pid))
    told, is_told = None, True
    try:
        told = reader.read_server(pid)
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
    say(f"memory: {sum(sizes) / (1 << 20):.1f} MiB" if all(sizes) else "memory: not told to this user")
    if not procfs.stat(pid):
        say(f"what it does is not known: {procfs.HIDDEN}"[: width or None])
    elif not is_told:
        say(f"what it does is told to its user (after `user`: to root) only: /proc/{pid}/fd"[: width or None])
    elif told is None:
        say("what it does is not known: it does not serve yet, or is of another version"[: width or None])
    else:
        for line in render.text(told, rates.of(told, time.monotonic()) if rates else None, width):
            say(line)
    return RUNNING


def facts(settings: Config) -> tuple[int, str]:
    """The exit code of `status`, and JSON: `state` (running, dead, absent, unknown), `pidfile`; of a running server and
    of each of its `workers` `pid`, `seconds` since the start and `pss` in bytes, null where this user may not know; and
    `board`, what `poorhttp.status.reader.read_server` returns, or null (then `error` may say why).
    """
    from poorhttp.stdlib import json

    told: dict[str, object] = {"state": "running", "pidfile": settings.pidfile}
    try:
        pid = running.find(settings)
    except ConfigError as error:
        return UNKNOWN, json.dumps(told | {"state": "unknown", "error": error.message})
    if pid <= 0:
        code, state = (DEAD, "dead") if pid else (ABSENT, "absent")
        why = "; ".join(
            filter(
                None,
                (running.describe_other_program(settings) if pid else "", running.describe_server_of_ini(settings)),
            )
        )
        return code, json.dumps(told | {"state": state} | ({"error": why} if why else {}))
    told |= _weight(pid) | {"workers": [_weight(each) for each in procfs.children(pid)], "board": None}
    try:
        told["board"] = reader.read_server(pid)
    except PermissionError:
        told["error"] = f"/proc/{pid}/fd is not for this user" if procfs.stat(pid) else procfs.HIDDEN
    return RUNNING, json.dumps(told)


class Rates:
    """Requests per second of each process, from the counts of two looks."""

    def __init__(self) -> None:
        self._before: dict[int, tuple[float, int]] = {}

    def of(self, told: dict[str, Any], now: float) -> dict[int, float] | None:
        """The rates since the last call; None at the first call."""
        counts = {row["pid"]: row["requests"] for row in told["processes"]}
        before, self._before = self._before, {pid: (now, count) for pid, count in counts.items()}
        rates = {}
        for pid, count in counts.items():
            then, less = before.get(pid, (now, count))
            if now > then:
                rates[pid] = max(count - less, 0) / (now - then)
        return rates or None


def _weight(pid: int) -> dict[str, object]:
    seconds = procfs.age(pid)
    return {
        "pid": pid,
        "seconds": None if seconds is None else round(seconds, 1),
        "pss": procfs.pss(pid) or None,
    }


def _since(pid: int, text: str) -> str:
    """The text with the age of the process; "" if that is not known."""
    seconds = procfs.age(pid)
    return "" if seconds is None else text.format(render.duration(seconds))


def _send(pid: int, signum: int) -> None:
    try:
        os.kill(pid, signum)
    except ProcessLookupError:
        return
    except PermissionError:
        raise ConfigError(f"no permission to signal pid {pid}", "be its user, or root") from None
