"""A process that loads the application once and serves it, until the next one takes its place.

Knows what of a start belongs to such a process. Does not know what happens to files, nor to other processes.
Contract: the author's code is imported here and nowhere else, after the supervisor has said `go`; what comes of it is
told; a process whose supervisor is gone is gone too.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from json import dumps, loads

from poorhttp.app import loader
from poorhttp.config import config
from poorhttp.dev import settings as dev
from poorhttp.dev.ahead import preload
from poorhttp.dev.ahead.checkpoints import Checkpoints, wait_for_word
from poorhttp.dev.page import guard, problem
from poorhttp.dev.watch.bytecode import distrust
from poorhttp.dev.watch.reports import COLD, IMPORTED, LOADING, NEEDY, PROBLEM, READY, Teller
from poorhttp.listen import sockets
from poorhttp.listen.systemd import Manager
from poorhttp.logs.log import ErrorLog, open_access_log
from poorhttp.process import server, supervisor, worker
from poorhttp.status import scoreboard
from poorhttp.stdlib import make_way, os, signal, time
from poorhttp.system import signals  # each is needed soon
from poorhttp.system.exits import end_with

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from types import FrameType
    from typing import NoReturn

    from poorhttp.config.config import Config

    WSGI = Callable[..., Iterable[bytes]]

VARIABLE = "POORHTTP_DEV"
"""Tells a process that it is one of these: the supervisor's number, the port of `live.Streams` or 0, how many gates
there are, and descriptors: the link, the lifeline, the gates, the listening sockets."""

LARGEST_ORDER = 1 << 20
LARGEST_PROBLEM = 50_000
"""Characters; a message is sent as a whole."""

FAILED = 3


def run(argv: Sequence[str], directory: str) -> NoReturn:
    """Be such a process, to its end; or one from which they are forked."""
    parent, live, count, link, lifeline, *rest = map(int, os.environ.pop(VARIABLE).split())
    gates, passed = tuple(rest[:count]), rest[count:]
    end_with(parent)
    for descriptor in (link, lifeline, *rest):
        os.set_inheritable(descriptor, False)
    for signum in (signal.SIGINT, *signals.RELOADS, signal.SIGUSR1):
        signal.signal(signum, _ignore)  # the supervisor hears those of the terminal; not inherited by programs
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT,))
    if live:
        import poorhttp.dev.page.live  # noqa: F401  # before modules of the author's are found
    make_way()
    teller = Teller(link)
    _prepare(teller, os.read(link, LARGEST_ORDER))
    word = wait_for_word(parent, link, lifeline, gates[-1])
    gates = (*gates[:-1], word.gate)
    teller = Teller(word.link)
    teller.listen()
    recorder = preload.Recorder()
    code = FAILED
    try:
        settings = _settings(argv, directory, gates)
        if settings.chdir:
            teller.entered(settings.chdir)
        server.enter(settings)
        make_way()
        recorder.begin()
        error_log = QuietLog(settings.errorlog, settings.log_level, settings.debug, settings.webmaster)
        access_log = open_access_log(settings.accesslog, error_log.fileno())
        kept = list(passed)
        with _kept_from_forks(kept), Checkpoints(parent, teller, word, kept, recorder) as checkpoints:
            distrust(teller, checkpoints)
            for place in dev.roots(settings.application, settings.import_directory):
                teller.searched(place)  # where the code is to come to, if it is not there
            app = _load(settings, error_log)
            settings = loader.suited(settings, lambda text: error_log.write("W", text))
            if live:
                from poorhttp.dev.page.live import Refreshed

                app = Refreshed(app, live, time.monotonic())
    except BaseException as error:
        _end_in_conflict(teller, recorder, ())
        _tell_problem(teller, error)
        os._exit(FAILED)
    _end_in_conflict(teller, recorder, settings.environ)
    is_supervised = server.is_supervised(settings)
    teller.await_watch(is_supervised)
    try:
        listeners = [sockets.adopt(descriptor) for descriptor in passed]

        def ready() -> None:
            teller.tell(IMPORTED, recorder.outcome(settings.environ))
            teller.tell(READY, dumps(dev.fixed(settings)).encode())

        if is_supervised:
            told = _Told(ready)
            shown = scoreboard.of_server(settings)
            code = supervisor.supervise(
                lambda: app, listeners, settings, error_log, access_log, manager=told, board=shown
            )
        else:
            nobody = os.open(os.devnull, os.O_WRONLY)
            code = worker.serve(app, listeners, settings, error_log, access_log, word.lifeline, nobody, ready)
    except SystemExit:
        code = 1  # it was told why
    except BaseException as error:
        error_log.exception(error, "-", f"process {os.getpid()}")
    finally:
        signals.leave(code, error_log, settings.graceful_timeout)


def _prepare(teller: Teller, order: bytes) -> None:
    """Do what can be done without the author's code, and tell whether processes can be forked from this one then."""
    why = "nothing to import in advance"
    if order.strip():
        refused, why, failed = preload.import_all(loads(order))
        if failed:
            teller.tell(NEEDY, dumps(failed).encode())
            os._exit(0)
        if refused:
            teller.tell(COLD, refused.encode("utf-8", "replace"))
            os._exit(0)
    teller.tell(LOADING, why.encode("utf-8", "replace"))


def _end_in_conflict(teller: Teller, recorder: preload.Recorder, environ: Iterable[str]) -> None:
    """Leave it to a cold start where what was imported in advance has come between."""
    why = recorder.conflict(environ)
    if why:
        teller.tell(COLD, why.encode("utf-8", "replace"))
        os._exit(0)


def _settings(argv: Sequence[str], directory: str, gates: tuple[int, ...]) -> Config:
    return dev.for_process(config.read(config.parse_flags(argv, directory), os.environ, directory), gates)


def _load(settings: Config, error_log: ErrorLog) -> WSGI:
    dev.refuse_nothing(settings)
    if settings.debug:
        os.environ.setdefault("FLASK_DEBUG", "1")  # else it keeps exceptions to itself
    app, _ = server.load(settings, None, lambda text: error_log.write("W", text))
    return guard.Guard(app, error_log, settings.editor) if settings.debug else app


@contextmanager
def _kept_from_forks(descriptors: list[int]) -> Iterator[None]:
    """Close the sockets in what the author's code forks while it is imported: that may outlive the server, and would
    keep its port. Those that are in the list then.
    """

    def close() -> None:
        for each in descriptors:
            os.close(each)

    os.register_at_fork(after_in_child=close)
    try:
        yield
    finally:
        descriptors.clear()


def _tell_problem(teller: Teller, error: BaseException) -> None:
    told = problem.bounded(problem.of(error), LARGEST_PROBLEM)
    sys.stdout.flush()
    teller.tell(PROBLEM, dumps(told).encode())


class QuietLog(ErrorLog):
    """An error log without lines about start and stop: those are the supervisor's to tell."""

    __slots__ = ()

    def write(self, level: str, text: str, remote: str = "-") -> None:
        if level != "S":
            super().write(level, text, remote)


class _Told(Manager):
    """Hears what a service manager would."""

    def __init__(self, ready: Callable[[], None]) -> None:
        super().__init__()
        self._ready = ready

    def ready(self, status: str) -> None:
        self._ready()


def _ignore(signum: int, frame: FrameType | None) -> None:
    """Do nothing."""
