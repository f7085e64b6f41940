"""The child in which an application is tried: its steps, what it was in when it died or was late, and its words.

Knows both sides: the child tells its steps on a pipe, and leaves where it is in memory that it shares with its parent.
Does not know why an application is tried (`process.start.dry_run`).
"""

from __future__ import annotations

import faulthandler
import mmap
import sys
from contextlib import suppress

from poorhttp.app import failures, loader, places
from poorhttp.config.settings import IS_TRIAL
from poorhttp.errors import LoadError, PoorhttpError, say, shown, tell
from poorhttp.process.fork_hooks import at_next_fork
from poorhttp.process.server import need_engine
from poorhttp.process.start import facts, loading, log_files
from poorhttp.stdlib import nameless, os, signal, time
from poorhttp.system import privileges, procfs, timing
from poorhttp.system.exits import end_with, reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from poorhttp.app.callables import WSGI
    from poorhttp.config.model import Config

LOADED, CALLED = "loaded", "called"
"""The steps of a dry run, one of which the application was in when it died."""

FAULTS = "an exit, or a fault in compiled code?"

LAST = 4096
"""Bytes for the path of the file that was imported last: PATH_MAX."""


def run(settings: Config, patience: float = 0.0, use: Callable[[WSGI], None] | None = None, more: str = "") -> int:
    """Do in a child, as the user of the server, all steps that could keep it from serving: open the logs, load the
    application and `use` it (None: ask it for `check_path`). Returns its exit code.

    patience: seconds for the load, 0: as usual. more: what the hint about a late one has to add.
    Raises LoadError where it dies, loading takes longer than `patience`, or the use does not come to an end.
    """
    need_engine()
    flush()
    child = _Child(settings, patience or timing.LOADING, more)
    parent = os.getpid()
    child.pid = os.fork()
    if not child.pid:
        _be_child(settings, child, parent, use)
    os.close(child.telling)
    os.set_blocking(child.steps, False)
    try:
        return child.end()
    except KeyboardInterrupt:  # which the child has heard too, and tells where it was
        child.interrupt()
        raise SystemExit(128 + signal.SIGINT) from None
    finally:
        child.close()


def _be_child(settings: Config, child: _Child, parent: int, use: Callable[[WSGI], None] | None) -> NoReturn:
    code, doing = 1, LOADED
    _telling.append(child.telling)
    try:
        _keep_stack(child.stack)
        _keep_last(child.last)
        if privileges.can_become(settings.user, settings.group):
            privileges.drop(settings.user, settings.group)
            log_files.check(settings)
        end_with(parent)  # behind a change of user, which makes the kernel forget it
        app = load(settings, child.tell_loaded)
        doing = CALLED
        ask(app, settings) if use is None else use(app)
        for look in at_next_fork:
            look()
        os.write(child.telling, b"used %d\n" % os.getpid())
        code = 0
    except PoorhttpError as error:
        tell(error)
        code = error.exit_code
    except KeyboardInterrupt as error:
        code = 128 + signal.SIGINT
        say(f"error: {failures.place_of(error)}stopped while it {doing} the application")
    except BaseException:
        from poorhttp.stdlib import traceback

        for line in shown(traceback.format_exc()):
            say(line)
    finally:
        flush()
        leave(code)


class _Child:
    """The child, as its parent knows it. steps, telling: the ends of the pipe for its steps, since an exit code could
    be the application's. stack: a file for where the interpreter is. last: memory for the file that was imported last.
    """

    def __init__(self, settings: Config, patience: float, more: str) -> None:
        self.pid = 0
        self.steps, self.telling = os.pipe()
        self.stack = nameless("stack")
        self.last = mmap.mmap(-1, LAST)
        self._title = places.title(settings.application)
        self._patience, self._more = patience, more
        calls = len(settings.warmup) + 1
        self._patience_called = calls * ((settings.request_timeout or timing.LOADING) + timing.CALLING)

    def end(self) -> int:
        """Wait for its end: its exit code. Raises LoadError."""
        told, is_loaded, patience = "", False, self._patience
        end = time.monotonic() + patience
        while True:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            told += self._read()
            if not is_loaded and f"loaded {self.pid}\n" in told:
                is_loaded, patience = True, self._patience_called
                end = time.monotonic() + patience
            if ended:
                code = os.waitstatus_to_exitcode(status)
                if f"told {self.pid}\n" in told:
                    return abs(code)
                raise self._death(code, is_loaded)
            if time.monotonic() > end:
                raise self._late(patience, is_loaded)
            time.sleep(0.01)

    def tell_loaded(self) -> None:
        """In the child: the application is loaded."""
        os.write(self.telling, b"loaded %d\n" % os.getpid())

    def interrupt(self) -> None:
        """Let it end after an interrupt; it may be in compiled code, or take none."""
        if not procfs.wait_for_end(self.pid, 1.0):
            say(f"error: {self._where_it_is()}the application did not stop in 1 s; its process is killed")
            os.kill(self.pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)

    def close(self) -> None:
        """Let go of the descriptors."""
        os.close(self.steps)
        os.close(self.stack)

    def _death(self, code: int, is_loaded: bool) -> LoadError:
        place = self._place()
        file = self._last_file() if not is_loaded and not place else ""
        if code == 0:
            when = "called" if is_loaded else "imported"
            return LoadError(f"{self._title} ends the process when it is {when}{file}", "it must return")
        return LoadError(f"{place}{died(code, CALLED if is_loaded else LOADED)}{file}", FAULTS)

    def _late(self, patience: float, is_loaded: bool) -> LoadError:
        where = self._where_it_is()
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        if is_loaded:
            late = f"{self._title} was called and did not return in {patience:g} s"
            return LoadError(where + late, "it must return")
        hint = f"what it does when it is imported must come to an end{self._more}"
        return LoadError(f"{where}{self._title} could not be loaded in {patience:g} s", hint)

    def _where_it_is(self) -> str:
        """Ask a child that is late where it is; it may not hear."""
        os.kill(self.pid, signal.SIGUSR1)
        end = time.monotonic() + 1.0
        while not (where := self._place()) and procfs.lives(self.pid) and time.monotonic() < end:
            time.sleep(0.01)
        return where

    def _place(self) -> str:
        """The innermost line of the application in what was written there, as `file:line: `; "" where there is none."""
        for line in os.pread(self.stack, 1 << 16, 0).decode("utf-8", "replace").splitlines():
            file, is_frame, rest = line.removeprefix('  File "').partition('", line ')
            if is_frame and places.is_own(file):
                return f"{places.seen(file)}:{rest.split(' ')[0]}: "
        return ""

    def _last_file(self) -> str:
        file = self.last[:].rstrip(b"\0").decode("utf-8", "replace")
        return f"; the last file it imported was {places.seen(file)}" if file else ""

    def _read(self) -> str:
        """The steps; nothing where a process that the application has left behind keeps the other end open."""
        try:
            return os.read(self.steps, 100).decode()
        except BlockingIOError:
            return ""


_telling: list[int] = []
"""In the child: where its parent hears of its steps."""


def leave(code: int) -> NoReturn:
    """End the child, which has said all there is to say."""
    for each in _telling:
        with suppress(OSError):  # the application may have closed it
            os.write(each, b"told %d\n" % os.getpid())
    os._exit(code)


def _keep_stack(descriptor: int) -> None:
    """Let the interpreter write there where it is, when it is killed by a fault of its own or asked by USR1."""
    faulthandler.enable(descriptor, all_threads=False)
    faulthandler.register(signal.SIGUSR1, descriptor, all_threads=False)


def _keep_last(memory: mmap.mmap) -> None:
    """Let it hold the file of the author's that was imported last, from its cached bytecode too."""

    def hear(event: str, arguments: tuple[Any, ...]) -> None:
        file = getattr(arguments[0], "co_filename", "") if event == "exec" else ""
        if os.path.isabs(file) and places.is_own(file):
            memory[:] = file.encode("utf-8", "replace")[:LAST].ljust(LAST, b"\0")

    sys.addaudithook(hear)


def died(code: int, doing: str = LOADED) -> str:
    """Say that a process ended without a word; code as of `os.waitstatus_to_exitcode`."""
    return f"the process died while it {doing} the application: {reason(code)}"


def flush() -> None:
    """Write out what was printed; where a stream is closed there is none, and where it cannot be written nobody misses
    it.
    """
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except OSError:
            continue


def load(settings: Config, tell_loaded: Callable[[], None] = lambda: None, end: float | None = None) -> WSGI:
    """Load the application in a process that does not serve, and warm it up. Raises LoadError.

    tell_loaded: called between the two. end: as of `warming.warm_up`.
    """
    if settings.check_path:
        import poorhttp.app.question  # noqa: F401  # before modules of the application's are found
    warm_up = _warm_up(settings, tell_loaded, end)
    loading.enter(settings)
    os.environ[IS_TRIAL] = "1"
    app = loading.load(settings, None, facts.say_note, warm_up)[0]
    loader.suited(settings, facts.say_note)
    return app


def _warm_up(settings: Config, tell_loaded: Callable[[], None], end: float | None) -> Callable[[WSGI], None]:
    """What follows the load; arguments as of `load`."""
    if not settings.warmup:
        return lambda app: tell_loaded()
    from poorhttp.process.start import warming

    def warn(text: str, trace: str) -> None:
        for line in shown(trace):
            say(line)
        facts.say_note(text)

    def warm_up(app: WSGI) -> None:
        tell_loaded()
        warming.warm_up(app, settings, warming.Teller(say, warn, None, fail), end)

    return warm_up


def fail(error: LoadError) -> NoReturn:
    """Tell an error and end the child."""
    tell(error)
    leave(error.exit_code)


def ask(app: WSGI, settings: Config, seconds: float = timing.LOADING) -> None:
    """Ask the application for `check_path`, if there is one, and say what came; in so many seconds at most, or in
    `request_timeout` where that is shorter. Raises LoadError.
    """
    if not settings.check_path:
        return
    from poorhttp.app import question  # in this process alone, which does not serve

    where = f"{places.title(settings.application)}: "
    limit = max(seconds, 1.0)
    target = settings.check_path
    question.end_after(min(settings.request_timeout or limit, limit), target, where, fail)
    try:
        answer = question.ask(app, settings, target)
    except (Exception, SystemExit) as error:
        raise question.fault(error, target, where) from None
    signal.setitimer(signal.ITIMER_REAL, 0)
    say(question.judge(answer, target))
