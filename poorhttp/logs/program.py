"""A log that is a pipe to a program: `|program arguments`.

Knows how the program is started, kept running and ended. Does not know what is logged. Two processes stand between the
server and the program. The keeper reads the pipe, so that the server never waits; it holds at most `ROOM` bytes, loses
lines beyond them, and reports how many. The guardian is its parent and starts another one if it dies; meanwhile the
pipe holds the lines. The program gets whole lines, and the end of its input when the last process that can write to the
pipe has ended: after a reload that is the last old worker.
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
"""Bytes that the keeper holds for a slow program."""

PIECE = 1 << 16
"""Bytes read or written at once; the capacity of a pipe."""

FIRST_BACK_OFF, LONGEST_BACK_OFF = 0.1, 5.0
"""Seconds until a program that ended is started again: doubled each time, unless it ran longer than the longest."""

FAREWELL = 5.0
"""Seconds for the program to end after the server; then it gets SIGTERM and, a second later, SIGKILL."""

LAST_KEEPERS = 3
"""Keepers that the guardian starts for the rest of the lines after the last writer has ended."""

FIONREAD = 0x541B
"""ioctl(2): how many bytes wait in a pipe."""

SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGPIPE)


def words(command: str) -> list[str]:
    """Split `program arguments` as a shell does, and find the path of the program. Raises OSError, ValueError."""
    import shlex

    program, *arguments = shlex.split(command) or [""]
    places = [""] if "/" in program else os.get_exec_path()
    for path in (os.path.join(place, program) for place in places):
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return [path, *arguments]
    raise FileNotFoundError(2, "no such program", f"|{command}")


def start(command: str, line: Callable[[str], bytes], report: int) -> int:
    """Start the program; return the descriptor to write to. Raises OSError. line: makes a line of the error log of a
    text. report: descriptor for such lines and for the standard error of the program; -1: this log is the error log.
    """
    arguments = words(command)
    os.close(os.open(os.devnull, os.O_RDWR))  # the guardian needs it: fail here if it is missing
    reading, writing = os.pipe()
    # A signal before the guardian has its handlers would end it and lose the first lines.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        pid = os.fork()
    except OSError:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        raise
    if pid == 0:
        try:
            os.setsid()  # signals of the terminal are not for the program
            if os.fork() == 0:
                _become_guardian(reading, report, arguments, line)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        finally:
            os._exit(0)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    os.waitpid(pid, 0)
    os.close(reading)
    return writing


def _become_guardian(source: int, report: int, arguments: list[str], line: Callable[[str], bytes]) -> NoReturn:
    """Close everything of the server, and keep a keeper running until the last writer has ended."""
    for signum in SIGNALS:
        signal.signal(
            signum, lambda *_: None
        )  # a service manager signals all processes; the guardian ends with the last line
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    privileges.settle()
    nothing = os.open(os.devnull, os.O_RDWR)
    report = nothing if report < 0 else report
    mine = [os.dup2(each, number) for number, each in enumerate(map(os.dup, (nothing, nothing, report, source)))]
    os.closerange(len(mine), os.sysconf("SC_OPEN_MAX"))
    os.set_blocking(mine[3], False)
    os.set_inheritable(mine[3], False)  # else the program would keep a pipe open that no process reads
    is_error_log, back_off, text, last = report == nothing, FIRST_BACK_OFF, "", 0
    gc.freeze()  # no collection writes to this memory, so the keeper shares it
    guardian, alive = os.pipe()  # readable for a keeper when the guardian has ended
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
        text = f"the keeper of the log program {arguments[0]} {_ended(code)}; the lines that it held are lost"
        ready = select.poll()
        ready.register(mine[3], select.POLLIN)
        state = dict(ready.poll(0)).get(mine[3], 0)
        last += bool(state & select.POLLHUP)
        if state == select.POLLHUP or last > LAST_KEEPERS:  # else a program that kills its keeper would run for ever
            os.write(2, line(text))
            os._exit(1)
        text += "; another keeper goes on"


class _Keeper:
    def __init__(
        self, source: int, arguments: list[str], line: Callable[[str], bytes], is_error_log: bool, guardian: int
    ) -> None:
        self._source = source
        self._guardian = guardian
        self._arguments = arguments
        self._line = line
        self._is_error_log = is_error_log
        self._lines = bytearray()  # from the first that the program may not have read; the last may be incomplete
        self._given = 0  # bytes of them in the program's pipe, or read by it
        self._lost = 0
        self._is_torn = False  # the begin of a line was lost; its end is still to come
        self._pid = self._reading = self._sink = -1  # the program, and both ends of its pipe
        self._born = self._next = 0.0
        self._back_off = FIRST_BACK_OFF
        self._end: float | None = None  # when the last writer ended
        self._deaths, wake = os.pipe()
        os.set_blocking(self._deaths, False)
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def run(self, text: str) -> None:
        """Keep the program running until the last writer has ended. text: a line to report first, or ""."""
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
                self._report(f"the guardian of log program {self._arguments[0]} has ended; a reload starts a new one")
            if self._deaths in ready:
                os.read(self._deaths, 64)
                self._reap()
            if self._end is not None and self._given >= len(self._lines):
                self._close("_sink")  # the program has everything, and may end
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
            # Keep whole lines only: the begin of an incomplete line is dropped too.
            del self._lines[self._whole() :]
            self._is_torn = not data.endswith(b"\n")
        else:
            self._lines += self._untorn(data)

    def _untorn(self, data: bytes) -> bytes:
        """Return the data without the end of a line whose begin was lost."""
        if not self._is_torn:
            return data
        _, newline, rest = data.partition(b"\n")
        self._is_torn = not newline
        return rest

    def _whole(self) -> int:
        """Return how many bytes are whole lines."""
        return self._lines.rfind(b"\n") + 1 if self._end is None else len(self._lines)

    def _give(self) -> None:
        try:
            self._given += os.write(self._sink, self._lines[self._given : self._whole()][:PIECE])
        except BlockingIOError:
            return
        # The program has read all but the last bytes, as many as the pipe holds.
        read = self._lines.rfind(b"\n", 0, max(self._given - PIECE, 0)) + 1
        del self._lines[:read]
        self._given -= read
        if self._lost and len(self._lines) < ROOM // 2:
            self._report(f"{self._lost} lines of a log were lost: {self._arguments[0]} did not read them in time")
            self._lost = 0

    def _start(self) -> None:
        self._reading, self._sink = os.pipe()
        os.set_blocking(self._sink, False)
        self._born = time.monotonic()
        try:
            self._pid = os.posix_spawn(
                self._arguments[0],
                self._arguments,
                os.environ,
                file_actions=[(os.POSIX_SPAWN_DUP2, self._reading, 0)],
                setsigdef=SIGNALS,
            )
        except OSError as error:
            self._put_off(f"cannot be started: {error.strerror}")

    def _reap(self) -> None:
        """If the program has ended, keep the lines that it had not read for the next one."""
        if self._pid < 0:
            return
        pid, status = os.waitpid(self._pid, os.WNOHANG)
        if not pid:
            return
        unread = int.from_bytes(fcntl.ioctl(self._reading, FIONREAD, bytes(4)), sys.byteorder)
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
        self._close("_reading")
        self._close("_sink")
        self._next = time.monotonic() + self._back_off
        if self._end is None:
            delay = f"it is started again in {self._back_off:.1f} s"
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
        """End a late program by SIGTERM and, a second later, SIGKILL."""
        os.kill(self._pid, signal.SIGTERM)
        end = time.monotonic() + 1.0
        while not os.waitpid(self._pid, os.WNOHANG)[0]:
            if time.monotonic() > end:
                os.kill(self._pid, signal.SIGKILL)
            time.sleep(0.02)


def _ended(code: int) -> str:
    return f"ended: {f'killed by signal {-code}' if code < 0 else f'exit code {code}'}"
