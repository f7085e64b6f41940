"""The supervisor of `poorhttp dev`: it waits for saves, and lets one process after the other serve the application.

Knows the loop: events, messages, signals and times, in the right order. Does not know what follows from a change
(`loads`), what a change is (`watch.files`), how a process is started (`processes`), nor any code of the author's.
"""

from __future__ import annotations

import json

from poorhttp.dev import settings as dev
from poorhttp.dev.serve.loads import STILL, Loads
from poorhttp.dev.watch import reports
from poorhttp.dev.watch.paths import signature
from poorhttp.listen import sockets
from poorhttp.stdlib import os, select, signal, time
from poorhttp.system import signals, timing
from poorhttp.system.wake_pipe import WakePipe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

    from poorhttp.dev.serve.processes import Process

SWEEP = 0.2
"""Seconds between two looks at the files where the kernel does not tell of changes."""

QUIET = 0.5
"""Seconds without a message after which the contents of files are noted."""

HEARD = (*signals.STOPS, *signals.RELOADS, signal.SIGUSR1, signal.SIGCHLD)


class Supervisor:
    """`run` is the loop; the other methods are its steps."""

    def __init__(self, loads: Loads) -> None:
        self._loads, self._error_log, self._watcher = loads, loads.error_log, loads.watcher
        self._processes, self._pool, self._streams = loads.processes, loads.pool, loads.streams
        self._fixed_first = self._fixed_last = dev.fixed(loads.settings)
        self._next_sweep = self._quiet_at = 0.0
        self._has_events = False
        self._stopping: float | None = None
        self._code = self._late_code = 0
        self._signals = WakePipe()
        self._old: dict[int, Any] = {signum: signal.getsignal(signum) for signum in HEARD}
        for signum in HEARD:
            signal.signal(signum, _heard)
        loads.own = self._signals.reader, self._signals.writer

    def run(self) -> int:
        """Serve until stopped; return the exit code."""
        try:
            self._loads.load([], time.monotonic())
            while True:
                self._reap()
                if self._stopping is not None and not self._loads.all():
                    break
                self._act(time.monotonic())
                self._wait()
                self._hear_signals()
                self._hear_changes()
            self._error_log.write("S", "stopped")
            return self._code
        finally:
            for process in self._loads.all():
                process.kill()
            signals.restore(self._old)
            self._signals.restore()

    # Waiting and hearing

    def _wait(self) -> None:
        now = time.monotonic()
        soonest = min((each for each in self._times() if each is not None), default=None)
        poll = select.poll()
        links = (each.link for each in self._loads.all())
        streams = self._streams.descriptors() if self._streams is not None else ()
        for descriptor in (self._signals.reader, self._watcher.fileno(), *links, *streams, *self._loads.prompts.links):
            if descriptor >= 0:
                poll.register(descriptor, select.POLLIN)
        ready = {each for each, _ in poll.poll(None if soonest is None else max(1000 * (soonest - now), 0.0))}
        self._has_events = self._watcher.fileno() in ready
        if self._streams is not None:
            self._streams.hear(ready)
        self._loads.prompts.hear(ready, lambda: self._loads.mark(time.monotonic()))

    def _times(self) -> list[float | None]:
        """When there is something to do without an event."""
        times = [each.kill_at for each in self._loads.all()]
        if self._stopping is None:
            is_loading = self._processes.loading is not None
            if self._loads.dirty is not None:
                times.append(self._loads.settled_at(self._loads.dirty))
            elif self._watcher.directories.sweeps:
                times.append(self._next_sweep)
            if is_loading and self._processes.current is None:
                times.append(self._loads.sent + STILL)
            elif not is_loading and self._loads.dirty is None and self._watcher.has_contents_to_note():
                times.append(self._quiet_at)
        return times

    def _hear_signals(self) -> None:
        now = time.monotonic()
        for signum in self._signals.read():
            if signum in signals.STOPS or signum == signal.SIGHUP:  # the terminal is closed
                self._stop(signum, now)
            elif signum == signal.SIGUSR2:
                self._loads.load_anew(now)
            elif signum == signal.SIGUSR1:
                self._error_log.reopen()
                self._pool.drop_checkpoints("the logs were opened anew")
                if self._processes.current is not None and self._processes.current.served:
                    self._processes.current.send(signal.SIGUSR1)

    def _hear_changes(self) -> None:
        """Events before messages: a process reports a file before it reads it, so what it has read before an event is
        known when the event is looked at.
        """
        now = time.monotonic()
        if self._has_events:
            self._processes.pause_accepting()  # the queue of events, which was a pause until now, is emptied
            if self._watcher.hear():
                self._loads.mark(now)
            elif self._loads.dirty is None:
                self._processes.resume_accepting()
        for process in self._loads.all():
            self._hear_messages(process, now)
        for note in self._watcher.directories.notes:
            self._error_log.write("N", note)
        self._watcher.directories.notes.clear()

    def _hear_messages(self, process: Process, now: float) -> None:
        for message in process.messages():
            self._quiet_at = now + QUIET
            kind, fields = message[:1], message[2:].split(b"\0")
            if kind == reports.FORKED:
                process.is_born(int(fields[0]))
            elif kind == reports.OPENED:
                self._loads.prompts.opened(process.passed.pop(0))
            elif kind == reports.CHECKPOINT:
                is_late = process in self._processes.leaving or self._stopping is not None
                self._pool.keep(process, [os.fsdecode(each) for each in fields], is_late)
            elif kind == reports.WROTE:
                self._watcher.wrote(os.fsdecode(fields[0]), process)
            elif process not in self._processes.leaving:
                self._hear_load(process, kind, fields, now)

    def _hear_load(self, process: Process, kind: bytes, fields: list[bytes], now: float) -> None:
        """A process reports what it reads, or how its start goes."""
        if kind in (reports.READ, reports.LISTED, reports.ENTERED):
            self._hear_file(process, kind, fields, now)
        elif kind == reports.PROBLEM:
            process.problem = b"\0".join(fields)
        elif kind == reports.LOADED:
            process.loaded, process.is_supervised = now, bool(fields[0])
            self._watcher.loaded()
            if self._watcher.directories.is_new and self._loads.dirty is None and self._watcher.changes():
                self._loads.mark(now)
            process.is_watched()
        elif kind != reports.READY:
            self._pool.hear(process, kind, fields)
        elif process is self._processes.loading:
            self._loads.serve(process, now)
            self._tell_of_fixed(json.loads(fields[0]))

    def _tell_of_fixed(self, now: dict[str, str]) -> None:
        """Tell the author once of a change of a setting that is read at the start only. now: see `dev.fixed`."""
        first, last, self._fixed_last = self._fixed_first, self._fixed_last, now
        changes = [
            f"{name} is {text or 'empty'}" for name, text in now.items() if text not in (first[name], last[name])
        ]
        if changes:
            self._error_log.write("N", f"{', '.join(changes)} now: start again for that")

    def _hear_file(self, process: Process, kind: bytes, fields: list[bytes], now: float) -> None:
        path = os.fsdecode(fields[0])
        if kind == reports.LISTED:
            self._watcher.listed(path)
            return
        numbers = [int(each) for each in fields[1].split()]
        if kind == reports.ENTERED:
            self._watcher.entered(path, (numbers[0], numbers[1]) if numbers else None)
            return
        process.last_read = path
        found = process.read[path] = (numbers[0], numbers[1], numbers[2]) if numbers else None
        self._watcher.read(path, found)
        if process is self._processes.current and signature(path) != found:
            self._loads.mark(now)  # the event may have come first, when the file did not matter yet

    # Processes that have ended

    def _reap(self) -> None:
        now = time.monotonic()
        for process in self._loads.all():
            if process.is_lost():
                self._give_up(process)
                continue
            code = process.reap()
            if code is not None:
                if self._stopping is not None and process.loaded and code > 0:  # requests were cut off
                    self._code = self._code or self._late_code
                self._note_end(process, code, now)
        if all(each.pid for each in self._loads.all()):  # else a child may be one that has not reported its number yet
            self._reap_orphans({each.pid for each in self._loads.all()})

    def _give_up(self, process: Process) -> None:
        """The process that was to fork this one is gone."""
        if process is self._processes.loading:
            self._processes.loading = None
            if self._stopping is None:
                self._loads.again()
        self._pool.gone(process, may_again=True)
        self._processes.forget_leaving(process)
        process.close()

    def _note_end(self, process: Process, code: int, now: float) -> None:
        processes = self._processes
        if process in processes.all():
            self._hear_messages(process, now)  # the last ones
        process.pid = 0
        process.close()
        self._watcher.writer_is_gone(process)
        if process in processes.leaving:
            processes.forget_leaving(process)
        elif process is processes.loading:
            processes.loading = None
            has_begun = bool(process.last_read or process.problem)
            is_useless = process.is_refused or (process.was_spare and not has_begun)
            if process.origin is not None and process.origin.waits_at and not process.problem:
                self._pool.drop_checkpoints("a process that went on from a checkpoint has died")
                is_useless = True
            if is_useless and self._stopping is None:
                self._loads.again()
            elif self._stopping is None:
                self._loads.fail(process, code)
        elif process is processes.current:
            processes.current = None
            if self._stopping is None:
                self._loads.lose(process, code, now)
        else:
            self._pool.gone(process, may_again=False)

    def _reap_orphans(self, ours: set[int]) -> None:
        """Reap descendants whose parents have ended: the kernel has made them children of this process."""
        while True:
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if found is None or found.si_pid in ours:
                return
            os.waitpid(found.si_pid, 0)

    # What is due

    def _act(self, now: float) -> None:
        for process in self._loads.all():
            if process.kill_at is not None and now >= process.kill_at:
                self._kill_late(process)
        if self._stopping is not None:
            return
        loading, watcher = self._processes.loading, self._watcher
        if watcher.directories.sweeps and self._loads.dirty is None and now >= self._next_sweep:
            self._next_sweep = now + SWEEP
            if watcher.changes():
                self._loads.mark(now)
        if watcher.directories.is_new and loading is None and watcher.changes():
            self._loads.mark(now)
        if self._loads.dirty is not None:
            if now >= self._loads.settled_at(self._loads.dirty):
                self._loads.look(self._loads.dirty)
        elif loading is not None:
            if self._processes.current is None and now >= self._loads.sent + STILL:
                self._loads.show_still_loading(loading)
        elif self._pool.wants_spare():
            self._pool.prepare()
        elif now >= self._quiet_at and watcher.has_contents_to_note():
            self._processes.pause_accepting()
            if watcher.note_contents():
                self._loads.mark(now)
            else:
                self._processes.resume_accepting()

    def _kill_late(self, process: Process) -> None:
        process.kill_at = None
        process.kill()
        if self._stopping is not None:
            self._code = self._late_code
            self._error_log.write("E", f"process {process.pid} is late to stop; killed")
        else:
            text = "cut off: what an old process had in flight took too long; graceful_timeout gives it more"
            self._error_log.write("W", text)

    def _stop(self, signum: int, now: float) -> None:
        if self._stopping is not None:
            if now - self._stopping >= timing.REPEAT:
                self._code = 128 + signum
                for process in self._loads.all():
                    process.kill()
            return
        self._stopping = now
        self._late_code = 1 if signum == signal.SIGTERM else 128 + signum
        sockets.close(self._loads.listeners)
        seconds = self._loads.settings.graceful_timeout if signum == signal.SIGTERM else timing.FAST
        for process in self._loads.all():
            if not process.loaded or signum == signal.SIGQUIT:
                process.kill()
            else:
                process.stop(now, signal.SIGTERM if signum == signal.SIGTERM else signal.SIGINT, seconds)


def _heard(signum: int, frame: FrameType | None) -> None:
    """Do nothing: the interpreter has written the byte that wakes the loop."""
