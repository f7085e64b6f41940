"""Both logs of a server, opened or only looked at, with the rights of the user who serves.

Knows what to say where one cannot be opened. Does not know what is written there (`poorhttp.logs`).
"""

from __future__ import annotations

import errno

from poorhttp.errors import ConfigError
from poorhttp.stdlib import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from poorhttp.config.model import Config
    from poorhttp.logs.log import ErrorLog

    T = TypeVar("T")


def open_both(settings: Config, may_be_unread: bool = False) -> tuple[ErrorLog, int]:
    """Open both logs: the error log, and the descriptor of the access log (-1: none). Raises ConfigError.

    may_be_unread: as for an `ErrorLog`.
    """
    from poorhttp.logs.log import ErrorLog, open_access_log

    def opened() -> tuple[ErrorLog, int]:
        error_log = ErrorLog(settings.errorlog, settings.log_level, settings.debug, settings.webmaster, may_be_unread)
        return error_log, open_access_log(settings.accesslog, error_log.fileno(), may_be_unread)

    return _as_user(settings, opened)


def check(settings: Config) -> None:
    """Whether they could be opened. Raises ConfigError."""
    from poorhttp.logs import log

    def check() -> None:
        for path in settings.errorlog, settings.accesslog:
            log.check(path)

    _as_user(settings, check)


def _as_user(settings: Config, do: Callable[[], T]) -> T:
    """Not as root: the directory of a log may be that user's, who could lead the path anywhere."""
    if (settings.user or settings.group) and os.geteuid() == 0:
        from poorhttp.system import privileges

        with privileges.rights_of(settings.user, settings.group):
            return _with_hint(settings, do)
    return _with_hint(settings, do)


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
            hint = "it is a pipe that nobody reads, or a socket: start its reader, or name a file"
        raise ConfigError(f"cannot open the log {error.filename}: {error.strerror}", hint) from None
