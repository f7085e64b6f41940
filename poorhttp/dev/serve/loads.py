"""The loads of the application: when one begins, by which process, and what is served when it ends.

Knows the files that have changed, and how long files need to settle. Does not know how events and messages come in
(`supervisor`), nor which process loads next (`ahead.pool`). From the first sign of a change until it was looked at, no
connection is accepted.
"""

from __future__ import annotations

import json

from poorhttp.app.places import seen
from poorhttp.dev import settings as dev
from poorhttp.dev.ahead.pool import Pool
from poorhttp.dev.page import guard, problem
from poorhttp.dev.page.breakpoints import Prompts
from poorhttp.dev.serve.generations import Generations
from poorhttp.dev.serve.restless import Restless
from poorhttp.dev.watch.files import Watcher
from poorhttp.dev.watch.paths import identity
from poorhttp.process.shape import counted
from poorhttp.reload import execution
from poorhttp.stdlib import os, time
from poorhttp.system import timing
from poorhttp.system.exits import reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from poorhttp.config.model import Config
    from poorhttp.dev.page.live import Streams
    from poorhttp.dev.serve.processes import Process
    from poorhttp.logs.log import ErrorLog
    from poorhttp.stdlib import socket

SETTLE, LONGEST_SETTLE, PENDING = 0.005, 0.15, 0.06
"""Seconds without a sign of a change before the files are looked at; the longest delay; and the delay while a file is
being written, or is gone or empty."""

STILL = 5.0
"""Seconds of loading after which clients get a page that says so."""


class Loads:
    """dirty: time of the first sign of a change that was not looked at yet. sent: when the present load was commanded.
    own: descriptors of the supervisor, which a fork has to close.
    """

    def __init__(
        self,
        settings: Config,
        directory: str,
        listeners: list[socket.socket],
        logs: tuple[ErrorLog, int],
        streams: Streams | None,
    ) -> None:
        """directory: where the server was started. streams: the browsers of `--live`."""
        self.settings, self._directory, self.listeners, self.streams = settings, directory, listeners, streams
        self._logs, self.error_log = logs, logs[0]
        application = dev.for_process(settings, ()).application
        self.watcher = Watcher(dev.roots(application, settings.import_directory))
        self.processes = Generations(self.error_log, settings.graceful_timeout)
        live = streams.port if streams is not None else 0
        self.pool = Pool(listeners, self.watcher, live, self.error_log, self.processes.end)
        self.prompts = Prompts(self.error_log)
        self.own: tuple[int, ...] = ()
        self._restless = Restless()
        self._changed: set[str] = set()  # files that have changed since the last load began
        self._last_sign = 0.0
        self._is_anew = True  # whether the next load uses nothing that was imported in advance
        self._why: list[str] = []  # the changed files that are the reason of the present load
        self._origin_shown = ""  # what was imported in advance for the present load
        self._began = self.sent = time.monotonic()  # _began: the first sign of the present load
        self.dirty: float | None = None

    def all(self) -> list[Process]:
        """All processes below this one."""
        return [*self.processes.serving(), *self.pool.all(), *self.processes.leaving]

    def load_anew(self, now: float) -> None:
        """Load the application without what was imported in advance."""
        self._is_anew = True
        self.mark(now)

    def again(self) -> None:
        """Begin the present load again: its process has ended before it began."""
        self.load(self._why, self._began)

    def mark(self, now: float) -> None:
        """Something may have changed: accept no connection until it was looked at."""
        self.processes.pause_accepting()
        self.dirty = now if self.dirty is None else self.dirty
        self._last_sign = now

    def settled_at(self, since: float) -> float:
        if self._restless.until is not None:
            return self._restless.until
        due = self._last_sign + SETTLE
        if self.watcher.is_pending():
            due = max(due, since + PENDING)
        return min(due, since + LONGEST_SETTLE)

    def look(self, since: float) -> None:
        """See what has really changed, and load the application if anything has."""
        self._changed.update(self.watcher.changes())
        self.watcher.forget_pending()
        self.dirty = None
        if not self._changed and not self._is_anew:
            self.processes.resume_accepting()
        elif self.prompts.links:
            self.prompts.hold()
            self.processes.resume_accepting()
        elif self._has_to_rest(since):
            self.dirty = since
        else:
            self.load(sorted(self._changed), since)

    def _has_to_rest(self, since: float) -> bool:
        """Whether to load nothing for a while, because of files that change at every load (`restless`)."""
        restless = self._restless
        if restless.until is not None:
            restless.end_rest()
            return False
        newest = self.processes.loading or self.processes.current
        restless.note(self._changed, newest is not None and (not newest.loaded or since <= newest.loaded))
        paths = restless.paths()
        if not restless.are_known():
            self.processes.end_loading()
            now = time.monotonic()
            restless.begin_rest(now, now - self.sent)
            return True
        if paths:
            names = ", ".join(map(seen, paths))
            self.error_log.write("W", f"{names} changes whenever the application is loaded; not watched any more")
            self.watcher.ignore(paths)
        return False

    def load(self, changed: list[str], since: float) -> None:
        """Begin to load the application in a fresh process; the one that served finishes its requests."""
        now = time.monotonic()
        is_anew, self._is_anew = self._is_anew, False
        self._changed.clear()
        self._restless.until = None
        self.processes.end_loading()
        self.processes.retire_current()
        self.watcher.begin()
        names = self.watcher.names()
        self.pool.drop_outdated(changed)
        self._began, self.sent, self._why = since, now, changed
        try:
            is_anew = self._enter_directory() or is_anew
        except OSError as error:  # else the processes would find the old code, where the directory is now
            self._refuse(problem.plain(execution.unreachable(self._directory, error), "make it again"))
            self._is_anew = True  # processes that are prepared meanwhile are in the wrong directory
            return
        if is_anew:
            self.pool.drop()
        process, self._origin_shown = self.pool.send()
        if is_anew:
            self._origin_shown = " (cold)"
        if process is not None:
            process.names = names
        self.processes.loading = process

    def _enter_directory(self) -> bool:
        """Go to the directory of the start; return whether it is another directory of that name. Raises OSError."""
        is_another = not os.path.samestat(os.stat(self._directory), os.stat("."))
        if is_another:
            os.chdir(self._directory)
        self.watcher.entered(self._directory, identity("."))
        return is_another

    def serve(self, process: Process, now: float) -> None:
        """The process that was loading serves now."""
        process.served = now
        self.processes.loading = None
        self.processes.retire_current(timing.FAST)  # one that stood in
        self.processes.current = process
        if self.streams is not None:
            is_style = self._why and all(path.endswith(".css") for path in self._why)
            self.streams.tell(b"style" if is_style else b"page", self.sent)
        took = f"{1000 * (now - self._began):.0f} ms{self._origin_shown}"
        if self._why:
            self.error_log.write("S", f"reloaded {_names(self._why)}  {took}")
        else:
            by = "looking at" if self.watcher.directories.sweeps else "watching"
            self.error_log.write("S", f"loaded in {took}; {by} {counted(self.watcher.count(), 'file')}")
        if self.dirty is None and self.watcher.changes():
            self.mark(now)

    def fail(self, process: Process, code: int) -> None:
        """The application could not be loaded."""
        if process.problem:
            self._refuse(json.loads(process.problem))
        else:
            text = f"the process died while it loaded the application: {reason(code)}{_last(process)}"
            self._refuse(problem.plain(text))

    def _refuse(self, found: problem.Problem) -> None:
        """Show a page in place of an application that could not be loaded."""
        self.watcher.loaded()
        where = f"{found['where']}: " if found["where"] else ""
        hint = f"; {found['hint']}" if found["hint"] and not where else ""
        self.error_log.write("E", f"{where}{found['title']}{hint} (a page shows it; waiting for a save)")
        self._stand_in(found, guard.FAILED, 0)
        if self.dirty is None and self.watcher.changes():
            self.mark(time.monotonic())

    def lose(self, process: Process, code: int, now: float) -> None:
        """The process that served has died."""
        hint = f"an exit, or a fault in compiled code? A change, or kill -USR2 {os.getpid()}, loads it again"
        found = problem.plain(f"the process that served died: {reason(code)}", hint)
        if now - process.served < timing.YOUNG or process.is_stand_in:
            self.error_log.write("E", f"{found['title']} (a page shows it; waiting for a save)")
            self._stand_in(found, guard.FAILED, 0)
        else:
            self.error_log.write("E", f"{found['title']}; loading the application again")
            self.pool.drop_checkpoints("the process that served has died")
            self.load([], now)

    def show_still_loading(self, process: Process) -> None:
        text = f"still importing, for more than {STILL:.0f} seconds{_last(process)}"
        if not self.prompts.links:
            self.error_log.write("W", text)
        found = problem.plain(text, "this page tries again by itself; a save starts anew")
        self._stand_in(found, guard.WAITING, 1)

    def _stand_in(self, found: problem.Problem, status: str, refresh: int) -> None:
        """Let a fork of this process serve a page about the problem."""
        self.processes.retire_current(timing.FAST)
        process = self.pool.make()
        if self.dirty is not None:
            process.pause_accepting()
        streams = self.streams.descriptors() if self.streams is not None else ()
        close = [*self.own, *streams, *self.prompts.links]
        self.error_log.flush()
        try:
            process.fork_stand_in(found, status, refresh, self.settings, self.listeners, self._logs, self.all(), close)
        except OSError as error:
            self.error_log.write("E", f"cannot show that: {error.strerror}")
            return
        process.served = process.loaded = time.monotonic()
        self.processes.current = process
        if self.streams is not None:
            self.streams.tell(b"page", self.sent)


def _last(process: Process) -> str:
    path = process.last_read
    return f"; the last file it read is {seen(path)}" if path else ""


def _names(paths: list[str]) -> str:
    names = seen(paths[0])
    return names if len(paths) == 1 else f"{names} and {len(paths) - 1} more"
