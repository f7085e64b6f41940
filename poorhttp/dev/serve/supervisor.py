"""The process above: it owns the sockets, watches the files, and has one process after the other serve the application.

Knows the order of a reload. Does not know what a change is (`watch`), who waits for the next save (`prepared`), how a
process is started (`processes`), nor any code of the author's.
Contract: the sockets are bound once and never closed before the end. From the first sign of a change on nobody is
accepted by the old process; who comes waits in the queue for the new one. What the application does, at its import or
later, never ends this process, and the next good save is served.
"""

from __future__ import annotations

import json
import sys

from poorhttp.dev import settings as dev
from poorhttp.dev.ahead.prepared import Prepared
from poorhttp.dev.page import guard, problem
from poorhttp.dev.serve.processes import Process
from poorhttp.dev.watch import reports
from poorhttp.dev.watch.files import Watcher
from poorhttp.dev.watch.inotify import adopt_orphans
from poorhttp.dev.watch.reports import CHECKPOINT, ENTERED, FORKED, LISTED, LOADED, PROBLEM, READ, READY, WROTE
from poorhttp.errors import PoorhttpError, say
from poorhttp.listen import sockets
from poorhttp.process import server
from poorhttp.reload import reload
from poorhttp.status import pidfile
from poorhttp.stdlib import os, select, signal, socket, time
from poorhttp.system import signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

    from poorhttp.config.config import Config
    from poorhttp.dev.page.live import Streams
    from poorhttp.logs.log import ErrorLog

SETTLE, LONGEST_SETTLE, PENDING = 0.005, 0.15, 0.06
"""Seconds of silence after the last sign of a change before it is looked at; how long it is put off at most; and how
long for a file that is just being written, or gone, or empty."""

STILL = 5.0
"""Seconds of loading after which clients are told that it goes on."""

SWEEP = 0.2
"""Seconds between two looks where changes are not told."""

QUIET = 0.5
"""Seconds without anything to do after which the contents of files are taken down."""

FAST = 1.0
"""Seconds that what is in flight gets after Ctrl-C."""

MOST_LEAVING = 8
"""Old processes that may finish what they have in flight at the same time."""

RESTLESS = 10
"""Loads in a row that the same file spoils by changing meanwhile, though that may be seen only when they are over."""

REST, LONGEST_REST, RESTS = 1.0, 10.0, 3
"""Seconds without a load, to see whether such a file changes without one too: twice those of the last load, within
these; and in how many rests, with a load that it spoils behind each, it must not have changed to be let be."""

YOUNG = 1.0
"""Seconds: a process that dies sooner is not started again before something has changed."""

HEARD = (*signals.STOPS, *signals.RELOADS, signal.SIGUSR1, signal.SIGCHLD)

DEFERRED = 3600
"""Seconds for which the kernel keeps a connection to itself on which nothing has come: browsers open some in advance,
and their first request shall meet the newest code."""


def run(settings: Config, directory: str, is_live: bool) -> int:
    """Serve until stopped; return the exit code. Raises PoorhttpError where that cannot begin."""
    if settings.user or settings.group:
        raise PoorhttpError("autoreload serves as the user who starts it", "leave out user and group")
    for path in os.devnull, "/proc/self/status":  # without which it cannot be
        os.close(os.open(path, os.O_RDONLY))
    logs = server.open_logs(settings)
    listeners: list[socket.socket] = []
    written = ""
    streams = None
    terminal = _terminal()
    adopt_orphans()
    try:
        for address, descriptor in sockets.choose(settings.addresses, _passed()):
            listeners.append(sockets.take(descriptor) if descriptor >= 0 else server.listen(settings, address))
        for each in listeners:
            if each.family != socket.AF_UNIX:
                sockets.prefer(each, socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, DEFERRED)
        if settings.pidfile:
            pidfile.write(settings.pidfile)
            written = settings.pidfile
        if is_live:
            from poorhttp.dev.page.live import Streams

            streams = Streams(settings.addresses)
        return _Supervisor(settings, directory, listeners, logs, streams, terminal).run()
    finally:
        pidfile.remove(written)
        sockets.close(listeners)
        _restore(terminal)


class _Supervisor:
    """What the loop needs; `run` is the loop.

    current: who serves, or stands in for an application that cannot be loaded. loading: who is going to. leaving: who
    finishes what is in flight, or is to end. prepared: who waits for the next save.
    """

    def __init__(
        self,
        settings: Config,
        directory: str,
        listeners: list[socket.socket],
        logs: tuple[ErrorLog, int],
        streams: Streams | None,
        terminal: Any,
    ) -> None:
        self._settings = settings
        self._terminal = terminal
        self._directory = directory
        self._listeners = listeners
        self._logs = logs
        self._error_log = logs[0]
        self._streams = streams
        self._fixed = self._last_fixed = dev.fixed(settings)
        self._application = dev.for_process(settings, ()).application
        self._watcher = Watcher(dev.roots(self._application, settings.import_directory))
        self._current: Process | None = None
        self._loading: Process | None = None
        self._leaving: list[Process] = []
        live = streams.port if streams is not None else 0
        self._prepared = Prepared(listeners, self._watcher, live, self._error_log, self._end)
        self._prompts: set[int] = set()  # the links to open breakpoints
        self._held: set[str] = set()  # what has changed meanwhile
        self._is_holding = False  # a reload, for their sake
        self._dirty: float | None = None  # since when something may have changed
        self._last = 0.0  # the last sign of that
        self._is_asked = True  # for a load of everything anew: at the start, and by a signal
        self._began = self._gone = time.monotonic()  # of the load that goes on: the first sign, and the word to begin
        self._why: list[str] = []
        self._path = ""  # how the load that goes on was begun
        self._spoiled: dict[str, int] = {}
        self._resting: dict[str, reports.Signature | None] | None = None  # restless files, before a rest
        self._rest_until = 0.0
        self._rested: dict[str, int] = {}  # rests in a row in which they did not change
        self._next_sweep = self._quiet_at = 0.0
        self._has_events = False
        self._stopping: float | None = None
        self._code = self._late_code = 0
        self._signals, self._wake = os.pipe()
        os.set_blocking(self._signals, False)
        os.set_blocking(self._wake, False)
        self._old_wake = signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        self._old: dict[int, Any] = {signum: signal.getsignal(signum) for signum in HEARD}
        for signum in HEARD:
            signal.signal(signum, _heard)

    def run(self) -> int:
        """Serve until stopped."""
        self._say_start()
        try:
            self._load([], time.monotonic())
            while True:
                self._reap()
                if self._stopping is not None and not self._all():
                    break
                self._act(time.monotonic())
                self._wait()
                self._hear_signals()
                self._hear_changes()
            self._error_log.write("S", "stopped")
            return self._code
        finally:
            for process in self._all():
                process.kill()
            signals.restore(self._old)
            signal.set_wakeup_fd(self._old_wake)

    # Waiting, and hearing

    def _all(self) -> list[Process]:
        found = [each for each in (self._current, self._loading) if each is not None]
        return [*found, *self._prepared.all(), *self._leaving]

    def _wait(self) -> None:
        now = time.monotonic()
        times = [each.kill_at for each in self._all()]
        if self._stopping is None:
            if self._dirty is not None:
                times.append(self._settled_at(self._dirty))
            elif self._watcher.sweeps:
                times.append(self._next_sweep)
            if self._loading is not None and self._current is None:
                times.append(self._gone + STILL)
            elif self._loading is None and self._dirty is None and self._watcher.has_more():
                times.append(self._quiet_at)
        soonest = min((each for each in times if each is not None), default=None)
        poll = select.poll()
        links = (each.link for each in self._all())
        streams = self._streams.descriptors() if self._streams is not None else ()
        for descriptor in (self._signals, self._watcher.fileno(), *links, *streams, *self._prompts):
            if descriptor >= 0:
                poll.register(descriptor, select.POLLIN)
        ready = {each for each, _ in poll.poll(None if soonest is None else max(1000 * (soonest - now), 0.0))}
        self._has_events = self._watcher.fileno() in ready
        if self._streams is not None:
            self._streams.hear(ready)
        self._hear_prompts(ready)

    def _hear_prompts(self, ready: set[int]) -> None:
        """Breakpoints are left; without a word where the process is gone, and the terminal as it was set for them."""
        left = ready.intersection(self._prompts)
        words = [os.read(link, 1) for link in left]
        self._prompts -= left
        if self._is_holding and not self._prompts:
            self._is_holding = False
            self._mark(time.monotonic())
        for link in left:
            os.close(link)  # from here on the call goes on
        if b"" in words:
            _restore(self._terminal)  # last: who sees it may ask at once, and is to get what was saved

    def _hear_signals(self) -> None:
        now = time.monotonic()
        for signum in signals.read_all(self._signals):
            if signum in signals.STOPS or signum == signal.SIGHUP:  # its terminal is closed
                self._stop(signum, now)
            elif signum == signal.SIGUSR2:
                self._is_asked = True
                self._mark(now)
            elif signum == signal.SIGUSR1:
                self._error_log.reopen()
                self._prepared.drop_checkpoints("the logs were opened anew")
                if self._current is not None and self._current.served:
                    self._current.send(signal.SIGUSR1)

    def _hear_changes(self) -> None:
        """Events before messages: a process tells of a file before it reads it, so what it has read before an event is
        known then.
        """
        now = time.monotonic()
        if self._has_events:
            self._shut()  # while an event is in the queue nobody is accepted, nor shall be now that it is read
            if self._watcher.hear():
                self._mark(now)
            elif self._dirty is None:
                self._open()
        for process in self._all():
            for message in process.messages():
                self._quiet_at = now + QUIET
                self._hear_process(process, message[:1], message[2:].split(b"\0"), now)
        for note in self._watcher.notes:
            self._error_log.write("N", note)
        self._watcher.notes.clear()

    def _hear_process(self, process: Process, kind: bytes, fields: list[bytes], now: float) -> None:
        path = os.fsdecode(fields[0]) if kind in (READ, WROTE, LISTED, ENTERED) else ""
        if kind == WROTE:
            self._watcher.wrote(path, process)
        elif kind == FORKED:
            process.is_born(int(fields[0]))
        elif kind == reports.OPENED:
            self._prompts.update(process.passed.pop(0))
        elif kind == CHECKPOINT:
            is_late = process in self._leaving or self._stopping is not None
            self._prepared.keep(process, [os.fsdecode(each) for each in fields], is_late)
        elif process in self._leaving:
            return
        elif kind == READ:
            numbers = [int(each) for each in fields[1].split()]
            process.last_read = path
            process.read[path] = (numbers[0], numbers[1], numbers[2]) if numbers else None
            self._watcher.told(path, process.read[path])
            if process is self._current and reports.signature(path) != process.read[path]:
                self._mark(now)  # the event may have come first, when the file did not matter yet
        elif kind == LISTED:
            self._watcher.listed(path)
        elif kind == ENTERED:
            numbers = [int(each) for each in fields[1].split()]
            self._watcher.entered(path, (numbers[0], numbers[1]) if numbers else None)
        elif kind == PROBLEM:
            process.problem = b"\0".join(fields)
        elif kind == LOADED:
            process.loaded, process.is_supervised = now, bool(fields[0])
            self._watcher.loaded()
            if self._watcher.is_new and self._dirty is None and self._watcher.changes():
                self._mark(now)
            process.is_watched()
        elif kind != READY:
            self._prepared.hear(process, kind, fields)
        elif process is self._loading:
            self._serve(process, now)
            self._tell_fixed(json.loads(fields[0]))

    def _reap(self) -> None:
        now = time.monotonic()
        for process in self._all():
            if process.is_lost():  # whoever was to fork it is gone
                if process is self._loading:
                    self._loading = None
                    if self._stopping is None:
                        self._load(self._why, self._began)
                self._prepared.gone(process, may_again=True)
                self._leaving = [each for each in self._leaving if each is not process]
                process.close()
                continue
            code = process.reap()
            if code is None:
                continue
            if self._stopping is not None and process.loaded and code > 0:  # something was cut off
                self._code = self._code or self._late_code
            if process in (self._loading, self._current, *self._leaving):
                for message in process.messages():  # the last ones
                    self._hear_process(process, message[:1], message[2:].split(b"\0"), now)
            process.pid = 0
            process.close()
            self._watcher.left(process)
            if process in self._leaving:
                self._leaving.remove(process)
            elif process is self._loading:
                self._loading = None
                was_dead = process.was_spare and not (process.last_read or process.problem)
                if process.origin is not None and process.origin.waits_at and not process.problem:
                    self._prepared.drop_checkpoints("who went on from a checkpoint has died")
                    was_dead = True
                if (process.is_refused or was_dead) and self._stopping is None:  # before it began to load
                    self._load(self._why, self._began)
                else:
                    self._fail(process, code)
            elif process is self._current:
                self._current = None
                self._lose(process, code, now)
            else:
                self._prepared.gone(process, may_again=False)
        if all(each.pid for each in self._all()):  # else it may be one that has not told its number yet
            self._bury({each.pid for each in self._all()})

    def _bury(self, ours: set[int]) -> None:
        """Reap the children of those that are gone, which the kernel has given to this process."""
        while True:
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if found is None or found.si_pid in ours:
                return
            os.waitpid(found.si_pid, 0)

    # What is to be done

    def _act(self, now: float) -> None:
        for process in self._all():
            if process.kill_at is not None and now >= process.kill_at:
                process.kill_at = None
                process.kill()
                if self._stopping is not None:
                    self._code = self._late_code
                    self._error_log.write("E", f"process {process.pid} is late to stop; killed")
                else:
                    text = "cut off: what an old process had in flight took too long; graceful_timeout gives it more"
                    self._error_log.write("W", text)
        if self._stopping is not None:
            return
        if self._watcher.sweeps and self._dirty is None and now >= self._next_sweep:
            self._next_sweep = now + SWEEP
            if self._watcher.changes():
                self._mark(now)
        if self._watcher.is_new and self._loading is None and self._watcher.changes():
            self._mark(now)
        if self._dirty is not None:
            if now >= self._settled_at(self._dirty):
                self._look(self._dirty)
        elif self._loading is not None:
            if self._current is None and now >= self._gone + STILL:
                self._tell_still()
        elif self._prepared.wants_spare():
            self._prepared.prepare()
        elif now >= self._quiet_at and self._watcher.has_more():
            self._shut()
            if self._watcher.take_down():
                self._mark(now)
            else:
                self._open()

    def _mark(self, now: float) -> None:
        """Something may have changed: from now on nobody is accepted, until it has been looked at."""
        self._shut()
        self._dirty = now if self._dirty is None else self._dirty
        self._last = now

    def _shut(self) -> None:
        for process in self._current, self._loading:
            if process is not None:
                process.shut()

    def _open(self) -> None:
        for process in self._current, self._loading:
            if process is not None:
                process.open()

    def _settled_at(self, since: float) -> float:
        if self._resting is not None:
            return self._rest_until
        due = self._last + SETTLE
        if self._watcher.is_pending():
            due = max(due, since + PENDING)
        return min(due, since + LONGEST_SETTLE)

    def _look(self, since: float) -> None:
        """See what has really changed."""
        self._held.update(self._watcher.changes())
        self._watcher.forget_pending()
        self._dirty = None
        if not self._held and not self._is_asked:
            self._open()
        elif self._prompts:
            if not self._is_holding:
                self._error_log.write("N", "a breakpoint is open: reloads wait until it is left")
            self._is_holding = True
            self._open()
        elif self._is_to_rest(since):
            self._dirty = since
        else:
            self._load(sorted(self._held), since)

    def _is_to_rest(self, since: float) -> bool:
        """Whether to load a moment later. Who saves often, while loads take long, spoils them too, but saves without a
        load as well; what changes only with one is not edited by anybody, and is let be.
        """
        if self._resting is not None:
            for path, found in self._resting.items():
                if reports.signature(path) == found:
                    self._rested[path] = self._rested.get(path, 0) + 1
                else:
                    self._rested.pop(path, None)
                    self._spoiled.pop(path, None)
            self._resting = None
            return False
        newest = self._loading or self._current
        is_spoiled = newest is not None and (not newest.loaded or since <= newest.loaded)
        self._spoiled = {path: self._spoiled.get(path, 0) + 1 for path in self._held if is_spoiled}
        self._rested = {path: count for path, count in self._rested.items() if path in self._spoiled}
        restless = sorted(path for path, count in self._spoiled.items() if count >= RESTLESS)
        if all(self._rested.get(path, 0) >= RESTS for path in restless):
            self._let_be(restless)
            return False
        self._end_loading()
        now = time.monotonic()
        self._resting = {path: reports.signature(path) for path in restless}
        self._rest_until = now + min(max(2 * (now - self._gone), REST), LONGEST_REST)
        return True

    def _load(self, changed: list[str], since: float) -> None:
        """Begin to load the application in a fresh process; who served before finishes what is in flight."""
        now = time.monotonic()
        is_anew, self._is_asked = self._is_asked, False
        self._held.clear()
        self._resting = None
        self._end_loading()
        if self._current is not None:
            self._finish(self._current, self._settings.graceful_timeout)
            self._current = None
        self._watcher.begin()
        names = self._watcher.names()
        self._prepared.heed(changed)
        self._began, self._gone, self._why = since, now, changed
        try:
            is_anew = self._enter_directory() or is_anew
        except OSError as error:  # the processes would find the code of before, where it is now
            self._refuse(problem.plain(reload.unreachable(self._directory, error), "make it again"))
            self._is_asked = True  # whoever is prepared meanwhile begins elsewhere too, so the next load is a cold one
            return
        if is_anew:
            self._prepared.drop()
        self._loading, self._path = self._prepared.send()
        if is_anew:
            self._path = " (cold)"
        if self._loading is not None:
            self._loading.names = names

    def _enter_directory(self) -> bool:
        """Go where the working directory of this name is; return whether that is another one now. Raises OSError
        where there is none.
        """
        is_another = not os.path.samestat(os.stat(self._directory), os.stat("."))
        if is_another:
            os.chdir(self._directory)
        self._watcher.entered(self._directory, reports.identity("."))
        return is_another

    def _end_loading(self) -> None:
        process, self._loading = self._loading, None
        if process is not None and process.loaded:
            self._finish(process, self._settings.graceful_timeout)
        elif process is not None:
            self._end(process)

    def _finish(self, process: Process, seconds: float) -> None:
        process.finish(time.monotonic(), seconds)
        self._leaving.append(process)
        for each in [each for each in self._leaving if each.kill_at is not None][:-MOST_LEAVING]:
            each.kill_at = None
            self._error_log.write("W", f"an old process is killed: there are more than {MOST_LEAVING}")
            each.kill()

    def _end(self, process: Process) -> None:
        process.kill()
        self._leaving.append(process)

    def _let_be(self, restless: list[str]) -> None:
        """A file that changes whenever the application is loaded is not edited by anybody."""
        if restless:
            names = ", ".join(map(problem.shown, restless))
            self._error_log.write("W", f"{names} changes whenever the application is loaded; not watched any more")
            self._watcher.ignore(restless)

    def _serve(self, process: Process, now: float) -> None:
        """A process serves."""
        process.served = now
        self._loading = None
        if self._current is not None:  # it stood in
            self._finish(self._current, FAST)
        self._current = process
        if self._streams is not None:
            is_style = self._why and all(path.endswith(".css") for path in self._why)
            self._streams.tell(b"style" if is_style else b"page", self._gone)
        took = f"{1000 * (now - self._began):.0f} ms"
        if self._why:
            self._error_log.write("S", f"reloaded {_names(self._why)}  {took}{self._path}")
        else:
            count = self._watcher.count()
            by = "looking at" if self._watcher.sweeps else "watching"
            self._error_log.write("S", f"loaded in {took}{self._path}; {by} {count} file{'s' * (count != 1)}")
        if self._dirty is None and self._watcher.changes():
            self._mark(now)

    def _tell_fixed(self, fixed: dict[str, str]) -> None:
        """Say once what was changed in vain; fixed: as the process has just read it."""
        changed = [
            f"{name} is {text or 'empty'}"
            for name, text in fixed.items()
            if text not in (self._fixed[name], self._last_fixed[name])
        ]
        self._last_fixed = fixed
        if changed:
            self._error_log.write("N", f"{', '.join(changed)} now: start again for that")

    def _fail(self, process: Process, code: int) -> None:
        """The application could not be loaded."""
        if self._stopping is not None:
            return
        if process.problem:
            told = json.loads(process.problem)
        else:
            from poorhttp.system.exits import reason

            last = f"; the last file it read was {problem.shown(process.last_read)}" if process.last_read else ""
            told = problem.plain(f"the process died while it loaded the application: {reason(code)}{last}")
        self._refuse(told)

    def _refuse(self, told: problem.Problem) -> None:
        """Show a page in the place of the application."""
        self._watcher.loaded()
        where = f"{told['where']}: " if told["where"] else ""
        hint = f"; {told['hint']}" if told["hint"] and not where else ""
        self._error_log.write("E", f"{where}{told['title']}{hint} (a page shows it; waiting for a save)")
        self._stand_in(told, guard.FAILED, 0)
        if self._dirty is None and self._watcher.changes():
            self._mark(time.monotonic())

    def _lose(self, process: Process, code: int, now: float) -> None:
        """Who served is gone."""
        from poorhttp.system.exits import reason

        if self._stopping is not None:
            return
        hint = f"an exit, or a fault in compiled code? A change, or kill -USR2 {os.getpid()}, loads it again"
        told = problem.plain(f"the process that served died: {reason(code)}", hint)
        if now - process.served < YOUNG or process.is_stand_in:
            self._error_log.write("E", f"{told['title']} (a page shows it; waiting for a save)")
            self._stand_in(told, guard.FAILED, 0)
        else:
            self._error_log.write("E", f"{told['title']}; loading the application again")
            self._prepared.drop_checkpoints("who served has died")
            self._load([], now)

    def _tell_still(self) -> None:
        read = self._loading.last_read if self._loading is not None else ""
        last = f"; the last file it read is {problem.shown(read)}" if read else ""
        what = f"still importing, for more than {STILL:.0f} seconds{last}"
        told = problem.plain(what, "this page tries again by itself; a save starts anew")
        if not self._prompts:
            self._error_log.write("W", what)
        self._stand_in(told, guard.WAITING, 1)

    def _stand_in(self, told: problem.Problem, status: str, refresh: int) -> None:
        if self._current is not None:
            self._finish(self._current, FAST)
        process = self._prepared.make()
        if self._dirty is not None:
            process.shut()
        close = [self._signals, self._wake, *(self._streams.descriptors() if self._streams is not None else ())]
        close += self._prompts
        self._error_log.flush()
        try:
            process.fork_stand_in(
                told, status, refresh, self._settings, self._listeners, self._logs, self._all(), close
            )
        except OSError as error:
            self._error_log.write("E", f"cannot show that: {error.strerror}")
            self._current = None
            return
        process.served = process.loaded = time.monotonic()
        self._current = process
        if self._streams is not None:
            self._streams.tell(b"page", self._gone)

    # Beginning and end

    def _say_start(self) -> None:
        from poorhttp.app import loader

        settings = dev.for_process(self._settings, ())
        say(server.version())
        say(loader.title(self._application))
        say(", ".join(sockets.url(each) + sockets.others(each) for each in self._listeners))
        say(f"autoreload, {server.kind(settings)}, {server.size(settings)}")
        if not self._settings.preload and server.is_supervised(self._settings):
            say("note: preload = no: with autoreload one process loads the application, and serves it alone")
        for name in filter(self._settings.__getattribute__, dev.NOT_SERVED):
            say(f"note: {name} is not served with autoreload: each save begins another server")
        for note in settings.notes:
            say(f"note: {note}")

    def _stop(self, signum: int, now: float) -> None:
        if self._stopping is not None:
            if now - self._stopping >= signals.REPEAT:
                self._code = 128 + signum
                for process in self._all():
                    process.kill()
            return
        self._stopping = now
        self._late_code = 1 if signum == signal.SIGTERM else 128 + signum
        sockets.close(self._listeners)
        seconds = self._settings.graceful_timeout if signum == signal.SIGTERM else FAST
        for process in self._all():
            if not process.loaded or signum == signal.SIGQUIT:
                process.kill()
            else:
                process.stop(now, signal.SIGTERM if signum == signal.SIGTERM else signal.SIGINT, seconds)


def _names(paths: list[str]) -> str:
    names = problem.shown(paths[0])
    return names if len(paths) == 1 else f"{names} and {len(paths) - 1} more"


def _passed() -> list[tuple[int, str]]:
    if "LISTEN_FDS" not in os.environ:
        return []
    from poorhttp.listen import systemd

    return systemd.passed(os.environ, say)


def _heard(signum: int, frame: FrameType | None) -> None:
    """Do nothing: the interpreter has written the byte that wakes the loop."""


def _terminal() -> Any:
    """How the terminal is set, for a debugger that is ended may leave it without an echo; None where there is none."""
    try:
        from poorhttp.stdlib import termios

        return termios.tcgetattr(sys.stdin.fileno())
    except (AttributeError, ImportError, OSError, ValueError, termios.error):
        return None


def _restore(terminal: Any) -> None:
    if terminal is not None:
        from poorhttp.stdlib import termios

        mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTTOU])
        try:
            termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, terminal)
        except (OSError, ValueError, termios.error):
            pass
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
