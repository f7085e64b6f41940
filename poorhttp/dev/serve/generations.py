"""The processes that had, have or will have the clients: the one that serves, the one that loads, and those that leave.

Knows how each of them accepts, finishes and ends. Does not know why, nor the processes that wait for a save.
"""

from __future__ import annotations

from poorhttp.stdlib import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from poorhttp.dev.serve.processes import Process
    from poorhttp.logs.log import ErrorLog

MOST_LEAVING = 8
"""Old processes that may finish their requests at the same time."""


class Generations:
    """current: the process that serves, or stands in while the application cannot be loaded. loading: the next one.
    leaving: processes that finish their requests, or are about to end.
    """

    def __init__(self, error_log: ErrorLog, graceful_timeout: float) -> None:
        self._error_log, self._graceful_timeout = error_log, graceful_timeout
        self.current: Process | None = None
        self.loading: Process | None = None
        self.leaving: list[Process] = []

    def all(self) -> list[Process]:
        return [*self.serving(), *self.leaving]

    def serving(self) -> list[Process]:
        """The processes that accept, or soon will."""
        return [each for each in (self.current, self.loading) if each is not None]

    def pause_accepting(self) -> None:
        """Accept no new connection from now on: clients wait in the listen queue."""
        for process in self.serving():
            process.pause_accepting()

    def resume_accepting(self) -> None:
        for process in self.serving():
            process.resume_accepting()

    def retire_current(self, seconds: float | None = None) -> None:
        """Let the current process finish its requests in so many seconds (None: `graceful_timeout`)."""
        if self.current is not None:
            self._finish(self.current, self._graceful_timeout if seconds is None else seconds)
            self.current = None

    def end_loading(self) -> None:
        """Give up the process that loads; if it may have clients already, it finishes their requests."""
        process, self.loading = self.loading, None
        if process is not None and process.loaded:
            self._finish(process, self._graceful_timeout)
        elif process is not None:
            self.end(process)

    def end(self, process: Process) -> None:
        process.kill()
        self.leaving.append(process)

    def forget_leaving(self, process: Process) -> None:
        self.leaving = [each for each in self.leaving if each is not process]

    def _finish(self, process: Process, seconds: float) -> None:
        process.finish(time.monotonic(), seconds)
        self.leaving.append(process)
        for each in [each for each in self.leaving if each.kill_at is not None][:-MOST_LEAVING]:
            each.kill_at = None
            self._error_log.write("W", f"an old process is killed: there are more than {MOST_LEAVING}")
            each.kill()
