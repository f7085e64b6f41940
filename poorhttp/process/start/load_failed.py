"""A new program of this process that has no application: what the trial could load, it cannot, or it is stopped before.

Knows how old workers go on meanwhile: the supervisor adopts them and starts none. Does not know why the load failed.
"""

from __future__ import annotations

from poorhttp import __version__
from poorhttp.errors import PoorhttpError, shown, tell
from poorhttp.listen import sockets
from poorhttp.listen.systemd import Manager
from poorhttp.process import shape
from poorhttp.process.supervisor import Supervisor
from poorhttp.process.workers.supervised_reload import SupervisedReload
from poorhttp.reload.handover import Handover
from poorhttp.reload.reload import Reload
from poorhttp.status import layout, pidfile
from poorhttp.status.scoreboard import make_scoreboard
from poorhttp.stdlib import time
from poorhttp.system import timing
from poorhttp.system.signals import Boot, is_starting, let_through

TYPE_CHECKING = False
if TYPE_CHECKING:
    from socket import socket

    from poorhttp.config.model import Config
    from poorhttp.logs.log import ErrorLog
    from poorhttp.process.workers.plan import State
    from poorhttp.status.scoreboard import Scoreboard


def try_again(
    handover: Handover,
    home: str,
    error: Exception,
    listening: dict[str, socket],
    settings: Config,
    error_log: ErrorLog | None = None,
    manager: Manager | None = None,
) -> int:
    """Execute the new program once more with the same sockets and workers, and again, after a pause that grows, or at
    once after HUP. Return the exit code when a stop comes meanwhile, which old workers obey as ever.

    Until then they serve, if there are any, and clients wait; the scoreboard and the service manager show it.
    home: the directory of the start. listening: the sockets at which clients may wait, by their keys. settings: those
    of the new program, or defaults where they cannot be read.
    """
    if not is_starting():
        Boot(is_reload=True)  # its handlers become SIG_IGN after the supervisor's: a second stop ends no clean-up
    manager = manager or Manager()
    if not handover.workers:
        manager.watchdog = 0.0  # nobody answers
    scoreboard = _make_scoreboard(handover, settings)
    log = error_log or _standard_error()
    reload = Reload(_same(handover), home, shape.shape(settings), list(listening), log, manager, scoreboard)
    retry = Retry(reload, error, handover, log, manager, scoreboard)
    supervisor = Supervisor(None, list(listening.values()), settings, log, -1, retry, manager, scoreboard)
    supervisor.adopt(handover)
    try:
        let_through(handover.signals)
        return supervisor.run()
    finally:
        pidfile.remove(handover.pidfile)
        sockets.close(listening.values())


def dismiss(
    handover: Handover,
    signum: int,
    listening: dict[str, socket],
    settings: Config,
    error_log: ErrorLog,
    access_log: int,
    manager: Manager,
) -> int:
    """Stop the workers of the program before this one, as this signal asks for; return the exit code."""
    reloads = SupervisedReload(None, error_log, manager, None, is_rolling=False)
    supervisor = Supervisor(None, list(listening.values()), settings, error_log, access_log, reloads, manager, None)
    supervisor.adopt(handover)
    supervisor.hear(bytes([signum]))
    return supervisor.run()


class Retry(SupervisedReload):
    """A reload without a trial, since there is nothing to go back to."""

    def __init__(
        self,
        reload: Reload,
        error: Exception,
        handover: Handover,
        error_log: ErrorLog,
        manager: Manager,
        scoreboard: Scoreboard | None,
    ) -> None:
        super().__init__(None, error_log, manager, scoreboard, is_rolling=False)
        self._retry = reload
        self._is_served = bool(handover.workers)
        self._is_cancelled = False
        self._is_asked = False
        self._is_held = False
        self._pause = handover.pause or timing.FIRST_RETRY
        self.failed(error)

    def failed(self, error: Exception) -> None:
        """The new program could not go on, or could not be executed."""
        pause, self._due = self._pause, time.monotonic() + self._pause
        failed = "the new program does not start, although its trial did"
        text = f"reload: {failed}; trying again in {pause:g} s, or at once after HUP"
        fault = error if isinstance(error, PoorhttpError) else PoorhttpError(f"{type(error).__name__}: {error}")
        why = f"{failed}: {fault.message}"
        if self._scoreboard is not None:
            self._scoreboard.note_reload(layout.FAILED, why)  # before it is said: a reader of the log may ask for it
        self._manager.reload_failed(why, is_served=self._is_served)
        tell(fault)
        if not isinstance(error, PoorhttpError):
            self._error_log.exception(error, "-", text)
        elif fault.detail:
            self._error_log.write_trace("E", f"{text}: {fault.message}", "-", "\n".join(shown(fault.detail)))
        else:
            self._error_log.write("E", f"{text}: {fault.message}")
        self._pause = min(2 * pause, timing.LONGEST_RETRY)

    def begin(self) -> None:
        """A reload is asked for, so perhaps the fault is mended: try at once."""
        self._is_asked = True
        self._due, self._pause = time.monotonic(), timing.FIRST_RETRY

    def due(self, state: State) -> Reload | None:
        """As of the other reload; but after WINCH the new program, which would start workers, is put off until HUP or
        TTIN.
        """
        self._is_held = not (state.wanted or self._is_asked)
        self._retry.handover.pause = self._pause
        return self._retry if self.seconds_left() == 0 else None

    def seconds_left(self) -> float | None:
        return None if self._is_cancelled or self._is_held else max(self._due - time.monotonic(), 0.0)

    def cancel(self) -> None:
        self._is_cancelled = True

    def stood_still(self, seconds: float) -> None:
        self._due += seconds

    def has_concluded(self, state: State) -> bool:
        return False


def _same(handover: Handover) -> Handover:
    """The handover that was received, without sockets and workers, which the supervisor adds."""
    again = Handover()
    again.passed, again.connections = handover.passed, handover.connections
    again.pidfile, again.lock, again.streams = handover.pidfile, handover.lock, handover.streams
    return again


def _make_scoreboard(handover: Handover, settings: Config) -> Scoreboard | None:
    """A scoreboard of this process alone: that of the program before is with its workers."""
    scoreboard = make_scoreboard(1, 1)
    if scoreboard is not None:
        scoreboard.tell(version=__version__, reloads="yes", supervised="yes" if handover.workers else "no", serves="no")
        scoreboard.tell(shape=f"{settings.processes} x {settings.threads}", title=settings.application)
    return scoreboard


def _standard_error() -> ErrorLog:
    """Where the error log could not be opened."""
    from poorhttp.logs.log import ErrorLog

    return ErrorLog("-", "info", False, "")
