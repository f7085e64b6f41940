"""The errors that end a start, each with its exit code: one line says what is wrong, and a hint says what to do.

Knows how lines are printed for a person: text from outside in one line of printable characters.
"""

from __future__ import annotations

import errno
import sys

from poorhttp.stdlib import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class PoorhttpError(Exception):
    """An error that the user can mend. message: what is wrong, with the value and what was expected. hint: what to do
    about it. detail: whole lines to print before the message, such as a traceback.
    """

    exit_code = 1

    def __init__(self, message: str, hint: str = "", detail: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.detail = detail

    def __str__(self) -> str:
        hint = f"\nhint: {printable(self.hint)}" if self.hint else ""
        return f"{printable(self.message)}{hint}"


class ConfigError(PoorhttpError):
    """A flag, a variable, a line of the ini file or a value is wrong."""

    exit_code = 2


class LoadError(PoorhttpError):
    """The application cannot be found, fails while it is imported, or is no WSGI application."""

    exit_code = 3


class MissingError(LoadError):
    """There is no application at the path that is named."""


class ListenError(PoorhttpError):
    """The server cannot listen on an address."""

    exit_code = 4


class InUseError(ListenError):
    """Another process listens on the address."""


FIRST, LAST = 10, 25
"""Lines of a longer detail that are shown, from its begin and its end: Django reports a mistake in eight tracebacks."""

SYSTEM = "/dev/", "/proc/"
"""Directories whose files are there on every Linux that was not set up by hand."""


def shortage(error: Exception) -> PoorhttpError | None:
    """Return the error to print if the system lacks descriptors, processes, memory or one of its own files; None for
    any other error. Imports nothing, for that takes a descriptor.
    """
    if not isinstance(error, OSError):
        return None
    if error.errno == errno.EMFILE:
        limit = os.sysconf("SC_OPEN_MAX")
        hint = "raise the limit: ulimit -n in a shell, LimitNOFILE= in a unit of systemd"
        return PoorhttpError(f"too many open files: this process may have {limit} descriptors (RLIMIT_NOFILE)", hint)
    if error.errno == errno.ENFILE:
        hint = "raise the limit with sysctl fs.file-max, or end the program that has so many files open"
        return PoorhttpError("too many open files: the machine has no more (fs.file-max)", hint)
    if error.errno in (errno.EAGAIN, errno.ENOMEM):
        hint = "raise the limit: ulimit -u or -v, TasksMax= in a unit of systemd, or that of the container"
        return PoorhttpError(f"the system allows no further process or has no memory: {error.strerror}", hint)
    if isinstance(error.filename, str) and error.filename.startswith(SYSTEM):
        hint = f"mount {error.filename[: error.filename.index('/', 1)]}, as every Linux has it"
        return PoorhttpError(f"cannot open {error.filename}: {error.strerror}", hint)
    return None


def printable(text: str) -> str:
    """Return `text` in one line, with the Python escape of each character that is not printable."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def returned_text(answer: object) -> str:
    """Return the message about an application that returned a str, or bytes, in place of a list of bytes (PEP 3333); ""
    for any other answer.
    """
    if not isinstance(answer, (str, bytes)) or not answer:
        return ""
    return f'the application returned {type(answer).__name__}; return a list of bytes: [b"..."]'


def shown(detail: str) -> list[str]:
    """Return the lines of a detail in printable characters; if there are many, only the first and the last ones."""
    lines = detail.rstrip("\n").split("\n") if detail else []
    more = len(lines) - FIRST - LAST
    if more > 1:
        lines[FIRST:-LAST] = [f"[left out: {more} lines]"]
    return list(map(printable, lines))


def nearest(word: str, names: Iterable[str]) -> str:
    """Return the one of `names` that `word` probably is a misspelling of, or ""; a name in other case comes last."""
    from poorhttp.stdlib import difflib  # needed after a mistake only

    listed = list(names)
    in_lower_case = {each.lower(): each for each in listed}
    near = difflib.get_close_matches(word, listed, n=1, cutoff=0.6)
    near += [in_lower_case[each] for each in difflib.get_close_matches(word.lower(), in_lower_case, n=1, cutoff=0.6)]
    return near[0] if near else ""


def suggestion(word: str, names: Iterable[str], otherwise: str = "") -> str:
    """Return the hint `did you mean NAME?`, or `otherwise` if no name is near."""
    name = nearest(word, names)
    return f"did you mean {name}?" if name else otherwise


def tell(error: PoorhttpError) -> None:
    """Print an error on standard error."""
    for line in shown(error.detail):
        say(line)
    say(f"error: {error.message}")
    if error.hint:
        say(f"hint: {error.hint}")


def say(line: str) -> None:
    """Print one line on standard error, if that is open. Never raises: the server serves also if nobody reads it."""
    try:
        if sys.stderr:
            print(printable(line), file=sys.stderr, flush=True)
    except OSError:
        return


def write(text: str) -> int:
    """Print on standard output; return the exit code 0, also if the reader is gone (`| head`). Raises PoorhttpError."""
    try:
        put(text)
    except BrokenPipeError:
        return 0
    return 0


def put(text: str) -> None:
    """Print on standard output. Raises BrokenPipeError if the reader has gone, PoorhttpError for any other failure."""
    if not sys.stdout:
        raise PoorhttpError("cannot write to standard output: it is closed")
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else the interpreter reports its last flush
        if isinstance(error, BrokenPipeError):
            raise
        raise PoorhttpError(f"cannot write to standard output: {error.strerror}") from None
