"""One process that serves: T threads in one engine, from the first request to the last.

Knows how signals reach the engine and how its threads are started. Does not know how requests are served (the engine),
who loaded the application, nor whether there are other workers (the supervisor).
Contract: `serve` returns when the engine has stopped and every thread is back. A stop reaches the engine as a byte on
a descriptor, so none is lost while it sleeps; what this module adds is the end of a process whose application does not
come back.
"""

from __future__ import annotations

import atexit

from poorhttp._engine import Engine, SignalHandler
from poorhttp.listen import sockets
from poorhttp.process import threads
from poorhttp.stdlib import os, signal, socket, thread, time
from poorhttp.system.exits import end_with
from poorhttp.system.signals import (
    COUNTS,
    HANDLED,
    NAMES,
    RELOADS,
    REPEAT,
    afterwards,
    delay,
    forget,
    hold_back,
    is_starting,
    leave_at_once,
    raise_delayed,
    read_all,
    restore,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import FrameType
    from typing import Any, NoReturn

    from poorhttp.config.config import Config
    from poorhttp.listen.backlog import Backlog
    from poorhttp.listen.systemd import Manager
    from poorhttp.logs.log import ErrorLog
    from poorhttp.reload.reload import Reload
    from poorhttp.status.calls import Call
    from poorhttp.status.scoreboard import Row

    Application = Callable[..., Iterable[bytes]]

LATE = 0.8
"""Seconds that an application gets to return when its time is over, `graceful_timeout` or that of the engine; a
supervisor kills after one second."""

LOST = "the thread of that call does not come back"

NO_RELOAD = "reload ignored: poorhttp.run() cannot start the program anew; restart it"

DRAIN = b"\0"
"""What the engine reads on a control descriptor where a successor is ready: it sends its clients away, then stops."""

DRAIN_SECONDS = 1.0
"""How long it does so at most."""

STOP = b"\xff"
"""What the engine reads on a lifeline where the supervisor stops: a graceful stop, which is not SIGTERM told twice."""

INTERRUPT = b"\xfe"
"""And what it reads there where that is to be a stop as by SIGINT, which a terminal sends to all."""

FAST = 1.0
"""Seconds that what is in flight gets after SIGINT; the engine and the supervisor have the same."""

STANDSTILL = 1.0
"""Seconds: whoever wakes up so much later than he wanted to was stopped (SIGSTOP), and everybody with him."""

RETRY = 30.0
"""Seconds between two tries to start anew a program with a call that does not return."""

LOST = f"what is lost stays lost, to be tried again in {RETRY:.0f} s"
"""What a failed try means then."""

READY, STUCK, SPENT, ASKED, PRESSED, CLOSED, FAILED, LOAD = b"1", b"S", b"R", b"T", b"P", b"C", b"F", 128
"""What a worker tells its supervisor: it serves; a call does not return, even after RequestTimeout; it has answered
`max_requests`; a TERM came to it; all its threads are busy and somebody waits; it has closed its listeners; it cannot
begin to serve, and what follows is why (`birth.fault`); from 128 on: how busy they were in the last second, in percent.
"""


def serve(
    app: Application,
    listeners: Sequence[socket.socket],
    config: Config,
    error_log: ErrorLog,
    access_log: int,
    lifeline: int | None = None,
    report: int | None = None,
    ready: Callable[[], None] | None = None,
    clean_up: Callable[[], None] | None = None,
    make_reload: Callable[[], Reload] | None = None,
    manager: Manager | None = None,
    connections: Sequence[tuple[int, int]] = (),
    row: Row | None = None,
    countdown: int | None = None,
) -> int:
    """Serve `app` on `listeners` until a signal (or the end of the supervisor) stops it; main thread only.

    listeners: the engine has copies; these are closed, so that a connection is refused as soon as it stops accepting.
    access_log: descriptor, -1 for none. lifeline: descriptor whose end of file means stop; only a worker under a
    supervisor has one, and leaves SIGINT and SIGHUP, which a terminal sends to all, to the supervisor. report:
    descriptor on which it tells of itself.
    ready: called once signals are heard and the engine is built, immediately before serving. clean_up: called before
    the process is left from here, without returning. make_reload: how HUP and USR2 replace this image, None: not at
    all. manager: the service manager, that is told how this server does. row: where this process shows what it does.
    connections: what the image before this one accepted and could not serve, descriptor and number of the listener.
    countdown: by which the workers of a supervisor know who of them stops last.

    TERM stops gracefully (a worker tells its supervisor of it, which decides), INT too but with a second for what is in
    flight, QUIT at once, as does a second TERM or INT; USR1 reopens the logs. Where the main thread is inside the
    application then, or a thread does not return from it in time, the process is left without further ado.
    Returns (or leaves with) the exit code: 0 after a stop; 128 + signal number where a second TERM or INT came, or a
    QUIT or INT that cut the application off; 1 where the application did not return in time after TERM, or has
    taken descriptors of the engine.
    Afterwards the signals are as they were; under a supervisor all but QUIT are ignored, for the process is to leave.
    Raises what `Engine` raises, and OSError where there is no descriptor left.
    """
    # One more where the server answers for itself while all others are in the application.
    count = config.threads + (bool(config.health) and config.processes.most == 1)
    if config.threads > 1:
        # Before a signal: the handler of a reload needs it too, and would find it half imported.
        from poorhttp.stdlib import threading  # noqa: F401  # only a process with more than one thread pays for it
    error_log.follow(access_log, config.accesslog)
    signals = _Signals(config.graceful_timeout, error_log, lifeline is not None, clean_up, make_reload, manager)
    try:
        control = [signals.control] if lifeline is None else [signals.control, lifeline]
        told = signals.told if report is None else report
        if lifeline is None and sockets.are_own(listeners):
            countdown, here = os.pipe()
            os.close(here)  # at its end: the only process is the last one
        numbers = [each.fileno() for each in listeners]
        engine = Engine(app, numbers, control, access_log, error_log, config, told, row, countdown)
        _serving.append(engine)
        if countdown is not None:
            os.close(countdown)
        for descriptor, number in connections:
            engine.adopt(descriptor, number)
            os.close(descriptor)
        if manager is not None:
            manager.watch_aside(listeners, lambda text: error_log.write("W", text))
        _close(listeners, supervised=lifeline is not None)

        def tell_ready() -> None:
            if ready is not None:
                ready()
            if manager is not None:
                manager.ready(f"serving with {config.threads} thread{'s' * (config.threads > 1)}")

        _run(engine, config.threads, count, tell_ready, signals)
        signals.make_way()
        return 1 if engine.has_failed() else signals.exit_code(engine.stopped_at_once_by())
    finally:
        _serving.clear()
        signals.restore()


def accept_last(sock: socket.socket) -> list[int]:
    """Let nobody in any more at a listening socket, for all who share it, and take who waits there: the descriptors of
    the connections. Raises OSError.
    """
    from poorhttp._engine import take_waiting

    return take_waiting(sock.fileno())


def log_lost(call: Call, config: Config, access_log: int) -> None:
    """Add the line of a request whose worker has died in it: 504 where that was answered in its place, else 500."""
    from poorhttp._engine import log_lost

    status = 504 if call.is_given_up else 500
    log_lost(config, access_log, call.client or None, call.head(), call.request_id, status)


def check_storage() -> None:
    """Raises OSError where large request bodies cannot be kept."""
    from poorhttp._engine import try_temporary_file

    try_temporary_file()


_serving: list[Engine] = []
"""The engine of this process, while it serves."""


close_in_children: list[Callable[[], None]] = []
"""Each closes what is not to be open in a child that the application forks."""

forking_own: dict[int, int] = {}
"""The threads that are forking a child which is no such one, with the number of their process. The kernel kills that
child with its parent until it serves: what the application does in it before, in a hook or while it is loaded, may
never come to an end.
"""

_newborn: list[int] = []
"""In a child of the server's own, which has all signals blocked until `hold_signals`: its process number."""

_abandoned: list[Engine] = []
"""In such a child: the engine of its parent, which is not to be taken down."""

_masks: dict[int, Any] = {}
"""The signals that a thread which is forking had blocked before, by its identifier."""


def _before_fork() -> None:
    """Hold signals back: a child that got one before it is its own would write it into the pipe that it shares."""
    if (_serving or close_in_children) and not is_starting():
        # Noted before it is changed: what a handler raises, or RequestTimeout, may come out of each call.
        _masks[thread.get_ident()] = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)


def _after_fork_in_parent() -> None:
    mask = _masks.get(thread.get_ident())
    if mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        _masks.pop(thread.get_ident(), None)


def _after_fork_in_child() -> None:
    """Make a child that the application forked its own: it does not serve, keeps no port, and where its parent has
    begun to, it hears signals like any process.
    """
    try:
        if thread.get_ident() in forking_own:
            parent = forking_own[thread.get_ident()]
            forking_own.clear()  # what it forks from now on, from another hook perhaps, is the application's
            _newborn.append(os.getpid())
            end_with(parent)
            return
        if _newborn:
            _newborn.clear()
            _masks[thread.get_ident()] = ()
        if thread.get_ident() in _masks:  # signals were held back
            forget()
        for engine in _serving:
            engine.abandon()
        for close in close_in_children:
            close()
        _abandoned.extend(_serving)  # what it forks is not the server's
        _serving.clear()
        close_in_children.clear()
    finally:
        _after_fork_in_parent()


def hold_signals(mask: Any) -> None:
    """In a child of the server's own: let signals come, those to which a server listens when it serves.

    mask: those that its parent had blocked.
    """
    for signum in HANDLED:
        signal.signal(signum, delay)
    _newborn.clear()
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)


class _Signals:
    """The signals of a serving process, from its making until `restore`.

    control: the descriptor on which the engine reads every signal as one byte, written by the interpreter's own
    handler at once, in whichever thread. The Python handlers below run only when the main thread runs Python code: that
    matters inside the application, from where the engine cannot bring it back, and where the application has taken the
    interpreter's wake-up descriptor away, as an asyncio loop does: then they write the byte.
    """

    def __init__(
        self,
        graceful_timeout: float,
        error_log: ErrorLog,
        supervised: bool,
        clean_up: Callable[[], None] | None,
        make_reload: Callable[[], Reload] | None,
        manager: Manager | None,
    ) -> None:
        self._make_reload = make_reload
        self._manager = manager
        self._reload: Reload | None = None
        self._successor: Reload | None = None
        self._backlog: Backlog | None = None
        self._is_stuck = self._is_leaving = False
        self._is_supervised = supervised
        self._is_over = False  # `restore` waits for the thread of a trial, which therefore waits for nothing then
        self._is_asked = False  # for a reload
        self._on_trial = thread.allocate_lock()
        self._graceful_timeout = graceful_timeout
        self._error_log = error_log
        self._clean_up = clean_up
        self._since: float | None = None
        self._stopped_by = 0  # the signal that was to stop it, of several the one that wants it sooner
        self._patience = self._due = 0.0  # seconds until the process is left, and when that is
        self._at_once = 0  # the first signal that wanted the end at once
        self._late_code = 1
        # Under a supervisor there is nothing left to do afterwards but to leave: no late signal shall spoil that.
        spare = [signum for signum in HANDLED if signum != signal.SIGQUIT] if supervised else []
        self._old: dict[int, Any] = dict.fromkeys(spare, signal.SIG_IGN)
        self.control, self._wake = os.pipe()
        os.set_blocking(self.control, False)
        os.set_blocking(self._wake, False)
        # Before the handlers: a signal that comes between the two is then heard by the engine in any case.
        self._old_wake = signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        self._handle(signal.SIGTERM, self._stop)
        self._handle(signal.SIGQUIT, self._stop)
        self._handle(signal.SIGUSR1, self._reopen)
        # Not ignored: what the application starts would ignore it too.
        self._handle(signal.SIGINT, _do_nothing if supervised else self._stop)
        for signum in RELOADS:
            self._handle(signum, _do_nothing if supervised else self._begin_reload)
        for signum in COUNTS:
            self._handle(signum, signal.SIG_IGN)
        raise_delayed()

    def expect_end(self, seconds: float) -> None:
        """Leave the process unless it is over in so many seconds, or sooner where that was said before."""
        due = time.monotonic() + seconds
        if not self._due or due < self._due:
            self._handle(signal.SIGALRM, self._late)
            self._patience, self._due = seconds, due
            signal.setitimer(signal.ITIMER_REAL, seconds)

    def _expect_end_anew(self, seconds: float) -> None:
        """The same from now on, whatever was said before."""
        self._due = 0.0
        self.expect_end(seconds)

    def exit_code(self, at_once: int) -> int:
        """The code to leave with when the engine has stopped by itself. A QUIT that cut nothing off is a clean stop.

        at_once: the signal that made the engine stop so, 0 for none; its clock may tell two signals further apart than
        ours.
        """
        at_once = self._at_once or at_once
        return 128 + at_once if at_once not in (0, signal.SIGQUIT) else 0

    def make_way(self) -> None:
        """The engine has stopped: where that was for a successor, become it."""
        if self._reload is not None:
            self._reload.cancel()
        if self._successor is not None and self._may_go_on():
            self._expect_end_anew(self._graceful_timeout + LATE)  # from now on, for what is done at the exit
            self._become_successor(self._successor)

    def _may_go_on(self) -> bool:
        """Whether the new image is to begin, after TERM to answer who waits, unless the engine has."""
        if not self._stopped_by:
            return True
        are_waiting = any(engine.listeners() for engine in _serving)
        return self._stopped_by == signal.SIGTERM and not self._at_once and are_waiting

    def restore(self) -> None:
        """Give the signals back to whoever had them before."""
        self._is_over = True
        if self._reload is not None:
            self._reload.cancel()
        self._on_trial.acquire()  # an interpreter that ends while the thread of a trial goes on may end by SIGSEGV
        if signal.SIGALRM in self._old:
            signal.setitimer(signal.ITIMER_REAL, 0)
        restore(self._old)
        signal.set_wakeup_fd(self._old_wake)
        try:
            os.close(self.control)
            os.close(self._wake)
        except OSError:
            self._error_log.write("C", "the application has closed descriptors of the server")
            raise SystemExit(1) from None

    def _handle(self, signum: int, handler: Any) -> None:
        self._old.setdefault(signum, afterwards(signum))
        signal.signal(signum, SignalHandler(handler) if callable(handler) else handler)

    def _stop(self, signum: int, frame: FrameType | None) -> None:
        self._deliver(signum)
        now = time.monotonic()
        first = self._since is None
        if signum != signal.SIGTERM or first:
            self._stopped_by = signum
        if self._since is None:
            self._since = now
            if self._manager is not None:
                self._manager.stopping("finishing what is in flight")
            if not self._is_supervised:
                self.expect_end(self._graceful_timeout + LATE)
                self._error_log.write("S", f"stopping: {NAMES[signum]}")
        if signum == signal.SIGINT:  # also right behind a TERM: the engine hears it then
            self._late_code = 128 + signum
            self.expect_end(min(self._graceful_timeout, FAST) + LATE)
        if signum == signal.SIGQUIT or (not first and now - self._since >= REPEAT):
            self._at_once = self._at_once or signum
            # Elsewhere the engine has read the same byte and does what it says.
            if _is_inside_application(frame) or self._is_leaving:
                self._leave(128 + self._at_once)

    def _deliver(self, signum: int) -> None:
        """Write the byte of this signal, unless the interpreter has: if so, its wake-up descriptor is still ours.

        One that is another's stays so, for he may be waiting for it; where there is none, ours is set again.
        """
        present = signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        if present == self._wake:
            return
        try:
            os.write(self._wake, bytes([signum]))
            if present != -1:
                signal.set_wakeup_fd(present)
        except (OSError, ValueError):
            return  # the pipe is full of signals that the engine has not read yet, or theirs is closed

    def _begin_reload(self, signum: int, frame: FrameType | None) -> None:
        if self._make_reload is None:
            self._error_log.write("W", NO_RELOAD)
            return
        if self._successor is not None:  # it has not read the code yet, or this is `_await_trial`'s word
            if signal.SIGALRM not in self._old:
                self.expect_end(DRAIN_SECONDS + self._graceful_timeout + LATE)
            return
        self._begin_trial()

    def told(self, what: int) -> None:
        """The engine tells, on a thread of its own, what a supervisor would be told."""
        if what == STUCK[0]:
            self._replace_stuck()
        elif what == PRESSED[0]:
            self._look_at_backlog()

    def _look_at_backlog(self) -> None:
        if self._backlog is None:
            from poorhttp.listen.backlog import Backlog

            self._backlog = Backlog(self._error_log)
        for descriptor in [each for engine in _serving for each in engine.listeners()]:
            sock = socket.socket(fileno=os.dup(descriptor))
            self._backlog.look([sock], time.monotonic())
            sock.close()

    def _replace_stuck(self) -> None:
        """Become a new image, as a reload does."""
        if self._make_reload is None:
            self._error_log.write("E", f"{LOST}, and poorhttp.run() cannot start anew; restart the program")
        elif self._successor is None and self._since is None:
            self._is_stuck = True  # a trial that goes on is tried again from now on if it fails
            if not self._on_trial.locked():
                self._error_log.write("E", f"{LOST}; the program is started anew in this process")
                self._begin_trial()

    def _begin_trial(self) -> None:
        """Let a thread try the new code. In a handler, which another signal may interrupt, nothing is imported."""
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
                if self._since is not None or self._is_over:
                    return  # a stop that came before could not cancel it
                if self._has_succeeded(reload) and self._successor is None:
                    self._let_succeed(reload)
            except Exception as error:  # no descriptors, no memory, or the package is being replaced
                outcome = LOST if self._is_stuck else "the server goes on as it was"
                self._error_log.write("E", f"reload failed, {outcome}: {type(error).__name__}: {error}")
                if self._is_stuck:
                    self._pause_for_retry()
                    self._is_asked = self._since is None and not self._is_over
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
                if self._since is not None or self._is_over:
                    return False
            self._begin(reload)
        return True

    def _begin(self, reload: Reload) -> None:
        self._is_asked = False
        if self._is_stuck:
            # What this process is stuck in may keep the new code from answering too; it is no worse than a lost thread.
            reload.outcome, reload.asks = LOST, False
        reload.begin()

    def _let_succeed(self, reload: Reload) -> None:
        """Let the engine make way, and go on without a main thread that is in a call which does not return."""
        # A stop that comes while the main thread executes the new image would otherwise end here, unheard.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
        try:
            self._make_way_for(reload)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def _make_way_for(self, reload: Reload) -> None:
        engines = list(_serving)
        sockets = [descriptor for engine in engines for descriptor in engine.listeners()]
        if not sockets:
            return  # stopped meanwhile
        reload.keep(sockets)
        self._successor = reload
        # First: once it has made way, the main thread executes the new image, which would be asked for a reload by it.
        os.kill(os.getpid(), signal.SIGUSR2)  # a handler is the main thread's to set: see `_begin_reload`
        os.write(self._wake, DRAIN)
        while not all(engine.makes_way() for engine in engines) and not self._is_over:
            self._pause(LATE / 10)
        self._pause(LATE + LATE / 2)  # the main thread's alarm comes after LATE, the engine's kill after two seconds
        if self._is_over or self._is_leaving:
            return
        if self._since is not None:  # a stop came meanwhile, for which the main thread's alarm was put off
            self._leave_application()
        self._error_log.write("E", "reload: the main thread did not return in time; the new code is taken without it")
        self._execute(reload)

    def _pause_for_retry(self) -> None:
        """There is nothing to go back to; somebody who asks for a reload has mended something."""
        end = time.monotonic() + RETRY
        while time.monotonic() < end and not (self._is_asked or self._is_over or self._since is not None):
            time.sleep(LATE / 10)

    def _pause(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self._is_over:
            time.sleep(LATE / 10)

    def _execute(self, reload: Reload) -> NoReturn:
        for engine in _serving:
            unread = engine.take_unread()
            reload.handover.connections += [(descriptor, reload.keys[number]) for descriptor, number in unread]
        reload.execute()

    def _become_successor(self, reload: Reload) -> None:
        """Execute the new image; what the application wanted to be done at the exit is done before, or given up where
        this comes from within.
        """
        is_first, self._is_leaving = not self._is_leaving, True
        try:
            if is_first:
                atexit._run_exitfuncs()
            # The new image obeys what comes from now on, and a stop that came before: it answers who waits, then stops.
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
            read_all(self.control)
            handlers = hold_back()  # whoever wrote these bytes has called `_stop` by then
            if self._may_go_on():
                if self._stopped_by:
                    os.write(self._wake, bytes([self._stopped_by]))
                reload.handover.signals = self.control
                self._execute(reload)
            restore(handlers)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        except OSError as error:
            self._error_log.write("E", f"cannot become the new image: {error}")
            self._leave(1)

    def _late(self, signum: int, frame: FrameType | None) -> None:
        if frame and frame.f_code is _enter.__code__:
            # The engine is at work, not the application: it ends by itself. Unless the application is called once more.
            signal.setitimer(signal.ITIMER_REAL, LATE)
            return
        if time.monotonic() > self._due + STANDSTILL:
            self._expect_end_anew(self._patience)
            return
        if self._successor is not None and self._may_go_on() and (self._since is None or self._is_leaving):
            self._error_log.write("E", "reload: the application did not return in time; its calls are given up")
            # What is done at the exit has less than the watchdog gives a call that does not return.
            self._expect_end_anew(LATE)
            self._become_successor(self._successor)
        self._leave_application()

    def _leave_application(self) -> NoReturn:
        self._error_log.write("E", f"process {os.getpid()}: the application did not return in time; left before it did")
        self._leave(128 + self._at_once if self._at_once else self._late_code)

    def _leave(self, code: int) -> NoReturn:
        leave_at_once(code, self._error_log, self._clean_up)

    def _reopen(self, signum: int, frame: FrameType | None) -> None:
        self._error_log.reopen()


def _do_nothing(signum: int, frame: FrameType | None) -> None:
    """Be the supervisor's to hear."""


def _is_inside_application(frame: FrameType | None) -> bool:
    """Whether the engine was entered above this frame, which belongs to what it called then; or the frame is one of
    another greenlet, to which only the application can have switched.
    """
    above = frame.f_back if frame else None
    while above and above.f_code not in (_enter.__code__, serve.__code__):
        above = above.f_back
    return above is None or above.f_code is _enter.__code__


def _close(listeners: Sequence[socket.socket], supervised: bool) -> None:
    """Close the sockets, but not the unix ones of a process that made them: it looks at those when it removes them."""
    for each in listeners:
        if supervised or not sockets.is_made(each):
            each.close()


def _run(engine: Engine, calling: int, count: int, ready: Callable[[], None], signals: _Signals) -> None:
    """Run every slot, the main thread slot 0; return when all are back. Raises what one of them raised, and
    PoorhttpError where not all of them can be started: then nobody is served.

    calling: how many of these threads, the first ones, call the application.
    """
    others: list[thread.LockType] = []
    failures: list[BaseException] = []
    # The others wait behind the gate until all are there. The main thread, which hears signals, is the last to serve.
    gate, arrived = thread.allocate_lock(), thread.allocate_lock()
    gate.acquire()
    arrived.acquire()
    try:
        for slot in range(1, count):
            others.append(threads.start(engine, slot, count, (gate, arrived), failures, calls=slot < calling))
        threads.watch(engine)
        ready()
        gate.release()
        if others:
            arrived.acquire()
        _enter(engine)
    except BaseException as failure:
        failures.append(failure)
        engine.stop()
    if gate.locked():  # nobody is behind it, nor will be
        gate.release()
    elif others:
        signals.expect_end(LATE)  # the engine is finished: who is still inside the application is late already
    for each in others:
        each.acquire()
    if failures:
        raise failures[0]


def _enter(engine: Engine) -> None:
    """Run slot 0. A function of its own: a signal handler knows by it whether the application is running."""
    engine.run(0)
