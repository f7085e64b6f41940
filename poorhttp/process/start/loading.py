"""The application on its way into this process: its directory and environment, the load, the warm-up, what workers lack
of it.

Knows what surrounds the load. Does not know how an application is found (`poorhttp.app.loader`).
"""

from __future__ import annotations

import sys

from poorhttp.errors import ConfigError, LoadError, MissingError, tell
from poorhttp.process.shape import is_supervised
from poorhttp.stdlib import held, make_way, os, signal
from poorhttp.system.signals import HANDLED, leave_at_once, take_back

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, NoReturn

    from poorhttp.config.model import Config
    from poorhttp.logs.log import ErrorLog

    WSGI = Callable[..., Iterable[bytes]]
    WarmUp = Callable[[WSGI], None]

SESSIONS_IN_MEMORY = "poorhttp.sessions.stores.memory"
"""The module that is imported when an application asks for this store."""

in_progress: list[str] = []
"""The title of the application, while it is being loaded."""


def enter(settings: Config) -> None:
    """Go to `chdir`, which is to be first on Python's path, and set the variables of [environ]. Raises ConfigError for
    that directory, and for a `document` that cannot be entered.

    The path changes with `stdlib.make_way`, when the application comes: what the server still imports is Python's.
    PYTHONPATH and TZ count as if they had been set when this process began; the places of the first come after `chdir`.
    """
    if settings.chdir:
        try:
            os.chdir(settings.chdir)
        except OSError as error:
            hint = f"is it a directory, and may {settings.user or 'this user'} enter it?"
            raise ConfigError(f"cannot go to chdir = {settings.chdir}: {error.strerror}", hint) from None
    if settings.document:
        try:
            os.stat(os.path.join(settings.document, "."))  # which only who may enter a directory can see
        except OSError as error:
            wanted = f"a directory that {settings.user or 'this user'} may enter"
            told = f"{settings.sources['document']}: document must be {wanted}, not {settings.document!r}"
            raise ConfigError(f"{told}: {error.strerror}", "make it, or correct the path") from None
    os.environ.update(settings.environ)
    named = settings.environ.get("PYTHONPATH", "")
    places = [os.path.abspath(place) for place in named.split(os.pathsep)] if named else []
    held[:0] = [os.getcwd(), *places] if settings.chdir else places
    if "TZ" in settings.environ:
        import time as public_time  # that of the application

        public_time.tzset()


def factory(
    settings: Config, app: WSGI | None, error_log: ErrorLog, clean_up: Callable[[], None]
) -> tuple[Callable[[], WSGI], str]:
    """Return what gives the application, and its title. It is loaded and warmed up here, before workers are forked,
    unless each of them is to load it (`preload`). Raises LoadError.

    clean_up: called if this process has to be left while a request of the warm-up does not return.
    """

    def guarded(app: WSGI) -> WSGI:
        if not settings.debug:
            return app
        from poorhttp.dev.page.guard import Guard

        return Guard(app, error_log, settings.editor)

    warm_up = _warm_up(settings, error_log, clean_up)
    if app is None and not settings.preload and is_supervised(settings):
        from poorhttp.app import places

        return lambda: guarded(_application(settings, None, warm_up)[0]), places.title(settings.application)
    loaded, title = load(settings, app, lambda text: error_log.write("W", text), warm_up)
    guarded_app = guarded(loaded)
    if settings.log_level != "debug" or not is_supervised(settings):
        return lambda: guarded_app, title
    from poorhttp.process.serving.late_imports import LateImports

    return lambda: LateImports(guarded_app, error_log), title


def load(
    settings: Config, app: WSGI | None, warn: Callable[[str], None], warm_up: WarmUp | None = None
) -> tuple[WSGI, str]:
    """Return the application and its title; load it unless it is given as `app`, and the function of `child_exit` with
    it, and warm it up. Where workers are forked from this process, warn of what they lack or share. Raises LoadError.
    """
    if not (settings.preload and is_supervised(settings)):
        loaded = _application(settings, app, warm_up)
    else:
        from poorhttp.process.start.before_fork import watched

        loaded = watched(lambda: _application(settings, app, warm_up), warn, is_loaded=app is not None)
    if settings.processes.most > 1 and SESSIONS_IN_MEMORY in sys.modules:
        warn("sessions in memory: work in one process only, and here are several; take a store that processes share")
    return loaded


def _warm_up(settings: Config, error_log: ErrorLog, clean_up: Callable[[], None]) -> WarmUp | None:
    """What warms up an application in a process that is to serve or to fork workers; None without `warmup`."""
    if not settings.warmup:
        return None
    from poorhttp.process.start import warming  # before modules of the application's are found

    def warn(text: str, trace: str) -> None:
        if trace:
            error_log.write_trace("W", text, "-", trace)
        else:
            error_log.write("W", text)

    def leave(error: LoadError) -> NoReturn:
        tell(error)
        leave_at_once(error.exit_code, error_log, clean_up)

    teller = warming.Teller(lambda text: error_log.write("I", text), warn, error_log.stream, leave)
    return lambda app: warming.warm_up(app, settings, teller)


def _application(settings: Config, app: WSGI | None, warm_up: WarmUp | None) -> tuple[WSGI, str]:
    """Load the application and warm it up; then give the server's signals the handlers that they had before."""
    handlers: dict[int, Any] = {signum: signal.getsignal(signum) for signum in HANDLED}
    try:
        loaded = _loaded(settings) if app is None else _given(app, settings)
        if settings.child_exit and is_supervised(settings):
            _need_child_exit(settings)
        if warm_up is not None:
            warm_up(loaded[0])
        return loaded
    finally:
        take_back(handlers)


def _given(app: WSGI, settings: Config) -> tuple[WSGI, str]:
    from poorhttp.app import callables, loader

    make_way()
    title = "app"
    if callable(app):
        title = f"{getattr(app, '__module__', '')}:{getattr(app, '__qualname__', type(app).__qualname__)}"
    if settings.document:
        raise loader.no_table(title)
    return callables.check(app, title), title


def _loaded(settings: Config) -> tuple[WSGI, str]:
    from poorhttp.app import loader, places

    title = places.title(settings.application)
    in_progress.append(title)
    try:
        may_be_command = settings.sources["application"] == "argument"  # of no command
        spec, directory = settings.application, settings.import_directory
        return loader.load(spec, directory, may_be_command, _of_table(settings)), title
    except MissingError as error:
        if settings.chdir:
            error.hint += f"; chdir is set, so application is looked for in {directory}"
        raise
    finally:
        in_progress.clear()


def _of_table(settings: Config) -> dict[str, Any]:
    """The settings that are for a dispatch table alone, if they are set."""
    if not settings.document:
        return {}
    return {
        "document": settings.document,
        "index": settings.index,
        "mime_types": settings.mime_types,
        "follow_symlinks": settings.follow_symlinks,
    }


def _need_child_exit(settings: Config) -> None:
    """Import it where the application is loaded: its mistakes are found at the same time. Raises LoadError."""
    from poorhttp.app import loader

    in_progress.append(settings.child_exit)
    try:
        loader.function(settings.child_exit, settings.import_directory)
    except LoadError as error:
        raise LoadError(f"child_exit: {error.message}", error.hint, error.detail) from None
    finally:
        in_progress.clear()
