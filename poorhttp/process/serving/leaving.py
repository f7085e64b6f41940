"""How a serving process is left: by itself when the engine has stopped, or without its application, which is late.

Knows since when it stops and why, the alarm after which it is left, and its exit code. Does not know which signal does
what (`process.serving.serving_signals`).
"""

from __future__ import annotations

from poorhttp.process.fork_hooks import engines
from poorhttp.stdlib import os, signal, time
from poorhttp.system import timing
from poorhttp.system.signals import leave_at_once

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from poorhttp.logs.log import ErrorLog


class Leaving:
    """The end of this process.

    since: when a stop was asked for, None: not yet. stopped_by: the signal that did, of several the one that wants it
    sooner. at_once: the first signal that wanted the end at once, 0 for none. late_code: the exit code where the
    application does not return in time. is_over: serving is over, and nothing is to wait any more. is_leaving: what
    the application wanted to be done at the exit is being done. is_expected: the process is left at a given time.
    """

    def __init__(
        self,
        graceful_timeout: float,
        error_log: ErrorLog,
        clean_up: Callable[[], None] | None,
        catch_alarm: Callable[[], None],
    ) -> None:
        self.graceful_timeout = graceful_timeout
        self.since: float | None = None
        self.stopped_by = self.at_once = 0
        self.late_code = 1
        self.is_over = self.is_leaving = self.is_expected = False
        self._error_log = error_log
        self._clean_up = clean_up
        self._catch_alarm = catch_alarm
        self._patience = self._due = 0.0  # seconds until the process is left, and when that is

    def is_wanted(self) -> bool:
        """Whether a stop was asked for, or serving is over."""
        return self.is_over or self.since is not None

    def expect_end(self, seconds: float) -> None:
        """Leave the process unless it is over in so many seconds, or sooner where that was said before."""
        if not self.is_expected or time.monotonic() + seconds < self._due:
            self.expect_end_anew(seconds)

    def expect_end_anew(self, seconds: float) -> None:
        """Leave the process unless it is over in so many seconds, whatever was said before."""
        self._catch_alarm()
        self.is_expected = True
        self._patience, self._due = seconds, time.monotonic() + seconds
        signal.setitimer(signal.ITIMER_REAL, seconds)

    def put_off(self) -> bool:
        """Give the whole time once more where this process stood still meanwhile; return whether it did."""
        has_stood_still = time.monotonic() > self._due + timing.STANDSTILL
        if has_stood_still:
            self.expect_end_anew(self._patience)
        return has_stood_still

    def may_go_on(self) -> bool:
        """Whether a new program is to begin in this process: also after TERM where clients wait for it."""
        if not self.stopped_by:
            return True
        are_waiting = any(engine.listeners() for engine in engines)
        return self.stopped_by == signal.SIGTERM and not self.at_once and are_waiting

    def exit_code(self, at_once: int) -> int:
        """The exit code when the engine has stopped by itself. A QUIT that cut nothing off is a clean stop.

        at_once: the signal that made the engine stop at once, 0 for none; its clock may tell two signals further apart
        than ours.
        """
        at_once = self.at_once or at_once
        return 128 + at_once if at_once not in (0, signal.SIGQUIT) else 0

    def leave_application(self) -> NoReturn:
        """Leave without the application, which is late."""
        self._error_log.write("E", f"process {os.getpid()}: the application did not return in time; left before it did")
        self.leave(128 + self.at_once if self.at_once else self.late_code)

    def leave(self, code: int) -> NoReturn:
        """Leave now."""
        leave_at_once(code, self._error_log, self._clean_up)
