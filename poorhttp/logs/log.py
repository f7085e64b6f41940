"""The error log and the access log: opened, written, and opened again after they were renamed.

Knows the line format of the error log, and the html pages of the server. Does not know the format of the access log,
which the engine writes. Characters that are not printable are escaped, so that no text can end a line or move a cursor.
One call is one `os.write` to an O_APPEND descriptor, so that lines of several processes never mix. A log that cannot be
written never makes a request fail. A descriptor keeps its number.
"""

from __future__ import annotations

import errno
import io
import stat
import sys

from poorhttp.config.settings import LEVELS
from poorhttp.errors import printable, say
from poorhttp.pages.document import escape
from poorhttp.stdlib import os, time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType
    from typing import Any, TextIO

LETTERS = "SACEWNID0"
"""A letter for each of `LEVELS`, and 0 for a message without a level. S also marks start and stop."""

STDOUT, STDERR = 1, 2
NO_LOG = -1

_OURS = os.path.join(os.path.dirname(os.path.dirname(__file__)), "")
_SERVING = tuple(os.path.join(_OURS, folder, "") for folder in ("process", "system"))
"""Folders whose frames a traceback leaves out: they call the engine and handle signals, and have no fault to show."""

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><meta name="color-scheme" content="light dark">
<meta name="viewport" content="width=device-width"><title>{title}</title></head>
<body style="font-family: sans-serif; text-align: center">
<h1>{title}</h1>
<p>{text}</p>
<hr>
<small>{foot}</small>
</body>
</html>
"""


class _Stream(io.TextIOWrapper):
    """A stream that stays open if an application closes it, against PEP 3333: all requests share it."""

    def close(self) -> None:
        self.flush()


class ErrorLog:
    """The error log: `YYYY-mm-dd HH:MM:SS: [remote] [X] text`, X being one of `LETTERS`.

    path: a file; "-" is standard error, "|program" a pipe to a program. level: least urgent level that is written, one
    of `LEVELS`; the last one means everything. debug: whether pages show the versions of poorhttp and Python.
    webmaster: contact at the foot of the pages. may_be_unread: whether a named pipe without a reader is opened too.
    Raises OSError.
    """

    __slots__ = ("_debug", "_descriptor", "_files", "_hasty", "_threshold", "_webmaster", "stream")

    stream: TextIO
    """Text stream on this descriptor, for `wsgi.errors`; written at each end of line."""

    def __init__(self, path: str, level: str, debug: bool, webmaster: str, may_be_unread: bool = False) -> None:
        self._descriptor = _open_any(path, STDERR, -1, may_be_unread)
        self._threshold = LEVELS.index(level) if level != LEVELS[-1] else len(LETTERS)
        self._debug = debug
        self._webmaster = webmaster
        self._files: dict[int, str] = {}
        self._hasty = -1  # another descriptor of the pipe, to which a write never waits; -1: none
        self.follow(self._descriptor, path)
        self.stream = _Stream(
            io.BufferedWriter(_Appender(self._descriptor)),
            encoding="utf-8",
            errors="backslashreplace",
            newline="\n",
            line_buffering=True,
        )

    def write(self, level: str, text: str, remote: str = "-") -> None:
        """Write one line, if `level` (one of `LETTERS`) is urgent enough. remote: the client's address, or "-"."""
        if LETTERS.find(level) <= self._threshold:
            self._append(_line(level, text, remote).encode())

    def exception(self, exc: BaseException, remote: str, request: str) -> bytes:
        """Write `exc` with its traceback, at any level, and return the html body of a 500 page without it. remote: the
        client's address, or "-". request: such as "GET /light".
        """
        trace = _traceback(exc)
        self.write_trace("E", f"{request}: {type(exc).__name__}", remote, trace)
        return self.page(500, "Internal Server Error", "The application failed; the error log says more.")

    def write_trace(self, level: str, text: str, remote: str, trace: str) -> None:
        """Write one line and below it, indented, the lines of a traceback, at any level."""
        self._append((_line(level, text, remote) + "".join(_indented(trace))).encode())

    def stack(self, thread: int) -> str | None:
        """Return the stack of a thread (by its identifier) in the application, as a traceback shows it; None if another
        greenlet runs on the thread at the moment.
        """
        frame = sys._current_frames().get(thread)
        if "greenlet" in sys.modules and frame and not _comes_from_server(frame):
            return None
        try:
            from poorhttp.stdlib import traceback

            frames = traceback.extract_stack(frame) if frame else []
            ours = [number for number, each in enumerate(frames) if each.filename.startswith(_SERVING)]
            return "".join(traceback.format_list(frames[ours[-1] + 1 if ours else 0 :])) or "(outside Python)\n"
        except Exception:  # as in `_traceback`
            return "(no stack: the traceback module cannot be used)\n"

    def page(self, status: int, reason: str, text: str) -> bytes:
        """Return the html body (utf-8) of an answer of the server itself."""
        foot = f"webmaster: {escape(self._webmaster)}" if self._webmaster else ""
        if self._debug:
            from poorhttp import __version__

            versions = f"poorhttp/{__version__}, Python/{sys.version.split()[0]}"
            foot = f"{versions}{', ' if foot else ''}{foot}"
        title = f"{status} - {escape(reason)}"
        return _PAGE.format(title=title, text=escape(text), foot=foot).encode("utf-8", "backslashreplace")

    def follow(self, descriptor: int, path: str) -> None:
        """Let `reopen` open this log again too, if it is a file."""
        if descriptor != NO_LOG and path != "-" and not path.startswith("|"):
            self._files[descriptor] = path

    def wait(self, is_to: bool) -> None:
        """Set whether a write waits while the reader of a pipe is late. A worker waits, under its watchdog; a
        supervisor loses lines rather than leave its workers alone.
        """
        if self._hasty >= 0:
            os.close(self._hasty)
            self._hasty = -1
        try:
            if not is_to and stat.S_ISFIFO(os.fstat(self._descriptor).st_mode):
                # O_NONBLOCK on the descriptor itself would count for all processes that have it.
                way = os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC
                self._hasty = os.open(f"/proc/self/fd/{self._descriptor}", way)
        except OSError:
            return  # a log that was closed, or a system without /proc

    def _append(self, data: bytes) -> None:
        _append(self._hasty if self._hasty >= 0 else self._descriptor, data)

    def reopen(self) -> None:
        """Open every file again, after it was renamed; if that fails, log it once and go on with the old file."""
        failed: set[str] = set()
        for descriptor, path in self._files.items():
            try:
                reopen_access_log(descriptor, path)
            except OSError as error:
                if path not in failed:
                    self.write("E", f"cannot open the log {path} again: {error.strerror}; lines go on to the old file")
                failed.add(path)

    def flush(self) -> None:
        """Write text that the application left in `stream` without an end of line. Never raises."""
        try:
            self.stream.flush()
        except (OSError, RuntimeError, ValueError):
            return  # a signal handler interrupted a write to this stream, or the application closed it

    def fileno(self) -> int:
        """Return the descriptor; it stays the same for the life of the process."""
        return self._descriptor

    def streams(self) -> list[int]:
        """Return which of standard output and error are this file too, as in the background."""
        if self._descriptor <= STDERR:
            return []
        return [each for each in (STDOUT, STDERR) if _is_same(each, self._descriptor)]


def open_access_log(path: str, report: int = STDERR, may_be_unread: bool = False) -> int:
    """Return a descriptor to append to: -1 for "" (none), standard output for "-". Raises OSError. report: descriptor
    of the error log, for messages about a "|program". may_be_unread: as for an `ErrorLog`.
    """
    return _open_any(path, STDOUT, report, may_be_unread) if path else NO_LOG


def reopen_access_log(descriptor: int, path: str) -> None:
    """Open `path` again under the same number, unless it is no log or a standard stream. Raises OSError."""
    if descriptor == NO_LOG or path == "-":
        return
    new = _open(path)
    os.dup2(new, descriptor, inheritable=descriptor <= STDERR)
    os.close(new)


def check(path: str) -> None:
    """Raise OSError if this log could not be opened. Starts no program, and leaves no file of this name."""
    if path.startswith("|"):
        from poorhttp.logs import program

        program.words(path[1:])
    elif path not in ("", "-"):
        is_new = not os.path.lexists(path)
        kinds = stat.S_IFREG, stat.S_IFDIR, stat.S_IFSOCK  # opening them has no effect on other processes
        if os.path.exists(path) and stat.S_IFMT(os.stat(path).st_mode) not in kinds:
            if not os.access(path, os.W_OK, effective_ids=True):  # the reader of a pipe would see its end
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
            return
        # A new file is not made under its own name: a running server may reopen its logs, and would write into it.
        place = f"{path}.{os.getpid()}" if is_new else path
        try:
            os.close(os.open(place, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | (os.O_CREAT | os.O_EXCL) * is_new))
            if is_new:
                os.unlink(place)
        except OSError as error:
            error.filename = path
            raise


class _Appender(io.RawIOBase):
    """The raw side of `ErrorLog.stream`: a failing log makes no request fail."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def write(self, data: Any, /) -> int:
        _append(self._descriptor, data)
        return len(data)


def _open_any(path: str, standard: int, report: int, may_be_unread: bool) -> int:
    """Open a file, a "|program" or "-", which is the descriptor `standard`. report: as for `program.start`."""
    if path.startswith("|"):
        from poorhttp.logs import program

        return program.start(path[1:], _report, report)
    return standard if path == "-" else _open(path, may_be_unread)


def _open(path: str, may_be_unread: bool = False) -> int:
    # O_NONBLOCK refuses a named pipe without a reader; else the server would wait at USR1, and could not be stopped.
    way = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        descriptor = os.open(path, way, 0o644)
    except OSError as error:
        if error.errno != errno.ENXIO or not may_be_unread or not stat.S_ISFIFO(os.stat(path).st_mode):
            raise
        say(f"note: the log {path} has no reader, its lines are lost; start the reader, then run poorhttp logrotate")
        descriptor = _open_unread(path, way)
    os.set_blocking(descriptor, True)
    return descriptor


def _open_unread(path: str, way: int) -> int:
    """Open a named pipe without a reader, by reading it for a moment; a later reader gets later lines."""
    try:
        reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except PermissionError:  # lines are lost until the log is opened again
        return os.open(os.devnull, way)
    try:
        return os.open(path, way, 0o644)
    finally:
        os.close(reader)


def _is_same(one: int, other: int) -> bool:
    try:
        return os.path.samestat(os.fstat(one), os.fstat(other))
    except OSError:  # the application has closed it
        return False


def _append(descriptor: int, data: bytes | bytearray | memoryview) -> None:
    try:
        os.write(descriptor, data)
    except OSError as error:
        if error.errno == errno.EBADF and descriptor != 2:  # the application has closed it
            _append(2, data)  # standard error


def _line(level: str, text: str, remote: str) -> str:
    return f"{time.strftime('%Y-%m-%d %H:%M:%S')}: [{printable(remote)}] [{level}] {printable(text)}\n"


def _comes_from_server(frame: FrameType | None) -> bool:
    while frame and not frame.f_code.co_filename.startswith(_SERVING):
        frame = frame.f_back
    return frame is not None


def _report(text: str) -> bytes:
    return _line("W", text, "-").encode()


def _indented(trace: str) -> Iterator[str]:
    """Yield the lines of a traceback, indented: a line of the log begins with a date, so none can be forged."""
    for line in trace.rstrip("\n").split("\n"):
        yield f"    {printable(line)}\n"


def _traceback(exc: BaseException) -> str:
    try:
        return _formatted(exc)
    except Exception:  # no descriptor or memory is left, or the application hides a module (3.13)
        trace, frames = exc.__traceback__, ""
    while trace is not None:
        code = trace.tb_frame.f_code
        if not code.co_filename.startswith(_OURS):
            frames += f'  File "{code.co_filename}", line {trace.tb_lineno}, in {code.co_name}\n'
        trace = trace.tb_next
    try:
        text = f": {exc}".removesuffix(": ")
    except BaseException:  # raised by the application's __str__
        text = ""
    return f"{frames}{type(exc).__name__}{text} (without source: the traceback module cannot be used)\n"


def _formatted(exc: BaseException) -> str:
    from poorhttp.stdlib import traceback

    told = traceback.TracebackException.from_exception(exc)
    # A RequestTimeout may be raised in a signal handler of the server: its frames are left out.
    if type(exc).__name__ == "RequestTimeout":
        while len(told.stack) > 1 and told.stack[-1].filename.startswith(_SERVING):
            del told.stack[-1]
    # Frames of the server above the application say nothing to its author.
    if not all(each.filename.startswith(_OURS) for each in told.stack):
        while told.stack[0].filename.startswith(_OURS):
            del told.stack[0]
    return "".join(told.format())
