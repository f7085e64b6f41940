"""Values that a handler may return instead of a status: from the value to the body of the answer.

Knows the types that stand for a body, and the message for the author of a handler that returned another one. Knows
nothing of the table.
"""

from __future__ import annotations

from poorhttp.dispatch.answer import DEFAULT_TYPE, WITHOUT_CONTENT
from poorhttp.dispatch.response import Response

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from poorhttp.dispatch.request import Request

JSON_TYPE = "application/json"


def write_returned(req: Request, outcome: Any) -> bool:
    """Add the return value of a handler to the answer. Returns False if a handler may not return it.

    str and bytes follow the text that was written. A dict or list is JSON, and the whole answer. None is allowed after
    something was written. Raises TypeError or ValueError for a value that JSON does not have; an exception of a
    generator before its first block is raised here.
    """
    if isinstance(outcome, (str, bytes)):
        req.write(outcome)
    elif isinstance(outcome, (dict, list)):
        if not req.empty():
            return False
        _write_json(req, outcome)
    elif isinstance(outcome, Response):
        return _write_response(req, outcome)
    elif outcome is None:
        return not req.empty() or req.status in WITHOUT_CONTENT
    elif hasattr(outcome, "__next__"):
        req.stream(outcome)
    else:
        return False
    return True


def _write_response(req: Request, response: Response) -> bool:
    if response.status is not None:
        if req.started():
            raise RuntimeError("a Response comes too late: part of the answer has been sent")
        req.status = response.status
    if response.content_type is not None:
        req.content_type = response.content_type
    pairs = getattr(response.headers, "items", None)
    fields = list(response.headers if pairs is None else pairs())
    for name in {name.lower() for name, _ in fields if name.lower() != "set-cookie"}:
        if name in req.headers_out:
            del req.headers_out[name]
    for name, value in fields:
        req.headers_out.add(name, value)
    is_body = response.body is not None and not isinstance(response.body, Response)
    return is_body and write_returned(req, response.body)


def _write_json(req: Request, value: Any) -> None:
    from json import dumps

    text = dumps(value, allow_nan=False, separators=(",", ":"))
    if req.content_type is DEFAULT_TYPE:
        req.content_type = JSON_TYPE
    req.write(text)


def misreturn(handler: Callable[..., Any] | None, outcome: object) -> str:
    """The message for the author of a handler that returned or raised none of the agreed values."""
    subject = f"the handler{place_of(handler)}"
    if outcome is None:
        return f"{subject} returned None and has written nothing: return the page, or write it by req.write()"
    told = f"{subject} returned {described(outcome)}"
    if isinstance(outcome, (dict, list)):
        return f"{told} after it had written something: JSON is a whole answer"
    if isinstance(outcome, Response):
        return f"{told} with a body of {described(outcome.body)}: expected str, bytes, dict, list or a generator"
    return (
        f"{told}: expected str, bytes, dict, list, a generator, http.Response, http.DONE or a status, "
        "http.HTTP_NOT_FOUND or the like"
    )


def hook_misreturn(hook: Callable[..., Any], outcome: object) -> str:
    """The message for the author of a `setreq` or `pre_process` that returned what only a handler may return."""
    told = f"{place_of(hook)[1:]} returned {described(outcome)}, which does not end the request"
    return f"{told}: expected None; a request is ended by http.abort(http.HTTP_FORBIDDEN) or the like"


def described(outcome: object) -> str:
    """A small number as it is, of another value the type: its `__repr__` could show secrets, or take long."""
    if type(outcome) is int and -1000 < outcome < 1000:
        return str(outcome)
    return "None" if outcome is None else f"a value of type {type(outcome).__name__}"


def place_of(handler: Callable[..., Any] | None) -> str:
    """Module and name of a function behind a space, for a message; "" for None."""
    if handler is None:
        return ""
    name = getattr(handler, "__qualname__", type(handler).__qualname__)
    return f" {getattr(handler, '__module__', '')}.{name}"
