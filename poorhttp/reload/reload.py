"""A fresh image of this server: tried in a child, then executed in the place of this one.

Knows the command line that this process was started with, and what one image hands to the next: listening sockets,
workers that go on meanwhile, the pidfile. Does not know who serves, nor when the old workers leave.
Contract: nothing of the running server changes before a child with the same command line has read the configuration,
bound what is new and loaded the application. Then `execute` replaces the program: the process number, the sockets and
the workers stay, everything else is as after a start, a newly installed poorhttp included.
"""

from __future__ import annotations

import sys

from poorhttp.errors import PoorhttpError, say
from poorhttp.listen import sockets
from poorhttp.listen.systemd import NOTIFIED, PASSED
from poorhttp.status import layout
from poorhttp.stdlib import nameless, os, signal, time
from poorhttp.system import procfs
from poorhttp.system.program import Program
from poorhttp.system.signals import HANDLED, raise_delayed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from socket import socket
    from typing import Any, NoReturn

    from poorhttp.config.config import Config
    from poorhttp.listen.systemd import Manager
    from poorhttp.logs.log import ErrorLog
    from poorhttp.status.scoreboard import Board

TRIAL, HANDOVER = "POORHTTP_TRIAL", "POORHTTP_HANDOVER"
"""Variables that tell a child what is bound already, and a new image the descriptor of a file with what it gets."""

FORMAT = 3
"""Of what one image hands to the next. A trial that takes another one fails: what it could not take would be lost."""

PATIENCE = 60.0
"""Seconds that a trial may take."""

TICK = 0.02
"""Seconds: what a file system may take for the same time."""

END = 1 << 16
"""Bytes of what a trial wrote that are looked at: the last ones."""

TOLD = b"ok\n"
"""What a trial writes in the end on the standard output that it had at its start, which the application has not."""

UNASKED = "unasked"
"""What a trial is told whose application is not to be asked for `check_path`."""

LINES = 40
"""Lines of what a failed trial said that are logged: the last ones."""


class Handover:
    """What a new image gets from the one before, which had the same process number.

    sockets: key (see `poorhttp.listen.sockets`) -> descriptor, and device and inode of a unix socket. workers:
    process number -> write end of its lifeline, read end on which it tells of itself (-1 where that has ended),
    whether it was told to leave, and whether it has closed its listeners. wanted: how many there
    are to be, where so many were configured.
    countdown: read and write end of that of the workers. passed: sockets of the service manager, descriptor and name.
    connections: of which nothing was read, descriptor and key of the listener. signals: a pipe of those that came
    meanwhile, -1 for none. pidfile: "" for none. lock: the descriptor that locks it, -1 for none. streams: standard
    output and error, those that go to the error log. pause: seconds before what cannot be loaded is tried again, 0
    where it was not yet.
    """

    def __init__(self) -> None:
        self.sockets: dict[str, tuple[int, int, int]] = {}
        self.workers: dict[int, tuple[int, int, bool, bool]] = {}
        self.countdown: list[int] = []
        self.wanted, self.configured = 0, ""
        self.passed: list[tuple[int, str]] = []
        self.connections: list[tuple[int, str]] = []
        self.signals = -1
        self.pidfile, self.lock = "", -1
        self.streams: list[int] = []
        self.pause = 0.0
        self._text = ""  # as it was received

    def __str__(self) -> str:
        sockets = (f"socket {' '.join(map(str, facts))} {key}" for key, facts in self.sockets.items())
        workers = (f"worker {pid} {' '.join(str(int(fact)) for fact in facts)}" for pid, facts in self.workers.items())
        passed = (f"passed {descriptor} {name}" for descriptor, name in self.passed)
        connections = (f"connection {descriptor} {key}" for descriptor, key in self.connections)
        countdown = [f"countdown {' '.join(map(str, self.countdown))}"] if self.countdown else []
        count = f"count {self.wanted} {self.configured}"
        pause = [f"pause {self.pause:g}"] if self.pause else []
        streams = [f"stream {descriptor}" for descriptor in self.streams]
        of, signals, pidfile = f"of {os.getpid()}", f"signals {self.signals}", f"pidfile {self.lock} {self.pidfile}"
        facts = *sockets, *workers, *passed, *connections, *countdown, *streams, *pause
        return "\n".join([of, *facts, count, signals, pidfile])

    @classmethod
    def parse(cls, text: str) -> Handover:
        """The inverse of str(). Raises ValueError, also where it is another process's."""
        self = cls()
        self._text = text
        first, *lines = text.split("\n")
        if first != f"of {os.getpid()}":
            raise ValueError(first)
        for line in lines:
            kind, _, rest = line.partition(" ")
            if kind == "socket":
                descriptor, device, inode, key = rest.split(" ", 3)
                self.sockets[key] = int(descriptor), int(device), int(inode)
            elif kind == "worker":
                pid, lifeline, report, leaves, is_closed = map(int, rest.split(" "))
                self.workers[pid] = lifeline, report, bool(leaves), bool(is_closed)
            elif kind == "passed":
                descriptor, name = rest.split(" ", 1)
                self.passed.append((int(descriptor), name))
            elif kind == "connection":
                descriptor, key = rest.split(" ", 1)
                self.connections.append((int(descriptor), key))
            elif kind == "countdown":
                self.countdown = [int(rest.split(" ")[0]), int(rest.split(" ")[1])]
            elif kind == "count":
                wanted, configured = rest.split(" ")
                self.wanted, self.configured = int(wanted), configured
            elif kind == "signals":
                self.signals = int(rest)
            elif kind == "pidfile":
                lock, self.pidfile = rest.split(" ", 1)
                self.lock = int(lock)
            elif kind == "stream":
                self.streams.append(int(rest))
            elif kind == "pause":
                self.pause = float(rest)
            else:
                raise ValueError(kind)
        return self

    def try_again(self, home: str, pause: float) -> NoReturn:
        """Execute the new image once more, with all that this one received: it could not go on, for now. OSError.

        pause: what that one waits if it cannot either. Signals wait until it hears them.
        """
        signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
        raise_delayed()
        again = self.again()
        again.pause = pause
        _execute(again, home)

    def note_pidfile(self, written: str, lock: int) -> None:
        """This is the pidfile now, and the signals are heard: so `try_again` has it."""
        again = self.again()
        again.pidfile, again.lock, again.signals = written, lock, -1
        self._text = str(again)

    def note_sockets(self, listening: Iterable[tuple[str, socket]]) -> None:
        """These, with their keys, listen now: `try_again` has them, so that nobody who came there is reset."""
        again = self.again()
        again.sockets |= _kept((key, each.fileno()) for key, each in listening)
        self._text = str(again)

    def again(self) -> Handover:
        """What `try_again` hands over."""
        return Handover.parse(self._text)

    def pipes(self) -> list[int]:
        """Those of the workers."""
        return [each for facts in self.workers.values() for each in facts[:2] if each >= 0]

    def descriptors(self) -> list[int]:
        """All that must stay open."""
        others = [each for each, _ in (*self.passed, *self.connections)]
        single = [each for each in (self.signals, self.lock) if each >= 0]
        return [facts[0] for facts in self.sockets.values()] + self.pipes() + self.countdown + others + single


def received() -> Handover | None:
    """What the image before this one left, told once; None after an ordinary start."""
    told = os.environ.pop(HANDOVER, "")
    if not told:
        return None
    try:
        handover = Handover.parse(os.fsdecode(os.pread(int(told), os.fstat(int(told)).st_size, 0)))
        for descriptor in handover.descriptors():
            os.set_inheritable(descriptor, False)
        os.close(int(told))
    except (OSError, OverflowError, ValueError):
        say(f"note: {HANDOVER} is ignored: it is not what a reload of this process hands over; unset it")
        return None
    children = set(procfs.children(os.getpid()))
    for pid in set(handover.workers) - children:
        say(f"note: worker {pid} of {HANDOVER} is ignored: it is no child of this process")
        del handover.workers[pid]
    for pid in children.difference(handover.workers):
        os.waitpid(pid, os.WNOHANG)  # one of the image before, which cannot do it any more
    _distrust_bytecode()
    return handover


def tried() -> list[str] | None:
    """In a trial: shape and addresses of the running server; None elsewhere. Told once."""
    text = os.environ.pop(TRIAL, "")
    if not text:
        return None
    from poorhttp.system.exits import end_with

    server, *facts = text.split("\n")
    end_with(os.getppid())
    pid, _, handed = server.partition(" ")
    if pid != str(os.getppid()) or not facts:
        raise PoorhttpError(f"{TRIAL} is not what a server says that is to be reloaded", "unset it")
    if handed != str(FORMAT):
        what = "the running server is of a version that hands over what this one cannot take"
        raise PoorhttpError(what, "restart it: poorhttp restart")
    _distrust_bytecode()
    return facts


def _distrust_bytecode() -> None:
    """Compile anew what was edited since its bytecode was written, or just before.

    The interpreter compares whole seconds and sizes, so that an edit of the same second and size, as a script that
    deploys makes it, would be passed over: the old code would be loaded once more.
    """
    from importlib import _bootstrap_external as external

    loader, trusting = external.SourceFileLoader, external.SourceFileLoader.path_stats

    def path_stats(self: Any, path: str) -> Any:
        stats = trusting(self, path)
        try:
            written = os.stat(external.cache_from_source(path)).st_mtime
        except (NotImplementedError, OSError):
            return stats
        # Else: a time that is not the one in the bytecode, whatever that is.
        return stats if stats["mtime"] < written - TICK else {**stats, "mtime": int.from_bytes(os.urandom(4), "big")}

    loader.path_stats = path_stats  # type: ignore[method-assign]


class Reload:
    """How this server is replaced by a fresh one.

    home: the directory that it was started in, as it was named. shape: in words, with or without a supervisor, which a
    reload does not change. keys: that of each listening socket. outcome: of a trial that fails. asks: whether a trial
    asks for `check_path`.
    """

    def __init__(
        self, config: Config, home: str, shape: str, error_log: ErrorLog, manager: Manager, board: Board | None = None
    ) -> None:
        self.handover = Handover()
        self.keys: list[str] = []
        self.outcome = "the server goes on as it was"
        self.asks = True
        self._manager = manager
        self._reason: Callable[[int], str] = str  # how the end of a trial is told
        self._home = home
        self._shape = shape
        self._error_log = error_log
        self._trial: Program | None = None
        self._said = self._told = -1  # what the trial writes on standard error and output
        self._began = 0.0
        self._again = self._cancelled = False
        self.handover.pidfile = config.pidfile
        self._board = board

    def note(self, result: str, why: str = "") -> None:
        """Show how it goes to whoever looks."""
        if self._board is not None:
            self._board.note_reload(result, why)

    def begin(self) -> None:
        """Begin a trial; while one goes on: another one after it."""
        if self._trial is not None:
            self._again = True
            return
        try:
            self._start()
        except Exception as error:  # out of descriptors, or Python is not where it was
            self._said_and_told()
            if isinstance(error, OSError) and error.filename == self._home:
                self._failed(unreachable(self._home, error))
            else:
                self._failed(f"cannot start it: {error}")

    def _start(self) -> None:
        from poorhttp.system.exits import reason  # here, where it may fail

        if self._cancelled:  # a stop came while that was imported
            return
        self._reason = reason
        environ = _first_environ()
        passed = (f"passed {descriptor} {name}" for descriptor, name in self.handover.passed)
        unasked = [] if self.asks else [UNASKED]
        facts = [f"{os.getpid()} {FORMAT}", self._shape, *filter(_is_kept, self.keys), *passed, *unasked]
        for name in NOTIFIED:
            environ.pop(os.fsencode(name), None)  # a trial is not the service
        environ[os.fsencode(TRIAL)] = os.fsencode("\n".join(facts))
        self._error_log.write("S", "reload: trying the new code and configuration in a child")
        self._manager.reloading()
        self.note(layout.TRYING)
        self._said = nameless("said")
        self._told = nameless("told")
        self._trial = Program(sys.orig_argv[1:], environ, self._home, self._told, self._said)
        self._began = time.monotonic()
        if self._cancelled:  # meanwhile
            self._trial.kill()

    def is_trying(self) -> bool:
        """Whether a trial goes on."""
        return self._trial is not None

    def seconds_left(self) -> float | None:
        """Until the trial that goes on is late; None without one."""
        return None if self._trial is None else max(self._began + PATIENCE - time.monotonic(), 0.0)

    def slept(self, seconds: float) -> None:
        """This process stood still for so long: the trial, which perhaps did too, is not late for that."""
        self._began += seconds

    def succeeded(self) -> bool:
        """Whether a trial has just succeeded; asked at any time. One that failed or is late is logged."""
        trial = self._trial
        if trial is None:
            return False
        code = trial.poll()
        if code is None and self.seconds_left():
            return False
        if code is None:
            trial.kill()
        self._trial = None
        said, told = self._said_and_told()
        # The code alone would not do: the new application may end the process itself, and the old one may have reaped
        # it, with a wait for any.
        has_succeeded = code == 0 and told.endswith(TOLD)
        if self._cancelled:
            self._error_log.write("S", "reload: given up, as the server stops")
            return False
        if has_succeeded and not self._again:
            return True
        if not has_succeeded:
            why = f"the trial took longer than {PATIENCE:.0f} s" if code is None else self._reason(code)
            why += " before the application was loaded" if code == 0 else ""
            why += "; poorhttp check tells where" if code is not None and code < 0 else ""
            lines = said.decode("utf-8", "replace").split("\n")[:-1]
            if len(lines) > LINES:
                lines[:-LINES] = ["[the first lines are left out]"]
            faults = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
            self._failed(": ".join([why, *faults[-1:]]), lines)
        if self._again:
            self._again = False
            self.begin()
        return False

    def wait(self) -> bool:
        """Wait for the end of the trial: whether it succeeded."""
        while self._trial is not None:
            self._trial.wait(self.seconds_left() or 0.0)
            if self.succeeded():
                return True
        return False

    def cancel(self) -> None:
        """End a trial that goes on: the server stops."""
        self._cancelled = True
        trial = self._trial
        if trial is not None:
            trial.kill()

    def keep(self, descriptors: Iterable[int]) -> None:
        """Hand these listening sockets over, in the order of the keys."""
        self.handover.sockets |= _kept(zip(self.keys, descriptors, strict=True))

    def execute(self) -> NoReturn:
        """Become the new image. Raises OSError where that is impossible; then nothing has changed.

        Signals wait until the new image hears them. Called on any thread.
        """
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
        signal.setitimer(signal.ITIMER_REAL, 0)  # it would go on in the new image, which does not know it
        self._error_log.flush()
        self.handover.streams = self._error_log.streams()
        try:
            _execute(self.handover, self._home)
        finally:  # it was impossible
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def _said_and_told(self) -> tuple[bytes, bytes]:
        """The ends of what the trial wrote; nothing of one that could not be started."""
        ends = [b"", b""]
        for number, descriptor in enumerate((self._said, self._told)):
            if descriptor >= 0:
                ends[number] = os.pread(descriptor, END, max(os.fstat(descriptor).st_size - END, 0))
                os.close(descriptor)
        self._said = self._told = -1
        return ends[0], ends[1]

    def _failed(self, why: str, said: Iterable[str] = ()) -> None:
        for line in said:
            self._error_log.write("E", f"| {line}")
        why = f"{self.outcome}: {why}"
        self.note(layout.FAILED, why)  # before it is said: who reads that may ask for it
        self._error_log.write("E", f"reload failed, {why}")
        self._manager.reload_failed(why)


def unreachable(home: str, error: OSError) -> str:
    """Say why the working directory cannot be entered again: a symbolic link on the way may lead nowhere now, or the
    user that serves may not go there.
    """
    what = "cannot be entered" if isinstance(error, PermissionError) else "is gone"
    return f"the working directory {what}: {home}: {error.strerror}"


def _kept(listening: Iterable[tuple[str, int]]) -> dict[str, tuple[int, int, int]]:
    """Those sockets, key and descriptor, that the next image gets, as a handover has them."""
    return {key: (descriptor, *sockets.made(_path(key))) for key, descriptor in listening if _is_kept(key)}


def _is_kept(key: str) -> bool:
    """Whether the next image gets the socket of this key, and need not bind it anew."""
    return not key.startswith(sockets.PASSED) and not sockets.is_lost(_path(key))


def _path(key: str) -> str:
    """That of a unix socket."""
    return key.removeprefix(sockets.CONTROL).removeprefix("unix:")


def _execute(handover: Handover, home: str) -> NoReturn:
    for descriptor in handover.descriptors():
        os.set_inheritable(descriptor, True)
    environ = _first_environ()
    told = nameless("handover")  # a variable of the environment holds 128 KiB at most
    here = os.open(".", os.O_PATH)
    try:
        os.set_inheritable(told, True)
        os.pwrite(told, os.fsencode(str(handover)), 0)
        environ[os.fsencode(HANDOVER)] = b"%d" % told
        os.chdir(home)
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environ)
    finally:  # it was impossible
        os.fchdir(here)
        os.close(here)
        os.close(told)
        for descriptor in handover.descriptors():
            os.set_inheritable(descriptor, False)


_remembered: list[bytes] = []


def remember_environ() -> None:
    """Read the environment of the start now: a process that changes its user may not do so afterwards."""
    with open("/proc/self/environ", "rb") as file:
        _remembered[:] = file.read().split(b"\0")


def _first_environ() -> dict[bytes, bytes]:
    """The environment that this process was started with: what the configuration and the application added is not in
    it, so that the new image reads its own.
    """
    if not _remembered:
        remember_environ()
    pairs = (entry.partition(b"=") for entry in _remembered if b"=" in entry[1:])
    told = {os.fsencode(name) for name in (HANDOVER, *PASSED)}
    return {name: value for name, _, value in pairs if name not in told}
