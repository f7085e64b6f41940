"""`poorhttp check`: finds, without serving, what would keep a server from answering.

Knows one request and the rules of PEP 3333 (`wsgiref.validate`). Does not know how an application is found. Nothing
that is tried stays; the application is loaded and called once, in a child.
"""

from __future__ import annotations

import inspect
import warnings
from wsgiref import validate
from wsgiref.util import FileWrapper, is_hop_by_hop

from poorhttp.app import question
from poorhttp.app.callables import function_of
from poorhttp.app.places import seen
from poorhttp.dev.settings import for_process, refuse_nothing
from poorhttp.errors import LoadError, say, tell
from poorhttp.process import shape
from poorhttp.process.start import dry_run, dry_run_child
from poorhttp.status import running
from poorhttp.stdlib import os, signal
from poorhttp.system import timing
from poorhttp.system.exits import end_with

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from poorhttp.app.callables import WSGI
    from poorhttp.config.model import Config

ALSO_HOP_BY_HOP = "proxy-connection", "trailer"
"""Hop-by-hop headers that the engine leaves out and the standard library does not know."""


def run(settings: Config) -> int:
    """Return the exit code. Raises PoorhttpError."""
    dry_run.check_addresses(settings, running.find(settings) if settings.pidfile else 0)
    found = for_process(settings, ())
    refuse_nothing(found, "check")
    call = _call_in_fork if shape.is_supervised(found) else _call
    return dry_run.check(found, lambda app: call(app, settings))


def _call_in_fork(app: WSGI, settings: Config) -> None:
    """As `_call`, in a fork of the process that has loaded the application, as workers are: its threads are not there.
    Unless all is well, this process ends as the fork has ended.
    """
    done, other_end = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if not pid:
        code = 1
        try:
            end_with(parent)
            _call(app, settings)
            os.write(other_end, b"1")
            code = 0
        except LoadError as error:
            tell(error)
            code = error.exit_code
        except KeyboardInterrupt:  # the parent gets the signal too, and says so
            code = 128 + signal.SIGINT
        finally:
            dry_run_child.leave(code)
    os.close(other_end)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code > 0:
        dry_run_child.leave(code)
    elif code < 0:
        os.kill(os.getpid(), -code)
    elif not os.read(done, 1):  # the application has ended the fork
        os._exit(0)


def _call(app: WSGI, settings: Config) -> None:
    """Send one request, for `check_path` or `/`, and judge the answer. Raises LoadError."""
    validate.IteratorWrapper.closed = True  # else its `__del__` complains where the answer is no iterable
    given: Any = validate.InputWrapper
    given.read = lambda wrapper, *size: wrapper.input.read(*size)  # the validator refuses `read()` without a size
    where = f"{_place(app)}: "
    target = settings.check_path or "/"
    question.end_after(settings.request_timeout or timing.LOADING, target, where, dry_run_child.fail)
    with warnings.catch_warnings(record=True) as doubts:
        warnings.simplefilter("always")
        try:
            answer = question.ask(validate.validator(_with_empty_bodies(app)), settings, target)
            _check_length(answer)
        except (Exception, SystemExit) as error:
            raise question.fault(error, target, where, validate.__file__, __file__) from None
    signal.setitimer(signal.ITIMER_REAL, 0)
    for doubt in doubts:
        say(f"note: {doubt.message}")
    left_out = [name for name, _ in answer.fields if is_hop_by_hop(name) or name.lower() in ALSO_HOP_BY_HOP]
    if left_out:
        say(f"note: hop-by-hop headers are the server's business; left out: {', '.join(left_out)}")
    say(question.judge(answer, target))


def _with_empty_bodies(app: WSGI) -> WSGI:
    """The application with an empty str or bytes made a list, since the validator refuses what the server accepts."""

    def application(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        answer = app(environ, start_response)
        return [] if isinstance(answer, (str, bytes)) and not answer else answer

    return application


def _check_length(answer: question.Answer) -> None:
    """Raise AssertionError if the body is longer than Content-Length; of a file only that part is sent."""
    size, promised = answer.size, answer.promised
    is_file = isinstance(answer.given.original_iterator, FileWrapper)
    if promised is not None and size > promised and not is_file:
        raise AssertionError(f"the body has {size} bytes, and Content-Length says {promised}")


def _place(app: Any) -> str:
    """File and line where the application is defined, else its type."""
    code = getattr(function_of(app)[0], "__code__", None)
    if code:
        return f"{seen(code.co_filename)}:{code.co_firstlineno}"
    try:
        return f"{seen(inspect.getfile(app))}:{inspect.getsourcelines(app)[1]}"
    except (OSError, TypeError):  # no class, or one without source
        return type(app).__name__
