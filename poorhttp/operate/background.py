"""`poorhttp start`: starts a server in the background, and returns when it serves, or has failed to.

Knows sessions (setsid(2)) and standard streams. Does not know the steps of a start.
"""

from __future__ import annotations

import sys
from contextlib import suppress

from poorhttp.errors import ConfigError, ListenError, LoadError, PoorhttpError, say, tell
from poorhttp.operate import control
from poorhttp.process import server
from poorhttp.status import running
from poorhttp.stdlib import os, select, signal, time
from poorhttp.system import procfs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from poorhttp.config.model import Config
    from poorhttp.logs.log import ErrorLog

SILENCE = 3.0
"""Seconds after which `start` says what it waits for."""

LOADED, SERVES, FAILED, YIELDS = b"3", b"1", b"0", b"2"
"""The words of the server for the command that waits for it: the application is loaded, and messages go to the error
log from now on; clients are served; the start failed and has said why (the next byte is its exit code); another start
was quicker.
"""

MOMENT = 0.3
"""Seconds within which a start that has bound its sockets writes its pidfile."""

ENDS = signal.SIGTERM, signal.SIGHUP
"""Signals that end the command while it waits, besides Ctrl-C."""
HELD = *ENDS, signal.SIGINT
"""Signals that are blocked until the command can end the server that it began."""


def start(settings: Config, home: str, patience: float, may_be_unread: bool = False) -> int:
    """Start a server in a session of its own; return 0 when it serves, else its exit code. home: as for `server.serve`.
    patience: seconds after which a server that does not serve is ended. may_be_unread: whether a log may be a named
    pipe without a reader, as after the stop of the server that this one replaces.
    """
    pid = running.find(settings)
    if pid > 0:
        return _await_other(settings, pid, patience)
    check(settings)
    told, ready = os.pipe()
    signal.pthread_sigmask(signal.SIG_BLOCK, HELD)
    pid = os.fork()
    if pid == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD)
        os.close(told)
        os.setsid()
        sys.exit(_serve(settings, home, ready, may_be_unread))
    os.close(ready)
    try:
        for each in ENDS:
            if signal.getsignal(each) == signal.SIG_DFL:  # nohup(1) ignores HUP
                signal.signal(each, _leave)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD)
        end = time.monotonic() + patience
        word, is_loaded = _outcome(settings, pid, told, patience)
        # A thread or child of the application may keep the process from ending.
        has_ended = word not in (SERVES, None) and procfs.wait_for_end(pid, max(end - time.monotonic(), MOMENT))
    except (KeyboardInterrupt, SystemExit):
        _end(pid)
        raise
    if word == SERVES:
        _hear_no_more()
        say(f"started: pid {pid}")
        return 0
    if has_ended:
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    else:
        _end(pid)
    from poorhttp.process.start import dry_run_child
    from poorhttp.status import pidfile

    log = f"the error log tells why: {settings.errorlog}"
    if word == YIELDS:
        return _await_other(settings, running.find(settings), patience)
    pidfile.remove(settings.pidfile, pid)
    if word == FAILED:
        code = ord(os.read(told, 1) or b"\1")
    elif not has_ended:
        say(f"pid {pid} did not serve in {patience:g} s; ended")
        say(f"hint: {log if is_loaded else '--wait SECONDS gives it another time'}")
        return 1
    if is_loaded:
        say(f"pid {pid} ended before it served; {log}")
    elif word != FAILED:
        raise LoadError(dry_run_child.died(code), f"{dry_run_child.FAULTS} poorhttp check tells where")
    return abs(code) or 1


def _outcome(settings: Config, pid: int, told: int, patience: float) -> tuple[bytes | None, bool]:
    """The last word of the server (b"": it died, None: it is late), and whether it loaded its application."""
    began, is_told, is_loaded = time.monotonic(), False, False
    end, limit = began + patience, began + min(SILENCE, patience)
    while (word := _word(told, limit)) == LOADED or (word is None and not is_told):
        if word == LOADED:
            is_loaded = True
        else:
            doing = "no process answers clients" if is_loaded else f"it loads {settings.application}"
            say(f"pid {pid} does not serve yet: {doing}")
            limit, is_told = end, True
    if word == b"" and not procfs.wait_for_end(pid, MOMENT):  # it lives: a reload has made it a new program
        word = SERVES if _comes_to_serve(settings, pid, end) else None
    return word, is_loaded


def _comes_to_serve(settings: Config, pid: int, end: float) -> bool:
    while not running.serves(settings, pid):
        if not procfs.lives(pid) or time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def _await_other(settings: Config, pid: int, patience: float) -> int:
    """Wait for a server that another start began; the outcome of that start is the outcome of this one."""
    if pid > 0 and _comes_to_serve(settings, pid, time.monotonic() + patience):
        say(f"running already: pid {pid}")
        return 0
    which = f"pid {pid}, which another start began," if pid > 0 else "what another start began"
    is_late = pid > 0 and procfs.lives(pid)
    say(f"{which} did not serve in {patience:g} s" if is_late else f"{which} ended before it served")
    return 1


def _is_another_there(settings: Config) -> bool:
    """Whether another start, which was quicker, has the address or the pidfile."""
    end = time.monotonic() + MOMENT
    while running.find(settings) <= 0:
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def check(settings: Config) -> None:
    """Raise ConfigError if a log is a standard stream, which nobody reads in the background."""
    for name in "errorlog", "accesslog":
        if getattr(settings, name) == "-":
            raise ConfigError(f"in the background nobody reads {name} = -", f"name a file: {name} = FILE")


def _word(told: int, end: float) -> bytes | None:
    """The next word of the server; None if there is none until `end`, b"" if the process is gone."""
    return os.read(told, 1) if select.select([told], [], [], max(end - time.monotonic(), 0.0))[0] else None


def _leave(signum: int, frame: object) -> NoReturn:
    raise SystemExit(128 + signum)


def _hear_no_more() -> None:
    for each in HELD:
        signal.signal(each, signal.SIG_IGN)


def _end(pid: int) -> None:
    """End a server that is late, so that it does not begin to serve after the command has returned."""
    _hear_no_more()
    os.kill(pid, signal.SIGTERM)
    if not procfs.wait_for_end(pid, control.GRACE):
        say(f"pid {pid} did not stop in {control.GRACE:.0f} s; killed")
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def _serve(settings: Config, home: str, ready: int, may_be_unread: bool) -> int:
    def tell_start(word: bytes) -> None:
        with suppress(OSError):  # the application has closed it, or the command is gone
            os.write(ready, word)

    def let_go() -> None:
        while waiting:
            with suppress(OSError):
                os.close(waiting.pop())

    def before_serving(error_log: ErrorLog) -> Callable[[], None]:
        """Close the terminal. Output from now on goes to the error log."""
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        os.close(nothing)
        for descriptor in 1, 2:
            os.dup2(error_log.fileno(), descriptor)
        tell_start(LOADED)
        return served

    def served() -> None:
        tell_start(SERVES)
        let_go()

    waiting, code = [ready], 1
    os.register_at_fork(after_in_child=let_go)  # the command waits for the server, not for its children
    try:
        return server.serve(settings, None, home, before_serving=before_serving, may_be_unread=may_be_unread)
    except PoorhttpError as error:
        if isinstance(error, (ListenError, ConfigError)) and _is_another_there(settings):
            tell_start(YIELDS)
            let_go()
            return error.exit_code
        tell(error)
        code = error.exit_code
        return code
    except SystemExit:
        if waiting:
            say(f"pid {os.getpid()} was stopped before it served")
        raise
    finally:
        if waiting:
            tell_start(FAILED + bytes([code]))
