"""One server, from its configuration to its exit code: the steps of a start, the serving, the clean-up.

Knows the order of the steps, which is the same after a fresh start and after a reload (`process.start.origin`). Does
not know how any of them is done, nor where the configuration comes from.
Contract: a process removes the unix sockets and the pidfile that it made, however it ends short of a kill.
"""

from __future__ import annotations

import errno

from poorhttp import __version__
from poorhttp.errors import ConfigError, PoorhttpError
from poorhttp.listen import backlog, sockets
from poorhttp.process import shape
from poorhttp.process.start import facts, loading, log_files
from poorhttp.process.start.listening import Listening
from poorhttp.process.start.origin import AfterReload, FreshStart, adopted
from poorhttp.status import pidfile
from poorhttp.status.scoreboard import make_server_scoreboard
from poorhttp.stdlib import os, signal
from poorhttp.system.signals import NAMES, STOPS, Boot, expect_end, let_through, restore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from poorhttp.config.model import Config
    from poorhttp.logs.log import ErrorLog
    from poorhttp.reload.handover import Handover
    from poorhttp.reload.reload import Reload
    from poorhttp.status.scoreboard import Scoreboard

    WSGI = Callable[..., Iterable[bytes]]


def serve(
    settings: Config,
    app: WSGI | None,
    home: str = "",
    handover: Handover | None = None,
    before_serving: Callable[[ErrorLog], Callable[[], None]] | None = None,
    may_be_unread: bool = False,
) -> int:
    """Listen, load, serve; return the exit code. Clients that come meanwhile wait in the queue of the socket.

    home: the directory of the start, as it was named (`cli.way_to`); "" where a program calls `poorhttp.run()` and goes
    on afterwards: such a server cannot reload, and gives the signals back. handover: descriptors and facts from the
    program before a reload. before_serving: called before the first client is served; it returns a function, which is
    called when a process serves. may_be_unread: as for an `ErrorLog`.
    """
    origin = FreshStart() if handover is None else AfterReload(handover)
    try:
        # The program before this one went on where a named pipe had lost its reader: so does this one.
        error_log, access_log = log_files.open_both(settings, may_be_unread or handover is not None)
    except ConfigError as error:
        if not isinstance(origin, AfterReload):
            raise
        return origin.try_again(home, error, adopted(origin.handover), settings)
    need_engine()
    server = _Server(settings, home, origin, error_log, access_log)
    try:
        server.prepare()
        server.load(app)
        return server.serve(before_serving)
    except Exception as error:
        if server.is_loaded:
            raise
        return server.try_again(error)
    except SystemExit as stop:
        return server.stopped(stop)
    finally:
        server.end()


class _Server:
    """The state that the steps share."""

    def __init__(
        self, settings: Config, home: str, origin: FreshStart | AfterReload, error_log: ErrorLog, access_log: int
    ) -> None:
        self.is_loaded = False
        self._settings = settings
        self._home = home
        self._origin = origin
        self._error_log = error_log
        self._access_log = access_log
        self._listening: Listening | None = None
        self._lock = -1
        self._scoreboard: Scoreboard | None = None
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        self._sigpipe_handler = signal.getsignal(signal.SIGPIPE)
        self._boot = Boot(isinstance(origin, AfterReload))

    def prepare(self) -> None:
        """Everything up to the load: sockets, pidfile, signals, rights, directory. Raises ConfigError, ListenError."""
        from poorhttp.process.fork_hooks import close_in_children

        settings, origin = self._settings, self._origin
        origin.begin(settings, self._error_log)
        self._listening = Listening(settings, self._error_log, origin.inherited)
        self._listening.open(origin.passed)
        close_in_children.append(self._close_in_child)
        self._lock = origin.write_pidfile(settings, self._error_log)
        if settings.graceful_timeout and origin.answers_waiting():
            self._boot.answer_first(self._are_waiting)
        if isinstance(origin, AfterReload):
            let_through(origin.hear())
        if settings.user or settings.group:
            self._drop_privileges()
        loading.enter(settings)

    def load(self, app: WSGI | None) -> None:
        """Load the application, or find out that each worker is to. Raises LoadError, and SystemExit after a stop."""
        if self._settings.debug:
            import poorhttp.dev.page.guard  # noqa: F401  # before modules of the application's are found
        try:
            self._get_app, self._title = loading.factory(self._settings, app, self._error_log, self._clean_up)
        finally:
            self._boot.check()  # a stop goes before whatever the application made of it
        self.is_loaded = True

    def serve(self, before_serving: Callable[[ErrorLog], Callable[[], None]] | None) -> int:
        """Serve until stopped; return the exit code. before_serving: as of `serve`."""
        from poorhttp.app import loader

        assert self._listening is not None
        kind, error_log = shape.kind(self._settings), self._error_log
        settings = self._settings = loader.suited(self._settings, lambda text: error_log.write("W", text))
        self._check_storage()
        self._listening.begin()
        connections = self._origin.connections(self._listening)
        self._make_scoreboard()
        lines = facts.facts(settings, kind, self._title, self._listening.listeners)
        self._origin.announce(lines, settings, error_log, self._scoreboard)
        tell_serving = before_serving(error_log) if before_serving is not None else None

        def ready() -> None:
            if self._scoreboard is not None:
                self._scoreboard.tell(serves="yes")
            if tell_serving is not None:
                tell_serving()

        for descriptor in error_log.streams():
            error_log.follow(descriptor, settings.errorlog)
        if shape.is_supervised(settings):
            return self._supervise(connections, ready)
        return self._work(connections, ready)

    def _supervise(self, connections: list[tuple[int, int]], ready: Callable[[], None]) -> int:
        from poorhttp.process.supervisor import supervise

        assert self._listening is not None
        return supervise(
            self._get_app,
            self._listening.listeners,
            self._settings,
            self._error_log,
            self._access_log,
            make_reload=self._reload if self._home else None,
            handover=self._origin.handover,
            manager=self._origin.manager,
            scoreboard=self._scoreboard,
            connections=connections,
            ready=ready,
        )

    def _work(self, connections: list[tuple[int, int]], ready: Callable[[], None]) -> int:
        from poorhttp.process.worker import serve

        assert self._listening is not None
        return serve(
            self._get_app(),
            self._listening.listeners,
            self._settings,
            self._error_log,
            self._access_log,
            ready=ready,
            clean_up=self._clean_up,
            make_reload=self._reload if self._home else None,
            manager=self._origin.manager,
            connections=connections,
            row=None if self._scoreboard is None else self._scoreboard.row(0),
        )

    def try_again(self, error: Exception) -> int:
        """The server cannot go on: after a reload it is tried again later, which returns an exit code when a stop comes
        meanwhile. Raises the error after a fresh start.
        """
        origin = self._origin
        if not isinstance(origin, AfterReload):
            raise error
        # Until the supervisor hears them: at a start they would end this process, and the old workers with it.
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
        listening = adopted(origin.handover) if self._listening is None else self._listening.connectable()
        return origin.try_again(self._home, error, listening, self._settings, self._error_log)

    def stopped(self, stop: SystemExit) -> int:
        """A stop came before this process served: old workers finish what they have. Raises it where there are none."""
        origin = self._origin
        if not isinstance(origin, AfterReload) or not self._boot.signum:
            raise stop
        signum = self._boot.signum
        if not origin.handover.workers or self._listening is None:
            self._error_log.write("S", f"stopped while the new code was loaded: {NAMES[signum]}")
            raise stop
        listening = self._listening.connectable()
        return origin.dismiss(signum, listening, self._settings, self._error_log, self._access_log)

    def end(self) -> None:
        """Remove what was made; where another program goes on in this process, give the signals back."""
        from poorhttp.process.fork_hooks import close_in_children

        if self._home:
            self._boot.silence()
        self._clean_up()
        if self._scoreboard is not None:
            self._scoreboard.close()
        if self._home:
            expect_end(self._settings.graceful_timeout, self._error_log)
            return
        if self._close_in_child in close_in_children:
            close_in_children.remove(self._close_in_child)
            if self._lock >= 0:  # in a child that the application has forked it is closed
                os.close(self._lock)
        self._boot.restore()
        restore({signal.SIGPIPE: self._sigpipe_handler})
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def _clean_up(self) -> None:
        pidfile.remove(self._settings.pidfile)
        if self._listening is not None:
            self._listening.close()

    def _close_in_child(self) -> None:
        """Close what would keep a port taken, or workers alive, without this process."""
        assert self._listening is not None
        sockets.let_go(self._listening.held(), [self._lock, *self._origin.descriptors()])

    def _are_waiting(self) -> bool:
        """Whether clients wait that would be reset by a stop before this process serves. At sockets that were passed
        they wait for the next server.
        """
        assert self._listening is not None
        listeners = self._listening.held()
        try:
            if not sockets.are_own(listeners):
                return False
        except OSError:  # the application has closed them
            return False
        return self._origin.are_waiting() or any(backlog.queue(each)[0] for each in listeners)

    def _drop_privileges(self) -> None:
        from poorhttp.system import privileges

        settings = self._settings
        if self._home:
            from poorhttp.reload import execution

            execution.remember_environ()  # a process that was root may not look at its own afterwards
        was_root = os.geteuid() == 0
        privileges.drop(settings.user, settings.group)
        paths = [each.path for each in settings.addresses if not each.path.startswith("@")]
        files = [settings.pidfile, settings.control_socket, *paths]
        for path in filter(None, files if was_root else []):
            if not os.access(os.path.dirname(path), os.W_OK | os.X_OK):
                where = f"put it into a directory of {settings.user or settings.group}; the next start replaces it"
                self._error_log.write("W", f"{path} cannot be removed at a stop, by the user who serves then; {where}")

    def _check_storage(self) -> None:
        """Say so where large request bodies cannot be kept."""
        from poorhttp.process.worker import check_storage

        try:
            check_storage()
        except OSError as error:
            what = f"no temporary file can be made: {os.strerror(error.errno or errno.EIO)}"
            which = f"request bodies above body_memory ({self._settings.body_memory} bytes) are answered 503"
            self._error_log.write("E", f"{what}; {which}; let TMPDIR name a directory that takes files")

    def _make_scoreboard(self) -> None:
        """Make the scoreboard, with the facts about this server."""
        settings, scoreboard = self._settings, make_server_scoreboard(self._settings)
        if scoreboard is not None:
            scoreboard.tell(version=__version__, shape=f"{settings.processes} x {settings.threads}", title=self._title)
            scoreboard.tell(
                supervised="yes" if shape.is_supervised(settings) else "no", reloads="yes" if self._home else "no"
            )
            scoreboard.tell(serves="no", home=self._home, ini=settings.ini, pidfile=settings.pidfile)
        self._scoreboard = scoreboard

    def _reload(self) -> Reload:
        from poorhttp.listen.systemd import Manager
        from poorhttp.reload.handover import Handover
        from poorhttp.reload.reload import Reload

        assert self._listening is not None
        handover = Handover()
        handover.passed, handover.pidfile, handover.lock = self._origin.passed, self._settings.pidfile, self._lock
        manager, keys = self._origin.manager or Manager(), self._listening.keys
        return Reload(
            handover, self._home, shape.shape(self._settings), keys, self._error_log, manager, self._scoreboard
        )


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
