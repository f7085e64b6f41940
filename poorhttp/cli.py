"""The command `poorhttp` and the function `run`: from words to a serving process, and its exit code.

Knows the order of a start: configuration, logs, sockets, pidfile, application, then whoever serves. Does not know how
any of these is done, except the pidfile.
Contract: a fault is told in one line and a hint on standard error and in the exit code; what was made here (unix
sockets, pidfile) is removed by the process that made it, however it ends short of a kill.
"""

from __future__ import annotations

import os
import sys

from poorhttp import __version__, config
from poorhttp.errors import ConfigError, LoadError, PoorhttpError, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from socket import socket
    from typing import Any, NoReturn

    from poorhttp.config import Config
    from poorhttp.log import ErrorLog
    from poorhttp.reload import Handover, Reload
    from poorhttp.worker import Boot

    WSGI = Callable[..., Iterable[bytes]]

OK, UNEXPECTED = 0, 1

PID_LIMIT = 1 << 22
"""Process numbers are smaller (PID_MAX_LIMIT of Linux)."""

_loading: list[str] = []
"""The title of the application, while it is being loaded."""


def entry() -> NoReturn:
    """The console script."""
    for descriptor in 0, 1, 2:  # where one is closed, a socket would get its number, and the log would write into it
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.exit(main(sys.argv[1:]))


def main(argv: Sequence[str]) -> int:
    """Do what the command line (without the program's name) says; return the exit code."""
    try:
        return _main(argv, os.getcwd())
    except PoorhttpError as error:
        _tell(error)
        return error.exit_code
    except KeyboardInterrupt:  # stopped before it served
        return OK
    except Exception as error:
        from traceback import format_exc

        _tell(PoorhttpError(f"unexpected {type(error).__name__}: {error}", "this is a fault of poorhttp", format_exc()))
        return UNEXPECTED


def run(app: WSGI | str, **settings: Any) -> None:
    """Serve `app` until stopped: a WSGI callable, or where it is, as on the command line.

    settings: by name, such as `type="threading", address="127.0.0.1:8080", request_timeout=5`; also `config` (an ini
    file), `options` and `environ` (dicts, as the ini sections). Variables POORHTTP_* count, keywords have precedence.
    Raises PoorhttpError (ConfigError, LoadError, ListenError), and SystemExit where a worker could not start.
    Call it in the main thread: signals stop the server, and Python hears them only there.
    """
    if _loading:
        caller = sys._getframe(1)
        where = f"{caller.f_code.co_filename}, line {caller.f_lineno}"
        hint = 'put the call under: if __name__ == "__main__":'
        raise LoadError(f"poorhttp.run was called ({where}) while poorhttp loads {_loading[0]}", hint)
    threading: Any = sys.modules.get("threading")
    if threading and threading.current_thread() is not threading.main_thread():
        raise PoorhttpError("poorhttp.run works in the main thread only", "call it there, other work in other threads")
    if app is None:  # what a factory gives that forgets to return
        from poorhttp.loader import check

        check(app, "app")
    if isinstance(app, str):
        code = _serve(config.from_keywords({**settings, "application": app}, os.environ, os.getcwd()), None)
    else:
        code = _serve(config.from_keywords(settings, os.environ, os.getcwd()), app)
    if code:
        raise SystemExit(code)


def _main(argv: Sequence[str], directory: str) -> int:
    flags = config.parse_flags(argv, directory)
    if flags.command == "help":
        return _write(config.help_text())
    if flags.command == "version":
        return _write(f"{_version()}\n")
    if flags.command == "dump_config":
        return _write(config.ini_text(flags, os.environ, directory))
    handover, tried = _from_before()
    try:
        settings = config.read(flags, os.environ, directory)
    except ConfigError as error:
        if handover is not None:
            _try_again(handover, directory, error, None)
        raise
    if tried is not None:
        _end_trial(settings, *tried)
    if flags.command == "print_config":
        return _write(config.config_text(settings))
    if flags.command == "check_config":
        return _check(settings)
    if flags.command in config.ACTIONS and handover is None:
        return _act(flags.command, settings, directory)
    return _serve(settings, None, directory, handover)


def _act(action: str, settings: Config, directory: str) -> int:
    """Do something with the server of the pidfile."""
    from poorhttp import control

    if action == "start":
        return _start(settings, directory)
    if action == "restart":
        return _in_child(settings) or control.stop(settings, _say) or _start(settings, directory)
    return int(getattr(control, action)(settings, lambda line: _write(f"{line}\n")))


def _in_child(settings: Config) -> int:
    """Load the application in a child: a server is not stopped for one that could not start."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    try:
        os.environ.update(settings.environ)
        _application(settings, None)
    except PoorhttpError as error:
        _tell(error)
        os._exit(error.exit_code)
    os._exit(OK)


def _start(settings: Config, directory: str) -> int:
    """Serve in a process of its own session; return when it serves, or with its exit code."""
    from poorhttp import control

    pid = control.find(settings)
    if pid > 0:
        _say(f"running already: pid {pid}")
        return OK
    for name in "errorlog", "accesslog":
        if getattr(settings, name) == "-":
            raise ConfigError(f"in the background nobody reads {name} = -", f"name a file: {name} = FILE")
    told, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(told)
        os.setsid()
        sys.exit(_run_in_background(settings, directory, tell))
    os.close(tell)
    try:
        serves = os.read(told, 1)
    except KeyboardInterrupt:
        os.kill(pid, 15)
        raise
    if serves:
        _say(f"started: pid {pid}")
        return OK
    return abs(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])) or UNEXPECTED


def _run_in_background(settings: Config, directory: str, tell: int) -> int:
    def serving(error_log: ErrorLog) -> None:
        """Let go of the terminal, and of whoever waits for the start. What is printed goes to the error log."""
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        os.close(nothing)
        for descriptor in 1, 2:
            os.dup2(error_log.fileno(), descriptor)
        os.write(tell, b"1")
        os.close(tell)

    try:
        return _serve(settings, None, directory, serving=serving)
    except PoorhttpError as error:
        _tell(error)
        return error.exit_code


def _from_before() -> tuple[Handover | None, list[str] | None]:
    """What the image before this one left, and what a trial has to know; each None almost always."""
    if "POORHTTP_HANDOVER" not in os.environ and "POORHTTP_TRIAL" not in os.environ:
        return None, None
    from poorhttp import reload

    return reload.received(), reload.tried()


def _end_trial(settings: Config, *tried: str) -> NoReturn:
    """Try, and end at once: what the application has started, threads for instance, is thrown away with it."""
    try:
        code = _try(settings, *tried)
    except PoorhttpError as error:
        _tell(error)
        code = error.exit_code
    finally:
        sys.stdout.flush()
    os._exit(code)


def _try(settings: Config, shape: str, pidfile: str, *addresses: str) -> int:
    """Be the trial of a reload: find out whether a server with these sockets could go on as this one."""
    from poorhttp import listener

    if shape != _shape(settings):
        raise ConfigError(f"type and processes now ask for {_shape(settings)}", f"restart the server: it is {shape}")
    for address in settings.addresses:
        if str(address) not in addresses:
            listener.close([listener.listen(address, settings.backlog, settings.socket_mode)])
    from poorhttp import privileges

    privileges.drop(settings.user, settings.group)
    _open_logs(settings)
    if settings.pidfile and settings.pidfile != pidfile:
        _remove_pidfile(_write_pidfile(settings.pidfile))
    return _check(settings)


def _check(settings: Config) -> int:
    """Do of a start what nobody notices: load the application, open neither sockets nor logs."""
    _say_notes(settings)
    os.environ.update(settings.environ)
    _application(settings, None)
    return _write("ok\n")


def _serve(
    settings: Config,
    app: WSGI | None,
    home: str = "",
    handover: Handover | None = None,
    serving: Callable[[ErrorLog], None] | None = None,
) -> int:
    """Listen, load, serve; return the exit code. Clients that come meanwhile wait in the queue of the socket.

    home: the directory of the start, "" where the process goes on afterwards and another program than poorhttp began
    it: then there is no reload, and signals are given back. handover: what the image before this one left.
    serving: called when clients are about to be served.
    """
    from poorhttp import listener

    try:
        error_log, access_log = _open_logs(settings)
    except ConfigError as error:
        if handover is not None:
            _try_again(handover, home, error, None)
        raise
    boot = _boot()
    listeners: list[socket] = []
    pidfile = ""

    def clean_up() -> None:
        _remove_pidfile(pidfile)
        listener.close(listeners)

    try:
        for address in settings.addresses:
            inherited = handover.sockets.pop(str(address), None) if handover is not None else None
            listeners.append(
                listener.adopt(*inherited)
                if inherited
                else listener.listen(address, settings.backlog, settings.socket_mode)
            )
        _say_notes(settings)
        pidfile = _write_pidfile(settings.pidfile) if settings.pidfile else ""
        if handover is not None:
            boot.go_on()
            _drop_rest(handover, pidfile)
        if settings.user or settings.group:
            _drop_privileges(settings, bool(home))
        os.environ.update(settings.environ)
        try:
            app, title = _application(settings, app)
        finally:
            boot.check()  # a stop goes before whatever the application made of it
        _say_start(settings, title, listeners)
        if handover is not None:
            error_log.write("S", f"reloaded: {title}, {_shape(settings)}")
        if serving is not None:
            serving(error_log)
        _follow_streams(error_log, settings)
        make_reload = (lambda: _reload(settings, home, error_log)) if home else None
        if _is_supervised(settings):
            from poorhttp.supervisor import supervise

            return supervise(app, listeners, settings, error_log, access_log, make_reload, handover)
        from poorhttp.worker import serve

        return serve(app, listeners, settings, error_log, access_log, clean_up=clean_up, make_reload=make_reload)
    except Exception as error:
        if handover is not None and app is None:
            _try_again(handover, home, error, error_log)
        raise
    finally:
        if home:
            boot.silence()
        clean_up()
        if not home:
            boot.restore()


def _drop_privileges(settings: Config, may_reload: bool) -> None:
    from poorhttp import privileges, reload

    if may_reload:
        reload.remember_environ()  # a process that was root may not look at its own afterwards
    privileges.drop(settings.user, settings.group, [each.path for each in settings.addresses if each.path])


def _reload(settings: Config, home: str, error_log: ErrorLog) -> Reload:
    from poorhttp.reload import Reload

    return Reload(settings, home, _shape(settings), error_log)


def _drop_rest(handover: Handover, pidfile: str) -> None:
    """Close and remove what the image before this one had and the configuration wants no more."""
    from poorhttp import listener

    listener.close([listener.adopt(*inherited) for inherited in handover.sockets.values()])
    if handover.pidfile != pidfile:
        _remove_pidfile(handover.pidfile)


def _try_again(handover: Handover, home: str, error: Exception, error_log: ErrorLog | None) -> NoReturn:
    """The trial went well, but this image cannot go on: try once more with the same sockets and workers, and again.

    Meanwhile the old workers serve, if there are any, and clients wait. A stop ends this process, and with it them.
    """
    import time

    from poorhttp.lean import signal
    from poorhttp.worker import STOPS

    _tell(error if isinstance(error, PoorhttpError) else PoorhttpError(f"{type(error).__name__}: {error}"))
    if error_log is not None:
        error_log.exception(error, "-", "reload: what the trial could load cannot be loaded; trying again")
    for signum in STOPS:
        signal.signal(signum, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
    time.sleep(1.0)
    handover.try_again(home)


def _follow_streams(error_log: ErrorLog, settings: Config) -> None:
    """Open standard output and error anew with the log where they are the same file, as they are in the background."""
    if settings.errorlog == "-":
        return
    log = os.fstat(error_log.fileno())
    for descriptor in 1, 2:
        if os.path.samestat(os.fstat(descriptor), log):
            error_log.follow(descriptor, settings.errorlog)


def _shape(settings: Config) -> str:
    return "a supervisor with workers" if _is_supervised(settings) else "one process without a supervisor"


def _is_supervised(settings: Config) -> bool:
    return settings.processes.most > 1 or settings.type == "forking"


def _application(settings: Config, app: WSGI | None) -> tuple[WSGI, str]:
    from poorhttp import loader

    if app is not None:
        title = "app"
        if callable(app):
            title = f"{getattr(app, '__module__', '')}:{getattr(app, '__qualname__', type(app).__qualname__)}"
        return loader.check(app, title), title
    title = loader.title(settings.application)
    _loading.append(title)
    try:
        return loader.load(settings.application, settings.import_directory), title
    finally:
        _loading.clear()


def _open_logs(settings: Config) -> tuple[ErrorLog, int]:
    if (settings.user or settings.group) and os.geteuid() == 0:
        from poorhttp import privileges

        # Not as root: the directory of a log may be that user's, who could lead the path anywhere.
        with privileges.lent_to(settings.user, settings.group):
            return _opened_logs(settings)
    return _opened_logs(settings)


def _opened_logs(settings: Config) -> tuple[ErrorLog, int]:
    from poorhttp.log import ErrorLog, open_access_log

    try:
        error_log = ErrorLog(settings.errorlog, settings.log_level, settings.debug, settings.webmaster)
        return error_log, open_access_log(settings.accesslog)
    except OSError as error:
        user = settings.user or "this user"
        hint = f"is its directory there, and may {user} write in it?"
        raise ConfigError(f"cannot open the log {error.filename}: {error.strerror}", hint) from None


def _boot() -> Boot:
    """Return the signals of the start: a stop leaves by SystemExit(0), so that everything made is removed."""
    try:
        from poorhttp.worker import Boot
    except ImportError as error:
        source = os.path.dirname(os.path.dirname(__file__))
        hint = "build and install it with: pip install ."
        if os.path.exists(os.path.join(source, "Cargo.toml")):
            hint = f"{source} holds the sources: run the installed poorhttp elsewhere, or here after: pip install -e ."
        raise PoorhttpError(f"the compiled engine is not there: {error}", hint) from None
    return Boot()


# Pidfile


def _write_pidfile(path: str) -> str:
    """Write this process's number, whole or not at all; return the path. Raises ConfigError if another one lives."""
    try:
        if _check_pidfile(path):
            return path  # written by the image before this one
        draft = f"{path}.{os.getpid()}"
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
        try:
            os.write(descriptor, b"%d\n" % os.getpid())
            os.rename(draft, path)
        except OSError:
            os.unlink(draft)
            raise
        finally:
            os.close(descriptor)
    except OSError as error:
        hint = "is its directory there, and may this user write in it?"
        raise ConfigError(f"cannot write the pidfile {path}: {error.strerror}", hint) from None
    return path


def _check_pidfile(path: str) -> bool:
    """Whether it is this process's already. Raises ConfigError where it is another living one's, or no pidfile."""
    from poorhttp import control

    text = _read_pidfile(path)
    if text is None:
        return False
    pid = int(text) if text.isdecimal() and len(text) < 9 else PID_LIMIT
    if pid == 0 or (pid >= PID_LIMIT and text):
        raise ConfigError(f"{path} is there and is no pidfile", "choose another pidfile, or remove it")
    if pid == os.getpid():
        return True
    if text and control.wrote(pid, os.stat(path).st_mtime):
        raise ConfigError(f"the pidfile {path} names process {pid}, which is alive", f"stop it first: kill {pid}")
    _say(f"note: replaced the stale pidfile {path}")
    return False


def _read_pidfile(path: str) -> str | None:
    """Return the text, "?" for what is no regular file, None where there is none. A link is not followed (OSError)."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    try:
        return os.read(descriptor, 64).decode("latin-1").strip() if os.path.isfile(descriptor) else "?"
    finally:
        os.close(descriptor)


def _remove_pidfile(path: str) -> None:
    """Remove it if it names this process: neither a forked child nor a server that was replaced removes another's."""
    try:
        if path and _read_pidfile(path) == str(os.getpid()):
            os.unlink(path)
    except OSError as error:
        _say(f"note: cannot remove the pidfile {path}: {error.strerror}")


# What is told


def _say_start(settings: Config, title: str, listeners: list[socket]) -> None:
    from poorhttp import listener

    _say(_version())
    _say(title)
    _say(", ".join(listener.url(each) + listener.others(each) for each in listeners))
    kind = "forking" if _is_supervised(settings) else "threading" if settings.threads > 1 else "single"
    processes = f"{settings.processes} process{'es' * (settings.processes.most > 1)}"
    _say(f"{kind}, {processes} x {settings.threads} thread{'s' * (settings.threads > 1)}")
    _say_backlog(settings)


def _say_backlog(settings: Config) -> None:
    from poorhttp.backlog import note

    text = note(settings.backlog)
    if text:
        _say(f"note: {text}")


def _say_notes(settings: Config) -> None:
    for name in "max_requests", "memory":
        if getattr(settings, name) and not _is_supervised(settings):
            _say(f"note: {name} replaces workers, and here is none; type = forking has them, with processes = 1 too")
    for note in settings.notes:
        _say(f"note: {note}")


def _tell(error: PoorhttpError) -> None:
    if error.detail and sys.stderr:
        sys.stderr.write(error.detail)
    _say(f"error: {error.message}")
    if error.hint:
        _say(f"hint: {error.hint}")


def _version() -> str:
    return f"poorhttp {__version__}, Python {sys.version.split()[0]}"


def _say(line: str) -> None:
    """Print one line on standard error, if there is one; nobody to read it is no reason not to serve."""
    try:
        if sys.stderr:
            print(printable(line), file=sys.stderr, flush=True)
    except OSError:
        return


def _write(text: str) -> int:
    """Print on standard output; a reader that has seen enough (`| head`) is no fault."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else the interpreter's last flush complains
    return OK
