"""Which signals a server hears, what they do before it serves and between two programs, and how a process is left.

Knows the interpreter's handlers and its wake-up descriptor. Does not know what a signal does while a process serves
(`poorhttp.process.worker`, `poorhttp.process.supervisor`).
Contract: no signal to stop is lost between two that hear it, and none that comes during the start ends the process
without its clean-up.
"""

from __future__ import annotations

import atexit
import sys

from poorhttp.stdlib import os, signal, time
from poorhttp.system import timing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any, NoReturn

    from poorhttp.logs.log import ErrorLog

STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
NAMES: dict[int, str] = {signal.SIGTERM: "SIGTERM", signal.SIGINT: "SIGINT", signal.SIGQUIT: "SIGQUIT"}
RELOADS = (signal.SIGHUP, signal.SIGUSR2)
COUNTS = (signal.SIGTTIN, signal.SIGTTOU)
HANDLED = (*STOPS, *RELOADS, *COUNTS, signal.SIGUSR1)

LARGEST_SIGACTION = 256
"""Bytes: more than a `struct sigaction` has on any machine."""


class Boot:
    """The signals of a process that does not serve yet: a stop raises SystemExit(0) wherever the process is.

    TERM does not where clients wait already (`answer_first`), nor once all is loaded. HUP and USR1 are heard when the
    server serves; TTIN and TTOU too after a reload, else they are ignored, for there are no workers yet. `serve` and
    `supervise` bring handlers of their own; when they come back there is only clean-up left, so a stop is ignored until
    `restore`.
    is_reload: whether another program was there before. signum: the signal that asked for a stop, 0 for none.
    """

    def __init__(self, is_reload: bool = False) -> None:
        self.signum = 0
        self._process = os.getpid()
        self._asked: float | None = None
        self._are_waiting: Callable[[], bool] = lambda: False
        self._is_loaded = False
        self._is_patient = False
        self._alarm: Any = None
        self._old: dict[int, Any] = {signum: signal.getsignal(signum) for signum in HANDLED}
        for signum in HANDLED:
            later = signal.SIG_IGN if signum in COUNTS and not is_reload else delay
            signal.signal(signum, self._leave if signum in STOPS else later)

    def answer_first(self, are_waiting: Callable[[], bool]) -> None:
        """From here on a first TERM, where `are_waiting()`, is heard when the server serves, if that is within
        `timing.STOP_WHILE_LOADING`: else the clients that wait would be reset.
        """
        self._are_waiting = are_waiting

    def check(self) -> None:
        """Raise SystemExit(0) if a stop was asked for: call it when the application, that may swallow one, is there."""
        self._disarm()
        if self._asked is not None and not self._is_patient:
            raise SystemExit(0)
        self._is_loaded = True
        self.signum = 0

    def silence(self) -> None:
        """Ignore a stop from here on: the process is about to end, which it must not do by a signal sent twice."""
        for signum in STOPS:
            signal.signal(signum, signal.SIG_IGN)

    def restore(self) -> None:
        """Give each signal the handler that it had before."""
        self._disarm()
        _delayed.clear()
        restore(self._old)

    def _leave(self, signum: int, frame: FrameType | None) -> None:
        if os.getpid() != self._process:
            raise SystemExit(0)  # a child that the application has forked, with this handler
        before, now = self._asked, time.monotonic()
        is_another = self._is_patient and signum != signal.SIGTERM
        if before is not None and now - before < timing.REPEAT and not is_another:
            return
        self._asked, self.signum = now, signum
        delay(signum, frame)  # where the exception is swallowed, as in the import of a module in a callback
        self._is_patient = before is None and signum == signal.SIGTERM  # another signal may come in the next line
        if not (self._is_patient and (self._is_loaded or self._are_waiting())):
            self._is_patient = False
            self._disarm()
            raise SystemExit(0)
        if not self._is_loaded:  # else it serves at once
            self._alarm = signal.signal(signal.SIGALRM, self._give_up)
            signal.setitimer(signal.ITIMER_REAL, timing.STOP_WHILE_LOADING)

    def _give_up(self, signum: int, frame: FrameType | None) -> None:
        self._is_patient = False
        self._disarm()
        raise SystemExit(0)

    def _disarm(self) -> None:
        if self._alarm is not None:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGALRM, self._alarm)
            self._alarm = None


def let_through(pipe: int) -> None:
    """Let the signals come that waited while one program replaced another. pipe: see `hold_back`; -1 for none."""
    if pipe >= 0:
        for signum in read_all(pipe):
            if signum in HANDLED:
                os.kill(os.getpid(), signum)
        os.close(pipe)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)


def expect_end(seconds: float, error_log: ErrorLog, heard: tuple[int, ...] = STOPS) -> None:
    """Let what the application does once serving is over, in its threads and in functions of atexit, last so long, for
    it may have no end. The next one of these signals, which are heard again, ends the process at once.
    """
    began = time.monotonic()

    def leave(signum: int, frame: FrameType | None) -> None:
        if signum == signal.SIGALRM:
            what = "a thread of the application, or a function of its atexit, did not end; left without it"
            error_log.write("E", f"process {os.getpid()}: {what}")
            leave_at_once(1, error_log)
        if signum == signal.SIGQUIT or time.monotonic() - began >= timing.REPEAT:
            leave_at_once(128 + signum, error_log)

    for signum in (*heard, signal.SIGALRM):
        signal.signal(signum, leave)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, timing.SHORTEST_END))
    _ending.append(True)


_ending: list[bool] = []
"""Not empty once the process is about to end (`expect_end`)."""


def _end_quietly() -> None:
    """The application has done what it had to: from here on the interpreter ends, which gives its handlers back to the
    kernel, and no signal is to come then.
    """
    if _ending:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for signum in STOPS:
            signal.signal(signum, signal.SIG_IGN)


atexit.register(_end_quietly)  # the last one to be called: it is the first


def take_back(handlers: dict[int, Any]) -> None:
    """The application is loaded: let signals come that it has blocked meanwhile, to these handlers of before. A write
    to a pipe without a reader is an error again, and ends no process.
    """
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (*HANDLED, signal.SIGALRM, signal.SIGCHLD, signal.SIGWINCH))
    changed = {signum: handler for signum, handler in handlers.items() if signal.getsignal(signum) != handler}
    restore({**changed, signal.SIGPIPE: signal.SIG_IGN})


_delayed: set[int] = set()
"""The signals for a reload, new logs or a stop that came before there was a server."""


def delay(signum: int, frame: FrameType | None) -> None:
    """A handler: let the signal come again with `raise_delayed`."""
    _delayed.add(signum)


def raise_delayed() -> None:
    """Let signals come again that came during the start: the code may have been read before, a stop swallowed."""
    for signum in sorted(_delayed, key=STOPS.__contains__, reverse=True):  # a stop first: other handlers may raise
        _delayed.discard(signum)  # before: a handler that still delays the signal adds it again
        signal.raise_signal(signum)  # to this thread: where they are blocked they wait, also for the next program


def afterwards(signum: int) -> Any:
    """Return the handler that is to be there again when serving is over: the present one, or none for that of Boot."""
    present = signal.getsignal(signum)
    return signal.SIG_IGN if present is delay or _is_leave(present) else present


def is_starting() -> bool:
    """Whether the handlers are those of the start: a stop raises SystemExit, wherever it is heard."""
    return _is_leave(signal.getsignal(signal.SIGTERM))


def _is_leave(handler: Any) -> bool:
    return getattr(handler, "__func__", None) is Boot._leave


def forget() -> None:
    """Hear signals like any process, in a child that the application has forked; none reaches its parent."""
    signal.set_wakeup_fd(-1)
    for signum in (*HANDLED, signal.SIGALRM, signal.SIGCHLD, signal.SIGWINCH):
        signal.signal(signum, signal.default_int_handler if signum == signal.SIGINT else signal.SIG_DFL)


def hold_back() -> dict[int, Any]:
    """Let signals be the next program's from here on: they wait where they are blocked, as they are in this thread, and
    what a thread of the application takes is a byte in the pipe of the wake-up descriptor, which the next program reads
    (`let_through`). Returns what `restore` takes if nothing comes of it.

    One that such a thread has taken, and has not written yet when the program changes, is lost with the thread.
    """
    return {signum: signal.signal(signum, _leave_to_the_next) for signum in HANDLED}


def _leave_to_the_next(signum: int, frame: FrameType | None) -> None:
    """Do nothing: the interpreter has written the byte."""


def read_all(pipe: int) -> bytes:
    """The bytes that a pipe holds which does not block."""
    try:
        return os.read(pipe, 1 << 16)
    except BlockingIOError:
        return b""


def restore(handlers: dict[int, Any]) -> None:
    """Give each signal its handler; None, that of a foreign library, becomes the default."""
    for signum, handler in handlers.items():
        signal.signal(signum, signal.SIG_DFL if handler is None else handler)


def keeper_of(signum: int) -> Callable[[], object]:
    """Return what gives this signal back to a library in C that handles it now, as gevent's does with SIGCHLD; nothing
    where none does. The interpreter knows nothing of such handlers.
    """
    if callable(signal.getsignal(signum)) or not _is_caught(signum):
        return lambda: None
    from poorhttp.stdlib import ctypes

    action, libc = ctypes.create_string_buffer(LARGEST_SIGACTION), ctypes.CDLL(None)
    libc.sigaction(signum, None, action)
    return lambda: libc.sigaction(signum, action, None)


def _is_caught(signum: int) -> bool:
    """Whether the process has a handler for this signal, by the kernel's word (proc_pid_status(5))."""
    try:
        with open("/proc/self/status", "rb") as file:
            caught = next((int(line.split()[1], 16) for line in file if line.startswith(b"SigCgt:")), 0)
    except OSError:
        return False
    return bool(caught & 1 << signum - 1)


def leave(code: int, error_log: ErrorLog, seconds: float) -> NoReturn:
    """End this forked process as `sys.exit` would, but without unwinding: the callers' clean-up is not its own.

    Waits so long for the threads of the application, calls what it registered with atexit, flushes.
    """
    try:
        expect_end(seconds, error_log, (signal.SIGQUIT,))
        if "threading" in sys.modules:
            from poorhttp.stdlib import threading

            threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
    except BaseException as exc:
        error_log.exception(exc, "-", f"the exit of process {os.getpid()}")
    leave_at_once(code, error_log)


def leave_at_once(code: int, error_log: ErrorLog, clean_up: Callable[[], None] | None = None) -> NoReturn:
    """End this process, whatever its threads are doing; what is already written is flushed. Safe in a handler."""
    try:
        flush(error_log)
        if clean_up is not None:
            clean_up()
    finally:
        os._exit(code)


def flush(error_log: ErrorLog) -> None:
    """Empty the buffers of the error log and of the standard streams; a child would write out what they hold again."""
    error_log.flush()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, RuntimeError, ValueError):
            continue  # none, closed, nobody reads it any more, or interrupted in a write by a signal
