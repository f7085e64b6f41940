"""The command `poorhttp` and the function `run`: from words to a server or a command about one, and its exit code.

Knows the commands. Does not know how a server starts (`poorhttp.process.server`).
Contract: a fault is told in one line and a hint on standard error and in the exit code.
"""

from __future__ import annotations

import sys

from poorhttp.config import config
from poorhttp.errors import ConfigError, ListenError, LoadError, PoorhttpError, nearest, say, shortage, tell, write
from poorhttp.process import server
from poorhttp.stdlib import os, undisturbed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, NoReturn

    from poorhttp.config.config import Config, Flags
    from poorhttp.reload.reload import Handover

    WSGI = Callable[..., Iterable[bytes]]

OK, UNEXPECTED, INTERRUPTED = 0, 1, 130


def entry() -> NoReturn:
    """The console script."""
    _open_standard_streams()
    if os.getpid() == 1:
        from poorhttp.process import pid1

        pid1.step_aside()
    sys.exit(main(sys.argv[1:]))


def _open_standard_streams() -> None:
    """Where one is closed, a socket would get its number, and what is printed would be written into that."""
    for descriptor in 0, 1, 2:
        try:
            os.fstat(descriptor)
        except OSError:
            try:
                os.open(os.devnull, os.O_RDWR)
            except OSError:
                os.pipe()  # which takes the next number too, and keeps what is written to neither


def main(argv: Sequence[str]) -> int:
    """Do what the command line (without the program's name) says; return the exit code."""
    try:
        return _main(argv, _directory())
    except PoorhttpError as error:
        tell(error)
        return error.exit_code
    except KeyboardInterrupt:  # stopped before it served
        return OK
    except Exception as error:
        told = shortage(error)
        if told is not None:
            tell(told)
            return told.exit_code
        from poorhttp.stdlib import traceback

        trace = traceback.format_exc()
        tell(PoorhttpError(f"unexpected {type(error).__name__}: {error}", "this is a fault of poorhttp", trace))
        return UNEXPECTED


def run(app: WSGI | str, **settings: Any) -> None:
    """Serve `app` until stopped: a WSGI callable, or where it is, as on the command line.

    settings: by name, such as `type="threading", address="127.0.0.1:8080", request_timeout=5`; also `config` (an ini
    file), `options` and `environ` (dicts, as the ini sections). Variables POORHTTP_* count, keywords have precedence.
    Raises PoorhttpError (ConfigError, LoadError, ListenError), and SystemExit where a worker could not start.
    Call it in the main thread: signals stop the server, and Python hears them only there.
    """
    if server.loading:
        caller = sys._getframe(1)
        where = f"{caller.f_code.co_filename}, line {caller.f_lineno}"
        hint = 'put the call under: if __name__ == "__main__":'
        raise LoadError(f"poorhttp.run was called ({where}) while poorhttp loads {server.loading[0]}", hint)
    code = undisturbed(lambda: _run(app, settings))
    if code:
        raise SystemExit(code)


def _run(app: WSGI | str, settings: dict[str, Any]) -> int:
    """Do as `run` says; return the exit code."""
    if "threading" in sys.modules:
        from poorhttp.stdlib import threading

        if threading.current_thread() is not threading.main_thread():
            hint = "call it there, other work in other threads"
            raise PoorhttpError("poorhttp.run works in the main thread only", hint)
    _open_standard_streams()
    if app is None:  # what a factory gives that forgets to return
        from poorhttp.app.loader import check

        check(app, "app")
    named = {"application": app} if isinstance(app, str) else {}
    configured = config.from_keywords({**settings, **named}, os.environ, _directory())
    if configured.check_path:
        say("note: check_path is for the command line; serving without it")
    return server.serve(configured, None if isinstance(app, str) else app)


def _directory() -> str:
    """The current directory. Raises ConfigError where it was removed."""
    try:
        return os.getcwd()
    except OSError as error:
        what = f"the working directory is gone: {error.strerror}"
        raise ConfigError(what, "go to one that is there") from None


def way_to(directory: str) -> str:
    """Return how the current directory was named: PWD, which shells keep, where that names this very directory.

    A symbolic link on this way may lead to another release later, where a reload shall find it. Paths are made absolute
    by the directory itself, so that what runs stays with one release.
    """
    named = os.environ.get("PWD", "")
    try:
        is_it = os.path.isabs(named) and os.path.samestat(os.stat(named), os.stat(directory))
    except OSError:
        return directory
    return named if is_it else directory


def _main(argv: Sequence[str], directory: str) -> int:
    if "POORHTTP_DEV" in os.environ:
        from poorhttp.dev.serve import child

        child.run(argv, directory)
    flags = config.parse_flags(argv, directory)
    if flags.command == "help":
        return write(config.help_text(flags.topic))
    if flags.command == "version":
        return write(f"{server.version()}\n")
    if flags.command == "dump_config":
        return write(config.ini_text(flags, os.environ, directory))
    if flags.command == "init":
        from poorhttp.dev import init

        return init.run(os.path.join(directory, flags.given.get("application", ("",))[0]))
    handover, tried = _from_before()
    home = way_to(directory)
    try:
        settings = config.read(flags, os.environ, directory)
    except ConfigError as error:
        if handover is not None:
            server.try_again(handover, home, error, None)
        if flags.command not in ("stop", "status", "logrotate"):
            raise
        settings = config.read_roughly(flags, os.environ, directory)
        say(f"note: {error.message}")
    if tried is not None:
        from poorhttp.process import trial

        trial.end(settings, *tried)
    if flags.command == "print_config":
        return write(config.config_text(settings))
    if flags.command.startswith("print_"):
        from poorhttp.operate import front

        return write(front.render(flags.command.removeprefix("print_"), settings))
    is_in_the_making = flags.is_dev or (settings.autoreload and settings.debug)
    if is_in_the_making and not flags.public and handover is None and flags.command not in config.ACTIONS:
        from poorhttp.dev.settings import refuse_public

        refuse_public(settings.addresses, os.environ)
    if flags.command == "check_config":
        from poorhttp.process import trial

        return trial.check(settings)
    if flags.command == "check":
        from poorhttp.dev import check

        return check.run(settings)
    if flags.command in config.ACTIONS and handover is None:
        try:
            return _act(argv, flags, settings, home)
        except KeyboardInterrupt:
            return INTERRUPTED
    if settings.autoreload and handover is None:
        from poorhttp.dev.serve import supervisor

        return supervisor.run(settings, home, flags.live)
    if settings.check_path and handover is None:
        from poorhttp.process import trial

        code = trial.before_serving(settings)
        if code:
            return code
    try:
        return server.serve(settings, None, home, handover)
    except ListenError as error:
        word = flags.given.get("application", ("",))[0]
        near = nearest(word, config.ACTIONS) if word.isalpha() else ""
        if near:  # a word about the server that has the address
            error.hint = f"did you mean {near}? Or {error.hint}"
        raise


def _act(argv: Sequence[str], flags: Flags, settings: Config, home: str) -> int:
    """Do something with the server of the pidfile."""
    from poorhttp.operate import background, control
    from poorhttp.process import trial
    from poorhttp.status import running

    patience = flags.wait or trial.PATIENCE

    if flags.command == "start":
        code, pid = OK, running.find(settings)
        _tell_of_another(settings, pid)
        if settings.check_path and pid <= 0:
            background.check(settings)
            code = trial.in_child(settings, patience)
        return code or background.start(settings, home, patience)
    if flags.command == "restart":
        background.check(settings)
        pid = running.find(settings)
        _tell_of_another(settings, pid)
        fresh, home = _found_again(argv, settings, home, pid)
        code = trial.restart(fresh, pid, patience) or control.stop(settings, say)
        return code or background.start(fresh, home, patience, may_be_unread=pid > 0)
    try:
        if flags.watch:
            from poorhttp.operate import watch

            return watch.run(settings, flags.json)
        if flags.json:
            code, facts = control.facts(settings)
            return write(f"{facts}\n") or code
        if flags.command == "reload":
            return control.reload(settings, lambda line: write(f"{line}\n"), patience)
        return int(getattr(control, flags.command)(settings, lambda line: write(f"{line}\n")))
    except PoorhttpError as error:
        if flags.command == "status":
            error.exit_code = control.UNKNOWN
        raise


def _tell_of_another(settings: Config, pid: int) -> None:
    """Where no server has this pidfile, say which one of the same ini file has another."""
    from poorhttp.status import running

    told = running.elsewhere(settings) if pid <= 0 else ""
    if told:
        say(f"note: {told}")


def _found_again(argv: Sequence[str], settings: Config, home: str, pid: int) -> tuple[Config, str]:
    """The configuration and the directory with which a running server is to be restarted.

    A shell stays in the directory to which a symbolic link led, though it still shows the link's name when that leads
    to another release. Where the server went by this name, as a reload of it would again, go there too.
    """
    from poorhttp.status import reader

    named = os.environ.get("PWD", "")
    try:
        if pid <= 0 or home == named or reader.start(pid).get("home") != named:
            return settings, home
        os.chdir(named)
    except OSError:  # another user's server, or the link leads nowhere
        return settings, home
    directory = _directory()
    return config.read(config.parse_flags(argv, directory), os.environ, directory), named


def _from_before() -> tuple[Handover | None, list[str] | None]:
    """What the image before this one left, and what a trial has to know; each None almost always."""
    if "POORHTTP_HANDOVER" not in os.environ and "POORHTTP_TRIAL" not in os.environ:
        return None, None
    from poorhttp.reload import reload

    return reload.received(), reload.tried()
