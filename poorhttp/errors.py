"""The faults that end a start, each with its exit code: one line that says what is wrong and one that says what to do.

Knows how such a fault, and anything else, is told to a person. Does not know what a setting, an application or a
socket is.
Contract: whatever a message quotes from outside is printed as one line of printable characters.
"""

from __future__ import annotations

import errno
import sys

from poorhttp.stdlib import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class PoorhttpError(Exception):
    """A fault with a remedy.

    message: what is wrong, with the value and what was expected. hint: what to do about it, "" where nothing helps.
    detail: whole lines to show before the message, such as the traceback of an application that failed.
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
    """A flag, a variable, a line of the ini file or a value that is not right."""

    exit_code = 2


class LoadError(PoorhttpError):
    """The application cannot be found, fails while it is imported, or is not a WSGI application."""

    exit_code = 3


class ListenError(PoorhttpError):
    """An address that cannot be listened on."""

    exit_code = 4


class InUseError(ListenError):
    """Somebody else listens there."""


FIRST, LAST = 10, 25
"""Lines of a detail that are shown, where it has more: Django tells one mistake in eight tracebacks."""

SYSTEM = "/dev/", "/proc/"
"""Where files are that every Linux has, but for one that was set up by hand."""


def shortage(error: Exception) -> PoorhttpError | None:
    """Return what to tell of an error that means that the system lacks something: descriptors, processes, memory, or
    one of its own files. None for any other.

    Nothing is imported for it: that takes a descriptor.
    """
    if not isinstance(error, OSError):
        return None
    if error.errno == errno.EMFILE:
        limit = os.sysconf("SC_OPEN_MAX")
        hint = "raise it: ulimit -n in a shell, LimitNOFILE= in a unit of systemd"
        return PoorhttpError(f"too many open files: RLIMIT_NOFILE lets this process have {limit} descriptors", hint)
    if error.errno == errno.ENFILE:
        hint = "raise it: sysctl fs.file-max; or end what has so many open"
        return PoorhttpError("too many open files: fs.file-max lets this machine have no more", hint)
    if error.errno in (errno.EAGAIN, errno.ENOMEM):
        hint = "raise what limits it: ulimit -u and -v, TasksMax= in a unit of systemd, the limits of the container"
        return PoorhttpError(f"the system has no further process or no memory: {error.strerror}", hint)
    if isinstance(error.filename, str) and error.filename.startswith(SYSTEM):
        hint = f"mount {error.filename[: error.filename.index('/', 1)]} as the system needs it"
        return PoorhttpError(f"cannot open {error.filename}: {error.strerror}", hint)
    return None


def printable(text: str) -> str:
    """Return `text` in one line, every character that is not printable as its Python escape."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def returned_text(answer: object) -> str:
    """Return what to tell of an application that returned this: "" unless it is str or bytes that are not empty, whose
    items are no blocks of a body (PEP 3333).
    """
    if not isinstance(answer, (str, bytes)) or not answer:
        return ""
    return f'the application returned {type(answer).__name__}; return a list of bytes: [b"..."]'


def shown(detail: str) -> list[str]:
    """Return the lines of a detail, each as `printable`: all of them, or the first and the last ones and how many are
    left out.
    """
    lines = detail.rstrip("\n").split("\n") if detail else []
    more = len(lines) - FIRST - LAST
    if more > 1:
        lines[FIRST:-LAST] = [f"[left out: {more} lines]"]
    return list(map(printable, lines))


def nearest(word: str, names: Iterable[str]) -> str:
    """Return the one of `names` that `word` was probably meant to be, "" where none is near. Case counts at last."""
    from poorhttp.stdlib import difflib  # only somebody who made a mistake pays for the module

    listed = list(names)
    in_lower_case = {each.lower(): each for each in listed}
    near = difflib.get_close_matches(word, listed, n=1, cutoff=0.6)
    near += [in_lower_case[each] for each in difflib.get_close_matches(word.lower(), in_lower_case, n=1, cutoff=0.6)]
    return near[0] if near else ""


def suggestion(word: str, names: Iterable[str], otherwise: str = "") -> str:
    """Return the hint `did you mean NAME?`, or `otherwise` where no name is near."""
    name = nearest(word, names)
    return f"did you mean {name}?" if name else otherwise


def tell(error: PoorhttpError) -> None:
    """Print a fault on standard error."""
    for line in shown(error.detail):
        say(line)
    say(f"error: {error.message}")
    if error.hint:
        say(f"hint: {error.hint}")


def say(line: str) -> None:
    """Print one line on standard error, if there is one; nobody to read it is no reason not to serve."""
    try:
        if sys.stderr:
            print(printable(line), file=sys.stderr, flush=True)
    except OSError:
        return


def write(text: str) -> int:
    """Print on standard output; a reader that has seen enough (`| head`) is no fault. Returns 0.

    Raises PoorhttpError where it cannot be written.
    """
    try:
        put(text)
    except BrokenPipeError:
        return 0
    return 0


def put(text: str) -> None:
    """The same. Raises BrokenPipeError where the reader is gone, PoorhttpError where nothing else can be written."""
    if not sys.stdout:
        raise PoorhttpError("cannot write to standard output: it is closed")
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else the interpreter's last flush complains
        if isinstance(error, BrokenPipeError):
            raise
        raise PoorhttpError(f"cannot write to standard output: {error.strerror}") from None
