"""The process above the workers: it waits, reaps, notes, asks the plan, and performs.

Knows how a worker is forked, told to stop and reaped, and what the signals mean. Does not know when any of that is to
be done (`poorhttp.process.plan`) nor how a worker serves (`poorhttp.process.worker`).
Contract: `supervise` returns the exit code when every worker is gone; in a worker it does not return at all. Every
worker holds the read end of a pipe of its own, the lifeline, whose one write end is here: a byte on it asks the worker
to drain or to stop, and the kernel closes it if the supervisor dies. A signal would not do for that: a service manager
sends its SIGTERM to the workers too, and they could not tell that one and ours from an impatient second one. On a
second pipe the worker tells of itself, in single bytes.
"""

from __future__ import annotations

import codecs
import errno
import gc
import sys

from poorhttp.app import loader
from poorhttp.errors import LoadError, PoorhttpError, shortage, shown
from poorhttp.listen import sockets
from poorhttp.listen.backlog import Backlog
from poorhttp.listen.systemd import Manager
from poorhttp.process import birth, worker
from poorhttp.process.plan import Drain, Exit, Kill, Quit, Spawn, State, Stop, Worker, plan, wait
from poorhttp.status import calls
from poorhttp.status.layout import FAILED, SUCCEEDED
from poorhttp.stdlib import os, select, signal, socket, tell_of_fork, time
from poorhttp.system import signals
from poorhttp.system.exits import end_with, name_of, reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType
    from typing import Any, NoReturn

    from poorhttp.config.config import Config
    from poorhttp.logs.log import ErrorLog
    from poorhttp.process.child_exit import ChildExit
    from poorhttp.process.memory import Budget
    from poorhttp.process.plan import Action
    from poorhttp.process.scale import Scale
    from poorhttp.process.worker import Application
    from poorhttp.reload.reload import Handover, Reload
    from poorhttp.status.scoreboard import Board

HEARD = (*signals.HANDLED, signal.SIGCHLD, signal.SIGWINCH)


def supervise(
    load: Callable[[], Application],
    listeners: Sequence[socket.socket],
    config: Config,
    error_log: ErrorLog,
    access_log: int,
    make_reload: Callable[[], Reload] | None = None,
    handover: Handover | None = None,
    manager: Manager | None = None,
    board: Board | None = None,
    connections: Sequence[tuple[int, int]] = (),
    ready: Callable[[], None] = lambda: None,
) -> int:
    """Keep `config.processes` workers serving an application until a signal stops them; main thread only.

    load: called in each worker; it gives the application, and what it raises ends the worker. make_reload: how HUP and
    USR2 replace this image, None: not at all. handover: the workers of the image before this one, which leave as new
    ones serve. manager: the service manager, that is told how this server does. board: where all show what they do.
    connections: that wait to be served, descriptor and number of the listener. ready: called when the first worker
    serves.

    TERM stops gracefully, INT too but with a second for what is in flight, QUIT at once, as does a second TERM or INT;
    USR1 reopens the logs everywhere; TTIN and TTOU keep one worker more or fewer, WINCH none until HUP or TTIN.
    Returns 0 after a clean stop; 128 + signal number where a second TERM or INT came, or a QUIT or INT that cut
    something off; else 1 if a worker that served had to be killed or failed while it was stopping.
    Raises PoorhttpError where a worker cannot begin to serve and none has, OSError where no descriptor is left for one.
    No worker is left then.
    """
    error_log.follow(access_log, config.accesslog)
    if "socket" in sys.modules:
        codecs.lookup("idna")  # for the first name of a host: 1 MiB, which else each worker would load for itself
    gc.collect()
    gc.freeze()  # what is loaded now is shared with the workers for as long as no collection writes to it
    supervisor = _Supervisor(
        load, listeners, config, error_log, access_log, make_reload, manager or Manager(), board, ready
    )
    if handover is not None:
        supervisor.adopt(handover, connections)
    try:
        return supervisor.run()
    finally:
        supervisor.close()


def dismiss(
    handover: Handover,
    signum: int,
    listeners: Sequence[socket.socket],
    config: Config,
    error_log: ErrorLog,
    access_log: int,
    manager: Manager | None,
) -> int:
    """Stop, as this signal asks for, the workers of the image before this one, which has no application yet; return the
    exit code, as `supervise` does.
    """
    supervisor = _Supervisor(
        _no_application, listeners, config, error_log, access_log, None, manager or Manager(), None
    )
    supervisor.adopt(handover)
    try:
        supervisor.hear(bytes([signum]))
        return supervisor.run()
    finally:
        supervisor.close()


def await_workers(handover: Handover, seconds: float) -> None:
    """Let the workers of the image before this one, which has none, finish what they have; return when they are gone.
    Who is not in so many seconds, and one more, is killed.
    """
    living = {pid for pid in handover.workers if _exit_code(pid) is None}
    staying = sum(not is_leaving for pid, (_, _, is_leaving, _) in handover.workers.items() if pid in living)
    _begin_countdown(handover.countdown, staying)
    for lifeline, *_ in handover.workers.values():
        try:
            os.write(lifeline, worker.STOP)
        except OSError:
            continue  # it is gone
    _await_ends(living, seconds + 1)


def _await_ends(living: set[int], seconds: float) -> None:
    """Return when these workers are gone. One that still lives after so many seconds is killed."""
    end = time.monotonic() + seconds
    while living:
        time.sleep(0.02)
        living = {pid for pid in living if _exit_code(pid) is None}
        for pid in living if time.monotonic() > end else ():
            send(pid, signal.SIGKILL)


def _no_application() -> NoReturn:
    raise AssertionError


def when(seconds: float) -> str:
    """Say when something happens that is due in so many seconds."""
    return f"in {seconds:.1f} s" if seconds >= 0.05 else "at once"


class _Supervisor:
    """What the loop needs; `run` is the loop."""

    def __init__(
        self,
        load: Callable[[], Application],
        listeners: Sequence[socket.socket],
        config: Config,
        error_log: ErrorLog,
        access_log: int,
        make_reload: Callable[[], Reload] | None,
        manager: Manager,
        board: Board | None,
        ready: Callable[[], None] = lambda: None,
    ) -> None:
        self._load = load
        self._process = os.getpid()
        self._ready = ready
        self._serves = False
        self._board = board
        self._manager = manager
        self._watch = manager.watch(listeners, lambda text: error_log.write("W", text))
        self._is_ready = False
        self._make_reload = make_reload
        self._reload: Reload | None = None
        self._listeners = listeners
        self._config = config
        self._error_log = error_log
        self._access_log = access_log
        self._state = State(config.processes, config.graceful_timeout, signals.REPEAT)
        self._lifelines: dict[int, int] = {}  # pid -> write end
        self._reports: dict[int, int] = {}  # read end on which a worker tells of itself -> its pid
        self._connections: list[tuple[int, int]] = []  # that wait for the first worker
        self._bearer = 0  # to whom they were given
        self._lost = 0.0  # seconds in which this process did not run
        self._replacing = False
        self._is_reloading = False  # the reload that made this image goes on
        self._killed: set[int] = set()
        self._at_once = 0  # the first signal that wanted the end at once
        self._late_code = 1
        self._are_away = False  # the workers, because of WINCH
        self._backlog = Backlog(error_log)
        self._budget = _budget(config.memory)
        self._scale = _scale(config)
        # Each worker that stops accepting takes a byte. There is one less than workers once all are to stop: who finds
        # none is the last.
        self._countdown: list[int] = []
        self._signals = self._wake = -1
        self._unborn: list[int] = []  # the pipes of the worker that is being forked
        worker.close_in_children.append(self._close_in_child)  # before there is anything that it closes
        if sockets.are_own(listeners):
            self._countdown += os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._signals, self._wake = os.pipe()
        os.set_blocking(self._signals, False)
        os.set_blocking(self._wake, False)
        # Together: a signal that came between the two would be heard twice, delayed by the handler of the start too.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)
        self._old_wake = signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        self._give_children_back = signals.keeper_of(signal.SIGCHLD)
        self._old: dict[int, Any] = {signum: signals.afterwards(signum) for signum in HEARD}
        for signum in HEARD:
            signal.signal(signum, _heard)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signals.raise_delayed()
        self._child_exit = _child_exit(config, error_log)

    def adopt(self, handover: Handover, connections: Sequence[tuple[int, int]] = ()) -> None:
        """Go on with the workers of the image before this one, and with their number unless the configuration's is
        another now. connections: that wait to be served.
        """
        self._connections += connections
        if handover.countdown:
            _end_countdown(self._countdown)
            self._countdown = handover.countdown
        if handover.configured == str(self._config.processes):
            self._state.wanted = handover.wanted
        self._is_reloading = True
        for pid, (lifeline, report, is_leaving, is_closed) in handover.workers.items():
            self._state.adopted(pid, self._now(), is_leaving, is_closed)
            self._lifelines[pid] = lifeline
            if report >= 0:
                self._reports[report] = pid
            self._killed.add(pid)  # it may do that itself, and have told so before
        handover.workers, handover.countdown = {}, []  # they are this supervisor's now
        if self._scale:
            self._scale.step(len(self._state.serving()) - self._scale.wanted, self._now())

    def run(self) -> int:
        self._error_log.wait(False)
        while True:
            self._reap()
            if self._reload is not None and self._reload.succeeded():
                self._replace(self._reload)
            self._weigh()
            self._count()
            actions = plan(self._state, self._now())
            for action in actions:
                if isinstance(action, Exit):
                    self._call_for_the_last()
                    return self._exit_code(action.code)
                self._perform(action)
            self._conclude()
            self._wait()

    def _conclude(self) -> None:
        """The reload that made this image has succeeded when its workers, and no one of before, accept connections."""
        state = self._state
        if not self._is_reloading or state.stopping is not None or state.is_rolling():
            return
        if state.serving() or not state.wanted:
            self._is_reloading, self._is_ready = False, True
            self._note_serving()
            self._end_reload(SUCCEEDED)

    def _end_reload(self, result: str, why: str = "") -> None:
        """Tell how the reload that made this image ends; unless there is a later one, which tells that of itself."""
        if self._reload is None:
            if self._board:
                self._board.end_reload(result, why)
            self._manager.ready(f"reload failed: {why}" if why else self._status())

    def _now(self) -> float:
        """Seconds of a clock that stands still while this process does: who could not run is not late."""
        return time.monotonic() - self._lost

    def _wait(self) -> None:
        """Sleep until a signal comes, a worker tells something, or there may be something to do; hear both. Signals
        first: all processes may have been sent one.
        """
        watch = self._watch
        limits = [wait(self._state, self._now()), self._reload.seconds_left() if self._reload else None]
        if self._state.stopping is None:
            limits.append(self._scale.wait() if self._scale else None)
            limits.append(max(self._budget.next_look - self._now(), 0.0) if self._budget else None)
        limits.append(self._child_exit.due() if self._child_exit else None)
        limits.append(watch.seconds_left() if watch else None)
        seconds = min((each for each in limits if each is not None), default=None)
        before = time.monotonic()
        poll = select.poll()
        for descriptor in (self._signals, *self._reports):
            poll.register(descriptor, select.POLLIN)
        if watch and watch.fileno() >= 0:
            poll.register(watch.fileno(), watch.events())
        ready = [descriptor for descriptor, _ in poll.poll(None if seconds is None else 1000 * seconds)]
        waited = time.monotonic() - before
        if seconds is not None and waited > seconds + worker.STANDSTILL:
            self._lost += waited
            if self._reload is not None:
                self._reload.slept(waited)
        self._hear()
        for descriptor in ready:
            if descriptor in self._reports:
                self._hear_worker(descriptor)
        if watch:
            watch.look(watch.fileno() in ready, bool(self._state.wanted) and self._state.stopping is None)

    def _hear_worker(self, descriptor: int) -> None:
        """A worker tells something, or is gone."""
        pid = self._reports[descriptor]
        told, failed, fault = os.read(descriptor, 1 << 16).partition(worker.FAILED)
        if not (told or failed):
            del self._reports[descriptor]
            os.close(descriptor)
        if pid not in self._state.workers:
            return
        if worker.READY in told:
            if pid == self._bearer:
                self._close_connections()
            self._state.ready(pid)
            self._note_serving()
            self._tell_manager()
        if worker.CLOSED in told:
            self._state.closed(pid)
        if failed:
            self._note_fault(pid, birth.fault_of(fault))
        if worker.STUCK in told:
            self._killed.add(pid)  # it may do that itself
            if self._state.retire(pid):
                self._error_log.write("E", f"worker {pid}: a call does not return; another worker takes its place")
        if worker.SPENT in told and self._state.retire(pid):
            self._error_log.write("I", f"worker {pid} has answered max_requests; another one takes its place")
        if worker.ASKED in told and self._state.retire(pid):
            self._error_log.write("I", f"worker {pid} was asked to leave (SIGTERM); another one takes its place")
        if worker.PRESSED in told:
            self._backlog.look(self._listeners, self._now())
        if self._scale:
            for byte in told:
                if byte == worker.PRESSED[0]:
                    self._scale.pressed(pid, self._now())
                elif byte >= worker.LOAD:
                    self._scale.told((byte - worker.LOAD) / 100, self._now())

    def _weigh(self) -> None:
        """Look at the memory of all processes, if it is time. Nobody is chosen while a worker is replaced or new code
        tried: that takes some itself.
        """
        now, state = self._now(), self._state
        if self._budget is None or now < self._budget.next_look or state.stopping is not None:
            return
        is_settled = state.is_settled() and not (self._reload and self._reload.is_trying())
        pid = self._budget.look(os.getpid(), list(state.workers) if is_settled else [], now)
        if self._budget.text:
            self._error_log.write("W", self._budget.text)
        if pid:
            state.retire(pid)

    def _count(self) -> None:
        """Let there be more or fewer workers, by their load."""
        if self._scale is None or self._state.stopping is not None or self._are_away:
            return
        if self._scale.decide(self._state.serving(), self._now()):
            more = "more" if self._scale.wanted > self._state.wanted else "fewer"
            self._error_log.write("I", f"one worker {more}: {self._scale.wanted}")
        self._state.wanted = self._scale.wanted

    def _note_serving(self) -> None:
        """From the first worker on that serves, in whichever image it began."""
        if not self._serves and self._state.serving() and self._state.stopping is None:
            self._serves = True
            self._ready()

    def _tell_manager(self) -> None:
        if self._is_ready or self._is_reloading or self._state.stopping is not None:
            self._manager.status(self._status())
        else:
            self._manager.ready(self._status())
            self._is_ready = True

    def _status(self) -> str:
        if self._are_away and not self._state.wanted:
            return "no workers (WINCH); TTIN or HUP starts them"
        count = sum(each.is_ready and not each.is_old for each in self._state.workers.values())
        return f"{count} of {self._state.wanted} workers serve"

    def _exit_code(self, planned: int) -> int:
        """A QUIT that cut nothing off is a clean stop."""
        is_clean_quit = self._at_once == signal.SIGQUIT and planned == 0
        if self._at_once and not is_clean_quit:
            return 128 + self._at_once
        return self._late_code if planned else 0

    def close(self) -> None:
        """Give back descriptors and signals. Workers that are still there, after an exception, stop, as their lifelines
        end. One that does not stop is killed.
        """
        worker.close_in_children.remove(self._close_in_child)
        self._error_log.wait(True)
        signals.restore(self._old)
        signal.set_wakeup_fd(self._old_wake)
        self._close_descriptors()
        _end_countdown(self._countdown)
        _await_ends(set(self._state.workers), worker.FAST)

    def _close_in_child(self) -> None:
        """A child that the application has forked keeps no worker alive, and no client waiting."""
        waiting = (each for each, _ in self._connections)
        sockets.let_go((), [*self._descriptors(), *self._countdown, *waiting])

    def _close_descriptors(self) -> None:
        for descriptor in self._descriptors():
            os.close(descriptor)

    def _descriptors(self) -> list[int]:
        return [self._signals, self._wake, *self._unborn, *self._lifelines.values(), *self._reports]

    def _waiting(self) -> list[tuple[int, int]]:
        """The connections that no worker was given."""
        return self._connections if self._bearer not in self._state.workers else []

    def _close_connections(self) -> None:
        while self._connections:
            os.close(self._connections.pop()[0])

    def _hear(self) -> None:
        """Note the signals that came; several of the same kind may be one byte or many."""
        self.hear(signals.read_all(self._signals))

    def hear(self, numbers: bytes) -> None:
        """Note these signals."""
        now = self._now()
        for signum in numbers:
            if signum == signal.SIGTERM:
                self._begin_stop(signum)
                self._state.stop(now)
            elif signum == signal.SIGINT:
                self._late_code = 128 + signum
                self._begin_stop(signum)
                self._state.stop_fast(now)
            elif signum == signal.SIGQUIT:
                self._begin_stop(signum)
                self._state.stop_at_once(now)
            elif signum == signal.SIGUSR1:
                self._reopen()
            elif signum in signals.RELOADS and self._state.stopping is None:
                self._begin_reload()
            elif signum in signals.COUNTS:
                self._step(1 if signum == signal.SIGTTIN else -1)
            elif signum == signal.SIGWINCH and not _has_terminal():
                self._error_log.write("S", "SIGWINCH: the workers leave; HUP brings them back, TTIN one")
                self._are_away, self._state.wanted = True, 0
                self._manager.status(self._status())
            if self._state.quitting:
                self._at_once = self._at_once or signum

    def _step(self, by: int) -> None:
        """One worker more or fewer; where the load decides, within its bounds."""
        if self._scale and not self._are_away:
            self._scale.step(by, self._now())
            self._state.wanted = self._scale.wanted
        elif by > 0 or self._state.wanted > 1:
            self._state.wanted += by
        self._error_log.write("S", f"workers that there are to be: {self._state.wanted}")

    def _begin_stop(self, signum: int) -> None:
        """Say it, begin a worker for those who wait for one, and let go of the sockets: when the last worker does too,
        a connection is refused, not left waiting.

        A unix socket is shut down instead, since whoever made it looks at it once more to remove it.
        """
        if self._state.stopping is not None:
            return
        if self._reload is not None:
            self._reload.cancel()
        if self._waiting() and signum != signal.SIGQUIT:
            self._spawn()  # else nobody would answer them
        workers = f"{len(self._state.workers)} worker{'s' * (len(self._state.workers) != 1)}"
        self._error_log.write("S", f"stopping {workers}: {name_of(signum)}")
        self._manager.stopping(f"stopping {workers}")
        for each in self._listeners:
            if sockets.is_made(each):
                each.shutdown(socket.SHUT_RD)
            else:
                each.close()
        # One that drains has left its clients to the others.
        _begin_countdown(self._countdown, sum(each.draining is None for each in self._state.workers.values()))

    def _begin_reload(self) -> None:
        if self._make_reload is None:
            self._error_log.write("W", worker.NO_RELOAD)
            return
        try:
            self._reload = self._reload or self._make_reload()
        except Exception as error:  # no descriptor left to import it with, or poorhttp is just being installed anew
            self._say_failure(error)
            return
        self._reload.begin()

    def _say_failure(self, error: Exception) -> None:
        why = f"the server goes on as it was: {error}"
        self._error_log.write("E", f"reload failed, {why}")
        if self._board:
            self._board.note_reload(FAILED, why)
        self._manager.ready(f"reload failed, serving as before: {error}")

    def _replace(self, reload: Reload) -> None:
        """Become the new image, which goes on with these workers until its own serve."""
        # What came until now is heard here; what comes from now on, by the new image.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signals.HANDLED)
        handlers = signals.hold_back()
        self._hear()
        if self._state.stopping is None and not reload.is_trying():  # else once more: it was asked for again
            self._execute(reload)
        signals.restore(handlers)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def _execute(self, reload: Reload) -> None:
        """Become the new image. Returns where that is impossible."""
        reload.keep(each.fileno() for each in self._listeners)
        reload.handover.connections = [(each, reload.keys[number]) for each, number in self._waiting()]
        reload.handover.signals = self._signals
        reload.handover.countdown = self._countdown
        if not self._are_away:
            reload.handover.wanted, reload.handover.configured = self._state.wanted, str(self._config.processes)
        self._call_for_the_last()
        reports = {pid: report for report, pid in self._reports.items()}
        reload.handover.workers = {
            pid: (self._lifelines[pid], reports.get(pid, -1), each.draining is not None, each.is_closed)
            for pid, each in self._state.workers.items()
        }
        try:
            reload.execute()
        except OSError as error:
            self._say_failure(error)

    def _reopen(self) -> None:
        self._error_log.reopen()
        for pid in self._state.workers:
            send(pid, signal.SIGUSR1)

    def _reap(self) -> None:
        """Note the workers that are gone. Each is asked for by its pid: other children are the application's."""
        for pid in list(self._state.workers):
            code = _exit_code(pid)
            if code is None:
                continue
            self._hear_last_words(pid)
            self._cut_lifeline(pid)
            row = self._board.free(pid) if self._board else b""
            now = self._now()
            gone = self._state.workers[pid]
            self._state.died(pid, code, now)
            if self._child_exit:
                self._child_exit.note(pid)
            if gone.draining is not None and self._state.stopping is None:
                self._error_log.write("E" if code else "I", f"worker {pid} left: {reason(code, pid in self._killed)}")
            else:
                self._say_death(gone, code, now)
            self._say_lost(pid, row)
        if self._child_exit:
            self._child_exit.look()

    def _call_for_the_last(self) -> None:
        """Call `child_exit` for the workers that ended just now."""
        if self._child_exit:
            self._child_exit.finish()

    def _say_lost(self, pid: int, row: bytes) -> None:
        """Name the requests that a worker was in as it ended: nobody answers them any more."""
        for call in calls.of_row(row):
            text = f"request lost with worker {pid}: {call.about()}, at work for {call.seconds():.1f} s"
            self._error_log.write("E", text, call.client or "-")
            worker.log_lost(call, self._config, self._access_log)

    def _hear_last_words(self, pid: int) -> None:
        """What a worker that is gone has told, if it has not been read yet: above all a fault."""
        for report in [each for each, owner in self._reports.items() if owner == pid]:
            poll = select.poll()
            poll.register(report, select.POLLIN)
            if poll.poll(0):
                self._hear_worker(report)

    def _say_death(self, gone: Worker, code: int, now: float) -> None:
        pid = gone.pid
        if self._state.stopping is not None:
            if code:
                what = "did not stop cleanly" if gone.is_ready else "had not begun to serve"
                self._error_log.write("E", f"worker {pid} {what}: {reason(code, pid in self._killed)}")
            return
        if not self._config.preload and self._is_beginning():
            raise LoadError(
                f"a worker died while it loaded the application: {reason(code)}", "poorhttp check tells where"
            )
        self._replacing = True
        delay = max(self._state.next_spawn(now) - now, 0.0)
        if self._is_ready:
            self._tell_manager()
        text = f"worker {pid} died: {reason(code)}; the next one starts {when(delay)}"
        if self._is_reloading and not gone.is_ready:
            self._end_reload(FAILED, text)
        self._error_log.write("E" if code else "N", text)

    def _perform(self, action: Action) -> None:
        if isinstance(action, Spawn):
            self._spawn()
            return
        if isinstance(action, Stop):
            self._tell(action.pid, worker.STOP)
        elif isinstance(action, Drain):
            self._tell(action.pid, worker.DRAIN)
        elif isinstance(action, Quit):
            send(action.pid, signal.SIGQUIT)
        elif isinstance(action, Kill):
            self._error_log.write("E", f"worker {action.pid} is late to stop; killed")
            self._killed.add(action.pid)
            send(action.pid, signal.SIGKILL)
        self._state.performed(action, self._now())

    def _tell(self, pid: int, what: bytes) -> None:
        try:
            os.write(self._lifelines[pid], what)
        except (KeyError, OSError):
            return  # it is gone

    def _cut_lifeline(self, pid: int) -> None:
        descriptor = self._lifelines.pop(pid, None)
        if descriptor is not None:
            os.close(descriptor)

    def _spawn(self) -> None:
        """Fork one worker. Signals wait meanwhile, in the child until it hears them: none is lost, none kills it."""
        signals.flush(self._error_log)
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)
        slot = self._board.next_slot() if self._board else -1
        bears = bool(self._waiting())
        try:
            pid = birth.fork(self._unborn)
        except OSError as error:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            self._not_born(error)
            return
        lifeline, report = self._unborn
        if pid == 0:
            self._unborn.clear()
            self._work(lifeline, report, mask, slot, bears)
        if self._board:
            self._board.take(slot, pid)
        self._lifelines[pid] = lifeline
        self._reports[report] = pid
        self._unborn.clear()
        if bears:
            self._bearer = pid
        self._state.born(pid, self._now())
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        self._error_log.write("I" if self._replacing else "D", f"worker {pid} started")

    def _is_beginning(self) -> bool:
        """Whether no worker has served yet: the next one will fare no better, so that the start has failed."""
        return not (self._is_ready or self._is_reloading) and self._state.stopping is None

    def _note_fault(self, pid: int, fault: PoorhttpError) -> None:
        """A worker cannot begin to serve, and is about to end."""
        if self._is_beginning():
            raise fault
        for line in shown(fault.detail):
            self._error_log.write("E", f"| {line}")
        hint = f"; {fault.hint}" if fault.hint else ""
        self._error_log.write("E", f"worker {pid} cannot begin to serve: {fault.message}{hint}")

    def _not_born(self, error: OSError) -> None:
        if error.errno == errno.EMFILE and not self._state.workers and self._is_beginning():
            raise error
        self._state.not_born(self._now())
        what = "descriptors" if error.errno in (errno.EMFILE, errno.ENFILE) else "memory or processes"
        self._error_log.write("E", f"cannot start a worker: {error.strerror}; out of {what}, to be tried again")

    def _work(self, lifeline: int, report: int, mask: Any, slot: int, bears: bool) -> NoReturn:
        """Be a worker, in the child, to the end of the process."""

        def ready() -> None:
            end_with(None)  # the lifeline tells from here on, and leaves a moment for what is in flight
            birth.tell(report, worker.READY)

        code = 1
        try:
            self._error_log.wait(True)
            self._forget()
            tell_of_fork()
            if not bears:
                self._close_connections()
            worker.hold_signals(mask)
            app = self._load()
            code = worker.serve(
                app,
                self._listeners,
                loader.suited(self._config, lambda text: self._error_log.write("W", text)),
                self._error_log,
                self._access_log,
                lifeline,
                report,
                ready=ready,
                connections=self._connections,
                row=self._board.row(slot) if self._board else None,
                # That of the image before may be for other sockets than those which are passed to this one.
                countdown=self._countdown[0] if self._countdown and sockets.are_own(self._listeners) else None,
            )
        except SystemExit:
            code = 1  # it was told why
        except Exception as error:
            fault = error if isinstance(error, PoorhttpError) else shortage(error)
            if fault is None:
                self._error_log.exception(error, "-", f"worker {os.getpid()}")
            else:
                birth.tell(report, worker.FAILED + birth.fault(fault))
                code = fault.exit_code
        except BaseException as error:
            self._error_log.exception(error, "-", f"worker {os.getpid()}")
        finally:
            seconds = worker.LATE if os.getppid() != self._process else self._config.graceful_timeout
            end_with(os.getppid())
            signals.leave(code, self._error_log, seconds)

    def _forget(self) -> None:
        """Drop, in the child, all that makes a supervisor: above all the other workers' lifelines.

        The handlers stay until the worker has its own. Signals are blocked now, and one that waits would be thrown away
        by the kernel if it were ignored for a moment.
        """
        signal.set_wakeup_fd(-1)
        worker.close_in_children.remove(self._close_in_child)
        self._close_descriptors()
        if self._countdown:
            os.close(self._countdown.pop())  # that end is the supervisor's alone
        if self._watch:
            self._watch.close()
        signals.restore({signum: self._old[signum] for signum in (signal.SIGCHLD, signal.SIGWINCH)})
        self._give_children_back()


def _begin_countdown(countdown: list[int], staying: int) -> None:
    """All stop now: let the last one of so many workers that accept know it, and keep neither end, if there are any."""
    if countdown:
        os.write(countdown[1], bytes(max(staying - 1, 0)))
    _end_countdown(countdown)


def _end_countdown(countdown: list[int]) -> None:
    while countdown:
        os.close(countdown.pop())


def _child_exit(config: Config, error_log: ErrorLog) -> ChildExit | None:
    if not config.child_exit:
        return None
    from poorhttp.process.child_exit import ChildExit

    return ChildExit(config, error_log)


def _budget(memory: int) -> Budget | None:
    if not memory:
        return None
    from poorhttp.process.memory import Budget

    return Budget(memory, time.monotonic())


def _scale(config: Config) -> Scale | None:
    if config.processes.most == config.processes:
        return None
    from poorhttp.process.scale import Scale

    return Scale(int(config.processes), config.processes.most, time.monotonic())


def _heard(signum: int, frame: FrameType | None) -> None:
    """Do nothing: the interpreter has written the byte that wakes the loop."""


def _has_terminal() -> bool:
    """Whether this process may be told WINCH because a window has another size now, as is its first meaning."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True


def send(pid: int, signum: int) -> None:
    try:
        os.kill(pid, signum)
    except ProcessLookupError:
        return  # gone, and reaped by the application, with a wait for any child


def _exit_code(pid: int) -> int | None:
    """Return the exit code of a child that is gone (negative: signal), None while it lives."""
    try:
        reaped, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return 1  # reaped by the application; what it was is not known
    return os.waitstatus_to_exitcode(status) if reaped else None
