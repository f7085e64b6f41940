"""A start that nobody notices: `--check-config`, and the child that tries what a reload is to become.

Knows what of a start can be tried and undone. Does not know who asks.
Contract: nothing is left behind: no socket, no pidfile, no log.
"""

from __future__ import annotations

import sys
from contextlib import suppress

from poorhttp.app import loader
from poorhttp.config.settings import IS_TRIAL
from poorhttp.config.units import Address
from poorhttp.errors import LoadError, PoorhttpError, say, shown, tell, write
from poorhttp.listen import sockets
from poorhttp.process import server
from poorhttp.status import pidfile
from poorhttp.stdlib import nameless, os, signal, time
from poorhttp.system import privileges

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from mmap import mmap
    from typing import Any, NoReturn

    from poorhttp.app.loader import WSGI
    from poorhttp.config.config import Config

PATIENCE = 60.0
"""Seconds that loading the application may take, here and in the background, as in the trial of a reload."""

GRACE = 5.0
"""Seconds beyond request_timeout, or PATIENCE where there is none, in which `use` may still end itself."""

LOADED, CALLED = "loaded", "called"
"""What the application was in when it died."""

FAULTS = "an exit, or a fault in compiled code?"

LAST = 4096
"""Bytes for the path of the file that was imported last: PATH_MAX."""

LONGEST_PATH = 99
"""Bytes of the path of a unix socket behind which a dot and a process number have room (unix(7))."""


def check(settings: Config, use: Callable[[WSGI], None] | None = None) -> int:
    """Look at users, logs and pidfile, load the application, `use` it (None: ask it for `check_path`), and say `ok`;
    return the exit code.

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
    return in_child(settings, patience, more="; restart --wait SECONDS gives it another time")


def before_serving(settings: Config) -> int:
    """Ask the application for `check_path`, in a child, before this process serves. Returns the exit code; raises
    LoadError, and SystemExit where a TERM comes meanwhile.
    """

    def stop(signum: int, frame: object) -> NoReturn:
        raise SystemExit(0)

    before = signal.signal(signal.SIGTERM, stop)
    code = in_child(settings)
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
            sockets.close([server.bind(settings, Address(path=f"{address.path}.{os.getpid()}"))])


def _bind(settings: Config, is_held: Callable[[Address, str], bool], passed: list[tuple[int, str]]) -> None:
    """Bind what the running server does not hold, and let go of it: no client comes meanwhile, for nobody listens.

    Raises ConfigError, ListenError.
    """
    for address, descriptor in sockets.choose(settings.addresses, passed):
        if descriptor < 0 and not is_held(address, str(address)):
            sockets.close([server.bind(settings, address)])
    path = settings.control_socket
    if path and not is_held(Address(path=path), f"{sockets.CONTROL}{path}"):
        sockets.close([server.bind_for_control(settings)])


def end(settings: Config, *tried: str) -> NoReturn:
    """Try, say so, and end at once: what the application has started, threads for instance, is thrown away with it."""
    from poorhttp.reload.reload import UNASKED

    began = time.monotonic()
    # Out of reach of what the application prints.
    trial, telling = os.getpid(), os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    try:
        app = _try(settings, *tried)
        if UNASKED not in tried:
            _ask(app, settings, began + PATIENCE - GRACE - time.monotonic())
        if os.getpid() == trial:  # else it is a fork of it, which the application has made
            _tell_success(telling)
        code = 0
    except PoorhttpError as error:
        tell(error)
        code = error.exit_code
    finally:
        _flush()
    os._exit(code)


def _tell_success(descriptor: int) -> None:
    from poorhttp.reload.reload import TOLD

    try:
        os.write(descriptor, TOLD)
    except OSError:
        what = f"the application has closed descriptor {descriptor}, which is the server's"
        raise PoorhttpError(what, "it must close only what it has opened") from None


def in_child(
    settings: Config, patience: float = PATIENCE, use: Callable[[WSGI], None] | None = None, more: str = ""
) -> int:
    """Do in a child, as the user who is to serve, what could keep a start from serving: open the logs, load the
    application and `use` it (None: ask it for `check_path`). Returns its exit code. Raises LoadError where it dies,
    loading takes longer than `patience`, or the use does not come to an end. more: what the hint about a late one has
    to add.
    """
    import mmap

    server.need_engine()
    from poorhttp.system.exits import end_with

    _flush()
    steps, telling = os.pipe()  # an exit code could be the application's
    parent = os.getpid()
    stack = nameless("stack")
    last = mmap.mmap(-1, LAST)
    pid = os.fork()
    if pid:
        os.close(telling)
        os.set_blocking(steps, False)
        try:
            return _end_of(pid, steps, stack, last, patience, settings, more)
        except KeyboardInterrupt:  # which the child has heard too, and tells where it was
            from poorhttp.system import procfs

            if not procfs.wait_for_end(pid, 1.0):  # it may be in compiled code, or take no interrupt
                say(f"error: {_where_it_is(pid, stack)}the application did not stop in 1 s; its process is killed")
                os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)
            raise SystemExit(128 + signal.SIGINT) from None
        finally:
            os.close(steps)
            os.close(stack)
    code, doing = 1, LOADED
    _telling.append(telling)
    try:
        _keep_stack(stack)
        _keep_last(last)
        if privileges.can_become(settings.user, settings.group):
            privileges.drop(settings.user, settings.group)
            server.check_logs(settings)
        end_with(parent)  # behind a change of user, which makes the kernel forget it
        app = _load(settings)
        os.write(telling, b"loaded %d\n" % os.getpid())
        doing = CALLED
        _ask(app, settings) if use is None else use(app)
        os.write(telling, b"used %d\n" % os.getpid())
        code = 0
    except PoorhttpError as error:
        tell(error)
        code = error.exit_code
    except KeyboardInterrupt as error:
        code = 128 + signal.SIGINT
        say(f"error: {loader.place_of(error)}stopped while it {doing} the application")
    except BaseException:
        from poorhttp.stdlib import traceback

        for line in shown(traceback.format_exc()):
            say(line)
    finally:
        _flush()
        leave(code)


_telling: list[int] = []
"""In the child: where its parent hears of its steps."""


def leave(code: int) -> NoReturn:
    """End the child of `in_child`, which has said all there is to say."""
    for each in _telling:
        with suppress(OSError):  # the application may have closed it
            os.write(each, b"told %d\n" % os.getpid())
    os._exit(code)


def _keep_stack(descriptor: int) -> None:
    """Let the interpreter write there where it is, when it is killed by a fault of its own or asked by USR1."""
    import faulthandler

    faulthandler.enable(descriptor, all_threads=False)
    faulthandler.register(signal.SIGUSR1, descriptor, all_threads=False)


def _keep_last(memory: mmap) -> None:
    """Let it hold the file of the author's that was imported last, from its cached bytecode too."""

    def hear(event: str, arguments: tuple[Any, ...]) -> None:
        file = getattr(arguments[0], "co_filename", "") if event == "exec" else ""
        if os.path.isabs(file) and loader.is_own(file):
            memory[:] = file.encode("utf-8", "replace")[:LAST].ljust(LAST, b"\0")

    sys.addaudithook(hear)


def _last_in(memory: mmap) -> str:
    file = memory[:].rstrip(b"\0").decode("utf-8", "replace")
    return f"; the last file it imported was {loader.seen(file)}" if file else ""


def _place_in(stack: int) -> str:
    """The innermost line of the application in what was written there, as `file:line: `; "" where there is none."""
    for line in os.pread(stack, 1 << 16, 0).decode("utf-8", "replace").splitlines():
        file, is_frame, rest = line.removeprefix('  File "').partition('", line ')
        if is_frame and loader.is_own(file):
            return f"{loader.seen(file)}:{rest.split(' ')[0]}: "
    return ""


def died(code: int, doing: str = LOADED) -> str:
    """Say that a process ended without a word; code as of `os.waitstatus_to_exitcode`."""
    from poorhttp.system.exits import reason

    return f"the process died while it {doing} the application: {reason(code)}"


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


def _end_of(pid: int, steps: int, stack: int, last: mmap, patience: float, settings: Config, more: str) -> int:
    application, told, is_loaded = loader.title(settings.application), "", False
    end = time.monotonic() + patience
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        told += _read(steps)
        if not is_loaded and f"loaded {pid}\n" in told:
            is_loaded, patience = True, (settings.request_timeout or PATIENCE) + GRACE
            end = time.monotonic() + patience
        if ended:
            code = os.waitstatus_to_exitcode(status)
            if f"told {pid}\n" in told:
                return abs(code)
            place = _place_in(stack)
            file = _last_in(last) if not is_loaded and not place else ""
            if code == 0:
                when = "called" if is_loaded else "imported"
                raise LoadError(f"{application} ends the process when it is {when}{file}", "it must return")
            raise LoadError(f"{place}{died(code, CALLED if is_loaded else LOADED)}{file}", FAULTS)
        if time.monotonic() > end:
            where = _where_it_is(pid, stack)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            if is_loaded:
                late = f"{application} was called and did not return in {patience:g} s"
                raise LoadError(where + late, "it must return")
            hint = f"what it does when it is imported must come to an end{more}"
            raise LoadError(f"{where}{application} could not be loaded in {patience:g} s", hint)
        time.sleep(0.01)


def _where_it_is(pid: int, stack: int) -> str:
    """Ask a process that is late; it may not hear."""
    from poorhttp.system import procfs

    os.kill(pid, signal.SIGUSR1)
    end = time.monotonic() + 1.0
    while not (where := _place_in(stack)) and procfs.lives(pid) and time.monotonic() < end:
        time.sleep(0.01)
    return where


def _try(settings: Config, shape: str, *sockets: str) -> WSGI:
    """Be the trial of a reload: find out whether a server with these sockets could go on as this one, and return its
    application.
    """
    server.check_shape(settings, shape)
    privileges.owner(settings.socket_owner, settings.user, settings.group)
    passed = [each.split(" ", 2)[1:] for each in sockets if each.startswith("passed ")]
    _bind(settings, lambda address, key: key in sockets, [(int(number), name) for number, name in passed])
    privileges.drop(settings.user, settings.group)
    server.check_logs(settings)
    if settings.pidfile and not pidfile.names(settings.pidfile, os.getppid()):  # else it stays as it is
        pidfile.write(settings.pidfile)
        pidfile.remove(settings.pidfile)
    server.say_notes(settings)
    return _load(settings)


def _load(settings: Config) -> WSGI:
    if settings.check_path:
        import poorhttp.app.question  # noqa: F401  # before modules of the application's are found
    server.enter(settings)
    os.environ[IS_TRIAL] = "1"
    app = server.load(settings, None, server.say_note)[0]
    loader.suited(settings, server.say_note)
    return app


def _ask(app: WSGI, settings: Config, seconds: float = PATIENCE) -> None:
    """Ask the application for `check_path`, if there is one, and say what came; in so many seconds at most, or in
    `request_timeout` where that is shorter. Raises LoadError.
    """
    if not settings.check_path:
        return
    from poorhttp.app import question  # in this process alone, which does not serve

    where = f"{loader.title(settings.application)}: "
    limit = max(seconds, 1.0)
    question.end_after(min(settings.request_timeout or limit, limit), settings, where, leave)
    try:
        answer = question.ask(app, settings)
    except (Exception, SystemExit) as error:
        raise question.fault(error, settings, where) from None
    signal.setitimer(signal.ITIMER_REAL, 0)
    question.judge(answer, settings)
