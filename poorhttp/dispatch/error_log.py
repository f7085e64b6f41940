"""Lines of the error log, written to `wsgi.errors`.

Knows the line format `YYYY-mm-dd HH:MM:SS: [remote] [N] text` (local time) and the order of severities. Knows nothing
of the file behind the stream. Contract: nothing that a client sends can start a line, end one, or colour a terminal.
"""

from __future__ import annotations

from time import strftime

from poorhttp.dispatch.constants import LOG_ERR, LOG_INFO, LOG_NOERRNO

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LETTERS = "SACEWNID0"
_LEVELS = {"emerg": 0, "alert": 1, "crit": 2, "error": 3, "err": 3, "warning": 4, "notice": 5, "info": 6, "debug": 7}


def write(environ: dict[str, Any], level: int, message: str) -> None:
    """Write one line, if `level` (a LOG_* number) is at least as severe as `poorhttp.log_level` in the environ."""
    # mod_python's NOERRNO is a flag that may be joined to a level.
    severity = level & 7 if level > LOG_NOERRNO else level
    if severity <= _threshold(environ):
        environ["wsgi.errors"].write(_head(environ, severity) + printable(message) + "\n")


def write_exception(environ: dict[str, Any], error: BaseException, trace: str, where: str = "") -> None:
    """Write one line about `error` and below it its traceback, indented: no line of it can pass for a log line.

    where: what the traceback does not tell, behind a comma.
    """
    request = f"{environ.get('REQUEST_METHOD')} {environ.get('SCRIPT_NAME', '')}{environ.get('PATH_INFO', '')}"
    lines = [_head(environ, LOG_ERR) + printable(f"{request}{where}: {summary(error)}")]
    lines += ["    " + printable(line) for line in trace.splitlines()]
    environ["wsgi.errors"].write("\n".join(lines) + "\n")


def summary(error: BaseException) -> str:
    """The type of an exception and its text."""
    try:
        text = str(error)
    except Exception as fault:  # of the application's own __str__
        text = f"a text that cannot be shown: {type(fault).__name__}"
    return f"{type(error).__name__}: {text}"


def trace_of(error: BaseException) -> str:
    """The traceback of an exception that the dispatcher has caught, without its own frame, which tells the author
    nothing.
    """
    from traceback import format_exception

    frames = error.__traceback__
    if frames is not None and frames.tb_next is not None:
        frames = frames.tb_next
    return "".join(format_exception(type(error), error, frames))


def printable(text: str) -> str:
    """Replace what is not printable (line ends, escapes, separators, lone surrogates) by its Python escape."""
    if text.isprintable():
        return text
    return "".join([c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text])


def _head(environ: dict[str, Any], severity: int) -> str:
    remote = printable(environ.get("REMOTE_HOST") or environ.get("REMOTE_ADDR") or "-")
    return f"{strftime('%Y-%m-%d %H:%M:%S')}: [{remote}] [{LETTERS[severity]}] "


def _threshold(environ: dict[str, Any]) -> int:
    """The setting is a name or the old number 0..8; what is neither counts as the default, info."""
    level = str(environ.get("poorhttp.log_level", "info")).lower()
    if level.isdecimal():
        return int(level)
    return _LEVELS.get(level, LOG_INFO)
