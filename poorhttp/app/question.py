"""One request by the server itself, which asks new code whether it answers.

Knows the environ of PEP 3333, and which answers a client would get as an error. Does not know how the application was
loaded. It is called once, as the engine would call it, in a process that ends afterwards.
"""

from __future__ import annotations

import io
import sys
from types import TracebackType
from urllib.parse import unquote_to_bytes
from wsgiref.util import FileWrapper, setup_testing_defaults

from poorhttp import __version__
from poorhttp._engine import check_head
from poorhttp.app.failures import account_of, place_of, suggested
from poorhttp.config.addresses import split_port
from poorhttp.config.urls import split_url
from poorhttp.errors import LoadError, returned_text, say, tell
from poorhttp.stdlib import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any, NoReturn

    from poorhttp.app.callables import WSGI
    from poorhttp.config.model import Config

LIMIT = 1 << 20
"""Bytes of an answer that are read; an answer may be a stream without an end."""

EVERY_ADDRESS = "0.0.0.0", "[::]"
"""Addresses that no client writes into its Host field."""


class Answer:
    """The answer of the application. status, fields: as given to `start_response`. promised: length of the body by
    these fields, None if it is open or there is no body. size: bytes that were read. given: the iterable that was
    returned.
    """

    __slots__ = ("fields", "given", "promised", "size", "status")

    def __init__(self) -> None:
        self.status, self.size = "", 0
        self.promised: int | None = None
        self.fields: list[tuple[str, str]] = []
        self.given: Any = None

    def start(self, status: str, fields: list[tuple[str, str]], exc_info: Any = None) -> Callable[[bytes], None]:
        """The `start_response` of PEP 3333. Raises AssertionError if the engine would answer 500."""
        if exc_info is None and self.status:
            raise AssertionError("start_response was called again without exc_info")
        if exc_info is not None and self.size:
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


def title(settings: Config) -> str:
    """Return the request line without the version, such as `GET /`."""
    return f"GET {settings.check_path or '/'}"


def ask(app: WSGI, settings: Config) -> Answer:
    """Call the application with a GET of `check_path`, or of `/`, and read its answer: blocks until they are more than
    `LIMIT` bytes. Raises the exceptions of the application, and AssertionError for an answer that the engine could not
    send.
    """
    answer = Answer()
    answer.given = app(_environ(settings), answer.start)
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


def judge(answer: Answer, settings: Config) -> None:
    """Print status and size of an answer. Raises LoadError for a status of 500 or above."""
    line = f"{title(settings)} is answered {answer.status}, in {answer.size} bytes"
    if answer.status >= "500":
        raise LoadError(line, "see the lines of its log above, or ask it under poorhttp dev")
    say(line)


def fault(error: BaseException, settings: Config, where: str, *judges: str) -> LoadError:
    """Return the error for an application that raised `error` when it was asked. where: `file:line: `, used if the
    traceback names no line of the author. judges: files besides this one whose AssertionErrors mean that PEP 3333 was
    broken.
    """
    trace, line = account_of(error)
    place = place_of(error)
    if type(error) is AssertionError and _raised_in(error) in (__file__, *judges):
        what = f"the answer to {title(settings)} breaks PEP 3333: {error}"
        return LoadError(f"{place or where}{what}", "", trace if place else "")
    return LoadError(f"{place or where}{title(settings)} fails: {line}", suggested(error, trace), trace)


def end_after(seconds: float, settings: Config, where: str, leave: Callable[[int], NoReturn]) -> None:
    """After so many seconds (0: never) print the line at which the application still is, and end the process by
    `leave`: the application could catch an exception.
    """

    def end(signum: int, frame: FrameType | None) -> None:
        trace = None
        while frame is not None and frame.f_code is not ask.__code__:
            trace = TracebackType(trace, frame, frame.f_lasti, frame.f_lineno or 0)
            frame = frame.f_back
        late = f"{title(settings)} was not answered in {seconds:g} s"
        error = TimeoutError(late).with_traceback(trace)
        hint = "the application must return; --request-timeout SECONDS sets another limit"
        tell(LoadError(f"{place_of(error) or where}{late}", hint, account_of(error)[0]))
        leave(LoadError.exit_code)

    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def _raised_in(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_frame.f_code.co_filename if trace is not None else ""


def _environ(settings: Config) -> dict[str, Any]:
    scheme, host, target = split_url(settings.check_path or "/")
    path, _, query = target.partition("?")
    address = settings.addresses[0]
    if not host:
        host = "localhost" if address.name in ("", *EVERY_ADDRESS) else address.name
        host += f":{address.port}" if address.port not in (0, 80) else ""
    name, port = split_port(host)
    environ: dict[str, Any] = {
        "REQUEST_METHOD": "GET",
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(path).decode("latin-1"),
        "QUERY_STRING": query,
        "REQUEST_URI": target,
        "CONTENT_TYPE": "",
        "CONTENT_LENGTH": "",
        "SERVER_NAME": name,
        "SERVER_PORT": port or ("443" if scheme == "https" else "80"),
        "SERVER_PROTOCOL": "HTTP/1.1",
        "SERVER_ADMIN": settings.webmaster,
        "REMOTE_ADDR": "127.0.0.1",
        "REMOTE_PORT": "0",
        "HTTP_ACCEPT": "*/*",
        "HTTP_HOST": host,
        "HTTP_USER_AGENT": f"poorhttp/{__version__}",
        "wsgi.url_scheme": scheme,
        "wsgi.input": io.BytesIO(),
        "wsgi.input_terminated": True,
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": settings.threads > 1,
        "wsgi.multiprocess": settings.processes.most > 1,
        "wsgi.file_wrapper": FileWrapper,
        "poorhttp.debug": settings.debug,
        "poorhttp.options": dict(settings.options),
        "poorhttp.log_level": settings.log_level,
        **({"DOCUMENT_ROOT": settings.document} if settings.document else {}),
        **settings.environ,
    }
    setup_testing_defaults(environ)
    return environ
