"""The workers of a supervisor as processes: forked, adopted, told something, reaped, handed over.

Knows their pipes, their rows of the scoreboard, the clients that wait for the first of them, and what to log of their
end. Does not know when a worker is to begin or to leave (`process.workers.plan`).
"""

from __future__ import annotations

import errno

from poorhttp.app import loader
from poorhttp.errors import PoorhttpError, shortage, shown
from poorhttp.listen import sockets, unix_sockets
from poorhttp.process import messages, worker
from poorhttp.process.fork_hooks import close_in_children, hold_signals
from poorhttp.process.workers import birth
from poorhttp.process.workers.pipes import Countdown, WorkerPipes
from poorhttp.process.workers.plan import Drain, Kill, Quit, Stop
from poorhttp.status import calls
from poorhttp.stdlib import os, signal, socket, tell_of_fork, time
from poorhttp.system import signals, timing
from poorhttp.system.exits import end_with

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, NoReturn

    from poorhttp.config.model import Config
    from poorhttp.logs.log import ErrorLog
    from poorhttp.process.worker import Application
    from poorhttp.process.workers.child_exit import ChildExit
    from poorhttp.process.workers.plan import Action, State
    from poorhttp.reload.handover import Handover
    from poorhttp.reload.reload import Reload
    from poorhttp.status.scoreboard import Scoreboard


class Workers:
    """Those of this supervisor.

    load: gives the application in each worker; None where there is none, and no worker can be started. killed: the
    numbers of workers that this server may have killed itself.
    """

    def __init__(
        self,
        load: Callable[[], Application] | None,
        listeners: Sequence[socket.socket],
        config: Config,
        error_log: ErrorLog,
        access_log: int,
        scoreboard: Scoreboard | None,
    ) -> None:
        self.pipes = WorkerPipes()
        self.killed: set[int] = set()
        self._load = load
        self._listeners = listeners
        self._config = config
        self._error_log = error_log
        self._access_log = access_log
        self._scoreboard = scoreboard
        self._child_exit = _child_exit(config, error_log)
        self._connections: list[tuple[int, int]] = []  # that wait for the first worker
        self._bearer = 0  # the worker to which they were given
        close_in_children.append(self._close_in_child)  # before there is anything that it closes
        self._countdown = Countdown(sockets.are_own(listeners))

    def adopt(self, handover: Handover, connections: Sequence[tuple[int, int]]) -> None:
        """Take those of the program before this one. connections: that wait to be served."""
        self._connections += connections
        if handover.countdown:
            self._countdown.end()
            self._countdown.pipe = handover.countdown
        for pid, (control, report, _, _) in handover.workers.items():
            self.pipes.add(pid, control, report)
            self.killed.add(pid)  # it may do that itself, and have told so before
        handover.workers, handover.countdown = {}, []  # they are this supervisor's now

    def fork(self, mask: Any, forget: Callable[[], None]) -> int:
        """Fork one worker: its number. Raises OSError. Signals are blocked, which were not before by mask.

        forget: called in the worker, to drop what else makes a supervisor.
        """
        slot = self._scoreboard.next_slot() if self._scoreboard else -1
        bears = self.are_waited_for()
        parent = os.getpid()
        pid = birth.fork(self.pipes.unborn)
        if pid == 0:
            self._work(parent, mask, forget, slot, bears)
        if self._scoreboard:
            self._scoreboard.take(slot, pid)
        self.pipes.born(pid)
        if bears:
            self._bearer = pid
        return pid

    def _work(self, parent: int, mask: Any, forget: Callable[[], None], slot: int, bears: bool) -> NoReturn:
        """Be a worker to the end of this process. slot: of the scoreboard. bears: it gets the connections that wait."""
        control, report = self.pipes.unborn
        error_log, code = self._error_log, 1

        def ready() -> None:
            end_with(None)  # the control pipe tells from here on, and leaves a moment for what is in flight
            birth.tell(report, messages.READY)

        try:
            error_log.wait(True)
            forget()
            self._forget(bears)
            tell_of_fork()
            hold_signals(mask)
            assert self._load is not None
            code = worker.serve(
                self._load(),
                self._listeners,
                loader.suited(self._config, lambda text: error_log.write("W", text)),
                error_log,
                self._access_log,
                control,
                report,
                ready=ready,
                connections=self._connections,
                row=self._scoreboard.row(slot) if self._scoreboard else None,
                # That of the program before may be for other sockets than those which are passed to this one.
                countdown=self._countdown.reader() if sockets.are_own(self._listeners) else None,
            )
        except SystemExit:
            code = 1  # the reason was logged
        except Exception as error:
            code = self._report_fault(error, report)
        except BaseException as error:
            error_log.exception(error, "-", f"worker {os.getpid()}")
        finally:
            seconds = timing.LATE if os.getppid() != parent else self._config.graceful_timeout
            end_with(os.getppid())
            signals.leave(code, error_log, seconds)

    def _report_fault(self, error: Exception, report: int) -> int:
        """Report why this worker cannot begin; return its exit code."""
        fault = error if isinstance(error, PoorhttpError) else shortage(error)
        if fault is None:
            self._error_log.exception(error, "-", f"worker {os.getpid()}")
            return 1
        birth.tell(report, messages.FAILED + birth.fault(fault))
        return fault.exit_code

    def _forget(self, bears: bool) -> None:
        """Close, in a worker, the descriptors of the supervisor: above all the other workers' control pipes."""
        self.pipes.unborn.clear()
        close_in_children.remove(self._close_in_child)
        self._countdown.forget()
        self._close_pipes()
        if not bears:
            self._close_connections()

    def are_waited_for(self) -> bool:
        """Whether clients wait that were not given to a worker which lives still."""
        return bool(self._connections) and not self.pipes.has(self._bearer)

    def served(self, pid: int) -> None:
        """A worker serves, and has the connections that it was given."""
        if pid == self._bearer:
            self._close_connections()

    def _close_connections(self) -> None:
        while self._connections:
            os.close(self._connections.pop()[0])

    def exit_code(self, pid: int) -> int | None:
        """The exit code of a worker that is gone (negative: signal), None while it lives."""
        try:
            reaped, status = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            return 1  # the application reaped it, and its code is not known
        return os.waitstatus_to_exitcode(status) if reaped else None

    def let_go(self, pid: int) -> bytes:
        """A worker is gone: return its row of the scoreboard as it left it."""
        self.pipes.cut(pid)
        if self._child_exit:
            self._child_exit.note(pid)
        return self._scoreboard.free(pid) if self._scoreboard else b""

    def say_lost(self, pid: int, row: bytes) -> None:
        """Name the requests that a worker was in as it ended: nobody answers them any more."""
        for call in calls.of_row(row):
            text = f"request lost with worker {pid}: {call.about()}, at work for {call.seconds():.1f} s"
            self._error_log.write("E", text, call.client or "-")
            worker.log_lost(call, self._config, self._access_log)

    def say_fault(self, pid: int, fault: PoorhttpError) -> None:
        """Tell why a worker cannot begin to serve."""
        for line in shown(fault.detail):
            self._error_log.write("E", f"| {line}")
        hint = f"; {fault.hint}" if fault.hint else ""
        self._error_log.write("E", f"worker {pid} cannot begin to serve: {fault.message}{hint}")

    def say_not_born(self, error: OSError) -> None:
        """Tell why a worker could not be forked."""
        what = "descriptors" if error.errno in (errno.EMFILE, errno.ENFILE) else "memory or processes"
        self._error_log.write("E", f"cannot start a worker: {error.strerror}; out of {what}, to be tried again")

    def ask_to_leave(self, action: Action) -> None:
        """Do to a worker what the plan says."""
        if isinstance(action, Stop):
            self.pipes.tell(action.pid, messages.STOP)
        elif isinstance(action, Drain):
            self.pipes.tell(action.pid, messages.DRAIN)
        elif isinstance(action, Quit):
            self.send(action.pid, signal.SIGQUIT)
        elif isinstance(action, Kill):
            self._error_log.write("E", f"worker {action.pid} is late to stop; killed")
            self.killed.add(action.pid)
            self.send(action.pid, signal.SIGKILL)

    def send(self, pid: int, signum: int) -> None:
        """Send a worker a signal."""
        try:
            os.kill(pid, signum)
        except ProcessLookupError:
            return  # gone, and reaped by the application, with a wait for any

    def begin_stop(self, staying: int) -> None:
        """Let go of the sockets: when the last worker does too, a connection is refused, not left waiting.

        A unix socket is shut down instead, since the process that made it looks at it once more to remove it.
        staying: how many workers accept connections.
        """
        for each in self._listeners:
            if unix_sockets.is_made(each):
                each.shutdown(socket.SHUT_RD)
            else:
                each.close()
        self._countdown.begin(staying)

    def hand_over(self, reload: Reload, state: State) -> None:
        """Note what the new program gets."""
        reload.keep(each.fileno() for each in self._listeners)
        handover = reload.handover
        if state.may_start:  # else the connections are there already, as they were received
            waiting = self._connections if self.are_waited_for() else []
            handover.connections = [(each, reload.keys[number]) for each, number in waiting]
        handover.countdown = self._countdown.pipe if state.workers else []
        self.call_for_the_last()
        handover.workers = {
            pid: (*self.pipes.of(pid), each.draining is not None, each.is_closed) for pid, each in state.workers.items()
        }

    def due(self) -> float | None:
        """In how many seconds `look` is to be called, if for nothing else."""
        return self._child_exit.due() if self._child_exit else None

    def look(self) -> None:
        """Call `child_exit` for the workers that have ended."""
        if self._child_exit:
            self._child_exit.look()

    def call_for_the_last(self) -> None:
        """Call `child_exit` for the workers that ended just now, and wait for it."""
        if self._child_exit:
            self._child_exit.finish()

    def close(self, living: Iterable[int]) -> None:
        """Give back descriptors. Workers that are still there, after an exception, stop, as their control pipes end.
        One that does not stop is killed.
        """
        close_in_children.remove(self._close_in_child)
        self._close_pipes()
        self._countdown.end()
        left, end = set(living), time.monotonic() + timing.FAST
        while left:
            time.sleep(timing.CHILD_POLL)
            left = {pid for pid in left if self.exit_code(pid) is None}
            for pid in left if time.monotonic() > end else ():
                self.send(pid, signal.SIGKILL)

    def _close_pipes(self) -> None:
        for descriptor in self.pipes.descriptors():
            os.close(descriptor)

    def _close_in_child(self) -> None:
        """A child that the application has forked keeps no worker alive, and no client waiting."""
        waiting = (each for each, _ in self._connections)
        sockets.let_go((), [*self.pipes.descriptors(), *self._countdown.pipe, *waiting])


def _child_exit(config: Config, error_log: ErrorLog) -> ChildExit | None:
    if not config.child_exit:
        return None
    from poorhttp.process.workers.child_exit import ChildExit

    return ChildExit(config, error_log)


def when(seconds: float) -> str:
    """Say when something happens that is due in so many seconds."""
    return f"in {seconds:.1f} s" if seconds >= 0.05 else "at once"
