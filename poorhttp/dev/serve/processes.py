"""The processes below the supervisor: how they are started, commanded, heard and ended.

Knows fork, exec and the descriptors between the processes: the link, a socket for messages; the control pipe, for
single bytes; and the accept pause, a pipe that is readable while the process is to accept no connection. Does not know
when anything is to be done. No process outlives the supervisor.
"""

from __future__ import annotations

import contextlib
import json
import sys
from itertools import chain

from poorhttp.dev.ahead.zygote import GO, INT
from poorhttp.dev.page import guard
from poorhttp.dev.serve import child
from poorhttp.dev.settings import for_stand_in
from poorhttp.dev.watch.reports import CHECKPOINT, FORKED, OPENED, send_descriptors
from poorhttp.process import messages
from poorhttp.stdlib import os, signal, socket
from poorhttp.system import signals
from poorhttp.system.exits import end_with

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from poorhttp.config.model import Config
    from poorhttp.dev.page.problem import Problem
    from poorhttp.dev.watch.paths import Signature
    from poorhttp.logs.log import ErrorLog

MESSAGE = 1 << 20
"""Bytes of the largest message."""

PAUSE = b"s"

PATIENCE = 0.9
"""Seconds beyond its time before a process is killed: a process with workers kills them a second after it."""

RESET = (*signals.HANDLED, signal.SIGCHLD, signal.SIGALRM)


class Process:
    """One process that serves, is about to serve, or finishes its requests."""

    def __init__(self, events: int, live: int) -> None:
        """events: the queue of inotify, -1 for none. live: the port of `live.Streams`, 0 for none."""
        self._live = live
        self._events = (events,) if events >= 0 else ()
        self.pid = 0
        self.is_stand_in = False
        self.is_supervised = False
        """Whether it has workers of its own, and is stopped by signals."""
        self.is_forked = self.is_prepared = False
        """Whether it is a fork; whether it waits for nothing but the command to load the application."""
        self.why_not_forked = ""
        """Why it has to load the application itself; "" if processes can be forked from it."""
        self.loaded = self.served = 0.0
        """When it had loaded the application, and when it reported that it serves; between the two it may get
        clients."""
        self.last_read = self.waits_at = ""
        self.read: dict[str, Signature | None] = {}
        """The files that it has read or tried to read, with their signatures then."""
        self.names: dict[str, frozenset[str]] = {}
        """The names in each watched directory before it began to load."""
        self.passed: list[list[int]] = []
        """Descriptors that came with messages: link and control pipe of a checkpoint, or the link of an open
        breakpoint."""
        self.origin: Process | None = None
        """The process from which it was forked."""
        self.problem = b""
        self.order = b""
        """The modules that it was to import in advance, see `preload.import_all`."""
        self.was_spare = self.is_refused = False
        """Whether it waited as the spare; whether its imports in advance turned out to be wrong, so that it has
        ended."""
        self.link = -1
        self.kill_at: float | None = None
        self._control = -1
        self._pause = -1, -1
        self._is_paused = False
        self._is_unwanted = self._is_finishing = False

    # Its beginning

    def spawn(self, sockets: Sequence[int], order: bytes) -> None:
        """Start a new interpreter with the command line of this one. order: the modules to import in advance, b"" for
        nothing. Raises OSError.
        """
        there, control = self._connect()
        self.order = order
        os.write(self.link, order or b" ")
        pauses = self._accept_pauses()
        descriptors = [there, control, *pauses, *sockets]
        facts = " ".join(map(str, (os.getpid(), self._live, len(pauses), *descriptors)))
        try:
            for descriptor in descriptors:
                os.set_inheritable(descriptor, True)
            self.pid = os.posix_spawn(
                sys.executable,
                [sys.executable, *sys.orig_argv[1:]],
                {**os.environ, child.VARIABLE: facts},
                setsigdef=RESET,
                setsigmask=(signal.SIGINT,),  # Ctrl-C may come while the interpreter starts
            )
        except OSError:
            self.close()
            raise
        finally:
            for descriptor in descriptors:
                os.set_inheritable(descriptor, False)
            os.close(there)
            os.close(control)

    def fork(self, zygote: Process) -> None:
        """Let a prepared process fork this one. Raises OSError."""
        there, control = self._connect()
        self.order, self.is_forked, self.is_prepared, self.origin = zygote.order, True, True, zygote
        try:
            send_descriptors(zygote.link, FORKED, there, control, self._pause[0])
        except OSError:
            self.close()
            raise
        finally:
            os.close(there)
            os.close(control)

    def wait_at(self, path: str, whole: Process) -> None:
        """Be the checkpoint before the module at this path. whole: the process that has just reported it."""
        descriptors = whole.passed.pop(0)
        if len(descriptors) == 2:  # else this process had no room for them
            self.link, self._control = descriptors
            os.set_blocking(self.link, False)
        self.order, self.waits_at = whole.order, path
        self.read, self.names = dict(whole.read), dict(whole.names)

    def is_born(self, pid: int) -> None:
        """It has reported its process number."""
        self.pid = pid
        if self._is_unwanted:
            self.kill()

    def is_lost(self) -> bool:
        """Whether the process that was to fork it is gone."""
        return self.pid == 0 and self.link < 0 and not self.is_stand_in

    def _connect(self) -> tuple[int, int]:
        """Make the link, the control pipe and the accept pause; return the process's ends of the first two."""
        pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.link, there = (os.dup(each.fileno()) for each in pair)
        for each in pair:
            each.close()
        for descriptor in self.link, there:
            os.set_inheritable(descriptor, False)
        os.set_blocking(self.link, False)
        control, self._control = os.pipe()
        self._pause = os.pipe()
        return there, control

    def _accept_pauses(self) -> tuple[int, ...]:
        """In the order in which the engine looks: the pause begins before the queue of events is emptied."""
        return *self._events, self._pause[0]

    def fork_stand_in(
        self,
        found: Problem,
        status: str,
        refresh: int,
        settings: Config,
        listeners: list[socket.socket],
        logs: tuple[ErrorLog, int],
        others: Sequence[Process],
        close: Sequence[int],
    ) -> None:
        """Fork a child that serves a page about a problem. close: descriptors of the supervisor. Raises OSError."""
        self.is_stand_in = True
        control, self._control = os.pipe()
        self._pause = os.pipe()
        if self._is_paused:
            os.write(self._pause[1], PAUSE)
        parent = os.getpid()
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, RESET)
        try:
            self.pid = os.fork()
            if self.pid == 0:
                for each in (self, *others):
                    each.forget(keeps_pause=each is self)
                for descriptor in close:
                    os.close(descriptor)
                signal.set_wakeup_fd(-1)
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
                end_with(parent)
                app = guard.make_error_application(found, status, refresh, settings.editor)
                child.serve(app, for_stand_in(settings, self._accept_pauses()), listeners, logs, control, self._live)
        except OSError:
            self.close()
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            os.close(control)

    # Commands

    def go(self, hot: list[str]) -> None:
        """Command it to load the application. hot: the paths of the modules that are being edited."""
        self._command(GO)
        with contextlib.suppress(OSError):  # it is gone
            os.write(self.link, json.dumps(hot).encode())

    def is_watched(self) -> None:
        """The files that it has reported are watched: it may serve (see `Reporter.await_watch`)."""
        with contextlib.suppress(OSError):  # it is gone
            os.write(self.link, b" ")

    def pause_accepting(self) -> None:
        """Let it accept no connection from now on."""
        if not self._is_paused:
            self._is_paused = True
            if self._pause[1] >= 0:
                os.write(self._pause[1], PAUSE)

    def resume_accepting(self) -> None:
        if self._is_paused:
            self._is_paused = False
            if self._pause[1] >= 0:
                os.read(self._pause[0], 1)

    def finish(self, now: float, seconds: float) -> None:
        """Let it finish its requests and end; kill it soon after so many seconds."""
        self.pause_accepting()
        self.kill_at = now + seconds + PATIENCE
        self._ask(signal.SIGTERM)

    def stop(self, now: float, signum: int, seconds: float) -> None:
        """Let it end with the server; a process that was to finish already gets no more time."""
        late = now + seconds + PATIENCE
        self.kill_at = late if self.kill_at is None else min(self.kill_at, late)
        self._ask(signum)

    def _ask(self, signum: int) -> None:
        """Ask for a stop, by TERM or INT."""
        if not self.is_supervised:
            self._command(messages.INTERRUPT if signum == signal.SIGINT else messages.STOP)
        elif not self._is_finishing:  # a second signal would end it at once
            self.send(signum if self.served else signal.SIGTERM)  # it may ignore INT until then; TERM ends it
            self._is_finishing = True

    def send(self, signum: int) -> None:
        """Send a signal. It has not been reaped, so its number is no other process's."""
        if self.pid:
            os.kill(self.pid, signum)

    def kill(self) -> None:
        self._is_unwanted = True
        self.send(signal.SIGKILL)

    # Messages

    def messages(self) -> list[bytes]:
        """The messages since the last call."""
        found = []
        while self.link >= 0:
            sock = socket.socket(fileno=self.link)
            try:
                data, ancillary, _, _ = sock.recvmsg(MESSAGE, socket.CMSG_SPACE(2 * INT.size), socket.MSG_CMSG_CLOEXEC)
            except BlockingIOError:
                break
            except OSError:
                data, ancillary = b"", []
            finally:
                sock.detach()
            if data[:1] in (CHECKPOINT, OPENED):
                self.passed.append([number for _, _, raw in ancillary for (number,) in INT.iter_unpack(raw)])
            if not data:
                os.close(self.link)
                self.link = -1
                break
            found.append(data)
        return found

    # Its end

    def reap(self) -> int | None:
        """The exit code (negative: a signal) once it is gone; None before."""
        if self.pid == 0:
            return None
        try:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:
            return 0
        return os.waitstatus_to_exitcode(status) if pid else None

    def close(self) -> None:
        self.forget(keeps_pause=False)

    def forget(self, keeps_pause: bool) -> None:
        """Close the descriptors, perhaps but for the accept pause."""
        pause = () if keeps_pause else self._pause
        for descriptor in (self.link, self._control, *pause, *chain.from_iterable(self.passed)):
            if descriptor >= 0:
                os.close(descriptor)
        self.link = self._control = -1
        self.passed.clear()
        if not keeps_pause:
            self._pause = -1, -1

    def _command(self, what: bytes) -> None:
        if self._control >= 0:
            with contextlib.suppress(OSError):  # it is gone
                os.write(self._control, what)
