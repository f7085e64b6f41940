"""`poorhttp check`: what would keep a server from answering, found without serving.

Knows one request and the letter of PEP 3333 (the standard library's `wsgiref.validate`). Does not know how an
application is found.
Contract: configuration, addresses, users and logs are tried as for a start, and nothing of it stays. The application is
loaded in a child and called once there. A fault ends it in words: where it is the application's, with file and line.
"""

from __future__ import annotations

import inspect
import io
import os
import sys
import warnings
from itertools import chain
from types import TracebackType
from wsgiref import validate
from wsgiref.util import FileWrapper, is_hop_by_hop, setup_testing_defaults

from poorhttp import control, server, trial
from poorhttp.dev import problem
from poorhttp.dev.settings import for_process, refuse_nothing
from poorhttp.errors import LoadError, say, tell
from poorhttp.lean import signal
from poorhttp.loader import function_of
from poorhttp.worker import end_with

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import FrameType
    from typing import Any

    from poorhttp.config import Config

    WSGI = Callable[..., Iterable[bytes]]

LIMIT = 1 << 20
"""Bytes of an answer that are read; it may be a stream without an end."""

ALSO_HOP_BY_HOP = "proxy-connection", "trailer"
"""What the engine leaves out besides those that the standard library knows."""


def run(settings: Config) -> int:
    """Return the exit code. Raises PoorhttpError."""
    trial.check_addresses(settings, control.find(settings) if settings.pidfile else 0)
    found = for_process(settings, ())
    refuse_nothing(found, "check")
    call = _call_in_fork if server.is_supervised(found) else _call
    return trial.check(found, lambda app: call(app, settings))


def _call_in_fork(app: WSGI, settings: Config) -> None:
    """The same in a fork of the process that has loaded it, as workers are: threads of the application are not there.
    End as that has ended, unless it was well.
    """
    done, telling = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if not pid:
        code = 1
        try:
            end_with(parent)
            _call(app, settings)
            os.write(telling, b"1")
            code = 0
        except LoadError as error:
            tell(error)
            code = error.exit_code
        except KeyboardInterrupt:  # its parent hears it too, and says so
            code = 128 + signal.SIGINT
        finally:
            trial.leave(code)
    os.close(telling)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code > 0:
        trial.leave(code)
    elif code < 0:
        os.kill(os.getpid(), -code)
    elif not os.read(done, 1):  # the application has ended it
        os._exit(0)


def _call(app: WSGI, settings: Config) -> None:
    """Ask for `/`, and tell what came. Raises LoadError."""
    statuses: list[str] = []
    blocks: list[bytes] = []

    lengths: list[str] = []
    left_out: list[str] = []

    def start_response(status: str, fields: list[tuple[str, str]], exc_info: Any = None) -> Callable[[bytes], None]:
        if statuses and exc_info is None:
            raise AssertionError("start_response was called again without exc_info")
        statuses.append(status)
        lengths[:] = _lengths(status, fields)
        left_out[:] = [name for name, _ in fields if is_hop_by_hop(name) or name.lower() in ALSO_HOP_BY_HOP]
        return blocks.append

    validate.IteratorWrapper.closed = True  # else one of what is no iterable complains
    given: Any = validate.InputWrapper
    given.read = lambda wrapper, *size: wrapper.input.read(*size)  # it would not have it without a size
    _give_up_after(settings.request_timeout or trial.PATIENCE, app)
    with warnings.catch_warnings(record=True) as doubts:
        warnings.simplefilter("always")
        try:
            answer: Any = validate.validator(app)(_environ(settings), start_response)
            _read(answer, blocks)
            if not statuses:
                raise AssertionError("start_response was not called")
            size = sum(map(len, blocks))
            if lengths and not statuses[-1].startswith(("204", "304")):
                _check_length(size, int(lengths[0]), isinstance(answer.original_iterator, FileWrapper))
        except (Exception, SystemExit) as error:
            raise _fault(error, app) from None
    signal.setitimer(signal.ITIMER_REAL, 0)
    for doubt in doubts:
        say(f"note: {doubt.message}")
    if left_out:
        say(f"note: hop-by-hop headers are the server's business; left out: {', '.join(left_out)}")
    told = f"GET / is answered {statuses[-1]}, in {size} bytes"
    if statuses[-1] >= "500":
        raise LoadError(told, "what it logged above, or poorhttp dev, tells why")
    say(told)


def _lengths(status: str, fields: list[tuple[str, str]]) -> list[str]:
    """The Content-Length of a head, if it has one. Raises AssertionError for what the engine refuses."""
    for text in (status, *chain.from_iterable(fields)):
        if not text.isascii() and max(text) > "\xff":
            raise AssertionError(f"{text!r} is not latin-1")
    lengths = [value.strip() for name, value in fields if name.lower() == "content-length"]
    if len(lengths) > 1 or not all(each.isascii() and each.isdecimal() for each in lengths):
        raise AssertionError(f"Content-Length must be one whole number, not {' and '.join(lengths)}")
    return lengths


def _check_length(size: int, promised: int, is_file: bool) -> None:
    """Raises AssertionError where a client would get less than was promised, or not all that there is. A file may be
    longer: it is sent as far as Content-Length reaches.
    """
    if size <= LIMIT and (size < promised or (size > promised and not is_file)):
        raise AssertionError(f"the body has {size} bytes, and Content-Length says {promised}")


def _give_up_after(seconds: float, app: WSGI) -> None:
    """Tell then where it still is, and end this process, as an exception could be caught."""

    def give_up(signum: int, frame: FrameType | None) -> None:
        trace = None
        while frame is not None and frame.f_code is not _call.__code__:
            trace = TracebackType(trace, frame, frame.f_lasti, frame.f_lineno or 0)
            frame = frame.f_back
        late = f"GET / was not answered in {seconds:g} s"
        told = problem.of(TimeoutError(late).with_traceback(trace))
        hint = "it must return; --request-timeout SECONDS gives it another time"
        tell(LoadError(f"{told['where'] or _place(app)}: {late}", hint, told["trace"]))
        trial.leave(LoadError.exit_code)

    signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def _read(answer: Any, blocks: list[bytes]) -> None:
    size = 0
    try:
        for block in answer:
            blocks.append(block)
            size += len(block)
            if size > LIMIT:
                break
    finally:
        answer.close()


def _environ(settings: Config) -> dict[str, Any]:
    address = settings.addresses[0]
    environ: dict[str, Any] = {
        "REQUEST_METHOD": "GET",
        "SCRIPT_NAME": "",
        "PATH_INFO": "/",
        "QUERY_STRING": "",
        "REQUEST_URI": "/",
        "SERVER_NAME": address.name or "localhost",
        "SERVER_PORT": str(address.port or 80),
        "SERVER_PROTOCOL": "HTTP/1.1",
        "SERVER_ADMIN": settings.webmaster,
        "REMOTE_ADDR": "127.0.0.1",
        "HTTP_ACCEPT": "*/*",
        "wsgi.input": io.BytesIO(),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": settings.threads > 1,
        "wsgi.multiprocess": settings.processes.most > 1,
        "wsgi.file_wrapper": FileWrapper,
        "poorhttp.debug": settings.debug,
        "poorhttp.options": dict(settings.options),
        "poorhttp.log_level": settings.log_level,
        **settings.environ,
    }
    setup_testing_defaults(environ)
    return environ


def _fault(error: BaseException, app: WSGI) -> LoadError:
    told = problem.of(error)
    where = told["where"] or _place(app)
    if type(error) is AssertionError and _raised_in(error) in (validate.__file__, __file__):
        detail = told["trace"] if told["where"] else ""
        return LoadError(f"{where}: the answer to GET / is against PEP 3333: {error}", told["hint"], detail)
    return LoadError(f"{where}: GET / fails: {told['title']}", told["hint"], told["trace"])


def _raised_in(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_frame.f_code.co_filename if trace is not None else ""


def _place(app: Any) -> str:
    """Where it is defined, or else what it is."""
    code = getattr(function_of(app)[0], "__code__", None)
    if code:
        return f"{problem.shown(code.co_filename)}:{code.co_firstlineno}"
    try:
        return f"{problem.shown(inspect.getfile(app))}:{inspect.getsourcelines(app)[1]}"
    except (OSError, TypeError):  # no class, or one whose source is not there
        return type(app).__name__
