"""A start that nobody notices: `--check-config`, and the child that tries what a reload is to become.

Knows what of a start can be tried and undone. Does not know who asks.
Contract: nothing is left behind: no socket, no pidfile, no log.
"""

from __future__ import annotations

import os
import sys
import time

from poorhttp import listener, pidfile, privileges, server
from poorhttp.errors import ConfigError, LoadError, PoorhttpError, say, tell, write
from poorhttp.lean import signal
from poorhttp.units import Address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from poorhttp.config import Config
    from poorhttp.loader import WSGI

PATIENCE = 60.0
"""Seconds that loading the application may take, here and in the background, as in the trial of a reload."""

GRACE = 5.0
"""Seconds beyond request_timeout, or PATIENCE where there is none, in which `use` may still end itself."""

LONGEST_PATH = 99
"""Bytes of the path of a unix socket behind which a dot and a process number have room (unix(7))."""


def check(settings: Config, use: Callable[[WSGI], None] = lambda app: None) -> int:
    """Look at users, logs and pidfile, load the application, `use` it, and say `ok`; return the exit code.

    Raises PoorhttpError.
    """
    server.say_notes(settings)
    privileges.owner(settings.socket_owner, settings.user, settings.group)
    if not privileges.can_become(settings.user, settings.group):
        say(f"note: logs and pidfile are not looked at: only root can become {settings.user or settings.group}")
    elif settings.pidfile:
        pidfile.check(settings.pidfile)
    return in_child(settings, use=use) or write("ok\n")


def restart(settings: Config, pid: int, patience: float) -> int:
    """Try what of a start can be tried while the server that is to make room for it still runs, as `pid` if above 0:
    its addresses (with the control socket), logs and application. Returns an exit code; raises PoorhttpError.
    """
    check_addresses(settings, pid)
    return in_child(settings, patience)


def check_addresses(settings: Config, pid: int) -> None:
    """Whether all could be listened on, but for those that a running server, `pid` if above 0, holds.

    Raises ConfigError, ListenError.
    """
    _bind(settings, lambda address: pid > 0 and listener.is_held(address, pid), [])
    for address in settings.addresses:
        if address.path and not address.path.startswith("@") and len(os.fsencode(address.path)) < LONGEST_PATH:
            # The server's own is made anew: by whom and as what it may be is tried beside it.
            listener.close([server.listen(settings, Address(path=f"{address.path}.{os.getpid()}"))])


def _bind(settings: Config, is_held: Callable[[Address], bool], passed: list[tuple[int, str]]) -> None:
    """Bind what the running server does not hold, and let go of it. Raises ConfigError, ListenError."""
    for address, descriptor in listener.choose(settings.addresses, passed):
        if descriptor < 0 and not is_held(address):
            listener.close([server.listen(settings, address)])
    if settings.control_socket and not is_held(Address(path=settings.control_socket)):
        listener.close([server.listen_for_control(settings)])


def end(settings: Config, *tried: str) -> NoReturn:
    """Try, and end at once: what the application has started, threads for instance, is thrown away with it."""
    try:
        code = _try(settings, *tried)
    except PoorhttpError as error:
        tell(error)
        code = error.exit_code
    finally:
        _flush()
    os._exit(code)


def in_child(settings: Config, patience: float = PATIENCE, use: Callable[[WSGI], None] = lambda app: None) -> int:
    """Do in a child, as the user who is to serve, what could keep a start from serving: open the logs, load the
    application and `use` it. Returns its exit code. Raises LoadError where loading takes longer than `patience`, or the
    use does not come to an end.
    """
    _flush()
    steps, telling = os.pipe()  # an exit code could be the application's
    pid = os.fork()
    if pid:
        os.close(telling)
        os.set_blocking(steps, False)
        try:
            return _end_of(pid, steps, patience, settings)
        finally:
            os.close(steps)
    code = 1
    try:
        if privileges.can_become(settings.user, settings.group):
            privileges.drop(settings.user, settings.group)
            server.check_logs(settings)
        app = _load(settings)
        os.write(telling, b"loaded %d\n" % os.getpid())
        use(app)
        os.write(telling, b"used %d\n" % os.getpid())
        code = 0
    except PoorhttpError as error:
        tell(error)
        code = error.exit_code
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        _flush()
        os._exit(code)


def _flush() -> None:
    """What was printed; where a stream is closed there is none, and where it cannot be written nobody misses it."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except OSError:
            continue


def _read(descriptor: int) -> str:
    """What is there; nothing where a process that the application has left behind keeps the other end open."""
    try:
        return os.read(descriptor, 100).decode()
    except BlockingIOError:
        return ""


def _end_of(pid: int, steps: int, patience: float, settings: Config) -> int:
    application, told, is_loaded = settings.application, "", False
    end = time.monotonic() + patience
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        told += _read(steps)
        if not is_loaded and f"loaded {pid}\n" in told:
            is_loaded, patience = True, (settings.request_timeout or PATIENCE) + GRACE
            end = time.monotonic() + patience
        if ended:
            code = abs(os.waitstatus_to_exitcode(status))
            if code == 0 and f"used {pid}\n" not in told:
                when = "called" if is_loaded else "imported"
                raise LoadError(f"{application} ends the process when it is {when}", "it must return")
            return code
        if time.monotonic() > end:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            if is_loaded:
                raise LoadError(f"{application} was called and did not return in {patience:g} s", "it must return")
            hint = "what it does when it is imported must come to an end; restart --wait SECONDS gives it another time"
            raise LoadError(f"{application} could not be loaded in {patience:g} s", hint)
        time.sleep(0.01)


def _try(settings: Config, shape: str, written: str, *sockets: str) -> int:
    """Be the trial of a reload: find out whether a server with these sockets could go on as this one."""
    if shape != server.shape(settings):
        raise ConfigError(
            f"type and processes now ask for {server.shape(settings)}", f"restart the server: it is {shape}"
        )
    privileges.owner(settings.socket_owner, settings.user, settings.group)
    passed = [each.split(" ", 2)[1:] for each in sockets if each.startswith("passed ")]
    _bind(settings, lambda address: str(address) in sockets, [(int(number), name) for number, name in passed])
    privileges.drop(settings.user, settings.group)
    server.check_logs(settings)
    if settings.pidfile and settings.pidfile != written:
        pidfile.remove(pidfile.write(settings.pidfile))
    server.say_notes(settings)
    _load(settings)
    return write("ok\n")


def _load(settings: Config) -> WSGI:
    os.environ.update(settings.environ)
    return server.application(settings, None)[0]
