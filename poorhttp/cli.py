"""The command `poorhttp` and the function `run`: from arguments to a server, or to a command about one.

Knows which module carries out each command. Does not know how a server starts (`poorhttp.process.server`). An error is
one line and a hint on standard error, and an exit code.
"""

from __future__ import annotations

import sys

from poorhttp.config import reading
from poorhttp.config.commands import ACTIONS, PURGE
from poorhttp.config.flags import parse_flags
from poorhttp.errors import ConfigError, ListenError, LoadError, PoorhttpError, nearest, say, shortage, tell, write
from poorhttp.process import server
from poorhttp.process.start import facts, loading
from poorhttp.stdlib import os, undisturbed
from poorhttp.system import timing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NoReturn

    from poorhttp.app.callables import WSGI
    from poorhttp.config.flags import Flags
    from poorhttp.config.model import Config
    from poorhttp.reload.handover import Handover

OK, UNEXPECTED, INTERRUPTED = 0, 1, 130


def entry() -> NoReturn:
    """The console script."""
    _open_standard_streams()
    if os.getpid() == 1:
        from poorhttp.process import pid1

        pid1.step_aside()
    sys.exit(main(sys.argv[1:]))


def _open_standard_streams() -> None:
    """Open those that are closed: else a socket would get the number, and prints would be written to a client."""
    for descriptor in 0, 1, 2:
        try:
            os.fstat(descriptor)
        except OSError:
            try:
                os.open(os.devnull, os.O_RDWR)
            except OSError:
                os.pipe()  # takes this number and the next; nothing is written to either


def main(argv: Sequence[str]) -> int:
    """Carry out a command line (without the program's name); return the exit code."""
    try:
        return _main(argv, _directory())
    except PoorhttpError as error:
        tell(error)
        return error.exit_code
    except KeyboardInterrupt:  # before the server served
        return OK
    except Exception as error:
        lack = shortage(error)
        if lack is not None:
            tell(lack)
            return lack.exit_code
        from poorhttp.stdlib import traceback

        trace = traceback.format_exc()
        hint = "this is a fault of poorhttp: please report it with the traceback above"
        tell(PoorhttpError(f"unexpected {type(error).__name__}: {error}", hint, trace))
        return UNEXPECTED


def run(app: WSGI | str, **settings: Any) -> None:
    """Serve `app` until the server is stopped: a WSGI callable, or its place as on the command line.

    settings: by name, such as `type="threading", address="127.0.0.1:8080", request_timeout=5`; also `config` (an ini
    file), `options` and `environ` (dicts, as the sections of an ini file). A keyword overrides a variable POORHTTP_*.
    Raises PoorhttpError (ConfigError, LoadError, ListenError), and SystemExit if a worker could not start. Call it in
    the main thread: signals stop the server, and Python receives them only there.
    """
    if loading.in_progress:
        caller = sys._getframe(1)
        where = f"{caller.f_code.co_filename}, line {caller.f_lineno}"
        hint = 'put the call under: if __name__ == "__main__":'
        raise LoadError(f"poorhttp.run was called ({where}) while poorhttp loads {loading.in_progress[0]}", hint)
    code = undisturbed(lambda: _run(app, settings))
    if code:
        raise SystemExit(code)


def _run(app: WSGI | str, settings: dict[str, Any]) -> int:
    if "threading" in sys.modules:
        from poorhttp.stdlib import threading

        if threading.current_thread() is not threading.main_thread():
            hint = "call it in the main thread, and do other work in other threads"
            raise PoorhttpError("poorhttp.run works in the main thread only", hint)
    _open_standard_streams()
    if app is None:  # the result of a factory that forgets to return
        from poorhttp.app.callables import check

        check(app, "app")
    named = {"application": app} if isinstance(app, str) else {}
    configured = reading.from_keywords({**settings, **named}, os.environ, _directory())
    if configured.check_path:
        say("note: check_path is used by the command line only; serving without this check")
    return server.serve(configured, None if isinstance(app, str) else app)


def _directory() -> str:
    """Return the current directory. Raises ConfigError if it was removed."""
    try:
        return os.getcwd()
    except OSError as error:
        what = f"the working directory is gone: {error.strerror}"
        raise ConfigError(what, "change to a directory that exists") from None


def way_to(directory: str) -> str:
    """Return the name by which the user went to this directory: PWD, as the shell sets it, if that is this directory. A
    symbolic link in it may lead to another release later, and a reload is to find that one; paths of settings start
    from the directory itself.
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
    asks_purge = tuple(argv[:2]) in ((PURGE[0], "--help"), (PURGE[0], "-h"))
    if asks_purge or tuple(argv[:2]) == PURGE:
        from poorhttp.operate import purge

        return purge.run(argv[1 if asks_purge else 2 :], os.environ)
    flags = parse_flags(argv, directory)
    if flags.command in ("help", "version", "dump_config", "init"):
        return _without_settings(flags, directory)
    handover, tried = _from_before()
    home = way_to(directory)
    try:
        settings = reading.read(flags, os.environ, directory)
    except ConfigError as error:
        if handover is not None:
            return _try_again(handover, home, error, directory)
        # A reload too: its trial reads the file again, so that the error log and `status` tell what is wrong with it.
        if flags.command not in ("stop", "status", "logrotate", "reload"):
            raise
        settings = reading.read_roughly(flags, os.environ, directory)
        say(f"note: {error.message}")
    if tried is not None:
        from poorhttp.process.start import dry_run

        dry_run.end(settings, *tried)
    if flags.command.startswith("print_"):
        return _print(flags.command, settings)
    if handover is not None:
        return server.serve(settings, None, home, handover)
    is_dev = flags.is_dev or (settings.autoreload and settings.debug)
    if is_dev and not flags.public and flags.command not in ACTIONS:
        from poorhttp.dev.settings import refuse_public

        refuse_public(settings.addresses, os.environ)
    if flags.command in ("check_config", "check"):
        return _check(flags.command, settings)
    if flags.command in ACTIONS:
        try:
            return _act(argv, flags, settings, home)
        except KeyboardInterrupt:
            return INTERRUPTED
    return _serve(flags, settings, home)


def _without_settings(flags: Flags, directory: str) -> int:
    """Carry out a command that needs no configuration."""
    from poorhttp.config import printing

    if flags.command == "help":
        return write(printing.help_text(flags.topic))
    if flags.command == "version":
        return write(f"{facts.version()}\n")
    if flags.command == "dump_config":
        return write(printing.ini_text(flags, os.environ, directory))
    from poorhttp.dev import init

    return init.run(os.path.join(directory, flags.given.get("application", ("",))[0]))


def _print(command: str, settings: Config) -> int:
    if command == "print_config":
        from poorhttp.config import printing

        return write(printing.config_text(settings))
    from poorhttp.operate import front

    return write(front.render(command.removeprefix("print_"), settings))


def _check(command: str, settings: Config) -> int:
    if command == "check_config":
        from poorhttp.process.start import dry_run

        return dry_run.check(settings)
    from poorhttp.dev import check

    return check.run(settings)


def _serve(flags: Flags, settings: Config, home: str) -> int:
    if settings.autoreload:
        from poorhttp.dev.serve import start

        return start.run(settings, home, flags.live)
    if settings.check_path:
        from poorhttp.process.start import dry_run

        code = dry_run.before_serving(settings)
        if code:
            return code
    try:
        return server.serve(settings, None, home, None)
    except ListenError as error:
        word = flags.given.get("application", ("",))[0]
        near = nearest(word, ACTIONS) if word.isalpha() else ""
        if near:  # perhaps a mistyped command about the server that has this address
            error.hint = f"did you mean {near}? Or {error.hint}"
        raise


def _try_again(handover: Handover, home: str, error: ConfigError, directory: str) -> int:
    """After a reload whose configuration cannot be read any more: serve with the old workers, and try again."""
    from poorhttp.process.start.origin import AfterReload, adopted

    defaults = reading.from_keywords({}, {}, directory)
    return AfterReload(handover).try_again(home, error, adopted(handover), defaults)


def _act(argv: Sequence[str], flags: Flags, settings: Config, home: str) -> int:
    """Carry out a command about the server that the pidfile names."""
    from poorhttp.operate import control

    patience = flags.wait or timing.LOADING
    if flags.command == "start":
        return _start(settings, home, patience)
    if flags.command == "restart":
        return _restart(argv, settings, home, patience)
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


def _start(settings: Config, home: str, patience: float) -> int:
    from poorhttp.operate import background
    from poorhttp.process.start import dry_run_child
    from poorhttp.status import running

    code, pid = OK, running.find(settings)
    _tell_of_another(settings, pid)
    if settings.check_path and pid <= 0:
        background.check(settings)
        code = dry_run_child.run(settings, patience)
    return code or background.start(settings, home, patience)


def _restart(argv: Sequence[str], settings: Config, home: str, patience: float) -> int:
    from poorhttp.operate import background, control
    from poorhttp.process.start import dry_run
    from poorhttp.status import running

    background.check(settings)
    pid = running.find(settings)
    _tell_of_another(settings, pid)
    fresh, home = _found_again(argv, settings, home, pid)
    code = dry_run.restart(fresh, pid, patience) or control.stop(settings, say)
    return code or background.start(fresh, home, patience, may_be_unread=pid > 0)


def _tell_of_another(settings: Config, pid: int) -> None:
    from poorhttp.status import running

    other = running.describe_server_of_ini(settings) if pid <= 0 else ""
    if other:
        say(f"note: {other}")


def _found_again(argv: Sequence[str], settings: Config, home: str, pid: int) -> tuple[Config, str]:
    """Return the configuration and the directory for the restart of a running server. After a symbolic link was turned
    to another release, a shell stays in the old release, but still shows the name of the link. If the server was
    started by that name, the restart goes to the new release, as a reload does.
    """
    from poorhttp.status import reader

    named = os.environ.get("PWD", "")
    try:
        if pid <= 0 or home == named or reader.read_start(pid).get("home") != named:
            return settings, home
        os.chdir(named)
    except OSError:  # the server is another user's, or the link leads nowhere
        return settings, home
    directory = _directory()
    return reading.read(parse_flags(argv, directory), os.environ, directory), named


def _from_before() -> tuple[Handover | None, list[str] | None]:
    """Return what the program before this one handed over, and what a trial has to know; usually None and None."""
    if "POORHTTP_HANDOVER" not in os.environ and "POORHTTP_TRIAL" not in os.environ:
        return None, None
    from poorhttp.reload import handover, trial

    return handover.received(), trial.tried()
