"""`child_exit`: a function of the application's, called for each worker that has ended.

Knows how it is called without harm: in a child of the supervisor, so that the supervisor does not wait for it. Does not
know why a worker ended, nor whether there is such a function: that is found where the application is loaded.
Contract: the function is called once for each worker, one child at a time, soon after the worker was reaped. A call
that raises is logged; a child that takes longer than `timing.CHILD_EXIT` is killed and logged.
"""

from __future__ import annotations

from poorhttp.app import loader
from poorhttp.errors import LoadError
from poorhttp.stdlib import os, signal, time
from poorhttp.system import timing
from poorhttp.system.exits import end_with, reason
from poorhttp.system.signals import HANDLED, flush, leave_at_once

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from poorhttp.config.model import Config
    from poorhttp.logs.log import ErrorLog

TOLD = 1
"""The exit code of a child that has logged what is wrong."""


class ChildExit:
    """The workers for which the function is still to be called."""

    def __init__(self, config: Config, error_log: ErrorLog) -> None:
        self._spec, self._directory, self._error_log = config.child_exit, config.import_directory, error_log
        self._ended: list[int] = []
        self._child = 0
        self._end_by = 0.0

    def note(self, pid: int) -> None:
        """This worker has ended."""
        self._ended.append(pid)

    def due(self) -> float | None:
        """In how many seconds `look` is to be called, if for nothing else; None where no child calls."""
        return max(self._end_by - time.monotonic(), 0.0) if self._child else None

    def look(self) -> None:
        """Reap the child that calls, if it has ended, and begin the next one, if there is anything to call for."""
        if self._child and time.monotonic() >= self._end_by:
            self._kill(timing.CHILD_EXIT)
        if self._child and self._has_ended():
            self._child = 0
        if self._ended and not self._child:
            self._begin()

    def finish(self) -> None:
        """Make the calls that are left, and wait for them; for `timing.LAST_CHILD_EXIT` seconds at most."""
        end = time.monotonic() + timing.LAST_CHILD_EXIT
        self.look()
        while self._child and time.monotonic() < end:
            time.sleep(0.002)
            self.look()
        if self._child:
            self._kill(timing.LAST_CHILD_EXIT)

    def _kill(self, seconds: float) -> None:
        """End the child that calls, which had so many seconds."""
        self._error_log.write("E", f"{self._spec} did not return in {seconds:g} s; killed")
        child, self._child = self._child, 0
        end = time.monotonic() + timing.DYING
        try:
            os.kill(child, signal.SIGKILL)
            while os.waitpid(child, os.WNOHANG)[0] == 0 and time.monotonic() < end:
                time.sleep(0.002)
        except (ChildProcessError, ProcessLookupError):  # reaped by the application
            return

    def _has_ended(self) -> bool:
        try:
            pid, status = os.waitpid(self._child, os.WNOHANG)
        except ChildProcessError:  # reaped by the application, with a wait for any child
            return True
        code = os.waitstatus_to_exitcode(status)
        if code not in (0, TOLD):
            self._error_log.write("E", f"{self._spec} ended its process: {reason(code)}")
        return pid != 0

    def _begin(self) -> None:
        ended, self._ended = self._ended, []
        self._end_by = time.monotonic() + timing.CHILD_EXIT
        flush(self._error_log)
        parent = os.getpid()
        try:
            self._child = os.fork()
        except OSError as error:
            self._error_log.write("E", f"{self._spec} is not called for {ended}: {error.strerror}")
            return
        if not self._child:
            self._call(ended, parent)

    def _call(self, ended: list[int], parent: int) -> NoReturn:
        """Be the child."""
        code = TOLD
        try:
            for signum in HANDLED:  # they may be sent to every process of the server; this one ends by itself
                signal.signal(signum, signal.SIG_IGN)
            end_with(parent)
            function = loader.function(self._spec, self._directory)
            for pid in ended:
                try:
                    function(pid)
                except BaseException as error:
                    self._error_log.exception(error, "-", f"{self._spec}({pid})")
            code = 0
        except LoadError as error:
            self._error_log.write("E", f"{self._spec} is not called for {ended}: {error.message}")
        finally:
            leave_at_once(code, self._error_log)
