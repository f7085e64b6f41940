"""Values that a handler may return instead of a status: from the value to the body of the answer.

Knows the types that stand for a body, and the message for the author of a handler that returned another one. Knows
nothing of the table.
"""

from __future__ import annotations

from poorhttp.dispatch.answer import DEFAULT_TYPE, WITHOUT_CONTENT
from poorhttp.dispatch.constants import DONE, LOG_ERR, OK
from poorhttp.dispatch.response import Response

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from poorhttp.dispatch.request import Request
    from poorhttp.dispatch.routes import Handler

JSON_TYPE = "application/json"


def write_returned(req: Request, outcome: Any, handler: Handler | None) -> Any:
    """Add the return value of a handler to the answer. Returns http.DONE, or what is not written: the value that a
    handler may not return, or the status that a generator has returned before its first block.

    str and bytes follow the text that was written. A dict or list is JSON, and the whole answer. None is allowed after
    something was written. Raises TypeError for a value that JSON does not have; an exception of a generator before its
    first block is raised here.
    """
    if isinstance(outcome, (str, bytes)):
        req.write(outcome)
    elif isinstance(outcome, (dict, list)):
        if not req.empty():
            return outcome
        _write_json(req, outcome, handler)
    elif isinstance(outcome, Response):
        return _write_response(req, outcome, handler)
    elif outcome is None:
        return None if req.empty() and req.status not in WITHOUT_CONTENT else DONE
    elif hasattr(outcome, "__next__"):
        returned = req.stream(outcome, lambda late: _log_late(req, late, handler))
        if returned is not None:
            return returned if isinstance(returned, int) else write_returned(req, returned, handler)
    else:
        return outcome
    return DONE


def _write_response(req: Request, response: Response, handler: Handler | None) -> Any:
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
    if response.body is None or isinstance(response.body, Response):
        return response
    left = write_returned(req, response.body, handler)
    return response if left is response.body else left


def _write_json(req: Request, value: Any, handler: Handler | None) -> None:
    from json import dumps

    try:
        text = dumps(value, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        from poorhttp.dispatch.json_fault import fault_of

        fault = fault_of(value, "value") or str(error)
        told = f"the handler{named(handler)} returned what JSON does not have: {fault}{_at(handler)}"
        raise TypeError(told) from error
    if req.content_type is DEFAULT_TYPE:
        req.content_type = JSON_TYPE
    req.write(text)


def _log_late(req: Request, returned: Any, handler: Handler | None) -> None:
    """Log what a generator has done behind its first block, when it was too late for it."""
    is_status = isinstance(returned, int) and returned == req.status
    if returned is not None and not is_done(returned) and not is_status:
        told = f"the generator{named(handler)} returned {described(returned)} behind its first block, where it is lost"
        req.log_error(f"{req.method} {req.uri}: {told}{_at(handler)}", LOG_ERR)
    if req.is_head_stale():
        told = f"status or headers were set too late: the head went out with the generator's first block{_at(handler)}"
        req.log_error(f"{req.method} {req.uri}: {told}", LOG_ERR)
    req.sent_head = None  # has been looked at


def is_done(outcome: Any) -> bool:
    """Whether this is http.DONE or http.OK. A bool is neither: an author who returns one means something else."""
    return isinstance(outcome, int) and not isinstance(outcome, bool) and outcome in (OK, DONE)


def misreturn(handler: Handler | None, outcome: object) -> str:
    """The message for the author of a handler that returned or raised none of the agreed values."""
    return f"the handler{named(handler)} returned {_why_wrong(outcome)}{_at(handler)}"


def _why_wrong(outcome: object) -> str:
    if outcome is None:
        return "None and has written nothing: return the page, or write it by req.write()"
    told = described(outcome)
    if isinstance(outcome, (dict, list)):
        return f"{told} after it had written something: JSON is a whole answer"
    if isinstance(outcome, Response):
        return f"{told} with a body of {described(outcome.body)}: expected str, bytes, dict, list or a generator"
    if isinstance(outcome, tuple):
        return f'{told}: a body with a status is http.Response("no", http.HTTP_NOT_FOUND)'
    return (
        f"{told}: expected str, bytes, dict, list, a generator, http.Response, http.DONE or a status, "
        "http.HTTP_NOT_FOUND or the like"
    )


def hook_misreturn(hook: Handler, outcome: object) -> str:
    """The message for the author of a `setreq` or `pre_process` that returned what only a handler may return."""
    told = f"{named(hook)[1:]} returned {described(outcome)}, which does not end the request"
    return f"{told}: expected None; a request is ended by http.abort(http.HTTP_FORBIDDEN) or the like{_at(hook)}"


def described(outcome: object) -> str:
    """A small number as it is, and True, of another value the type: its `__repr__` could show secrets, or take long."""
    if type(outcome) is bool or (type(outcome) is int and -1000 < outcome < 1000):
        return str(outcome)
    return "None" if outcome is None else f"a value of type {type(outcome).__name__}"


def named(handler: Handler | None) -> str:
    """Module and name of a function behind a space, for a message; "" for None."""
    if handler is None:
        return ""
    name = getattr(handler, "__qualname__", type(handler).__qualname__)
    return f" {getattr(handler, '__module__', '')}.{name}"


def _at(handler: Handler | None) -> str:
    """File and line of a function, for the end of a message; "" if there are none."""
    from poorhttp.dispatch.places import place_of  # after a mistake only

    place = place_of(handler)
    return f" ({place})" if place else ""
