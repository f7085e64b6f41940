"""The reload of a process alone: a thread tries the new code, then this process becomes the new program.

Knows when the engine makes way and who executes the new program: the main thread, or another one where the main thread
is in a call that does not return. Does not know how a trial is done (`reload.reload`).
"""

from __future__ import annotations

import atexit

from poorhttp.process import messages
from poorhttp.process.fork_hooks import engines
from poorhttp.stdlib import os, signal, thread, time
from poorhttp.system import timing
from poorhttp.system.signals import HANDLED, hold_back, restore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from poorhttp.logs.log import ErrorLog
    from poorhttp.process.serving.leaving import Leaving
    from poorhttp.reload.reload import Reload
    from poorhttp.system.wake_pipe import WakePipe

NO_RELOAD = "reload ignored: poorhttp.run() cannot start the program anew; restart it"

CALL_LOST = "the call goes on and keeps its thread"

STAYS_LOST = f"the call still keeps its thread; next try in {timing.STUCK_RETRY:.0f} s"
"""The outcome where a program with such a call could not be started anew."""

LOOK_INTERVAL = 0.08
"""Seconds between two looks whether this thread still has something to wait for."""


class UnsupervisedReload:
    """How this process is replaced where it has no supervisor; make_reload: None where it cannot be."""

    def __init__(
        self, leaving: Leaving, pipe: WakePipe, make_reload: Callable[[], Reload] | None, error_log: ErrorLog
    ) -> None:
        self._leaving = leaving
        self._pipe = pipe
        self._make_reload = make_reload
        self._error_log = error_log
        self._reload: Reload | None = None
        self._successor: Reload | None = None  # the one whose trial has succeeded
        self._is_stuck = False  # a call does not return
        self._is_asked = False
        self._on_trial = thread.allocate_lock()

    def ask(self) -> None:
        """Begin a reload. Called by the handler of a signal, in which nothing is imported: another may interrupt it."""
        if self._make_reload is None:
            self._error_log.write("W", NO_RELOAD)
        elif self._successor is None:
            self._begin_trial()
        elif not self._leaving.is_expected:  # the new program will read the code, or `_make_way_for` has sent this
            self._leaving.expect_end(timing.DRAIN + self._leaving.graceful_timeout + timing.LATE)

    def replace_stuck(self) -> None:
        """Become a new program, since a call does not return."""
        if self._make_reload is None:
            self._error_log.write("E", f"{CALL_LOST}, and poorhttp.run() cannot start anew; restart the program")
        elif self._successor is None and self._leaving.since is None:
            self._is_stuck = True  # a trial that goes on is tried again from now on if it fails
            if not self._on_trial.locked():
                self._error_log.write("E", f"{CALL_LOST}; the program is started anew in this process")
                self._begin_trial()

    def make_way(self) -> None:
        """The engine has stopped: where that was for a successor, become it."""
        if self._reload is not None:
            self._reload.cancel()
        if self._successor is not None and self._leaving.may_go_on():
            # From now on, for what is done at the exit.
            self._leaving.expect_end_anew(self._leaving.graceful_timeout + timing.LATE)
            self._become(self._successor)

    def give_up_calls(self) -> None:
        """The application is late: where that is for a successor, become it without waiting for its calls."""
        leaving = self._leaving
        if self._successor is not None and leaving.may_go_on() and (leaving.since is None or leaving.is_leaving):
            self._error_log.write("E", "reload: the application did not return in time; its calls are given up")
            # The functions of atexit get less time than the health thread gives a call that does not return.
            leaving.expect_end_anew(timing.LATE)
            self._become(self._successor)

    def end(self) -> None:
        """End a trial that goes on, and its thread: an interpreter that ends before it may end by SIGSEGV."""
        if self._reload is not None:
            self._reload.cancel()
        self._on_trial.acquire()

    def _begin_trial(self) -> None:
        self._is_asked = True
        try:
            thread.start_new_thread(self._await_trial, ())
        except RuntimeError as error:
            self._error_log.write("E", f"reload failed, the server goes on as it was: {error}")

    def _await_trial(self) -> None:
        """Try the new code, unless another thread does, again where that was asked for meanwhile; where it succeeds,
        become it.
        """
        while self._is_asked and self._make_reload is not None and self._on_trial.acquire(blocking=False):
            self._is_asked = False
            try:
                reload = self._reload = self._make_reload()
                if self._leaving.is_wanted():
                    return  # a stop that came before could not cancel it
                if self._has_succeeded(reload) and self._successor is None:
                    self._let_succeed(reload)
            except Exception as error:  # no descriptors, no memory, or the package is being replaced
                outcome = STAYS_LOST if self._is_stuck else "the server goes on as it was"
                self._error_log.write("E", f"reload failed, {outcome}: {type(error).__name__}: {error}")
                if self._is_stuck:
                    self._pause_for_retry()
                    self._is_asked = not self._leaving.is_wanted()
            finally:
                self._on_trial.release()

    def _has_succeeded(self, reload: Reload) -> bool:
        """Whether the newest code can be loaded."""
        self._begin(reload)
        while not reload.wait() or self._is_asked:
            if not self._is_asked:
                if not self._is_stuck:
                    return False
                self._pause_for_retry()
                if self._leaving.is_wanted():
                    return False
            self._begin(reload)
        return True

    def _begin(self, reload: Reload) -> None:
        self._is_asked = False
        if self._is_stuck:
            # The cause of the stuck call may keep the new code from answering too; that is no worse than a lost thread.
            reload.outcome, reload.asks = STAYS_LOST, False
        reload.begin()

    def _pause_for_retry(self) -> None:
        """There is nothing to go back to; somebody who asks for a reload has mended something."""
        self._pause(timing.STUCK_RETRY, lambda: self._is_asked or self._leaving.is_wanted())

    def _pause(self, seconds: float, is_enough: Callable[[], bool]) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end and not is_enough():
            time.sleep(LOOK_INTERVAL)

    def _let_succeed(self, reload: Reload) -> None:
        # A stop that comes while the main thread executes the new program would otherwise end here, unheard.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
        try:
            self._make_way_for(reload)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def _make_way_for(self, reload: Reload) -> None:
        """Let the engine make way, and go on without a main thread that is in a call which does not return."""
        held, leaving = list(engines), self._leaving
        sockets = [descriptor for engine in held for descriptor in engine.listeners()]
        if not sockets:
            return  # stopped meanwhile
        reload.keep(sockets)
        self._successor = reload
        # First: once the engine has made way the new program is executed, which would take this for another reload.
        os.kill(os.getpid(), signal.SIGUSR2)  # the alarm is the main thread's to set: see `ask`
        os.write(self._pipe.writer, messages.DRAIN)
        while not all(engine.makes_way() for engine in held) and not leaving.is_over:
            time.sleep(LOOK_INTERVAL)
        # The main thread's alarm comes after LATE, the engine's kill after two seconds.
        self._pause(1.5 * timing.LATE, lambda: leaving.is_over)
        if leaving.is_over or leaving.is_leaving:
            return
        if leaving.since is not None:  # a stop came meanwhile, for which the main thread's alarm was put off
            leaving.leave_application()
        self._error_log.write("E", "reload: the main thread did not return in time; the new code is taken without it")
        self._execute(reload)

    def _become(self, reload: Reload) -> None:
        """Become the new program. The functions that the application registered with atexit are called before, or are
        given up where one of them is the caller.
        """
        leaving = self._leaving
        is_first, leaving.is_leaving = not leaving.is_leaving, True
        try:
            if is_first:
                atexit._run_exitfuncs()
            # The new program obeys signals from now on, and a stop that came before once waiting clients are answered.
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
            self._pipe.read()
            handlers = hold_back()  # the handlers of the signals that were read have run by then
            if leaving.may_go_on():
                if leaving.stopped_by:
                    os.write(self._pipe.writer, bytes([leaving.stopped_by]))
                reload.handover.signals = self._pipe.reader
                self._execute(reload)
            restore(handlers)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        except OSError as error:
            self._error_log.write("E", f"cannot become the new program: {error}")
            leaving.leave(1)

    def _execute(self, reload: Reload) -> NoReturn:
        for engine in engines:
            unread = engine.take_unread()
            reload.handover.connections += [(descriptor, reload.keys[number]) for descriptor, number in unread]
        reload.execute()
