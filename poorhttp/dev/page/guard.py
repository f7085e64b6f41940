"""A WSGI wrapper that answers with an error page when the application raises; and the application that is served while
the author's cannot be loaded.

Knows the ways in which a WSGI application can fail. Does not know what a page looks like. A request that does not fail
is answered as without the wrapper; the error log has what the page shows.
"""

from __future__ import annotations

from poorhttp import RequestTimeout
from poorhttp.app.places import SERVER
from poorhttp.dev.page import pages, problem
from poorhttp.dev.page.values import name_of
from poorhttp.errors import returned_text
from poorhttp.pages.redaction import LONGEST, cut
from poorhttp.stdlib import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from poorhttp.app.callables import WSGI
    from poorhttp.logs.log import ErrorLog

DISPATCHER = os.path.join(SERVER, "dispatch", "dispatcher.py")
FAILED = "500 Internal Server Error"
WAITING = "503 Service Unavailable"


class Guard:
    """The wrapper around the application. editor: see `pages.answer`."""

    def __init__(self, app: WSGI, error_log: ErrorLog, editor: str) -> None:
        self._app, self._error_log, self._editor = app, error_log, editor

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        environ["poorhttp.error_page"] = lambda error, status: _for_dispatch(error, status, environ, self._editor)
        process = os.getpid()
        begun: list[bool] = []

        def begin(*arguments: Any) -> Any:
            write = start_response(*arguments)
            begun[:] = [True]
            return write

        try:
            answer = self._app(environ, begin)
        except BaseException as error:
            if not _is_of_request(error, process):
                raise
            return self.page(error, environ, start_response)
        if begun:
            wrapper = environ.get("wsgi.file_wrapper")
            if isinstance(wrapper, type) and isinstance(answer, wrapper):
                return answer
            if type(answer) in (list, tuple) and all(type(block) is bytes for block in answer):
                return answer  # no code of the author's runs any more
        return _Guarded(self, answer, environ, start_response, begun)

    def page(
        self, error: BaseException, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        """The answer that replaces the one that failed. Raises `error` again where that has begun."""
        try:
            found = problem.of(error, __file__)
            status, fields, body = pages.answer(found, environ, FAILED, 0, self._editor)
            start_response(status, fields, (type(error), error, error.__traceback__))
        except Exception as fault:
            if fault is error:
                raise
            raise error from None
        request = f"{environ.get('REQUEST_METHOD', '-')} {environ.get('REQUEST_URI') or environ.get('PATH_INFO', '')}"
        what = f"{request}: {cut(name_of(type(error)), LONGEST)}"
        self._error_log.write_trace("E", what, environ.get("REMOTE_ADDR") or "-", found["trace"])
        return [] if environ.get("REQUEST_METHOD") == "HEAD" else [body]


class _Guarded:
    """The wrapper around the iterable of an answer. begun: not empty once `start_response` was called."""

    def __init__(
        self,
        guard: Guard,
        answer: Iterable[bytes],
        environ: dict[str, Any],
        start_response: Callable[..., Any],
        begun: list[bool],
    ) -> None:
        self._guard, self._answer, self._begun = guard, answer, begun
        self._environ, self._start_response = environ, start_response
        if hasattr(answer, "close"):
            self.close = answer.close

    def __iter__(self) -> Iterator[bytes]:
        process, answer = os.getpid(), self._answer
        try:
            if not hasattr(answer, "__iter__") and not hasattr(answer, "__getitem__"):
                raise TypeError(f"the application returned {_named(answer)}, which is no iterable of bytes")
            if text := returned_text(answer):
                raise TypeError(text)
            for block in answer:
                if not isinstance(block, bytes):
                    raise TypeError(f"the application gave {_named(block)} as a block of the body, not bytes")
                if block and not self._begun:
                    break
                yield block
            if not self._begun:
                raise RuntimeError("the application returned a body but did not call start_response")
        except BaseException as error:
            if not _is_of_request(error, process):
                raise
            yield from self._guard.page(error, self._environ, self._start_response)


def _is_of_request(error: BaseException, process: int) -> bool:
    """Whether this failure gets a page: the engine answers a late call, a closed generator is no failure, and a child
    that the application forked has no client.
    """
    return not isinstance(error, (RequestTimeout, GeneratorExit)) and os.getpid() == process


def _named(value: object) -> str:
    return "None" if value is None else f"a value of type {type(value).__name__}"


def _for_dispatch(error: Exception, status: str, environ: dict[str, Any], editor: str) -> tuple[dict[str, str], bytes]:
    """Header fields and body, for the dispatcher, which has caught and logged an exception."""
    _, fields, body = pages.answer(problem.of(error, DISPATCHER), environ, status, 0, editor)
    return {name: value for name, value in fields if name != "Content-Length"}, body


def make_error_application(found: problem.Problem, status: str, refresh: int, editor: str) -> WSGI:
    """The application that is served while the author's cannot be; arguments as of `pages.answer`."""

    def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        line, fields, body = pages.answer(found, environ, status, refresh, editor)
        if not refresh:
            fields.append(("Retry-After", "1"))  # a save may come at any time
        start_response(line, fields)
        return [] if environ.get("REQUEST_METHOD") == "HEAD" else [body]

    return application
