"""One process that serves: T threads in one engine, from the first request to the last.

Knows what an engine is made from, and the order in which a process begins and ends to serve. Does not know how requests
are served (the engine), what signals do (`process.serving.serving_signals`), nor whether there are other workers.
Contract: `serve` returns when the engine has stopped and every thread is back. A stop reaches the engine as a byte on
a descriptor, so none is lost while it sleeps.
"""

from __future__ import annotations

from poorhttp import _engine
from poorhttp._engine import Engine
from poorhttp.listen import sockets, unix_sockets
from poorhttp.process import fork_hooks
from poorhttp.process.serving import threads
from poorhttp.process.serving.serving_signals import ServingSignals
from poorhttp.process.shape import counted
from poorhttp.stdlib import os, socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from poorhttp.config.model import Config
    from poorhttp.listen.systemd import Manager
    from poorhttp.logs.log import ErrorLog
    from poorhttp.reload.reload import Reload
    from poorhttp.status.calls import Call
    from poorhttp.status.scoreboard import Row

    Application = Callable[..., Iterable[bytes]]


def serve(
    app: Application,
    listeners: Sequence[socket.socket],
    config: Config,
    error_log: ErrorLog,
    access_log: int,
    control: int | None = None,
    report: int | None = None,
    ready: Callable[[], None] = lambda: None,
    clean_up: Callable[[], None] | None = None,
    make_reload: Callable[[], Reload] | None = None,
    manager: Manager | None = None,
    connections: Sequence[tuple[int, int]] = (),
    row: Row | None = None,
    countdown: int | None = None,
) -> int:
    """Serve `app` on `listeners` until a signal (or the end of the supervisor) stops it; main thread only.

    listeners: the engine has copies; these are closed, so that a connection is refused as soon as it stops accepting.
    access_log: descriptor, -1 for none. control: the control pipe, whose end of file means stop; only a worker under a
    supervisor has one, and leaves SIGINT and SIGHUP, which a terminal sends to all, to the supervisor. report: the
    report pipe (`process.messages`). ready: called immediately before the first request is served. clean_up: called
    where the process is left from here without returning. make_reload: how HUP and USR2 replace this program, None:
    not at all. manager: the service manager. connections: which the program before this one accepted and did not
    serve, descriptor and number of the listener. row: of the scoreboard. countdown: as `workers.pipes` has it.

    Signals are as of `supervise`, where they stop or open logs; a worker leaves TERM to its supervisor. Where the main
    thread is inside the application, or a thread does not return from it in time, the process is left without it.
    Returns (or leaves with) the exit code: 0 after a stop; 128 + signal number where a second TERM or INT came, or a
    QUIT or INT that cut the application off; 1 where the application did not return in time after TERM.
    Afterwards signals are as before; under a supervisor all but QUIT are ignored, for the process is to leave. Raises
    what `Engine` raises, and OSError where there is no descriptor left.
    """
    error_log.follow(access_log, config.accesslog)
    count, is_supervised = threads.prepare(config), control is not None
    signals = ServingSignals(config.graceful_timeout, error_log, is_supervised, clean_up, make_reload, manager)
    try:
        controls = [signals.pipe.reader] if control is None else [signals.pipe.reader, control]
        if control is None and sockets.are_own(listeners):
            countdown, other_end = os.pipe()
            os.close(other_end)  # at its end: the only process is the last one
        numbers, reported = [each.fileno() for each in listeners], report if report is not None else signals.reported
        engine = Engine(app, numbers, controls, access_log, error_log, config, reported, row, countdown)
        fork_hooks.engines.append(engine)
        _give_over(engine, countdown, connections)
        if manager is not None:
            manager.watch_aside(listeners, lambda text: error_log.write("W", text))
        _close(listeners, is_supervised)

        def tell_ready() -> None:
            ready()
            if manager is not None:
                manager.ready(f"serving with {counted(config.threads, 'thread')}")

        threads.run(engine, config.threads, count, tell_ready, signals.leaving)
        signals.unsupervised_reload.make_way()
        return 1 if engine.has_failed() else signals.leaving.exit_code(engine.stopped_at_once_by())
    finally:
        fork_hooks.engines.clear()
        signals.restore()


def _give_over(engine: Engine, countdown: int | None, connections: Sequence[tuple[int, int]]) -> None:
    """Close what the engine has copies of."""
    if countdown is not None:
        os.close(countdown)
    for descriptor, number in connections:
        engine.adopt(descriptor, number)
        os.close(descriptor)


def _close(listeners: Sequence[socket.socket], is_supervised: bool) -> None:
    """Close the sockets, but not the unix ones of a process that made them: it looks at those when it removes them."""
    for each in listeners:
        if is_supervised or not unix_sockets.is_made(each):
            each.close()


def take_waiting_connections(sock: socket.socket) -> list[int]:
    """Close a listening socket to new clients, in all processes that share it, and return the descriptors of the
    connections that wait there. Raises OSError.
    """
    return _engine.take_waiting(sock.fileno())


def log_lost(call: Call, config: Config, access_log: int) -> None:
    """Add the line of a request whose worker has died in it: 504 where that was answered in its place, else 500."""
    status = 504 if call.is_given_up else 500
    _engine.log_lost(config, access_log, call.client or None, call.head(), call.request_id, status)


def check_storage() -> None:
    """Raises OSError where large request bodies cannot be kept."""
    _engine.try_temporary_file()
