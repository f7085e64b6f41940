"""The effect of signals on a process while it serves: stop, reload, open logs anew.

Knows which signal means what, and where the main thread is when one comes. Does not know how a stop is done (the
engine), nor how new code takes this process over (`process.serving.unsupervised_reload`).
"""

from __future__ import annotations

from poorhttp._engine import SignalHandler
from poorhttp.process import messages
from poorhttp.process.fork_hooks import engines
from poorhttp.process.serving.leaving import Leaving
from poorhttp.process.serving.threads import enter
from poorhttp.process.serving.unsupervised_reload import UnsupervisedReload
from poorhttp.stdlib import os, signal, socket, time
from poorhttp.system import timing
from poorhttp.system.signals import COUNTS, HANDLED, NAMES, RELOADS, afterwards, raise_delayed, restore
from poorhttp.system.wake_pipe import WakePipe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any

    from poorhttp.listen.backlog import Backlog
    from poorhttp.listen.systemd import Manager
    from poorhttp.logs.log import ErrorLog
    from poorhttp.reload.reload import Reload

SERVES = "poorhttp.process.worker"
"""The module whose function enters the engine."""


class ServingSignals:
    """The signals of a serving process, from its making until `restore`.

    pipe: on its end for reading the engine gets every signal as one byte, written by the interpreter at once, in
    whichever thread. The Python handlers below run only when the main thread runs Python code. That matters inside the
    application, from where the engine cannot bring it back, and where the application has taken the interpreter's
    wake-up descriptor away, as an asyncio loop does: then they write the byte.
    """

    def __init__(
        self,
        graceful_timeout: float,
        error_log: ErrorLog,
        is_supervised: bool,
        clean_up: Callable[[], None] | None,
        make_reload: Callable[[], Reload] | None,
        manager: Manager | None,
    ) -> None:
        self._error_log = error_log
        self._is_supervised = is_supervised
        self._manager = manager
        self._backlog: Backlog | None = None
        # Under a supervisor there is nothing left to do afterwards but to leave: no late signal shall spoil that.
        spare = [signum for signum in HANDLED if signum != signal.SIGQUIT] if is_supervised else []
        self._old: dict[int, Any] = dict.fromkeys(spare, signal.SIG_IGN)
        # Before the handlers: a signal that comes between the two is then heard by the engine in any case.
        self.pipe = WakePipe()
        catch_alarm = lambda: self._handle(signal.SIGALRM, self._late)  # noqa: E731
        self.leaving = Leaving(graceful_timeout, error_log, clean_up, catch_alarm)
        self.unsupervised_reload = UnsupervisedReload(self.leaving, self.pipe, make_reload, error_log)
        self._handle(signal.SIGTERM, self._stop)
        self._handle(signal.SIGQUIT, self._stop)
        self._handle(signal.SIGUSR1, self._reopen)
        # Not ignored: a program that the application starts would ignore it too.
        self._handle(signal.SIGINT, _leave_to_supervisor if is_supervised else self._stop)
        for signum in RELOADS:
            self._handle(signum, _leave_to_supervisor if is_supervised else self._reload)
        for signum in COUNTS:
            self._handle(signum, signal.SIG_IGN)
        raise_delayed()

    def restore(self) -> None:
        """Give the signals back to those that had them before."""
        self.leaving.is_over = True
        self.unsupervised_reload.end()
        if self.leaving.is_expected:
            signal.setitimer(signal.ITIMER_REAL, 0)
        restore(self._old)
        self.pipe.restore()
        try:
            self.pipe.close()
        except OSError:
            self._error_log.write("C", "the application has closed descriptors of the server")
            raise SystemExit(1) from None

    def reported(self, what: int) -> None:
        """The engine reports, on a thread of its own, what a worker would report to its supervisor."""
        if what == messages.STUCK[0]:
            self.unsupervised_reload.replace_stuck()
        elif what == messages.OVERLOADED[0]:
            self._look_at_backlog()

    def _look_at_backlog(self) -> None:
        if self._backlog is None:
            from poorhttp.listen.backlog import Backlog

            self._backlog = Backlog(self._error_log)
        for descriptor in [each for engine in engines for each in engine.listeners()]:
            sock = socket.socket(fileno=os.dup(descriptor))
            self._backlog.look([sock], time.monotonic())
            sock.close()

    def _handle(self, signum: int, handler: Any) -> None:
        self._old.setdefault(signum, afterwards(signum))
        signal.signal(signum, SignalHandler(handler) if callable(handler) else handler)

    def _stop(self, signum: int, frame: FrameType | None) -> None:
        self.pipe.write(signum)
        leaving, now = self.leaving, time.monotonic()
        is_first = leaving.since is None
        if signum != signal.SIGTERM or is_first:
            leaving.stopped_by = signum
        if leaving.since is None:
            leaving.since = now
            if self._manager is not None:
                self._manager.stopping("finishing what is in flight")
            if not self._is_supervised:
                leaving.expect_end(leaving.graceful_timeout + timing.LATE)
                self._error_log.write("S", f"stopping: {NAMES[signum]}")
        if signum == signal.SIGINT:  # also right behind a TERM: the engine hears it then
            leaving.late_code = 128 + signum
            leaving.expect_end(min(leaving.graceful_timeout, timing.FAST) + timing.LATE)
        if signum == signal.SIGQUIT or (not is_first and now - leaving.since >= timing.REPEAT):
            leaving.at_once = leaving.at_once or signum
            # Elsewhere the engine has read the same byte and does what it says.
            if _is_inside_application(frame) or leaving.is_leaving:
                leaving.leave(128 + leaving.at_once)

    def _reload(self, signum: int, frame: FrameType | None) -> None:
        self.unsupervised_reload.ask()

    def _reopen(self, signum: int, frame: FrameType | None) -> None:
        self._error_log.reopen()

    def _late(self, signum: int, frame: FrameType | None) -> None:
        if frame and frame.f_code is enter.__code__:
            # The engine is at work, not the application: it ends by itself. Unless the application is called once more.
            signal.setitimer(signal.ITIMER_REAL, timing.LATE)
        elif not self.leaving.put_off():
            self.unsupervised_reload.give_up_calls()
            self.leaving.leave_application()


def _leave_to_supervisor(signum: int, frame: FrameType | None) -> None:
    """Do nothing: the supervisor hears this signal too."""


def _is_inside_application(frame: FrameType | None) -> bool:
    """Whether the engine was entered above this frame, which belongs to what it called then; or the frame is one of
    another greenlet, to which only the application can have switched.
    """
    above = frame.f_back if frame else None
    while above and above.f_code is not enter.__code__ and above.f_globals.get("__name__") != SERVES:
        above = above.f_back
    return above is None or above.f_code is enter.__code__
