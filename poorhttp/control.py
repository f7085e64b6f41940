"""Commands about a server that runs already, found by its pidfile: stop, reload, status and the like.

Knows pidfiles, signals and /proc. Does not know how a server is started or what it serves.
Contract: a signal goes to the process that wrote the pidfile or to none: numbers are used again. Each command says in
words what it found and did, and in its exit code: 0 done, 1 it failed; `status` 0 running, 1 not, but a pidfile is
left, 3 not running, 4 not known (LSB).
"""

from __future__ import annotations

from poorhttp.board import REPLACING, SUCCEEDED, TRYING
from poorhttp.errors import ConfigError
from poorhttp.lean import os, signal, time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from poorhttp.config import Config
    from poorhttp.watch import Rates

STOPPED, FAILED = 0, 1
RUNNING, DEAD, ABSENT, UNKNOWN = 0, 1, 3, 4
"""Exit codes of `status`, as the Linux Standard Base has them for init scripts."""

SKEW = 2.0
"""Seconds by which a process may seem younger than the pidfile that it wrote."""

GRACE = 5.0
"""Seconds beyond graceful_timeout after which `stop` kills."""

GLANCE = 0.05
"""Seconds between two looks at a reload."""

ORPHANED = 5.0
"""Seconds within which the workers of a server that was killed are gone, and what they listened on is free: one, but on
a machine that has much else to do.
"""

HIDDEN = "/proc is not there, or does not show it to this user"

ENDED: tuple[list[bytes], ...] = ([], [b"Z"], [b"X"])
"""The state of a process, from /proc, that is gone or only waits for its parent to look."""

EXEC = 0.5
"""Seconds that one may be without a command line: for a moment it is, while a reload makes it another image."""


def find(settings: Config) -> int:
    """The number of the running server; 0 if there is none, -1 if there is only a pidfile, which a dead one has left
    or which names another program.

    Raises ConfigError where there is no pidfile to look at, or one that cannot be read or trusted.
    """
    pid, is_its = _named(settings)
    return pid if pid <= 0 or (is_its and is_server(pid)) else -1


def left(settings: Config) -> int:
    """The number of the server that is gone and has left its pidfile; 0 where none has. Raises as `find` does."""
    pid, is_its = _named(settings)
    return 0 if is_its else max(pid, 0)


def _other(settings: Config) -> str:
    """Which living process of another program the pidfile names, in words; "" for none. Raises as `find` does."""
    pid, is_its = _named(settings)
    is_other = pid > 0 and is_its and not is_server(pid)
    return f"{settings.pidfile} names process {pid}, which is alive and no poorhttp" if is_other else ""


def _named(settings: Config) -> tuple[int, bool]:
    """The number in the pidfile, 0 without one, -1 in an empty one; whether its process, which lives, wrote it."""
    from poorhttp import pidfile

    path = settings.pidfile
    if not path:
        raise ConfigError("no pidfile is set", "name one: pidfile = FILE in the ini file (-c FILE), or --pidfile FILE")
    try:
        descriptor = pidfile.open_(path)
        if descriptor < 0:
            return 0, False
        try:
            pid = pidfile.number(path, descriptor)
            return pid, pid > 0 and wrote(pid, descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        hint = "ask its owner" if isinstance(error, PermissionError) else "choose another pidfile, or remove it"
        raise ConfigError(f"cannot read the pidfile {path}: {error.strerror}", hint) from None


def wrote(pid: int, descriptor: int) -> bool:
    """Whether the process of this number lives and wrote this open pidfile; a worker writes none.

    A poorhttp locks it until its end. Where that cannot be told, and of other programs, one that is older than the file
    may have written it: two do not have the same number at a time. Raises ConfigError where that cannot be told either.
    """
    if not lives(pid):
        return False
    holders, seconds = _holders(descriptor, pid) if is_server(pid) else None, age(pid)
    if holders is None and seconds is None:
        raise ConfigError(f"whether process {pid} has written the pidfile is not known: {HIDDEN}", "mount /proc")
    is_older = time.time() - (seconds or 0.0) < os.fstat(descriptor).st_mtime + SKEW
    if not (is_older if holders is None else pid in holders):
        return False
    from poorhttp import status as board

    return board.main_of(pid) in (0, pid)


def _holders(descriptor: int, pid: int) -> set[int] | None:
    """The processes that lock this file; None where that cannot be told. Without /proc it is this one, if any does."""
    from poorhttp.lean import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        return set()
    except BlockingIOError:
        pass
    except OSError:  # a file system without locks
        return None
    try:
        with open("/proc/locks", "rb") as file:  # proc_locks(5)
            locks = [line.split() for line in file]
    except OSError:
        return None if _stat(pid) else {pid}
    # The device is left out: a file system may show another one there than stat(2) does, and even another inode.
    end = b":%d" % os.fstat(descriptor).st_ino
    return {int(each[4]) for each in locks if each[1] == b"FLOCK" and each[5].endswith(end)} or None


def is_server(pid: int) -> bool:
    """Whether it was started as the command, or has the engine in its memory, as a program that calls `poorhttp.run()`;
    also where this user may not look there.
    """
    end = time.monotonic() + EXEC
    while not (line := _read(pid, "cmdline")) and _stat(pid)[:1] not in ENDED and time.monotonic() < end:
        time.sleep(0.002)
    _, *words = line.split(b"\0")
    if words[:2] == [b"-m", b"poorhttp"] or os.path.basename(b"".join(words[:1])) == b"poorhttp":
        return True
    try:
        with open(f"/proc/{pid}/maps", "rb") as file:
            return b"/poorhttp/_engine." in file.read()
    except OSError:
        return True


def serves(settings: Config, pid: int) -> bool:
    """Whether a process of a server was ready to serve clients, or this user may not know: then its board says so, and
    while a new image loads that of the workers of the one before. `dev` has no board.
    """
    from poorhttp import status as board

    try:
        return _is_dev(settings, pid) or any(board.serves(each) for each in (pid, *children(pid)))
    except PermissionError:
        return True


def stop(settings: Config, say: Callable[[str], object]) -> int:
    """Ask the server to finish, wait for its end, and end it if it is late."""
    pid = find(settings)
    if pid <= 0:
        say(_absent(settings))
        return STOPPED
    _send(pid, signal.SIGTERM)
    if wait_for_end(pid, settings.graceful_timeout + GRACE):
        say(f"stopped (was pid {pid})")
    else:
        say(f"pid {pid} did not stop in {settings.graceful_timeout + GRACE:.0f} s; killed")
        orphans = [*children(pid)]
        _send(pid, signal.SIGKILL)
        if not wait_for_end(pid, GRACE):
            return FAILED
        end = time.monotonic() + ORPHANED
        for each in orphans:  # they have its sockets
            wait_for_end(each, end - time.monotonic())
    from poorhttp import pidfile

    # Where it became another user it may not have been able to, as where it was killed.
    pidfile.remove(settings.pidfile, pid)
    return STOPPED


def _absent(settings: Config) -> str:
    """Say why no server is found, and where there is one of the same ini file."""
    pid, _ = _named(settings)
    why = f"there is no pidfile {settings.pidfile}"
    if pid:
        why = _other(settings) or f"a dead process has left {settings.pidfile}"
    return "; ".join(filter(None, (f"not running: {why}", elsewhere(settings))))


def elsewhere(settings: Config) -> str:
    """Tell of a server of the same ini file with another pidfile, which was changed in it since; "" for none."""
    from poorhttp import status as board

    path, name = os.path.realpath(settings.ini), os.fsencode(os.path.basename(settings.ini))
    for pid in _numbers() if settings.ini else ():
        try:
            begun = board.start(pid) if name in _read(pid, "cmdline") else {}
        except PermissionError:
            continue
        if begun.get("ini") and os.path.realpath(begun["ini"]) == path:
            where = f"with --pidfile {begun['pidfile']} until a reload" if begun["pidfile"] else "without a pidfile"
            return f"pid {pid} runs by this ini file, {where}"
    return ""


def reload(settings: Config, say: Callable[[str], object], patience: float) -> int:
    """Ask the server to try its code and configuration anew, and say how that ends.

    patience: seconds for that. Where nobody can tell (`dev`, or another user) it only asks.
    """
    from poorhttp.status import last_reload

    pid = find(settings)
    if pid <= 0:
        say(_absent(settings))
        return FAILED
    end = time.monotonic() + patience
    try:
        before = last_reload(pid)
        # One that goes on may have read the code of before, and while its image loads there is no board.
        while _is_loading(settings, pid, before) and lives(pid) and time.monotonic() < end:
            time.sleep(GLANCE)
            before = last_reload(pid)
        is_told = before is not None or _is_loading(settings, pid, before)
    except PermissionError:
        before, is_told = None, False
    if before and not before["can_reload"]:
        say(f"pid {pid}: poorhttp.run() cannot start the program anew; restart it")
        return FAILED
    if find(settings) != pid:
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
        if not lives(pid):
            say(f"pid {pid} has ended; the error log tells why")
            return FAILED
        time.sleep(GLANCE)
    say(f"pid {pid}: the reload has no end after {patience:g} s; the error log will tell, or a longer --wait")
    return FAILED


def _is_loading(settings: Config, pid: int, last: dict[str, Any] | None) -> bool:
    """Whether a reload goes on there. `dev` has no board at any time."""
    return not _is_dev(settings, pid) if last is None else last.get("result") == TRYING


def _is_dev(settings: Config, pid: int) -> bool:
    return settings.autoreload or bool({b"dev", b"--reload", b"--autoreload"} & {*_read(pid, "cmdline").split(b"\0")})


def logrotate(settings: Config, say: Callable[[str], object]) -> int:
    """Ask the server to open its logs anew."""
    pid = find(settings)
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
        pid = find(settings)
    except ConfigError as error:
        say(f"not known: {error}")
        return UNKNOWN
    if pid <= 0:
        say(_absent(settings))
        return DEAD if pid else ABSENT
    from poorhttp import memory
    from poorhttp import status as board

    workers = list(children(pid))
    told, is_told = None, True
    try:
        told = board.of(pid)
    except PermissionError:
        is_told = False
    say(f"running: pid {pid}{_since(pid, ', for {}')}"[: width or None])
    if workers:
        each_since = (f"{each}{_since(each, ' (for {})')}" for each in workers)
        say(f"workers: {', '.join(each_since)}"[: width or None])
    elif told is not None and told["is_supervised"]:
        say("no workers (WINCH); TTIN or HUP starts them"[: width or None])
    tree = {pid, *memory.below([pid], memory.processes())}
    sizes = [pss(each) for each in tree if lives(each)]
    say(f"memory: {sum(sizes) / 1024:.1f} MiB" if all(sizes) else "memory: not told to this user")
    if not _stat(pid):
        say(f"what it does is not known: {HIDDEN}"[: width or None])
    elif not is_told:
        say(f"what it does is told to its user (after `user`: to root) only: /proc/{pid}/fd"[: width or None])
    elif told is None:
        say("what it does is not known: it does not serve yet, or is of another version"[: width or None])
    else:
        for line in board.text(told, rates.of(told, time.monotonic()) if rates else None, width):
            say(line)
    return RUNNING


def facts(settings: Config) -> tuple[int, str]:
    """The same as JSON, and the exit code: `state` (running, dead, absent, unknown), `pidfile`; of a running server and
    of each of its `workers` `pid`, `seconds` since the start and `pss` in bytes, null where this user may not know; and
    `board`, what `poorhttp.status.of` tells, or null (then `error` may say why).
    """
    from poorhttp.lean import json

    told: dict[str, object] = {"state": "running", "pidfile": settings.pidfile}
    try:
        pid = find(settings)
    except ConfigError as error:
        return UNKNOWN, json.dumps(told | {"state": "unknown", "error": error.message})
    if pid <= 0:
        code, state = (DEAD, "dead") if pid else (ABSENT, "absent")
        why = "; ".join(filter(None, (_other(settings) if pid else "", elsewhere(settings))))
        return code, json.dumps(told | {"state": state} | ({"error": why} if why else {}))
    from poorhttp import status as board

    told |= _weight(pid) | {"workers": [_weight(each) for each in children(pid)], "board": None}
    try:
        told["board"] = board.of(pid)
    except PermissionError:
        told["error"] = f"/proc/{pid}/fd is not for this user" if _stat(pid) else HIDDEN
    return RUNNING, json.dumps(told)


def _weight(pid: int) -> dict[str, object]:
    seconds = age(pid)
    return {"pid": pid, "seconds": None if seconds is None else round(seconds, 1), "pss": pss(pid) * 1024 or None}


def _since(pid: int, text: str) -> str:
    """The text with its age; "" where that is not known."""
    seconds = age(pid)
    return "" if seconds is None else text.format(duration(seconds))


def _send(pid: int, signum: int) -> None:
    try:
        os.kill(pid, signum)
    except ProcessLookupError:
        return
    except PermissionError:
        raise ConfigError(f"no permission to signal pid {pid}", "be its user, or root") from None


def wait_for_end(pid: int, seconds: float) -> bool:
    """Whether the process ends in this time."""
    end = time.monotonic() + seconds
    while lives(pid):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def lives(pid: int) -> bool:
    """Whether it runs; a zombie does not. Where /proc does not tell, one that is not this process's child is none."""
    fields = _stat(pid)
    if fields:
        return fields[:1] not in ENDED
    try:
        os.kill(pid, 0)
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except ProcessLookupError:
        return False
    except (ChildProcessError, PermissionError):
        return True


def children(pid: int) -> Iterator[int]:
    """Its workers, and other children; a trial of a reload is none. None where that is not told."""
    for each in _numbers():
        if _stat(each)[1:2] == [b"%d" % pid] and b"POORHTTP_TRIAL=" not in _read(each, "environ"):
            yield each


def _numbers() -> list[int]:
    """Those of all processes; none where that is not told."""
    try:
        return [int(each) for each in os.listdir("/proc") if each.isdecimal()]
    except OSError:
        return []


def age(pid: int) -> float | None:
    """Seconds since its start; None where it is gone, or that is not told."""
    fields = _stat(pid)
    if not fields:
        return None
    with open("/proc/uptime", "rb") as file:
        uptime = float(file.read().split()[0])
    return max(uptime - int(fields[19]) / os.sysconf("SC_CLK_TCK"), 0.0)


def pss(pid: int) -> int:
    """KiB; 0 where this user may not know."""
    for line in _read(pid, "smaps_rollup").splitlines():
        if line.startswith(b"Pss:"):
            return int(line.split()[1])
    return 0


def _stat(pid: int) -> list[bytes]:
    """The fields from the state on (proc(5)), empty where the process is gone; its name may hold anything."""
    return _read(pid, "stat").rpartition(b") ")[2].split()


def _read(pid: int, what: str) -> bytes:
    try:
        with open(f"/proc/{pid}/{what}", "rb") as file:
            return file.read(1 << 16)
    except OSError:
        return b""


def duration(seconds: float) -> str:
    """`3 d 4 h`, `5 min`, `12 s`: the two greatest units."""
    parts: list[str] = []
    left = int(seconds)
    for size, unit in (86400, "d"), (3600, "h"), (60, "min"), (1, "s"):
        if left >= size or (unit == "s" and not parts):
            parts.append(f"{left // size} {unit}")
        left %= size
    return " ".join(parts[:2])
