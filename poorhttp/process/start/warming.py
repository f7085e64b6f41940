"""The warm-up: requests to the application in the process that has loaded it, before it serves and before workers are
forked.

Knows what such a request may do to its process, and which of that ends the start. Does not know how a request is made
(`app.question`), nor which of the things that it leaves behind workers lack or share (`process.start.before_fork`).
Contract: `warm_up` returns when the application has answered all of them, for better or worse. It raises LoadError if
a request did not come to an end in time, ended the process or forked it: nothing is served then.
"""

from __future__ import annotations

import sys

from poorhttp import RequestTimeout
from poorhttp.app import failures, places, question
from poorhttp.errors import LoadError
from poorhttp.process.fork_hooks import counted_forks
from poorhttp.stdlib import os, public_os, signal, thread, time
from poorhttp.system import timing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn, TextIO

    from poorhttp.app.callables import WSGI
    from poorhttp.config.model import Config

SHORTEST, LONGEST = 1.0, 5.0
"""Seconds that a late request has to end after RequestTimeout was raised in it: as long again, within these bounds. The
first one is also the least time for a request.
"""

EXIT_HINT = "a request must return; mend it, or take it out of warmup"
FORK_HINT = "start another program by subprocess, which is no fork here, or take the path out of warmup"
HOST_HINT = "if it refuses this host (ALLOWED_HOSTS), name another one: warmup = https://www.example.com/"
PATH_HINT = "is the path right?"


class Teller:
    """Where a warm-up tells what happened. note: takes a line. warn: takes a line and a traceback, "" for none.
    errors: `wsgi.errors`, None for standard error. leave: ends the process, with its clean-up, for an error that is to
    be told; called on another thread if the main thread does not return from the application.
    """

    def __init__(
        self,
        note: Callable[[str], None],
        warn: Callable[[str, str], None],
        errors: TextIO | None,
        leave: Callable[[LoadError], NoReturn],
    ) -> None:
        self.note, self.warn, self.errors, self.leave = note, warn, errors, leave


def warm_up(app: WSGI, settings: Config, teller: Teller, end: float | None = None) -> None:
    """Ask the application for each target of `warmup`. Raises LoadError.

    Each request may take `request_timeout`, or `timing.LOADING` where that is 0. end: moment of the monotonic clock by
    which all of them must be over.
    """
    for target in settings.warmup:
        limit = settings.request_timeout or timing.LOADING
        if end is not None:
            limit = min(limit, max(end - time.monotonic(), SHORTEST))
        _Request(settings, target, teller, limit).make(app)


class _Request:
    """One request, and what the application does to the process meanwhile."""

    def __init__(self, settings: Config, target: str, teller: Teller, limit: float) -> None:
        self._settings, self._target, self._teller, self._limit = settings, target, teller, limit
        self._where = f"{places.title(settings.application)}: "
        self._process = os.getpid()
        self._main = thread.get_ident()
        self._forks = 0
        self._is_going_on = True
        self._late: LoadError | None = None
        self._exit = ""  # such as `os._exit(3)`
        self._logged: BaseException | None = None

    def make(self, app: WSGI) -> None:
        """Make the request, and tell how it was answered. Raises LoadError."""
        began = time.monotonic()
        answer, error = self._ask(app)
        if self._late is not None:
            raise self._late
        end = self._exit or (failures.account_of(error)[1] if isinstance(error, SystemExit) else "")
        if end:
            raise LoadError(
                f"{self._place(error)}GET {self._target} ends the process, in the warm-up: {end}", EXIT_HINT
            )
        if self._forks:
            raise LoadError(f"{self._where}GET {self._target} forks the process, in the warm-up", FORK_HINT)
        if error is not None:
            fault = question.fault(error, self._target, self._where)
            self._warn(f"{fault.message}{f' ({fault.hint})' if fault.hint else ''}", fault.detail)
        elif answer is not None:
            self._tell(answer, time.monotonic() - began)

    def _ask(self, app: WSGI) -> tuple[question.Answer | None, BaseException | None]:
        """Return the answer, or the exception in its place."""
        answer, error = None, None
        undo = [self._limit_time(), self._count_forks(), self._hear_exits(), self._hear_logged()]
        try:
            answer = question.ask(app, self._settings, self._target, self._teller.errors)
            self._is_going_on = False
        except KeyboardInterrupt:
            raise
        except BaseException as fault:
            self._is_going_on = False
            error = fault
        finally:
            if os.getpid() != self._process:  # a child that the application has forked, and that came back
                os._exit(0 if error is None else 1)
            for each in undo:
                each()
        return answer, error

    def _tell(self, answer: question.Answer, seconds: float) -> None:
        try:
            line = question.judge(answer, self._target)
        except LoadError as fault:
            trace = fault.detail or (failures.account_of(self._logged)[0] if self._logged is not None else "")
            self._warn(fault.message, trace)
            return
        if answer.status[:3] in ("400", "404"):
            host = question.environ(self._settings, self._target)["HTTP_HOST"]
            hint = PATH_HINT if answer.status[:3] == "404" else HOST_HINT
            self._warn(f"{line}, with Host: {host}; {hint}", "")
        else:
            self._teller.note(f"warm-up: {line}, after {1000 * seconds:.0f} ms")

    def _warn(self, text: str, trace: str) -> None:
        self._teller.warn(f"warm-up: {text}; the server serves all the same", trace)

    def _place(self, error: BaseException | None) -> str:
        return (failures.place_of(error) if error is not None else "") or self._where

    # What surrounds the call. Each function returns what undoes it.

    def _limit_time(self) -> Callable[[], None]:
        """Raise RequestTimeout in the application when its time is over; if it does not end then, end the process."""
        handler = signal.getsignal(signal.SIGALRM)
        over = thread.allocate_lock()
        over.acquire()
        question.end_after(self._limit, self._target, self._where, self._interrupt)
        patience = min(max(self._limit, SHORTEST), LONGEST)
        # A signal that the new thread took would not wake the main thread.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        watching = thread.start_new_thread(self._leave_when_late, (self._limit + patience, over))
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

        def undo() -> None:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL if handler is None else handler)
            over.release()
            while watching in sys._current_frames():  # no worker is to be told that it lacks this thread
                time.sleep(0.001)

        return undo

    def _interrupt(self, late: LoadError) -> None:
        if self._is_going_on and os.getpid() == self._process:
            self._late = _in_warm_up(late)
            raise RequestTimeout(late.message)

    def _leave_when_late(self, seconds: float, over: Any) -> None:
        if over.acquire(True, seconds):
            return
        frame = sys._current_frames().get(self._main)
        self._teller.leave(self._late or _in_warm_up(question.late(frame, self._limit, self._target, self._where)))

    def _count_forks(self) -> Callable[[], None]:
        """Those of the main thread: only its child would come back here."""
        counted_forks[self._main] = 0

        def undo() -> None:
            self._forks = counted_forks.pop(self._main)

        return undo

    def _hear_exits(self) -> Callable[[], None]:
        """Let `os._exit` raise SystemExit in the application."""
        leave = public_os._exit

        def refuse(status: int) -> NoReturn:
            if os.getpid() != self._process:
                leave(status)
            self._exit = f"os._exit({status})"
            raise SystemExit(status)

        public_os._exit = refuse

        def undo() -> None:
            if public_os._exit is refuse:
                public_os._exit = leave

        return undo

    def _hear_logged(self) -> Callable[[], None]:
        """Note the exceptions that the application logs: a framework that answers them with 500 shows them nowhere
        else.
        """
        logging: Any = sys.modules.get("logging")
        if not hasattr(logging, "setLogRecordFactory"):
            return lambda: None
        make = logging.getLogRecordFactory()

        def note(*arguments: Any, **keywords: Any) -> Any:
            record = make(*arguments, **keywords)
            if record.exc_info and self._is_going_on:
                self._logged = record.exc_info[1]
            return record

        logging.setLogRecordFactory(note)

        def undo() -> None:
            if logging.getLogRecordFactory() is note:
                logging.setLogRecordFactory(make)

        return undo


def _in_warm_up(late: LoadError) -> LoadError:
    return LoadError(f"{late.message}, in the warm-up", late.hint, late.detail)
