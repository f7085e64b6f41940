"""One request by the server itself: new code is asked whether it answers, or warmed up.

Knows the environ of PEP 3333, and which answers a client would get as an error. Does not know how the application was
loaded, nor what follows from its answer. The application is called as the engine would call it. The process may serve
afterwards: what is imported here is small.
"""

from __future__ import annotations

import io
import sys
from types import TracebackType
from wsgiref.util import FileWrapper

from poorhttp import __version__
from poorhttp._engine import check_head
from poorhttp.app.failures import account_of, place_of, suggested
from poorhttp.config.addresses import split_port
from poorhttp.config.urls import split_url, unescaped
from poorhttp.errors import LoadError, returned_text
from poorhttp.stdlib import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any, TextIO

    from poorhttp.app.callables import WSGI
    from poorhttp.config.model import Config

LIMIT = 1 << 20
"""Bytes of an answer that are read; an answer may be a stream without an end."""

EVERY_ADDRESS = "0.0.0.0", "[::]"
"""Addresses that no client writes into its Host field."""


class Answer:
    """The answer of the application. status, fields: as given to `start_response`. promised: length of the body by
    these fields, None if it is open or there is no body. size: bytes that were read. given: the iterable that was
    returned. error: the exception that was given as `exc_info`.
    """

    __slots__ = ("error", "fields", "given", "promised", "size", "status")

    def __init__(self) -> None:
        self.status, self.size = "", 0
        self.error: BaseException | None = None
        self.promised: int | None = None
        self.fields: list[tuple[str, str]] = []
        self.given: Any = None

    def start(self, status: str, fields: list[tuple[str, str]], exc_info: Any = None) -> Callable[[bytes], None]:
        """The `start_response` of PEP 3333. Raises AssertionError if the engine would answer 500."""
        if exc_info is None and self.status:
            raise AssertionError("start_response was called again without exc_info")
        if exc_info is not None:
            self.error = exc_info[1]
            if self.size:
                raise exc_info[1]
        try:
            self.promised = check_head(status, fields)
        except (TypeError, ValueError) as error:
            raise AssertionError(str(error)) from None
        self.status, self.fields = status, list(fields)
        return self.write

    def write(self, block: bytes) -> None:
        """Take a block of the body. Raises AssertionError if it is not bytes, or comes before the status."""
        if not isinstance(block, bytes):
            raise AssertionError(f"the body must consist of bytes, not {type(block).__name__}")
        if block and not self.status:
            raise AssertionError("a body came before start_response was called")
        self.size += len(block)


def ask(app: WSGI, settings: Config, target: str, errors: TextIO | None = None) -> Answer:
    """Call the application with a GET of a target, as of `CheckPath`, and read its answer: blocks until they are more
    than `LIMIT` bytes. errors: `wsgi.errors`, None for standard error. Raises the exceptions of the application, and
    AssertionError for an answer that the engine could not send.
    """
    answer = Answer()
    answer.given = app(environ(settings, target, errors), answer.start)
    if text := returned_text(answer.given):
        raise AssertionError(text)
    try:
        for block in answer.given:
            answer.write(block)
            if answer.size > LIMIT:
                break
    finally:
        close = getattr(answer.given, "close", None)
        if close is not None:
            close()
    if not answer.status:
        raise AssertionError("start_response was not called")
    if answer.promised is not None and answer.size < min(answer.promised, LIMIT):
        raise AssertionError(f"the body has {answer.size} bytes, and Content-Length says {answer.promised}")
    return answer


def judge(answer: Answer, target: str) -> str:
    """Return status and size of an answer in words. Raises LoadError for a status of 500 or above."""
    line = f"GET {target} is answered {answer.status}, in {answer.size} bytes"
    if answer.status >= "500":
        trace = account_of(answer.error)[0] if answer.error is not None else ""
        raise LoadError(line, "see the lines of its log above, or ask it under poorhttp dev", trace)
    return line


def fault(error: BaseException, target: str, where: str, *judges: str) -> LoadError:
    """Return the error for an application that raised `error` when it was asked. where: `file:line: `, used if the
    traceback names no line of the author. judges: files besides this one whose AssertionErrors mean that PEP 3333 was
    broken.
    """
    trace, line = account_of(error)
    place = place_of(error)
    if type(error) is AssertionError and _raised_in(error) in (__file__, *judges):
        what = f"the answer to GET {target} breaks PEP 3333: {error}"
        return LoadError(f"{place or where}{what}", "", trace if place else "")
    return LoadError(f"{place or where}GET {target} fails: {line}", suggested(error, trace), trace)


def end_after(seconds: float, target: str, where: str, end: Callable[[LoadError], object]) -> None:
    """After so many seconds (0: never) call `end` in the main thread with the error of a late application."""
    signal.signal(signal.SIGALRM, lambda signum, frame: end(late(frame, seconds, target, where)))
    signal.setitimer(signal.ITIMER_REAL, seconds)


def late(frame: FrameType | None, seconds: float, target: str, where: str) -> LoadError:
    """Return the error for an application that is still in this frame after so many seconds."""
    trace = None
    while frame is not None and frame.f_code is not ask.__code__:
        trace = TracebackType(trace, frame, frame.f_lasti, frame.f_lineno or 0)
        frame = frame.f_back
    what = f"GET {target} was not answered in {seconds:g} s"
    error = TimeoutError(what).with_traceback(trace)
    hint = "the application must return; --request-timeout SECONDS sets another limit"
    return LoadError(f"{place_of(error) or where}{what}", hint, account_of(error)[0])


def _raised_in(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_frame.f_code.co_filename if trace is not None else ""


def environ(settings: Config, target: str, errors: TextIO | None = None) -> dict[str, Any]:
    """Return the environ of a GET of this target by a client on this machine; errors: as for `ask`."""
    scheme, host, target = split_url(target)
    path, _, query = target.partition("?")
    address = settings.addresses[0]
    if not host:
        host = "localhost" if address.name in ("", *EVERY_ADDRESS) else address.name
        host += f":{address.port}" if address.port not in (0, 80) else ""
    name, port = split_port(host)
    return {
        "REQUEST_METHOD": "GET",
        "SCRIPT_NAME": "",
        "PATH_INFO": unescaped(path).decode("latin-1"),
        "QUERY_STRING": query,
        "REQUEST_URI": target,
        "SERVER_NAME": name,
        "SERVER_PORT": port or ("443" if scheme == "https" else "80"),
        "SERVER_PROTOCOL": "HTTP/1.1",
        "SERVER_ADMIN": settings.webmaster,
        "SERVER_SOFTWARE": f"poorhttp/{__version__}",
        "REMOTE_ADDR": "127.0.0.1",
        "REMOTE_PORT": "0",
        "HTTP_ACCEPT": "*/*",
        "HTTP_HOST": host,
        "HTTP_USER_AGENT": f"poorhttp/{__version__}",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scheme,
        "wsgi.input": io.BytesIO(),
        "wsgi.input_terminated": True,
        "wsgi.errors": errors or sys.stderr,
        "wsgi.multithread": settings.threads > 1,
        "wsgi.multiprocess": settings.processes.most > 1,
        "wsgi.run_once": False,
        "wsgi.file_wrapper": FileWrapper,
        "poorhttp.debug": settings.debug,
        "poorhttp.options": dict(settings.options),
        "poorhttp.log_level": settings.log_level,
        **({"DOCUMENT_ROOT": settings.document} if settings.document else {}),
        **settings.environ,
    }
