"""A start that nobody notices: `--check-config`, and the child that tries what a reload is to become.

Knows what of a start can be tried and undone. Does not know why it is tried.
Contract: nothing is left behind: no socket, no pidfile, no log.
"""

from __future__ import annotations

from poorhttp.config.addresses import Address
from poorhttp.errors import PoorhttpError, say, tell, write
from poorhttp.listen import sockets
from poorhttp.process import shape
from poorhttp.process.start import dry_run_child, facts, listening, log_files
from poorhttp.reload.trial import SUCCEEDED, UNASKED
from poorhttp.status import pidfile
from poorhttp.stdlib import os, signal, time
from poorhttp.system import privileges, timing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from poorhttp.app.callables import WSGI
    from poorhttp.config.model import Config

LONGEST_PATH = 99
"""Bytes of the path of a unix socket behind which a dot and a process number have room (unix(7))."""


def check(settings: Config, use: Callable[[WSGI], None] | None = None) -> int:
    """Look at users, logs and pidfile, load the application, `use` it (None: ask it for `check_path`), and say `ok`;
    return the exit code.

    Raises PoorhttpError.
    """
    facts.say_notes(settings)
    privileges.owner(settings.socket_owner, settings.user, settings.group)
    if not privileges.can_become(settings.user, settings.group):
        say(f"note: logs and pidfile are not looked at: only root can become {settings.user or settings.group}")
    elif settings.pidfile:
        pidfile.check(settings.pidfile)
    return dry_run_child.run(settings, use=use) or write("ok\n")


def restart(settings: Config, pid: int, patience: float) -> int:
    """Try what of a start can be tried while the server that is to make room for it still runs, as `pid` if above 0:
    its addresses (with the control socket), logs and application. Returns an exit code; raises PoorhttpError.
    """
    check_addresses(settings, pid)
    return dry_run_child.run(settings, patience, more="; restart --wait SECONDS gives it another time")


def before_serving(settings: Config) -> int:
    """Ask the application for `check_path`, in a child, before this process serves. Returns the exit code; raises
    LoadError, and SystemExit where a TERM comes meanwhile.
    """

    def stop(signum: int, frame: object) -> NoReturn:
        raise SystemExit(0)

    before = signal.signal(signal.SIGTERM, stop)
    code = dry_run_child.run(settings)
    signal.signal(signal.SIGTERM, before)
    return code


def check_addresses(settings: Config, pid: int) -> None:
    """Whether all could be listened on, but for those that a running server, `pid` if above 0, holds.

    Raises ConfigError, ListenError.
    """
    _bind(settings, lambda address, key: pid > 0 and sockets.is_held(address, pid), [])
    for address in settings.addresses:
        if address.path and not address.path.startswith("@") and len(os.fsencode(address.path)) < LONGEST_PATH:
            # The server's own is made anew: by whom and as what it may be is tried beside it.
            sockets.close([listening.bind(settings, Address(path=f"{address.path}.{os.getpid()}"))])


def _bind(settings: Config, is_held: Callable[[Address, str], bool], passed: list[tuple[int, str]]) -> None:
    """Bind what the running server does not hold, and let go of it: no client comes meanwhile, for nobody listens.

    Raises ConfigError, ListenError.
    """
    for address, descriptor in sockets.choose(settings.addresses, passed):
        if descriptor < 0 and not is_held(address, str(address)):
            sockets.close([listening.bind(settings, address)])
    path = settings.control_socket
    if path and not is_held(Address(path=path), f"{sockets.CONTROL}{path}"):
        sockets.close([listening.bind_for_control(settings)])


def end(settings: Config, *tried: str) -> NoReturn:
    """Try, say so, and end at once: what the application has started, threads for instance, is thrown away with it."""
    # Out of reach of what the application prints.
    trial, telling = os.getpid(), os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    try:
        end_of_calls = time.monotonic() + timing.LOADING - timing.CALLING
        app = _try(settings, end_of_calls, *tried)
        if UNASKED not in tried:
            dry_run_child.ask(app, settings, end_of_calls - time.monotonic())
        if os.getpid() == trial:  # else it is a fork of it, which the application has made
            _tell_success(telling)
        code = 0
    except PoorhttpError as error:
        tell(error)
        code = error.exit_code
    finally:
        dry_run_child.flush()
    os._exit(code)


def _tell_success(descriptor: int) -> None:
    try:
        os.write(descriptor, SUCCEEDED)
    except OSError:
        what = f"the application has closed descriptor {descriptor}, which is the server's"
        raise PoorhttpError(what, "it must close only what it has opened") from None


def _try(settings: Config, end_of_calls: float, running: str, *held: str) -> WSGI:
    """Be the trial of a reload: find out whether a server with these sockets could go on as this one, and return its
    application, warmed up by that moment.
    """
    shape.check(settings, running)
    privileges.owner(settings.socket_owner, settings.user, settings.group)
    passed = [each.split(" ", 2)[1:] for each in held if each.startswith("passed ")]
    _bind(settings, lambda address, key: key in held, [(int(number), name) for number, name in passed])
    privileges.drop(settings.user, settings.group)
    log_files.check(settings)
    if settings.pidfile and not pidfile.names(settings.pidfile, os.getppid()):  # else it stays as it is
        pidfile.write(settings.pidfile)
        pidfile.remove(settings.pidfile)
    facts.say_notes(settings)
    return dry_run_child.load(settings, end=end_of_calls)
