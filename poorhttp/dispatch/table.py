"""From the module `dispatch_table` to the routes that are looked up for each request.

Knows the shapes in which an author may write `handlers` and `errors`. Knows nothing of requests. Contract: the table
is read once, when the application is made; all its mistakes are told then.
"""

from __future__ import annotations

from poorhttp.dispatch.constants import DONE, HTTP_NO_CONTENT, METHOD_ALL, METHOD_BITS
from poorhttp.dispatch.converters import read_converters
from poorhttp.dispatch.decorated import Table
from poorhttp.dispatch.faults import TableError, checked_function, name_of, shown
from poorhttp.dispatch.patterns import Pattern
from poorhttp.dispatch.routes import Routes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from poorhttp.dispatch.request import Request
    from poorhttp.dispatch.routes import Handler, Methods

ERRORS = "errors = {http.HTTP_NOT_FOUND: page}, where page is a function of req"


def read_routes(table: object) -> Routes:
    """`handlers`, with HEAD wherever there is GET, and OPTIONS. Raises TableError."""
    handlers = getattr(table, "handlers", None)
    if not isinstance(handlers, dict):
        raise _without_handlers(table, handlers)
    converters = read_converters(table)
    routes = Routes()
    for uri, entry in handlers.items():
        pattern = Pattern(_uri(uri), converters)
        routes.add(pattern, _methods(pattern, entry))
    routes.refuse_unreachable()
    return routes


def read_errors(table: object) -> dict[int, Handler]:
    """`errors` as status -> function; {} without it. Raises TableError."""
    errors = getattr(table, "errors", {})
    if not isinstance(errors, dict):
        raise TableError(f"'errors' is {shown(errors)}, which is no dict", ERRORS)
    for status, function in errors.items():
        if not isinstance(status, int) or not 300 <= status <= 599:
            raise TableError(f"'errors' has the key {shown(status)}", ERRORS)
        checked_function(function, f"errors[{status}]")
    return {int(status): function for status, function in errors.items()}


def read_hook(table: object, name: str) -> Handler | None:
    """The optional function `name` of the table. Raises TableError if it is there and cannot be called."""
    hook = getattr(table, name, None)
    return None if hook is None else checked_function(hook, f"'{name}'")


def _without_handlers(table: object, handlers: object) -> TableError:
    """The error for a table whose `handlers` are no dict, with what its author may have meant."""
    expected = "handlers = {'/': (http.METHOD_GET, page)}, where page is a function of req"
    if handlers is not None:
        return TableError(f"'handlers' is {shown(handlers)}, which is no dict", expected)
    for name, value in getattr(table, "__dict__", {}).items():
        if isinstance(value, Table):
            every = ("handlers", "errors", "converters")
            expected = f"{', '.join(every)} = {', '.join(f'{name}.{each}' for each in every)}"
            return TableError(f"there is no 'handlers', and {name!r} is a Table", expected)
    return TableError("there is no 'handlers'", expected)


def _uri(uri: object) -> str:
    if not isinstance(uri, str) or not uri.startswith("/"):
        raise TableError(f"'handlers' has the key {shown(uri)}", "a path that begins with /, such as '/light'")
    return uri


def _methods(pattern: Pattern, entry: object) -> Methods:
    where = f"handlers[{pattern.text!r}]"
    methods: Methods = {}
    for mask, function in _pairs(where, entry):
        checked_function(function, where, arguments=("req", *pattern.names))
        for method in _methods_of(where, mask):
            if method in methods:
                names = f"{name_of(methods[method])} and {name_of(function)}"
                raise TableError(f"{where} has two functions for {method}: {names}", "one for each method")
            methods[method] = function
    if "GET" in methods:
        methods.setdefault("HEAD", methods["GET"])
    methods.setdefault("OPTIONS", _options(methods))
    return methods


def allowed(methods: Methods) -> str:
    """The value of Allow for these (RFC 9110 section 10.2.1)."""
    return ", ".join(method for method in METHOD_BITS if method in methods)


def _options(methods: Methods) -> Handler:
    """A handler that tells which methods a path has (RFC 9110 section 9.3.7); load balancers check servers by it."""

    def options(req: Request, *values: object) -> int:
        req.status = HTTP_NO_CONTENT
        req.headers_out["Allow"] = allowed(methods)
        return DONE

    return options


def _pairs(where: str, entry: Any) -> list[tuple[Any, Any]]:
    """The three ways to write an entry: (mask, function), [(mask, function), ...], {mask: function, ...}."""
    if isinstance(entry, dict):
        pairs = list(entry.items())
    else:
        pairs = [entry] if _is_pair(entry) and callable(entry[1]) else entry
    if not isinstance(pairs, (tuple, list)) or not pairs or not all(map(_is_pair, pairs)):
        expected = "(http.METHOD_GET, function), a list of such pairs, or {http.METHOD_GET: function, ...}"
        raise TableError(f"{where} is {shown(entry)}", expected)
    return list(pairs)


def _is_pair(value: Any) -> bool:
    return isinstance(value, (tuple, list)) and len(value) == 2


def _methods_of(where: str, mask: object) -> list[str]:
    if not isinstance(mask, int) or not 0 < mask <= METHOD_ALL:
        expected = "http.METHOD_GET or the like, several joined by |"
        raise TableError(f"{where} has the methods {shown(mask)}", expected)
    return [method for method, bit in METHOD_BITS.items() if mask & bit]
