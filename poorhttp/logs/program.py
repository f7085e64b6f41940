"""A log that is a pipe to a program: `|program arguments`.

Knows how the program is started, kept running and ended. Does not know what is logged.
Contract: who writes into the pipe never waits for the program: between them stands a keeper, a process of its own that
takes everything, holds `ROOM` bytes of it and loses what is beyond, which it tells. The program gets whole lines, is
started again where it ends, and ends with the server: its input does. The keeper is the child of a guardian, which does
nothing but wait for its end and start another one while there are writers or lines: the pipe holds those meanwhile.
The guardian is the child of nobody here, and belongs to the image of the server that started it: after a reload both go
when the last old worker does.
There is no shell, as in Apache since 2.4: who wants one writes `|sh -c '...'`.
"""

from __future__ import annotations

import fcntl
import gc
import sys

from poorhttp.stdlib import os, select, signal, time
from poorhttp.system import privileges

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

ROOM = 1 << 20
"""Bytes that a program may be behind."""

PIECE = 1 << 16
"""Bytes taken or given at once; a pipe holds so many."""

FIRST_BACK_OFF, LONGEST_BACK_OFF = 0.1, 5.0
"""Seconds until a program that ended is started again: doubled each time, unless it lived longer than the longest."""

FAREWELL = 5.0
"""Seconds that the program gets when the server has ended, before it is told to end and, a second later, killed."""

LAST = 3
"""How many keepers there are for what is left once nobody writes any more."""

FIONREAD = 0x541B
"""ioctl(2): the bytes that wait in a pipe."""

SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGPIPE)


def words(command: str) -> list[str]:
    """Take `program arguments` apart as a shell would; the program with its path. Raises OSError, ValueError."""
    import shlex

    program, *arguments = shlex.split(command) or [""]
    places = [""] if "/" in program else os.get_exec_path()
    for path in (os.path.join(place, program) for place in places):
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return [path, *arguments]
    raise FileNotFoundError(2, "no such program", f"|{command}")


def start(command: str, line: Callable[[str], bytes], report: int) -> int:
    """Start the program; return the descriptor to write to. Raises OSError.

    line: makes of a text a line of the error log. report: where such lines go, and what the program says on its
    standard error; -1: into this very log, for it is the error log.
    """
    arguments = words(command)
    os.close(os.open(os.devnull, os.O_RDWR))  # which the guardian needs
    told, tell = os.pipe()
    # A guardian that is told to end before it hears that would take the first lines with it.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        pid = os.fork()
    except OSError:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        raise
    if pid == 0:
        try:
            os.setsid()  # what a terminal sends is not for the program
            if os.fork() == 0:
                _become_guardian(told, report, arguments, line)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        finally:
            os._exit(0)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    os.waitpid(pid, 0)
    os.close(told)
    return tell


def _become_guardian(source: int, report: int, arguments: list[str], line: Callable[[str], bytes]) -> NoReturn:
    """Let go of all that was the server's, and see to it that there is a keeper until the last writer is gone."""
    for signum in SIGNALS:
        signal.signal(signum, lambda *_: None)  # a service manager tells everybody; the end comes with the last line
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    privileges.settle()
    nothing = os.open(os.devnull, os.O_RDWR)
    report = nothing if report < 0 else report
    mine = [os.dup2(each, number) for number, each in enumerate(map(os.dup, (nothing, nothing, report, source)))]
    os.closerange(len(mine), os.sysconf("SC_OPEN_MAX"))
    os.set_blocking(mine[3], False)
    os.set_inheritable(mine[3], False)  # else the program would keep it open, and nobody would read it
    is_error_log, back_off, text, last = report == nothing, FIRST_BACK_OFF, "", 0
    gc.freeze()  # what is here is shared with the keeper for as long as no collection writes to it
    guardian, alive = os.pipe()  # readable for a keeper when there is no guardian any more
    while True:
        born = time.monotonic()
        pid = os.fork()
        if pid == 0:
            os.close(alive)
            _Keeper(mine[3], arguments, line, is_error_log, guardian).run(text)
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if code == 0:
            os._exit(0)
        back_off = FIRST_BACK_OFF if born + LONGEST_BACK_OFF < time.monotonic() else min(2 * back_off, LONGEST_BACK_OFF)
        time.sleep(back_off)
        text = f"the keeper of the log program {arguments[0]} {_ended(code)}; what it held is lost"
        ready = select.poll()
        ready.register(mine[3], select.POLLIN)
        state = dict(ready.poll(0)).get(mine[3], 0)
        last += bool(state & select.POLLHUP)
        if state == select.POLLHUP or last > LAST:  # a program that kills its keeper would be started for ever
            os.write(2, line(text))
            os._exit(1)
        text += ", another one goes on"


class _Keeper:
    """Lines on their way from the server to its program."""

    def __init__(
        self, source: int, arguments: list[str], line: Callable[[str], bytes], is_error_log: bool, guardian: int
    ) -> None:
        self._source = source
        self._guardian = guardian
        self._arguments = arguments
        self._line = line
        self._is_error_log = is_error_log
        self._lines = bytearray()  # from the first that the program may not have read; the last may not be whole yet
        self._given = 0  # bytes of them that are in the program's pipe, or read
        self._lost = 0
        self._is_torn = False  # the end of a line is still to come whose begin was lost
        self._pid = self._mouth = self._sink = -1  # the program, and both ends of its pipe
        self._born = self._next = 0.0
        self._back_off = FIRST_BACK_OFF
        self._end: float | None = None  # since when no writer is left
        self._deaths, wake = os.pipe()
        os.set_blocking(self._deaths, False)
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def run(self, text: str) -> None:
        """Keep the program until the last writer is gone; text: what to tell before, "" for nothing."""
        if text:
            self._report(text)
        while not self._is_over():
            if self._pid < 0 and time.monotonic() >= self._next:
                self._start()
            poll = select.poll()
            poll.register(self._deaths, select.POLLIN)
            if self._guardian >= 0:
                poll.register(self._guardian, select.POLLIN)
            if self._end is None:
                poll.register(self._source, select.POLLIN)
            if self._sink >= 0 and self._whole() > self._given:
                poll.register(self._sink, select.POLLOUT)
            ready = [descriptor for descriptor, _ in poll.poll(self._milliseconds())]
            if self._source in ready:
                self._take()
            if self._sink in ready:
                self._give()
            if self._guardian in ready:
                self._close("_guardian")
                self._report(f"nobody guards the log program {self._arguments[0]} any more; a reload starts it anew")
            if self._deaths in ready:
                os.read(self._deaths, 64)
                self._reap()
            if self._end is not None and self._given >= len(self._lines):
                self._close("_sink")  # that is all: the program may end
        if self._pid >= 0:
            self._end_program()

    def _is_over(self) -> bool:
        if self._end is None:
            return False
        is_done = self._pid < 0 and not self._lines
        return is_done or time.monotonic() > self._end + FAREWELL

    def _milliseconds(self) -> float | None:
        times = [self._next] if self._pid < 0 else []
        times += [] if self._end is None else [self._end + FAREWELL]
        return 1000 * max(min(times) - time.monotonic(), 0.0) + 1 if times else None

    def _take(self) -> None:
        try:
            data = os.read(self._source, PIECE)
        except BlockingIOError:
            return
        if not data:
            self._end = time.monotonic()
        elif len(self._lines) - self._given + len(data) > ROOM:
            self._lost += data.count(b"\n")
            # What is here stays whole lines: the rest of one that has begun goes with the others.
            del self._lines[self._whole() :]
            self._is_torn = not data.endswith(b"\n")
        else:
            self._lines += self._untorn(data)

    def _untorn(self, data: bytes) -> bytes:
        """Without the end of a line whose begin was lost."""
        if not self._is_torn:
            return data
        _, newline, rest = data.partition(b"\n")
        self._is_torn = not newline
        return rest

    def _whole(self) -> int:
        """How many bytes are whole lines."""
        return self._lines.rfind(b"\n") + 1 if self._end is None else len(self._lines)

    def _give(self) -> None:
        try:
            self._given += os.write(self._sink, self._lines[self._given : self._whole()][:PIECE])
        except BlockingIOError:
            return
        # What is older than a pipe holds is read.
        read = self._lines.rfind(b"\n", 0, max(self._given - PIECE, 0)) + 1
        del self._lines[:read]
        self._given -= read
        if self._lost and len(self._lines) < ROOM // 2:
            self._report(f"{self._lost} lines of a log were lost: {self._arguments[0]} did not read them in time")
            self._lost = 0

    def _start(self) -> None:
        self._mouth, self._sink = os.pipe()
        os.set_blocking(self._sink, False)
        self._born = time.monotonic()
        try:
            self._pid = os.posix_spawn(
                self._arguments[0],
                self._arguments,
                os.environ,
                file_actions=[(os.POSIX_SPAWN_DUP2, self._mouth, 0)],
                setsigdef=SIGNALS,
            )
        except OSError as error:
            self._put_off(f"cannot be started: {error.strerror}")

    def _reap(self) -> None:
        """Where the program has ended, another one gets what it had not read, from the begin of a line."""
        if self._pid < 0:
            return
        pid, status = os.waitpid(self._pid, os.WNOHANG)
        if not pid:
            return
        unread = int.from_bytes(fcntl.ioctl(self._mouth, FIONREAD, bytes(4)), sys.byteorder)
        read = self._given - unread
        at = read if self._end is not None and not unread else self._lines.rfind(b"\n", 0, read) + 1
        del self._lines[:at]
        self._given = 0
        code = os.waitstatus_to_exitcode(status)
        if self._born + LONGEST_BACK_OFF < time.monotonic():
            self._back_off = FIRST_BACK_OFF
        self._put_off(_ended(code))

    def _put_off(self, why: str) -> None:
        self._pid = -1
        self._close("_mouth")
        self._close("_sink")
        self._next = time.monotonic() + self._back_off
        if self._end is None:
            delay = f"to be started again in {self._back_off:.1f} s"
            self._report(f"the log program {self._arguments[0]} {why}; {delay}")
        self._back_off = min(2 * self._back_off, LONGEST_BACK_OFF)

    def _close(self, name: str) -> None:
        if getattr(self, name) >= 0:
            os.close(getattr(self, name))
            setattr(self, name, -1)

    def _report(self, text: str) -> None:
        if not self._is_error_log:
            os.write(2, self._line(text))
        elif len(self._lines) < ROOM:
            at = self._lines.rfind(b"\n") + 1
            self._lines[at:at] = self._line(text)

    def _end_program(self) -> None:
        """It is late: tell it to end, and a second later kill it."""
        os.kill(self._pid, signal.SIGTERM)
        end = time.monotonic() + 1.0
        while not os.waitpid(self._pid, os.WNOHANG)[0]:
            if time.monotonic() > end:
                os.kill(self._pid, signal.SIGKILL)
            time.sleep(0.02)


def _ended(code: int) -> str:
    return f"ended: {f'killed by signal {-code}' if code < 0 else f'exit code {code}'}"
