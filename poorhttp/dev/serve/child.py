"""A process that loads the application once and serves it, until the next process takes its place.

Knows the steps of a server's start. Does not know what happens to files or other processes. The author's code is
imported here alone, after the supervisor has sent the command to load.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from json import dumps, loads

from poorhttp.app import loader
from poorhttp.config import reading
from poorhttp.config.flags import parse_flags
from poorhttp.dev import settings as dev
from poorhttp.dev.ahead import preload
from poorhttp.dev.ahead.checkpoints import Checkpoints
from poorhttp.dev.ahead.recorder import Recorder
from poorhttp.dev.ahead.zygote import await_command
from poorhttp.dev.page import guard, problem
from poorhttp.dev.watch.bytecode import check_bytecode
from poorhttp.dev.watch.reports import COLD, IMPORTED, LOADING, NEEDY, PROBLEM, READY, Reporter
from poorhttp.listen import sockets
from poorhttp.logs.log import ErrorLog, open_access_log
from poorhttp.process import shape, supervisor, worker
from poorhttp.process.start import loading
from poorhttp.status.scoreboard import make_server_scoreboard
from poorhttp.stdlib import make_way, os, signal, time
from poorhttp.system import signals
from poorhttp.system.exits import end_with

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from types import FrameType
    from typing import NoReturn

    from poorhttp.app.callables import WSGI
    from poorhttp.config.model import Config
    from poorhttp.stdlib import socket

VARIABLE = "POORHTTP_DEV"
"""The variable that starts such a process: process number of the supervisor, port of `live.Streams` or 0, number of
accept pauses, and the descriptors: link, control pipe, accept pauses, listening sockets."""

LARGEST_ORDER = 1 << 20
"""Bytes of the order that says what to import in advance."""

LARGEST_PROBLEM = 50_000
"""Characters of a problem, which is sent in one message."""

FAILED = 3
"""Exit code where the application could not be loaded."""


def run(argv: Sequence[str], directory: str) -> NoReturn:
    """Be such a process to its end, or one from which they are forked."""
    parent, live, count, link, control, *rest = map(int, os.environ.pop(VARIABLE).split())
    accept_pauses, listeners = tuple(rest[:count]), rest[count:]
    end_with(parent)
    for descriptor in (link, control, *rest):
        os.set_inheritable(descriptor, False)
    for signum in (signal.SIGINT, *signals.RELOADS, signal.SIGUSR1):
        signal.signal(signum, _ignore)  # the supervisor gets those of the terminal; programs do not inherit a handler
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT,))
    if live:
        import poorhttp.dev.page.live  # noqa: F401  # before the author's modules can be found
    make_way()
    preloaded = _preload(Reporter(link), os.read(link, LARGEST_ORDER))
    channels = await_command(parent, link, control, accept_pauses[-1])
    accept_pauses = (*accept_pauses[:-1], channels.accept_pause)
    reporter = Reporter(channels.link)
    reporter.listen(_debugger_is_made)
    recorder = Recorder(preloaded)
    kept = list(listeners)
    try:
        settings = _enter(argv, directory, accept_pauses, reporter)
        recorder.begin()
        error_log = QuietLog(settings.errorlog, settings.log_level, settings.debug, settings.webmaster)
        access_log = open_access_log(settings.accesslog, error_log.fileno())
        with _closed_in_forks(kept), Checkpoints(parent, reporter, channels, kept, recorder) as checkpoints:
            app, settings = _load(settings, error_log, reporter, checkpoints)
    except BaseException as error:
        _end_in_conflict(reporter, recorder, ())
        sys.stdout.flush()
        reporter.tell(PROBLEM, dumps(problem.bounded(problem.of(error), LARGEST_PROBLEM)).encode())
        os._exit(FAILED)
    _end_in_conflict(reporter, recorder, settings.environ)
    reporter.await_watch(shape.is_supervised(settings))

    def ready() -> None:
        reporter.tell(IMPORTED, recorder.outcome(settings.environ))
        reporter.tell(READY, dumps(dev.fixed(settings)).encode())

    serve(app, settings, list(map(sockets.adopt, listeners)), (error_log, access_log), channels.control, live, ready)


def _preload(reporter: Reporter, order: bytes) -> preload.Preloaded:
    """Import in advance what the order says, and report whether processes can be forked from this one then."""
    if not order.strip():
        reporter.tell(LOADING, b"nothing to import in advance")
        return preload.Preloaded()
    done = preload.import_all(loads(order))
    if done.failed:
        reporter.tell(NEEDY, dumps(done.failed).encode())
        os._exit(0)
    if done.refused:
        reporter.tell(COLD, done.refused.encode("utf-8", "replace"))
        os._exit(0)
    reporter.tell(LOADING, done.unfit.encode("utf-8", "replace"))
    return done


def _enter(argv: Sequence[str], directory: str, accept_pauses: tuple[int, ...], reporter: Reporter) -> Config:
    """Read the configuration, and set this process as it says."""
    settings = dev.for_process(reading.read(parse_flags(argv, directory), os.environ, directory), accept_pauses)
    if settings.chdir:
        reporter.entered(settings.chdir)
    loading.enter(settings)
    make_way()
    return settings


def _load(settings: Config, error_log: ErrorLog, reporter: Reporter, checkpoints: Checkpoints) -> tuple[WSGI, Config]:
    """Load the application; return it and the settings that suit it."""

    def arrive(path: str) -> None:
        checkpoints.arrive(path)
        reporter.read(path)  # Python may load its bytecode without opening it

    def warn(text: str) -> None:
        error_log.write("W", text)

    check_bytecode(arrive)
    for place in dev.roots(settings.application, settings.import_directory):
        reporter.searched(place)  # the code may come there later
    dev.refuse_nothing(settings)
    if settings.debug:
        os.environ.setdefault("FLASK_DEBUG", "1")  # else Flask answers exceptions itself
    app, _ = loading.load(settings, None, warn)
    if settings.debug:
        app = guard.Guard(app, error_log, settings.editor)
    return app, loader.suited(settings, warn)


def _end_in_conflict(reporter: Reporter, recorder: Recorder, environ: Iterable[str]) -> None:
    """End this process if the imports in advance may have changed the result: a cold start takes its place."""
    why = recorder.conflict(environ)
    if why:
        reporter.tell(COLD, why.encode("utf-8", "replace"))
        os._exit(0)


def serve(
    app: WSGI,
    settings: Config,
    listeners: list[socket.socket],
    logs: tuple[ErrorLog, int],
    control: int,
    live: int,
    ready: Callable[[], None] = lambda: None,
) -> NoReturn:
    """Serve, then end this process. logs: the error log and the descriptor of the access log. live: the port of
    `live.Streams`, 0 for none. ready: called when clients are served.
    """
    error_log, access_log = logs
    code = FAILED
    try:
        if live:
            from poorhttp.dev.page.live import Refreshed

            app = Refreshed(app, live, time.monotonic())
        if shape.is_supervised(settings):
            scoreboard = make_server_scoreboard(settings)
            code = supervisor.supervise(
                lambda: app, listeners, settings, error_log, access_log, scoreboard=scoreboard, ready=ready
            )
        else:
            nobody = os.open(os.devnull, os.O_WRONLY)
            code = worker.serve(app, listeners, settings, error_log, access_log, control, nobody, ready)
    except SystemExit:
        code = 1  # the error log says why
    except BaseException as error:
        error_log.exception(error, "-", f"process {os.getpid()}")
    finally:
        signals.leave(code, error_log, settings.graceful_timeout)


@contextmanager
def _closed_in_forks(descriptors: list[int]) -> Iterator[None]:
    """Close these sockets in every child that the author's code forks while it is imported: a child may outlive the
    server, and would keep its port.
    """

    def close() -> None:
        for each in descriptors:
            os.close(each)

    os.register_at_fork(after_in_child=close)
    try:
        yield
    finally:
        descriptors.clear()


class QuietLog(ErrorLog):
    """An error log without lines about start and stop, which the supervisor writes."""

    __slots__ = ()

    def write(self, level: str, text: str, remote: str = "-") -> None:
        if level != "S":
            super().write(level, text, remote)


def _debugger_is_made(reporter: Reporter) -> None:
    from poorhttp.dev.page import breakpoints  # no process needs it before

    breakpoints.attend(reporter)


def _ignore(signum: int, frame: FrameType | None) -> None:
    """Do nothing."""
