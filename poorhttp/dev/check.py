"""`poorhttp check`: what would keep a server from answering, found without serving.

Knows one request and the letter of PEP 3333 (the standard library's `wsgiref.validate`). Does not know how an
application is found.
Contract: configuration, addresses, users and logs are tried as for a start, and nothing of it stays. The application is
loaded in a child and called once there. A fault ends it in words: where it is the application's, with file and line.
"""

from __future__ import annotations

import inspect
import warnings
from wsgiref import validate
from wsgiref.util import FileWrapper, is_hop_by_hop

from poorhttp.app import question
from poorhttp.app.loader import function_of, seen
from poorhttp.dev.settings import for_process, refuse_nothing
from poorhttp.errors import LoadError, say, tell
from poorhttp.process import server, trial
from poorhttp.status import running
from poorhttp.stdlib import os, signal
from poorhttp.system.exits import end_with

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from poorhttp.config.config import Config

    WSGI = Callable[..., Iterable[bytes]]

ALSO_HOP_BY_HOP = "proxy-connection", "trailer"
"""What the engine leaves out besides those that the standard library knows."""


def run(settings: Config) -> int:
    """Return the exit code. Raises PoorhttpError."""
    trial.check_addresses(settings, running.find(settings) if settings.pidfile else 0)
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
    """Ask for `check_path`, or `/`, and tell what came. Raises LoadError."""
    validate.IteratorWrapper.closed = True  # else one of what is no iterable complains
    given: Any = validate.InputWrapper
    given.read = lambda wrapper, *size: wrapper.input.read(*size)  # it would not have it without a size
    where = f"{_place(app)}: "
    question.end_after(settings.request_timeout or trial.PATIENCE, settings, where, trial.leave)
    with warnings.catch_warnings(record=True) as doubts:
        warnings.simplefilter("always")
        try:
            answer = question.ask(validate.validator(_with_empty_bodies(app)), settings)
            _check_length(answer)
        except (Exception, SystemExit) as error:
            raise question.fault(error, settings, where, validate.__file__, __file__) from None
    signal.setitimer(signal.ITIMER_REAL, 0)
    for doubt in doubts:
        say(f"note: {doubt.message}")
    left_out = [name for name, _ in answer.fields if is_hop_by_hop(name) or name.lower() in ALSO_HOP_BY_HOP]
    if left_out:
        say(f"note: hop-by-hop headers are the server's business; left out: {', '.join(left_out)}")
    question.judge(answer, settings)


def _with_empty_bodies(app: WSGI) -> WSGI:
    """The application, whose empty str or bytes is served as a body without blocks, which the validator refuses."""

    def application(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        answer = app(environ, start_response)
        return [] if isinstance(answer, (str, bytes)) and not answer else answer

    return application


def _check_length(answer: question.Answer) -> None:
    """Raises AssertionError where a client would not get all that there is. A file may be longer: it is sent as far as
    Content-Length reaches.
    """
    size, promised = answer.size, answer.promised
    is_file = isinstance(answer.given.original_iterator, FileWrapper)
    if promised is not None and size > promised and not is_file:
        raise AssertionError(f"the body has {size} bytes, and Content-Length says {promised}")


def _place(app: Any) -> str:
    """Where it is defined, or else what it is."""
    code = getattr(function_of(app)[0], "__code__", None)
    if code:
        return f"{seen(code.co_filename)}:{code.co_firstlineno}"
    try:
        return f"{seen(inspect.getfile(app))}:{inspect.getsourcelines(app)[1]}"
    except (OSError, TypeError):  # no class, or one whose source is not there
        return type(app).__name__
