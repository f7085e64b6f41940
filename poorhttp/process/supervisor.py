"""The process above the workers: it waits, reaps, notes, asks the plan, and performs.

Knows how a worker is forked, told to stop and reaped, and what the signals mean. Does not know when any of that is to
be done (`poorhttp.process.workers.plan`) nor how a worker serves (`poorhttp.process.worker`).
Contract: `supervise` returns the exit code when every worker is gone; in a worker it does not return at all.
"""

from __future__ import annotations

import errno

from poorhttp.errors import LoadError, PoorhttpError
from poorhttp.listen.backlog import Backlog
from poorhttp.listen.systemd import Manager
from poorhttp.process import messages
from poorhttp.process.shape import counted
from poorhttp.process.workers import birth
from poorhttp.process.workers.plan import Exit, Spawn, State, Worker, plan, wait
from poorhttp.process.workers.processes import Workers, when
from poorhttp.process.workers.sizing import Sizing, has_terminal
from poorhttp.process.workers.supervised_reload import SupervisedReload
from poorhttp.process.workers.supervisor_signals import SupervisorSignals
from poorhttp.stdlib import select, signal, socket, time
from poorhttp.system import signals, timing
from poorhttp.system.exits import name_of, reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from poorhttp.config.model import Config
    from poorhttp.logs.log import ErrorLog
    from poorhttp.process.worker import Application
    from poorhttp.process.workers.plan import Action
    from poorhttp.reload.handover import Handover
    from poorhttp.reload.reload import Reload
    from poorhttp.status.scoreboard import Scoreboard


def supervise(
    load: Callable[[], Application],
    listeners: Sequence[socket.socket],
    config: Config,
    error_log: ErrorLog,
    access_log: int,
    make_reload: Callable[[], Reload] | None = None,
    handover: Handover | None = None,
    manager: Manager | None = None,
    scoreboard: Scoreboard | None = None,
    connections: Sequence[tuple[int, int]] = (),
    ready: Callable[[], None] = lambda: None,
) -> int:
    """Keep `config.processes` workers serving an application until a signal stops them; main thread only.

    load: called in each worker; it gives the application, and what it raises ends the worker. make_reload: how HUP and
    USR2 replace this program, None: not at all. handover: the workers of the program before this one, which leave as
    new ones serve. manager: the service manager. scoreboard: where all show what they do. connections: that wait to be
    served, descriptor and number of the listener. ready: called when the first worker serves.

    TERM stops gracefully, INT too but with a second for what is in flight, QUIT at once, as does a second TERM or INT;
    USR1 reopens the logs everywhere; TTIN and TTOU keep one worker more or fewer, WINCH none until HUP or TTIN.
    Returns 0 after a clean stop; 128 + signal number where a second TERM or INT came, or a QUIT or INT that cut
    something off; else 1 if a worker that served had to be killed or failed while it was stopping.
    Raises PoorhttpError where a worker cannot begin to serve and none has, OSError where no descriptor is left for one.
    No worker is left then.
    """
    error_log.follow(access_log, config.accesslog)
    is_immortal = birth.prepare(config)
    if scoreboard is not None:
        scoreboard.tell(immortal=is_immortal)
    manager = manager or Manager()
    reloads = SupervisedReload(make_reload, error_log, manager, scoreboard, is_rolling=handover is not None)
    supervisor = Supervisor(load, listeners, config, error_log, access_log, reloads, manager, scoreboard, ready)
    if handover is not None:
        supervisor.adopt(handover, connections)
    return supervisor.run()


class Supervisor:
    """The state of the loop, which is `run`. load: None where there is no application: then no worker is started."""

    def __init__(
        self,
        load: Callable[[], Application] | None,
        listeners: Sequence[socket.socket],
        config: Config,
        error_log: ErrorLog,
        access_log: int,
        reloads: SupervisedReload,
        manager: Manager,
        scoreboard: Scoreboard | None,
        ready: Callable[[], None] = lambda: None,
    ) -> None:
        self._ready = ready
        self._listeners = listeners
        self._config = config
        self._configured = str(config.processes)
        self._error_log = error_log
        self._reloads = reloads
        self._manager = manager
        self._watch = manager.watch(listeners, lambda text: error_log.write("W", text))
        self._state = State(config.processes, config.graceful_timeout, load is not None)
        self._lost = 0.0  # seconds in which this process did not run
        self._serves = False  # a worker does
        self._is_ready = False  # the service manager knows it
        self._replacing = False  # workers that died
        self._at_once = 0  # the first signal that wanted the end at once
        self._late_code = 1
        self._backlog = Backlog(error_log)
        self._sizing = Sizing(config, error_log, is_fixed=load is None)
        self._workers = Workers(load, listeners, config, error_log, access_log, scoreboard)
        self._signals = SupervisorSignals()

    def adopt(self, handover: Handover, connections: Sequence[tuple[int, int]] = ()) -> None:
        """Go on with the workers of the program before this one, and with their number unless the configuration's is
        another now. connections: that wait to be served.
        """
        if not self._state.may_start:  # this configuration does not count yet
            self._configured = handover.configured
        if handover.configured and handover.configured == self._configured:
            self._state.wanted = handover.wanted
        for pid, (_, _, is_leaving, is_closed) in handover.workers.items():
            self._state.adopted(pid, self._now(), is_leaving, is_closed)
        self._workers.adopt(handover, connections)
        self._sizing.adopted(self._state, self._now())

    def run(self) -> int:
        """Supervise until every worker is gone; return the exit code."""
        try:
            self._error_log.wait(False)
            while True:
                self._reap()
                self._replace()
                self._sizing.decide(self._state, self._reloads.is_trying(), self._now())
                actions = plan(self._state, self._now())
                for action in actions:
                    if isinstance(action, Exit):
                        self._workers.call_for_the_last()
                        return self._exit_code(action.code)
                    self._perform(action)
                if self._reloads.has_concluded(self._state):
                    self._is_ready = True
                    self._note_serving()
                    self._reloads.end(self._sizing.status(self._state))
                self._wait()
        finally:
            self._close()

    def _close(self) -> None:
        """Give back descriptors and signals; end workers that are still there, after an exception."""
        self._error_log.wait(True)
        self._signals.end()
        self._workers.close(self._state.workers)

    # Waiting, and hearing

    def _now(self) -> float:
        """Seconds of a clock that stands still while this process does: a worker that could not run is not late."""
        return time.monotonic() - self._lost

    def _seconds(self) -> float | None:
        """For how long there is nothing to do if nothing happens; None: for ever."""
        limits = [wait(self._state, self._now()), self._reloads.seconds_left()]
        if self._state.stopping is None:
            limits.append(self._sizing.seconds_left(self._now()))
        limits.append(self._workers.due())
        limits.append(self._watch.seconds_left() if self._watch else None)
        return min((each for each in limits if each is not None), default=None)

    def _wait(self) -> None:
        """Sleep until a signal comes, a worker reports something, or there may be something to do; hear both. Signals
        first: all processes may have been sent one.
        """
        watch, seconds = self._watch, self._seconds()
        before = time.monotonic()
        poll = select.poll()
        for descriptor in (self._signals.pipe.reader, *self._workers.pipes.reports()):
            poll.register(descriptor, select.POLLIN)
        if watch and watch.fileno() >= 0:
            poll.register(watch.fileno(), watch.events())
        ready = [descriptor for descriptor, _ in poll.poll(None if seconds is None else 1000 * seconds)]
        waited = time.monotonic() - before
        if seconds is not None and waited > seconds + timing.STANDSTILL:
            self._lost += waited
            self._reloads.stood_still(waited)
        self.hear(self._signals.pipe.read())
        for report in self._workers.pipes.reports():
            if report in ready:
                self._hear_worker(report)
        if watch:
            watch.look(watch.fileno() in ready, bool(self._state.wanted) and self._state.stopping is None)

    def _hear_worker(self, report: int) -> None:
        """A worker reports something, or is gone."""
        pid, heard = self._workers.pipes.hear(report)
        reports, failed, fault = heard.partition(messages.FAILED)
        if pid not in self._state.workers:
            return
        if messages.READY in reports:
            self._workers.served(pid)
            self._state.ready(pid)
            self._note_serving()
            if self._state.may_start:  # else the manager was told of the reload that failed
                self._tell_manager()
        if messages.CLOSED in reports:
            self._state.closed(pid)
        if failed:
            self._note_fault(pid, birth.fault_of(fault))
        if messages.STUCK in reports:
            self._workers.killed.add(pid)  # it may do that itself
            if self._state.retire(pid):
                self._error_log.write("E", f"worker {pid}: a call does not return; another worker takes its place")
        if messages.SPENT in reports and self._state.retire(pid):
            self._error_log.write("I", f"worker {pid} has answered max_requests; another one takes its place")
        if messages.ASKED in reports and self._state.retire(pid):
            self._error_log.write("I", f"worker {pid} was asked to leave (SIGTERM); another one takes its place")
        if messages.OVERLOADED in reports:
            self._backlog.look(self._listeners, self._now())
        self._sizing.hear(pid, reports, self._now())

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
                self._reloads.begin()
            elif signum in signals.COUNTS:
                self._sizing.step(signum, self._state, now)
            elif signum == signal.SIGWINCH and not has_terminal():
                self._sizing.send_away(self._state)
                self._manager.status(self._sizing.status(self._state))
            if self._state.quitting:
                self._at_once = self._at_once or signum

    def _reopen(self) -> None:
        self._error_log.reopen()
        for pid in self._state.workers:
            self._workers.send(pid, signal.SIGUSR1)

    # Telling the outside

    def _note_serving(self) -> None:
        """From the first worker on that serves, whichever program began it."""
        if not self._serves and self._state.serving_pids() and self._state.stopping is None:
            self._serves = True
            self._ready()

    def _tell_manager(self) -> None:
        if self._is_ready or self._reloads.is_rolling or self._state.stopping is not None:
            self._manager.status(self._sizing.status(self._state))
        else:
            self._manager.ready(self._sizing.status(self._state))
            self._is_ready = True

    # Stop, and the new program

    def _begin_stop(self, signum: int) -> None:
        """Say it, and begin a worker for clients that wait for one: else nobody would answer them."""
        if self._state.stopping is not None:
            return
        self._reloads.cancel()
        if self._workers.are_waited_for() and signum != signal.SIGQUIT:
            self._spawn()
        workers = counted(len(self._state.workers), "worker")
        self._error_log.write("S", f"stopping {workers}: {name_of(signum)}")
        self._manager.stopping(f"stopping {workers}")
        # A worker that drains has left its clients to the others.
        self._workers.begin_stop(sum(each.draining is None for each in self._state.workers.values()))

    def _exit_code(self, planned: int) -> int:
        """A QUIT that cut nothing off is a clean stop."""
        is_clean_quit = self._at_once == signal.SIGQUIT and planned == 0
        if self._at_once and not is_clean_quit:
            return 128 + self._at_once
        return self._late_code if planned else 0

    def _replace(self) -> None:
        """If it is time, become the new program, which goes on with these workers until its own serve."""
        reload = self._reloads.due(self._state)
        if reload is not None:
            self._signals.held_back(lambda numbers: self._become(reload, numbers))

    def _become(self, reload: Reload, numbers: bytes) -> None:
        """Become the new program, unless one of these signals came. Returns where that is impossible."""
        self.hear(numbers)
        if self._state.stopping is not None or self._reloads.is_trying():  # it was asked for again
            return
        self._workers.hand_over(reload, self._state)
        reload.handover.signals = self._signals.pipe.reader
        if not self._sizing.are_away:
            reload.handover.wanted, reload.handover.configured = int(self._state.wanted), self._configured
        try:
            reload.execute()
        except OSError as error:
            self._reloads.failed(error)

    # The end of a worker

    def _reap(self) -> None:
        """Note the workers that are gone. Each is asked for by its pid: other children are the application's."""
        for pid in list(self._state.workers):
            code = self._workers.exit_code(pid)
            if code is None:
                continue
            for report in self._workers.pipes.left_unread(pid):  # its last words: above all a fault
                self._hear_worker(report)
            row = self._workers.let_go(pid)
            now = self._now()
            gone = self._state.workers[pid]
            self._state.died(pid, code, now)
            if gone.draining is not None and self._state.stopping is None:
                why = reason(code, pid in self._workers.killed)
                self._error_log.write("E" if code else "I", f"worker {pid} left: {why}")
            else:
                self._say_death(gone, code, now)
            self._workers.say_lost(pid, row)
        self._workers.look()

    def _say_death(self, gone: Worker, code: int, now: float) -> None:
        pid = gone.pid
        if self._state.stopping is not None:
            if code:
                what = "did not stop cleanly" if gone.is_ready else "had not begun to serve"
                self._error_log.write("E", f"worker {pid} {what}: {reason(code, pid in self._workers.killed)}")
            return
        if not self._config.preload and self._is_beginning():
            raise LoadError(
                f"a worker died while it loaded the application: {reason(code)}", "poorhttp check tells where"
            )
        self._replacing = True
        is_due = when(max(self._state.next_spawn(now) - now, 0.0))
        next_one = is_due if self._state.may_start else "when the new code can be loaded"
        if self._is_ready:
            self._tell_manager()
        text = f"worker {pid} died: {reason(code)}; the next one starts {next_one}"
        if self._reloads.is_rolling and not gone.is_ready:
            self._reloads.end(self._sizing.status(self._state), text)
        self._error_log.write("E" if code else "N", text)

    def _note_fault(self, pid: int, fault: PoorhttpError) -> None:
        """A worker cannot begin to serve, and is about to end."""
        if self._is_beginning():
            raise fault
        self._workers.say_fault(pid, fault)

    def _is_beginning(self) -> bool:
        """Whether no worker has served yet: the next one will fare no better, so that the start has failed."""
        is_later = self._is_ready or self._reloads.is_rolling or self._state.stopping is not None
        return self._state.may_start and not is_later

    # Performing the plan

    def _perform(self, action: Action) -> None:
        if isinstance(action, Spawn):
            self._spawn()
            return
        self._workers.ask_to_leave(action)
        self._state.performed(action, self._now())

    def _spawn(self) -> None:
        """Fork one worker. Signals wait meanwhile, in the child until it hears them: none is lost, none kills it."""
        signals.flush(self._error_log)
        mask = self._signals.block()
        try:
            pid = self._workers.fork(mask, self._forget)
        except OSError as error:
            self._signals.unblock(mask)
            self._not_born(error)
            return
        self._state.born(pid, self._now())
        self._signals.unblock(mask)
        self._error_log.write("I" if self._replacing else "D", f"worker {pid} started")

    def _not_born(self, error: OSError) -> None:
        if error.errno == errno.EMFILE and not self._state.workers and self._is_beginning():
            raise error
        self._state.not_born(self._now())
        self._workers.say_not_born(error)

    def _forget(self) -> None:
        """Drop, in a worker, what makes a supervisor."""
        self._signals.forget()
        if self._watch:
            self._watch.close()
