"""A start that nobody notices: `--check-config`, and the child that tries what a reload is to become.

Knows what of a start can be tried and undone. Does not know who asks.
Contract: nothing is left behind: no socket, no pidfile, no log.
"""

from __future__ import annotations

import os
import sys

from poorhttp import listener, pidfile, privileges, server
from poorhttp.errors import ConfigError, PoorhttpError, say, tell, write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from poorhttp.config import Config


def check(settings: Config) -> int:
    """Look at users, logs and pidfile, load the application, and say `ok`; return the exit code.

    Raises PoorhttpError.
    """
    server.say_notes(settings)
    privileges.owner(settings.socket_owner, settings.user, settings.group)
    if not privileges.can_become(settings.user, settings.group):
        say(f"note: logs and pidfile are not looked at: only root can become {settings.user or settings.group}")
    elif settings.pidfile:
        pidfile.check(settings.pidfile)
    return in_child(settings) or write("ok\n")


def end(settings: Config, *tried: str) -> NoReturn:
    """Try, and end at once: what the application has started, threads for instance, is thrown away with it."""
    try:
        code = _try(settings, *tried)
    except PoorhttpError as error:
        tell(error)
        code = error.exit_code
    finally:
        sys.stdout.flush()
    os._exit(code)


def in_child(settings: Config) -> int:
    """Do in a child, as the user who is to serve, what could keep a start from serving: open the logs, load the
    application. Returns its exit code.
    """
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return abs(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    code = 1
    try:
        if privileges.can_become(settings.user, settings.group):
            privileges.drop(settings.user, settings.group)
            server.check_logs(settings)
        _load(settings)
        code = 0
    except PoorhttpError as error:
        tell(error)
        code = error.exit_code
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _try(settings: Config, shape: str, written: str, *sockets: str) -> int:
    """Be the trial of a reload: find out whether a server with these sockets could go on as this one."""
    if shape != server.shape(settings):
        raise ConfigError(
            f"type and processes now ask for {server.shape(settings)}", f"restart the server: it is {shape}"
        )
    passed = [each.split(" ", 2)[1:] for each in sockets if each.startswith("passed ")]
    chosen = listener.choose(settings.addresses, [(int(number), name) for number, name in passed])
    for address, descriptor in chosen:
        if descriptor < 0 and str(address) not in sockets:
            listener.close([server.listen(settings, address)])
    privileges.drop(settings.user, settings.group)
    server.check_logs(settings)
    if settings.pidfile and settings.pidfile != written:
        pidfile.remove(pidfile.write(settings.pidfile))
    server.say_notes(settings)
    _load(settings)
    return write("ok\n")


def _load(settings: Config) -> None:
    os.environ.update(settings.environ)
    server.application(settings, None)
