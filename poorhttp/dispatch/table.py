"""From the module `dispatch_table` to the routes that are looked up for each request.

Knows the shapes in which an author may write `handlers` and `errors`. Knows nothing of requests. Contract: the table
is read once, when the application is made; all its mistakes are told then.
"""

from __future__ import annotations

from poorhttp.dispatch.constants import DONE, HTTP_NO_CONTENT, METHOD_ALL, METHOD_BITS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    from poorhttp.dispatch.request import Request

    Handler: TypeAlias = Callable[[Request], Any]
    Routes: TypeAlias = dict[str, dict[str, Handler]]


ERRORS = "errors = {http.HTTP_NOT_FOUND: page}, where page is a function of req"


class TableError(ValueError):
    """The dispatch table cannot be used. fault: which entry, and what it is; expected: what belongs there."""

    def __init__(self, fault: str, expected: str) -> None:
        super().__init__(f"{fault}; expected {expected}")
        self.fault = fault
        self.expected = expected


def read_routes(table: object) -> Routes:
    """`handlers` as uri -> method -> function, with HEAD wherever there is GET, and OPTIONS. Raises TableError."""
    handlers = getattr(table, "handlers", None)
    if not isinstance(handlers, dict):
        fault = "there is no 'handlers'" if handlers is None else f"'handlers' is {_shown(handlers)}, which is no dict"
        raise TableError(fault, "handlers = {'/': (http.METHOD_GET, page)}, where page is a function of req")
    return {_uri(uri): _methods(uri, entry) for uri, entry in handlers.items()}


def read_errors(table: object) -> dict[int, Handler]:
    """`errors` as status -> function; {} without it. Raises TableError."""
    errors = getattr(table, "errors", {})
    if not isinstance(errors, dict):
        raise TableError(f"'errors' is {_shown(errors)}, which is no dict", ERRORS)
    for status, function in errors.items():
        if not isinstance(status, int) or not 300 <= status <= 599:
            raise TableError(f"'errors' has the key {_shown(status)}", ERRORS)
        _callable(function, f"errors[{status}]")
    return {int(status): function for status, function in errors.items()}


def read_hook(table: object, name: str) -> Handler | None:
    """The optional function `name` of the table. Raises TableError if it is there and cannot be called."""
    hook = getattr(table, name, None)
    return None if hook is None else _callable(hook, f"'{name}'")


def _uri(uri: object) -> str:
    if not isinstance(uri, str) or not uri.startswith("/"):
        raise TableError(f"'handlers' has the key {_shown(uri)}", "a path that begins with /, such as '/light'")
    return uri


def _methods(uri: str, entry: object) -> dict[str, Handler]:
    methods: dict[str, Handler] = {}
    for mask, function in _pairs(uri, entry):
        _callable(function, f"handlers[{uri!r}]")
        for method in _methods_of(uri, mask):
            if method in methods:
                raise TableError(f"handlers[{uri!r}] has two functions for {method}", "one for each method")
            methods[method] = function
    if "GET" in methods:
        methods.setdefault("HEAD", methods["GET"])
    methods.setdefault("OPTIONS", _options(methods))
    return methods


def allowed(methods: dict[str, Handler]) -> str:
    """The value of Allow for these (RFC 9110 section 10.2.1)."""
    return ", ".join(method for method in METHOD_BITS if method in methods)


def _options(methods: dict[str, Handler]) -> Handler:
    """A handler that tells which methods a path has (RFC 9110 section 9.3.7); load balancers check servers by it."""

    def options(req: Request) -> int:
        req.status = HTTP_NO_CONTENT
        req.headers_out["Allow"] = allowed(methods)
        return DONE

    return options


def _pairs(uri: str, entry: Any) -> list[tuple[Any, Any]]:
    """The three ways to write an entry: (mask, function), [(mask, function), ...], {mask: function, ...}."""
    if isinstance(entry, dict):
        pairs = list(entry.items())
    else:
        pairs = [entry] if _is_pair(entry) and callable(entry[1]) else entry
    if not isinstance(pairs, (tuple, list)) or not pairs or not all(map(_is_pair, pairs)):
        expected = "(http.METHOD_GET, function), a list of such pairs, or {http.METHOD_GET: function, ...}"
        raise TableError(f"handlers[{uri!r}] is {_shown(entry)}", expected)
    return list(pairs)


def _is_pair(value: Any) -> bool:
    return isinstance(value, (tuple, list)) and len(value) == 2


def _methods_of(uri: str, mask: object) -> list[str]:
    if not isinstance(mask, int) or not 0 < mask <= METHOD_ALL:
        expected = "http.METHOD_GET or the like, several joined by |"
        raise TableError(f"handlers[{uri!r}] has the methods {_shown(mask)}", expected)
    return [method for method, bit in METHOD_BITS.items() if mask & bit]


def _callable(function: Any, where: str) -> Handler:
    if not callable(function):
        raise TableError(f"{where} is {_shown(function)}, which cannot be called", "a function of one argument, req")
    handler: Handler = function
    return handler


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:97]}..."
