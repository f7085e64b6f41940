"""One server, from its configuration to its exit code: logs, sockets, pidfile, application, then whoever serves.

Knows the order of a start, and what is to be removed at its end. Does not know how any of it is done, nor where the
configuration comes from.
Contract: what was made here (unix sockets, pidfile) is removed by the process that made it, however it ends short of a
kill.
"""

from __future__ import annotations

import errno
import sys

from poorhttp import __version__
from poorhttp.config.units import Address
from poorhttp.errors import ConfigError, InUseError, LoadError, PoorhttpError, say, tell
from poorhttp.listen import backlog, sockets
from poorhttp.status import layout, pidfile, scoreboard
from poorhttp.stdlib import held, make_way, os, signal, time
from poorhttp.system.signals import HANDLED, expect_end, restore, take_back

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from socket import socket
    from typing import Any, NoReturn, TypeVar

    from poorhttp.config.config import Config
    from poorhttp.listen.systemd import Manager, Watch
    from poorhttp.logs.log import ErrorLog
    from poorhttp.reload.reload import Handover, Reload
    from poorhttp.status.scoreboard import Board
    from poorhttp.system.signals import Boot

    WSGI = Callable[..., Iterable[bytes]]
    T = TypeVar("T")

CONTROL_BACKLOG = 16
"""Who wants to know what the server does is one person, or one program."""

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
"""Seconds before what the trial could load and this image could not is tried again: twice as many each time."""

SUPERVISED = "a supervisor with workers"
"""The shape of a server that has some."""

READ_BEFORE, READ_LATER = ("PYTHON", "LD_", "MALLOC_", "GLIBC_"), ("PYTHONPATH", "PYTHONBREAKPOINT")
"""How the names of variables begin that the interpreter and the C library read at their start, but for those that count
later too.
"""

loading: list[str] = []
"""The title of the application, while it is being loaded."""


def serve(
    settings: Config,
    app: WSGI | None,
    home: str = "",
    handover: Handover | None = None,
    serving: Callable[[ErrorLog], Callable[[], None]] | None = None,
    may_be_unread: bool = False,
) -> int:
    """Listen, load, serve; return the exit code. Clients that come meanwhile wait in the queue of the socket.

    home: the directory of the start, as it was named (`cli.way_to`), "" where the process goes on afterwards and
    another program than poorhttp began it: then there is no reload, and signals are given back. handover: what the
    image before this one left.
    serving: called when clients are about to be served; what it returns, when a process does so.
    may_be_unread: as for an `ErrorLog`.
    """
    passed, manager = _from_manager()
    passed = handover.passed if handover is not None else passed
    try:
        # The image before this one went on where a named pipe had lost its reader: so does this one.
        error_log, access_log = open_logs(settings, may_be_unread or handover is not None)
    except ConfigError as error:
        if handover is not None:
            try_again(handover, home, error, settings, manager=manager)
        raise
    for descriptor in handover.streams if handover is not None and settings.errorlog != "-" else ():
        os.dup2(error_log.fileno(), descriptor)
    boot = _boot(handover is not None)
    from poorhttp.process.worker import close_in_children

    mask, pipes = signal.pthread_sigmask(signal.SIG_BLOCK, ()), signal.getsignal(signal.SIGPIPE)
    is_loaded = False
    listeners: list[socket] = []
    bound: list[socket] = []
    dropped: dict[str, socket] = {}
    keys: list[str] = []
    written, lock = "", -1
    shown = None

    def held() -> list[socket]:
        return [each for each in (*listeners, *dropped.values()) if each.fileno() >= 0]

    def clean_up() -> None:
        pidfile.remove(written)
        sockets.close(held())

    def close_in_child() -> None:
        """Close what would keep a port taken, or workers alive, without this process."""
        descriptors = [lock, *(descriptor for descriptor, _ in passed)]
        if handover is not None:
            descriptors += [*handover.pipes(), *handover.countdown]
            descriptors += [connection for connection, _ in handover.connections]
        sockets.let_go(held(), descriptors)

    try:
        if handover is not None and handover.workers:
            check_shape(settings, SUPERVISED)  # as it is read now, perhaps another time than by the trial
        for address, descriptor in sockets.choose(settings.addresses, passed):
            keys.append(f"{sockets.PASSED}{descriptor}" if descriptor >= 0 else str(address))
            inherited = handover.sockets.pop(keys[-1], None) if handover is not None else None
            if descriptor >= 0:
                listeners.append(sockets.take(descriptor))
            elif inherited:
                listeners.append(_adopted(settings, inherited, error_log))
            elif settings.reuse_port and not address.path:
                listeners.append(bind(settings, address))
                bound.append(listeners[-1])  # the kernel would send it clients of those who serve there already
            else:
                listeners.append(listen(settings, address))
        if settings.control_socket:
            keys.append(f"{sockets.CONTROL}{settings.control_socket}")
            inherited = handover.sockets.pop(keys[-1], None) if handover is not None else None
            listeners.append(sockets.adopt(*inherited) if inherited else bind_for_control(settings))
            sockets.begin(listeners[-1], CONTROL_BACKLOG)
        close_in_children.append(close_in_child)
        if handover is None:
            say_notes(settings)
        if settings.pidfile:
            written = settings.pidfile  # before: a stop may come at any time, and what is not ours stays
            left = _left(settings) if handover is None else 0
            lock = pidfile.write(settings.pidfile, handover.lock if handover is not None else -1)
            if left and settings.errorlog != "-":  # there the note about it is enough
                how = "it was killed, or could not remove it at its stop"
                error_log.write("W", f"the server before this one, pid {left}, has left its pidfile: {how}")
        # Old workers answer who waits, but for those who were handed over.
        if settings.graceful_timeout and not (handover and handover.workers and not handover.connections):
            boot.answer_first(lambda: _are_waiting(held(), handover))
        if handover is not None:
            dropped.update((key, sockets.adopt(*inherited)) for key, inherited in handover.sockets.items())
            _replace_pidfile(handover, written, lock)
            boot.go_on(handover.signals)
        if settings.user or settings.group:
            _drop_privileges(settings, bool(home), error_log)
        enter(settings)
        if settings.debug:
            import poorhttp.dev.page.guard  # noqa: F401  # before modules of the application's are found
        try:
            get_app, title = _loading(settings, app, error_log)
        finally:
            boot.check()  # a stop goes before whatever the application made of it
        is_loaded = True
        from poorhttp.app import loader

        asked, settings = kind(settings), loader.suited(settings, lambda text: error_log.write("W", text))
        _check_storage(settings, error_log)
        for each in bound:
            sockets.begin(each, settings.backlog)
        connections = [] if handover is None else _take_over(handover, keys, dropped)
        facts = _facts(settings, asked, title, listeners)
        shown = scoreboard.of_server(settings)
        if shown is not None:
            shown.tell(version=__version__, shape=f"{settings.processes} x {settings.threads}", title=title)
            shown.tell(supervised="yes" if is_supervised(settings) else "no", reloads="yes" if home else "no")
            shown.tell(serves="no", home=home, ini=settings.ini, pidfile=settings.pidfile)
        if handover is not None:
            error_log.write("S", f"reloaded: {', '.join(facts)}")
            say_notes(settings, lambda text: error_log.write("N", text))
            if shown is not None:
                shown.note_reload(layout.REPLACING if is_supervised(settings) else layout.SUCCEEDED)
        else:
            for line in facts:
                say(line)
            if settings.errorlog != "-":
                error_log.write("S", f"started: {', '.join(facts)}")
        told = serving(error_log) if serving is not None else None

        def ready() -> None:
            if shown is not None:
                shown.tell(serves="yes")
            if told is not None:
                told()

        for descriptor in error_log.streams():
            error_log.follow(descriptor, settings.errorlog)
        make_reload = (lambda: _reload(settings, home, error_log, manager, keys, passed, lock, shown)) if home else None
        if is_supervised(settings):
            from poorhttp.process.supervisor import supervise

            return supervise(
                get_app,
                listeners,
                settings,
                error_log,
                access_log,
                make_reload=make_reload,
                handover=handover,
                manager=manager,
                board=shown,
                connections=connections,
                ready=ready,
            )
        from poorhttp.process.worker import serve

        return serve(
            get_app(),
            listeners,
            settings,
            error_log,
            access_log,
            ready=ready,
            clean_up=clean_up,
            make_reload=make_reload,
            manager=manager,
            connections=connections,
            row=None if shown is None else shown.row(0),
        )
    except Exception as error:
        if handover is not None and not is_loaded:
            pairs = zip(keys, listeners, strict=False)  # whose last one may not be there
            handover.note_sockets((key, each) for key, each in pairs if each in held() and each not in bound)
            try_again(handover, home, error, settings, error_log, manager)
        raise
    except SystemExit:
        if handover is None or not boot.signum:
            raise
        if not handover.workers:
            from poorhttp.system.signals import NAMES

            error_log.write("S", f"stopped while the new code was loaded: {NAMES[boot.signum]}")
            raise
        # Stopped while it loads the application: the workers of the image before finish what they have.
        from poorhttp.process.supervisor import dismiss

        return dismiss(handover, boot.signum, held(), settings, error_log, access_log, manager)
    finally:
        if home:
            boot.silence()
        clean_up()
        if shown is not None:
            shown.close()
        if home:
            expect_end(settings.graceful_timeout, error_log)
        else:  # a program that goes on
            if close_in_child in close_in_children:
                close_in_children.remove(close_in_child)
                if lock >= 0:  # in a child that the application has forked it is closed
                    os.close(lock)
            boot.restore()
            restore({signal.SIGPIPE: pipes})
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _are_waiting(listeners: list[socket], handover: Handover | None) -> bool:
    """Whether there are clients whom a stop before this process serves would reset; at sockets that were passed they
    wait for the next one.
    """
    try:
        if not sockets.are_own(listeners):
            return False
    except OSError:  # the application has closed them
        return False
    return bool(handover and handover.connections) or any(backlog.queue(each)[0] for each in listeners)


def listen(settings: Config, address: Address) -> socket:
    """Bind one address and listen there. Raises ConfigError, ListenError."""
    sock = bind(settings, address)
    sockets.begin(sock, settings.backlog)
    return sock


def bind(settings: Config, address: Address) -> socket:
    """Bind one address, at which nobody listens yet. Raises ConfigError, ListenError."""
    owner = _socket_owner(settings) if address.path else (-1, -1)
    return _bound(settings, lambda: sockets.bind(address, settings.socket_mode, owner, settings.reuse_port))


def _bound(settings: Config, bind: Callable[[], socket]) -> socket:
    """Wait for the workers of a server that was killed, which has left its pidfile, if they have the address still."""
    began = time.monotonic()
    while True:
        try:
            return bind()
        except InUseError:
            from poorhttp.status import running

            if time.monotonic() > began + running.ORPHANED or not _left(settings):
                raise
        time.sleep(0.05)


def _left(settings: Config) -> int:
    if not (settings.pidfile and os.path.lexists(settings.pidfile)):
        return 0
    from poorhttp.status import running

    return running.left(settings)


def _socket_owner(settings: Config) -> tuple[int, int]:
    if not (settings.socket_owner or settings.user or settings.group):
        return -1, -1
    from poorhttp.system import privileges

    return privileges.owner(settings.socket_owner, settings.user, settings.group)


def _adopted(settings: Config, inherited: tuple[int, int, int], error_log: ErrorLog) -> socket:
    """Go on with a socket of the image before, as it is to be now. Raises ConfigError."""
    sock = sockets.adopt(*inherited)
    try:
        sockets.change(sock, settings.backlog, settings.socket_mode, _socket_owner(settings))
    except OSError as error:
        what = "socket_mode and socket_owner need a restart, or root"
        error_log.write("W", f"{sockets.url(sock)} stays as it is: {error.strerror}; {what}")
    return sock


def bind_for_control(settings: Config) -> socket:
    """Bind `control_socket`, for its user only. Raises ConfigError, ListenError."""
    owner = -1, -1
    if settings.user or settings.group:
        from poorhttp.system import privileges

        owner = privileges.owner("", settings.user, settings.group)
    return _bound(settings, lambda: sockets.bind(Address(path=settings.control_socket), 0o600, owner))


def try_again(
    handover: Handover,
    home: str,
    error: Exception,
    settings: Config | None,
    error_log: ErrorLog | None = None,
    manager: Manager | None = None,
) -> NoReturn:
    """The trial went well, but this image cannot go on: try once more with the same sockets and workers, and again,
    after a pause that grows, or at once where a reload is asked for.

    Meanwhile the old workers serve, if there are any, and clients wait; the board and the service manager are told. A
    stop ends this process, but after QUIT once the old workers have finished what they have; after INT they get a
    second for that. USR1 is passed to them.
    """
    from poorhttp.listen.systemd import Manager
    from poorhttp.system.signals import RELOADS, REPEAT, STOPS, raise_delayed

    signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)  # for `leave`: as at a start it would cut the old workers off
    manager = manager or Manager.of(os.environ)
    shown, watch = _shown_meanwhile(handover, settings), _watch_meanwhile(handover, manager)
    stopped, is_over = 0.0, False

    def leave(signum: int, frame: object) -> None:
        nonlocal stopped, is_over
        is_over = True  # HUP, which may come behind TERM, is too late
        if stopped and time.monotonic() - stopped < REPEAT and signum == signal.SIGTERM:
            return  # the same one told twice
        code = 128 + signum if stopped else 0
        try:
            if not stopped:
                stopped = time.monotonic()
                again = handover.again()
                pidfile.remove(again.pidfile)
                sockets.close([sockets.adopt(*inherited) for inherited in again.sockets.values()])
                if signum != signal.SIGQUIT and again.workers:
                    from poorhttp.config.settings import SETTINGS
                    from poorhttp.process.supervisor import await_workers
                    from poorhttp.process.worker import FAST

                    default: float = SETTINGS["graceful_timeout"].default  # where they cannot be read
                    seconds = default if settings is None else settings.graceful_timeout
                    await_workers(again, seconds if signum == signal.SIGTERM else min(seconds, FAST))
        finally:
            os._exit(code)

    def hurry(signum: int, frame: object) -> None:
        nonlocal is_over
        if not is_over:
            is_over = True
            raise InterruptedError

    def reopen(signum: int, frame: object) -> None:
        from poorhttp.process.supervisor import send

        for pid in handover.again().workers:
            send(pid, signum)

    handlers = {**dict.fromkeys(STOPS, leave), **dict.fromkeys(RELOADS, hurry), signal.SIGUSR1: reopen}
    pause = handover.pause or FIRST_PAUSE
    while True:
        text = f"reload: what the trial could load cannot be loaded; trying again in {pause:g} s, or at once after HUP"
        fault = error if isinstance(error, PoorhttpError) else PoorhttpError(f"{type(error).__name__}: {error}")
        why = f"what the trial could load cannot be loaded: {fault.message}"
        if shown is not None:
            shown.note_reload(layout.FAILED, why)  # before it is said: who reads that may ask for it
        manager.reload_failed(why, is_served=bool(handover.workers))
        tell(fault)
        if error_log is not None:
            error_log.exception(error, "-", text)
        else:
            say(text)
        try:
            is_over = False
            for signum, handler in handlers.items():
                signal.signal(signum, handler)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, handlers)
            raise_delayed()
            time.sleep(pause) if watch is None else watch.run(pause)
            is_over = True
            pause = min(2 * pause, LONGEST_PAUSE)
        except InterruptedError:
            pause = FIRST_PAUSE  # somebody has changed something
        try:
            handover.try_again(home, pause)
        except OSError as failure:  # the directory of the start is not there, for instance
            error = failure


def _shown_meanwhile(handover: Handover, settings: Config | None) -> Board | None:
    """A board of this process alone: that of the image before is with its workers."""
    shown = scoreboard.make(1, 1)
    if shown is not None:
        shown.tell(version=__version__, reloads="yes", supervised="yes" if handover.workers else "no", serves="no")
        if settings is not None:
            shown.tell(shape=f"{settings.processes} x {settings.threads}", title=settings.application)
    return shown


def _watch_meanwhile(handover: Handover, manager: Manager) -> Watch | None:
    """What looks whether the old workers answer."""
    if not (handover.workers and manager.watchdog):
        return None
    try:
        copies = [sockets.adopt(os.dup(each)) for each, _, _ in handover.again().sockets.values()]
    except OSError:
        return None  # there is no descriptor left
    return manager.watch(copies, say)


def enter(settings: Config) -> None:
    """Go to `chdir`, which is to be first on Python's path, and set the variables of [environ]. Raises ConfigError.

    The path changes with `lean.make_way`, when the application comes: what the server still imports is Python's.
    PYTHONPATH and TZ count as if they had been set when this process began; the places of the first come after `chdir`.
    """
    if settings.chdir:
        try:
            os.chdir(settings.chdir)
        except OSError as error:
            hint = f"is it a directory, and may {settings.user or 'this user'} enter it?"
            raise ConfigError(f"cannot go to chdir = {settings.chdir}: {error.strerror}", hint) from None
    os.environ.update(settings.environ)
    named = settings.environ.get("PYTHONPATH", "")
    places = [os.path.abspath(place) for place in named.split(os.pathsep)] if named else []
    held[:0] = [os.getcwd(), *places] if settings.chdir else places
    if "TZ" in settings.environ:
        import time as public_time  # that of the application

        public_time.tzset()


def _loading(settings: Config, app: WSGI | None, error_log: ErrorLog) -> tuple[Callable[[], WSGI], str]:
    """Return what gives the application, and its title. It is loaded here, before workers are forked, unless each of
    them is to load it (`preload`). Raises LoadError.
    """

    def guarded(app: WSGI) -> WSGI:
        if not settings.debug:
            return app
        from poorhttp.dev.page.guard import Guard

        return Guard(app, error_log, settings.editor)

    if app is None and not settings.preload and is_supervised(settings):
        from poorhttp.app import loader

        return lambda: guarded(application(settings, None)[0]), loader.title(settings.application)
    loaded, title = load(settings, app, lambda text: error_log.write("W", text))
    guarded_app = guarded(loaded)
    return lambda: guarded_app, title


def load(settings: Config, app: WSGI | None, warn: Callable[[str], None]) -> tuple[WSGI, str]:
    """The same as `application`, in a process from which workers are forked if there are any: warn of what they will
    lack or share. Raises LoadError.
    """
    if not (settings.preload and is_supervised(settings)):
        return application(settings, app)
    from poorhttp.process.before_fork import watched

    return watched(lambda: application(settings, app), warn, is_loaded=app is not None)


def application(settings: Config, app: WSGI | None) -> tuple[WSGI, str]:
    """Return the application and its title; load it unless there is one, and the function of `child_exit` with it. What
    they have set of the signals that are the server's is set back. Raises LoadError.
    """
    handlers: dict[int, Any] = {signum: signal.getsignal(signum) for signum in HANDLED}
    try:
        loaded = _application(settings, app)
        if settings.child_exit and is_supervised(settings):
            _need_child_exit(settings)
        return loaded
    finally:
        take_back(handlers)


def _need_child_exit(settings: Config) -> None:
    """Import it where the application is loaded: its mistakes are found at the same time. Raises LoadError."""
    from poorhttp.app import loader

    loading.append(settings.child_exit)
    try:
        loader.function(settings.child_exit, settings.import_directory)
    except LoadError as error:
        raise LoadError(f"child_exit: {error.message}", error.hint, error.detail) from None
    finally:
        loading.clear()


def _application(settings: Config, app: WSGI | None) -> tuple[WSGI, str]:
    from poorhttp.app import loader

    if app is not None:
        make_way()
        title = "app"
        if callable(app):
            title = f"{getattr(app, '__module__', '')}:{getattr(app, '__qualname__', type(app).__qualname__)}"
        return loader.check(app, title), title
    title = loader.title(settings.application)
    loading.append(title)
    try:
        may_be_command = settings.sources["application"] == "argument"  # of no command
        return loader.load(settings.application, settings.import_directory, may_be_command), title
    finally:
        loading.clear()


def open_logs(settings: Config, may_be_unread: bool = False) -> tuple[ErrorLog, int]:
    """Open both logs, as the user who serves; may_be_unread: as for an `ErrorLog`. Raises ConfigError."""
    if (settings.user or settings.group) and os.geteuid() == 0:
        from poorhttp.system import privileges

        # Not as root: the directory of a log may be that user's, who could lead the path anywhere.
        with privileges.lent_to(settings.user, settings.group):
            return _opened_logs(settings, may_be_unread)
    return _opened_logs(settings, may_be_unread)


def check_logs(settings: Config) -> None:
    """Whether they could be opened. Raises ConfigError."""
    from poorhttp.logs import log
    from poorhttp.system import privileges

    def check() -> None:
        for path in settings.errorlog, settings.accesslog:
            log.check(path)

    if (settings.user or settings.group) and os.geteuid() == 0:
        with privileges.lent_to(settings.user, settings.group):
            _with_hint(settings, check)
    else:
        _with_hint(settings, check)


def _opened_logs(settings: Config, may_be_unread: bool) -> tuple[ErrorLog, int]:
    from poorhttp.logs.log import ErrorLog, open_access_log

    def opened() -> tuple[ErrorLog, int]:
        error_log = ErrorLog(settings.errorlog, settings.log_level, settings.debug, settings.webmaster, may_be_unread)
        return error_log, open_access_log(settings.accesslog, error_log.fileno(), may_be_unread)

    return _with_hint(settings, opened)


def _with_hint(settings: Config, do: Callable[[], T]) -> T:
    try:
        return do()
    except OSError as error:
        user = settings.user or "this user"
        is_program = str(error.filename).startswith("|")
        hint = "is it on the PATH?" if is_program else f"is its directory there, and may {user} write in it?"
        if error.errno == errno.EISDIR:
            hint = "name a file in it"
        elif error.errno == errno.ENXIO:
            hint = "it is a pipe that nobody reads, or a socket: start who reads the pipe, or name a file"
        raise ConfigError(f"cannot open the log {error.filename}: {error.strerror}", hint) from None


def shape(settings: Config) -> str:
    """What a reload does not change, in words."""
    return SUPERVISED if is_supervised(settings) else "one process without a supervisor"


def check_shape(settings: Config, running: str) -> None:
    """Whether a reload could go on as the running server, of this shape. Raises ConfigError."""
    if shape(settings) != running:
        text = f"a reload cannot change {running} into {shape(settings)}, as type and processes ask for now"
        raise ConfigError(text, "restart the server")


def is_supervised(settings: Config) -> bool:
    """Whether there is a process above those that serve."""
    return settings.processes.most > 1 or settings.type == "forking"


def say_notes(settings: Config, note: Callable[[str], None] | None = None) -> None:
    """Print what the configuration, and the kernel about it, have to say; or let `note` do so."""
    note = note or say_note
    if not (settings.preload or is_supervised(settings)):
        note("preload = no changes nothing where there are no workers; type = forking has them")
    for name in "max_requests", "memory", "child_exit":
        if getattr(settings, name) and not is_supervised(settings):
            note(f"{name} is about workers, and here is none; type = forking has them, with processes = 1 too")
    if settings.status_path and not (settings.forwarded or settings.proxy_protocol):
        note("status_path: a front server on this machine needs forwarded, or its clients see it too")
    late = [name for name in settings.environ if name.startswith(READ_BEFORE) and name not in READ_LATER]
    if late:
        note(f"[environ] sets {', '.join(late)}, which this process has read before: set it where poorhttp is started")
    for each in filter(None, (*settings.notes, backlog.note(settings.backlog))):
        note(each)
    if settings.autoreload:
        note("autoreload is for the command line in the foreground; serving without it")


def version() -> str:
    """The first line of a start."""
    return f"poorhttp {__version__}, Python {sys.version.split()[0]}"


def say_note(text: str) -> None:
    say(f"note: {text}")


def _from_manager() -> tuple[list[tuple[int, str]], Manager | None]:
    """The sockets that a service manager passed, and how it is reached; without one nothing is imported for it."""
    if "LISTEN_FDS" not in os.environ and "NOTIFY_SOCKET" not in os.environ:
        return [], None
    from poorhttp.listen import systemd

    return systemd.passed(os.environ, say_note), systemd.Manager.of(os.environ)


def _check_storage(settings: Config, error_log: ErrorLog) -> None:
    """Say so where large request bodies cannot be kept."""
    from poorhttp.process.worker import check_storage

    try:
        check_storage()
    except OSError as error:
        what = f"no temporary file can be made: {os.strerror(error.errno or errno.EIO)}"
        which = f"request bodies above body_memory ({settings.body_memory} bytes) are answered 503"
        error_log.write("E", f"{what}; {which}; let TMPDIR name a directory that takes files")


def _drop_privileges(settings: Config, may_reload: bool, error_log: ErrorLog) -> None:
    from poorhttp.reload import reload
    from poorhttp.system import privileges

    if may_reload:
        try:
            reload.remember_environ()  # a process that was root may not look at its own afterwards
        except FileNotFoundError:
            may_reload = False  # without /proc: it says so then
    was_root = os.geteuid() == 0
    privileges.drop(settings.user, settings.group)
    sockets = [each.path for each in settings.addresses if not each.path.startswith("@")]
    files = [settings.pidfile, settings.control_socket, *sockets]
    for path in filter(None, files if was_root else []):
        if not os.access(os.path.dirname(path), os.W_OK | os.X_OK):
            where = f"put it into a directory of {settings.user or settings.group}; the next start replaces it"
            error_log.write("W", f"{path} cannot be removed at a stop, by who serves then; {where}")


def _reload(
    settings: Config,
    home: str,
    error_log: ErrorLog,
    manager: Manager | None,
    keys: list[str],
    passed: list[tuple[int, str]],
    lock: int,
    shown: Board | None,
) -> Reload:
    from poorhttp.listen.systemd import Manager
    from poorhttp.reload.reload import Reload

    reload = Reload(settings, home, shape(settings), error_log, manager or Manager(), shown)
    reload.keys, reload.handover.passed, reload.handover.lock = keys, passed, lock
    return reload


def _replace_pidfile(handover: Handover, written: str, lock: int) -> None:
    """That of the image before this one is no more, unless it is the same."""
    if handover.pidfile != written:
        pidfile.remove(handover.pidfile)
    if handover.lock not in (-1, lock):
        os.close(handover.lock)
    handover.note_pidfile(written, lock)


def _take_over(handover: Handover, keys: list[str], dropped: dict[str, socket]) -> list[tuple[int, int]]:
    """Return the connections that wait for this image, descriptor and number of the listener; also those that came to
    `dropped`, the sockets which the configuration wants no more: close and remove them. Who came there is the first
    listener's.
    """
    from poorhttp.process.worker import accept_last

    waiting, handover.connections = handover.connections, []
    for key, sock in dropped.items():
        try:
            waiting += [(each, key) for each in accept_last(sock)]
        except OSError:
            continue  # no descriptor is left
    sockets.close(dropped.values())
    dropped.clear()
    connections = []
    for each, key in waiting:
        if key in keys:
            connections.append((each, keys.index(key)))
        elif key.startswith(sockets.CONTROL):  # whoever asks there does not ask the application
            os.close(each)
        else:
            connections.append((each, 0))
    return connections


def _boot(is_reload: bool) -> Boot:
    """Return the signals of the start: a stop leaves by SystemExit(0), so that everything made is removed."""
    need_engine()
    from poorhttp.system.signals import Boot

    return Boot(is_reload)


def need_engine() -> None:
    """Raises PoorhttpError where it is not compiled."""
    try:
        import poorhttp.process.worker  # noqa: F401  # which needs the engine
    except ImportError as error:
        source = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
        hint = "build and install it with: pip install ."
        if os.path.exists(os.path.join(source, "Cargo.toml")):
            hint = f"{source} holds the sources: run the installed poorhttp elsewhere, or here after: pip install -e ."
        raise PoorhttpError(f"the compiled engine is not there: {error}", hint) from None


def kind(settings: Config) -> str:
    """The type that has this number of processes and threads."""
    return "forking" if is_supervised(settings) else "threading" if settings.threads > 1 else "single"


def size(settings: Config) -> str:
    """The number of processes and threads, in words."""
    processes = f"{settings.processes} process{'es' * (settings.processes.most > 1)}"
    return f"{processes} x {settings.threads} thread{'s' * (settings.threads > 1)}"


def _facts(settings: Config, asked: str, title: str, listeners: list[socket]) -> list[str]:
    """What is told at a start, a line each. asked: the type, also where the application cannot have its threads."""
    clients = listeners[: len(listeners) - bool(settings.control_socket)]
    urls = ", ".join(sockets.url(each) + sockets.others(each) for each in clients)
    return [version(), title, urls, f"{asked}, {size(settings)}"]
