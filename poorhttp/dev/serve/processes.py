"""The processes of a server in the making: started, told to serve, to finish, to end; and what they tell.

Knows fork, exec and the descriptors between. Does not know when anything of it is to be done.
Contract: no process outlives this one, and none holds a descriptor that is another's. From the moment in which a gate
is shut nobody new is accepted behind it.
"""

from __future__ import annotations

import json
import sys
from itertools import chain

from poorhttp.dev.ahead.checkpoints import GO, INT
from poorhttp.dev.page import guard
from poorhttp.dev.serve import child
from poorhttp.dev.settings import for_stand_in
from poorhttp.dev.watch.reports import CHECKPOINT, FORKED, OPENED
from poorhttp.process import worker
from poorhttp.stdlib import os, signal, socket, time
from poorhttp.system import signals
from poorhttp.system.exits import end_with

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

    from poorhttp.config.config import Config
    from poorhttp.dev.page.problem import Problem
    from poorhttp.dev.watch.reports import Signature
    from poorhttp.logs.log import ErrorLog

MESSAGE = 1 << 20
"""Bytes of the largest message."""

SHUT = b"s"

PATIENCE = 0.9
"""Seconds for which a process is waited for beyond its time. One with workers ends after them, and would kill them a
second after it."""

RESET = (*signals.HANDLED, signal.SIGCHLD, signal.SIGALRM)


class Process:
    """One process that serves, is about to, or finishes what is in flight."""

    def __init__(self, events: int, live: int) -> None:
        """events: the queue of inotify, -1 for none. live: the port of `live.Streams`, 0 for none."""
        self._live = live
        self._events = (events,) if events >= 0 else ()
        self.pid = 0
        self.is_stand_in = False
        self.is_supervised = False
        """Whether it has workers of its own, and hears signals. It says so once it has loaded; before it is killed."""
        self.is_forked = self.is_prepared = False
        """Whether it waits for nothing but the word to load the application."""
        self.why_not_forked = ""
        """Why it had better load it itself; "" where others can be forked from it."""
        self.loaded = self.served = 0.0
        """When it might serve, and when it told that it does: it may have clients before that is heard."""
        self.last_read = self.waits_at = ""
        self.read: dict[str, Signature | None] = {}
        """The files that it has read, or tried to, and what they looked like."""
        self.names: dict[str, frozenset[str]] = {}
        """What was there, in which directories, before it began to load."""
        self.passed: list[list[int]] = []
        """Descriptors that came with messages: link and lifeline of who waits, or the pipe of an open breakpoint."""
        self.origin: Process | None = None
        """Of whom it is a fork."""
        self.problem = b""
        self.order = b""
        """What it was told to import in advance."""
        self.was_spare = self.is_refused = False
        """Whether that turned out to be wrong, so that it has ended."""
        self.link = -1
        self.kill_at: float | None = None
        self._lifeline = -1
        self._gate = -1, -1
        self._is_shut = False
        self._is_unwanted = self._is_finishing = False

    # Its beginning

    def spawn(self, sockets: Sequence[int], order: bytes) -> None:
        """Start a new interpreter with the command line of this one. order: what it is to import in advance (see
        `preload`), b"" for nothing. Raises OSError.
        """
        there, lifeline = self._connect()
        self.order = order
        os.write(self.link, order or b" ")
        gates = self._gates()
        descriptors = [there, lifeline, *gates, *sockets]
        facts = " ".join(map(str, (os.getpid(), self._live, len(gates), *descriptors)))
        try:
            for descriptor in descriptors:
                os.set_inheritable(descriptor, True)
            self.pid = os.posix_spawn(
                sys.executable,
                [sys.executable, *sys.orig_argv[1:]],
                {**os.environ, child.VARIABLE: facts},
                setsigdef=RESET,
                setsigmask=(signal.SIGINT,),  # the terminal's may come while the interpreter starts
            )
        except OSError:
            self.close()
            raise
        finally:
            for descriptor in descriptors:
                os.set_inheritable(descriptor, False)
            os.close(there)
            os.close(lifeline)

    def fork(self, zygote: Process) -> None:
        """Let a prepared process fork this one. Raises OSError."""
        there, lifeline = self._connect()
        self.order, self.is_forked, self.is_prepared, self.origin = zygote.order, True, True, zygote
        sock = socket.socket(fileno=os.dup(zygote.link))
        try:
            descriptors = b"".join(map(INT.pack, (there, lifeline, self._gate[0])))
            sock.sendmsg([FORKED], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
        except OSError:
            self.close()
            raise
        finally:
            sock.close()
            os.close(there)
            os.close(lifeline)

    def wait_at(self, path: str, whole: Process) -> None:
        """Be the process that waits before this module is read; whole: which has read what goes before it, and has
        just told of it.
        """
        descriptors = whole.passed.pop(0)
        if len(descriptors) == 2:  # else there was no room for them
            self.link, self._lifeline = descriptors
            os.set_blocking(self.link, False)
        self.order, self.waits_at = whole.order, path
        self.read, self.names = dict(whole.read), dict(whole.names)

    def is_born(self, pid: int) -> None:
        """It has told its number."""
        self.pid = pid
        if self._is_unwanted:
            self.kill()

    def is_lost(self) -> bool:
        """Whether it was never born, nor will be."""
        return self.pid == 0 and self.link < 0 and not self.is_stand_in

    def _connect(self) -> tuple[int, int]:
        """Make the link, the lifeline and the gate; the ends of the first two that are the process's."""
        pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.link, there = (os.dup(each.fileno()) for each in pair)
        for each in pair:
            each.close()
        for descriptor in self.link, there:
            os.set_inheritable(descriptor, False)
        os.set_blocking(self.link, False)
        lifeline, self._lifeline = os.pipe()
        self._gate = os.pipe()
        return there, lifeline

    def _gates(self) -> tuple[int, ...]:
        """In the order in which they are looked at: who empties the queue of events shuts the gate before."""
        return *self._events, self._gate[0]

    def fork_stand_in(
        self,
        told: Problem,
        status: str,
        refresh: int,
        settings: Config,
        listeners: Sequence[socket.socket],
        logs: tuple[ErrorLog, int],
        others: Sequence[Process],
        close: Sequence[int],
    ) -> None:
        """Serve a page from a child. close: what is this process's alone. Raises OSError."""
        self.is_stand_in = True
        lifeline, self._lifeline = os.pipe()
        self._gate = os.pipe()
        if self._is_shut:  # before there is anybody who could go in
            os.write(self._gate[1], SHUT)
        parent = os.getpid()
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, RESET)
        try:
            self.pid = os.fork()
            if self.pid == 0:
                for each in (self, *others):
                    each.forget(keeps_gate=each is self)
                for descriptor in close:
                    os.close(descriptor)
                signal.set_wakeup_fd(-1)
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
                end_with(parent)
                app = guard.stand_in(told, status, refresh, settings.editor)
                if self._live:
                    from poorhttp.dev.page.live import Refreshed

                    app = Refreshed(app, self._live, time.monotonic())
                _serve(app, for_stand_in(settings, self._gates()), listeners, logs, lifeline)
        except OSError:
            self.close()
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            os.close(lifeline)

    # What it is told

    def go(self, hot: list[str]) -> None:
        """Load the application, and serve it; hot: the modules that are edited."""
        self._tell(GO)
        try:
            os.write(self.link, json.dumps(hot).encode())
        except OSError:
            return  # it is gone

    def is_watched(self) -> None:
        """What it has told is watched: it may serve (see `told.Teller.await_watch`)."""
        try:
            os.write(self.link, b" ")
        except OSError:
            return  # it is gone

    def shut(self) -> None:
        """Let nobody new in from this moment on: whoever comes waits in the queue of the socket."""
        if not self._is_shut:
            self._is_shut = True
            if self._gate[1] >= 0:
                os.write(self._gate[1], SHUT)

    def open(self) -> None:
        """Let them in again."""
        if self._is_shut:
            self._is_shut = False
            if self._gate[1] >= 0:
                os.read(self._gate[0], 1)

    def finish(self, now: float, seconds: float) -> None:
        """Finish what is in flight, and end; be killed soon after so many seconds."""
        self.shut()
        self.kill_at = now + seconds + PATIENCE
        self._ask(signal.SIGTERM)

    def stop(self, now: float, signum: int, seconds: float) -> None:
        """The same at the end of the server. Who was to finish before has no more time than he had."""
        late = now + seconds + PATIENCE
        self.kill_at = late if self.kill_at is None else min(self.kill_at, late)
        self._ask(signum)

    def _ask(self, signum: int) -> None:
        """Ask for a stop, by TERM or INT."""
        if not self.is_supervised:  # TERM would be told to a supervisor of workers
            self._tell(worker.INTERRUPT if signum == signal.SIGINT else worker.STOP)
        elif not self._is_finishing:  # a second signal would mean: at once
            self.send(signum if self.served else signal.SIGTERM)  # INT may not be heard yet; TERM ends it then
            self._is_finishing = True

    def send(self, signum: int) -> None:
        """Send a signal; it has not been reaped, so it is nobody else's."""
        if self.pid:
            os.kill(self.pid, signum)

    def kill(self) -> None:
        self._is_unwanted = True
        self.send(signal.SIGKILL)

    # What it tells

    def messages(self) -> list[bytes]:
        """What came since the last call."""
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
        """Let go of the descriptors."""
        self.forget(keeps_gate=False)

    def forget(self, keeps_gate: bool) -> None:
        gates = () if keeps_gate else self._gate
        for descriptor in (self.link, self._lifeline, *gates, *chain.from_iterable(self.passed)):
            if descriptor >= 0:
                os.close(descriptor)
        self.link = self._lifeline = -1
        self.passed.clear()
        if not keeps_gate:
            self._gate = -1, -1

    def _tell(self, what: bytes) -> None:
        if self._lifeline >= 0:
            try:
                os.write(self._lifeline, what)
            except OSError:
                return  # it is gone


def _serve(
    app: worker.Application,
    settings: Config,
    listeners: Sequence[socket.socket],
    logs: tuple[ErrorLog, int],
    lifeline: int,
) -> NoReturn:
    error_log, access_log = logs
    code = 1
    try:
        nobody = os.open(os.devnull, os.O_WRONLY)
        code = worker.serve(app, listeners, settings, error_log, access_log, lifeline, nobody)
    except BaseException as error:
        error_log.exception(error, "-", f"process {os.getpid()}")
    finally:
        signals.leave_at_once(code, error_log)
