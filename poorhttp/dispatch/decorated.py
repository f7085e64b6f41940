"""A dispatch table that is written with decorators.

Knows the names that a table has. `table` reads and checks them, as it does those of a module.
"""

from __future__ import annotations

from poorhttp.dispatch.constants import METHOD_GET
from poorhttp.dispatch.faults import TableError, name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from poorhttp.dispatch.routes import Handler

    AnyHandler = TypeVar("AnyHandler", bound=Handler)


class Table:
    """A dispatch table: `application(table)` takes it in place of a module.

    handlers, errors, converters: dicts, as a module has them. setreq, pre_process, post_process, default_handler:
    functions of the request, or None; sessions: a `poorhttp.sessions.Sessions`, or None. These are to be assigned.
    """

    setreq: Handler | None = None
    pre_process: Handler | None = None
    post_process: Handler | None = None
    default_handler: Handler | None = None
    sessions: Any = None

    def __init__(self) -> None:
        self.handlers: dict[str, list[tuple[int, Handler]]] = {}
        self.errors: dict[int, Handler] = {}
        self.converters: dict[str, tuple[str, Callable[[str], Any]]] = {}

    def route(self, path: str, method: int = METHOD_GET) -> Callable[[AnyHandler], AnyHandler]:
        """Let the decorated function answer `path`, perhaps a pattern. method: METHOD_* numbers, joined by |. Raises
        TableError for `@table.route` without a path; `application` tells what else is wrong.
        """
        _refuse_function(path, "route('/path')")

        def decorate(function: AnyHandler) -> AnyHandler:
            self.handlers.setdefault(path, []).append((method, function))
            return function

        return decorate

    def error(self, status: int) -> Callable[[AnyHandler], AnyHandler]:
        """Let the decorated function write the page for `status`. Raises TableError if another one does already, and
        for `@table.error` without a status.
        """
        _refuse_function(status, "error(http.HTTP_NOT_FOUND)")

        def decorate(function: AnyHandler) -> AnyHandler:
            if self.errors.setdefault(status, function) is not function:
                names = f"{name_of(self.errors[status])} and {name_of(function)}"
                raise TableError(f"errors[{status}] has two functions: {names}", "one for each status")
            return function

        return decorate


def _refuse_function(argument: object, expected: str) -> None:
    """Raise TableError for a decorator without parentheses: its function would be lost without a word."""
    if callable(argument):
        fault = f"a decorator of a Table stands above {name_of(argument)} without an argument"
        raise TableError(fault, f"@table.{expected}")
