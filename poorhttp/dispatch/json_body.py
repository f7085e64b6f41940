"""The body of a request as JSON (RFC 8259).

Knows the media types of JSON. Knows nothing of handlers. Contract: a body that is no JSON, too large or too deep ends
the request with a SERVER_RETURN; a value that was read can be written as JSON and as UTF-8. Imported only for a handler
that asks for JSON.
"""

from __future__ import annotations

from json import dumps, loads

from poorhttp.dispatch.constants import (
    HTTP_BAD_REQUEST,
    HTTP_REQUEST_ENTITY_TOO_LARGE,
    HTTP_UNSUPPORTED_MEDIA_TYPE,
)
from poorhttp.dispatch.outcome import SERVER_RETURN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from poorhttp.dispatch.request import Request

MAX_BYTES = 1024 * 1024

_INFINITE = (float("inf"), float("-inf"))


def json_of(req: Request) -> Any:
    """The value. Raises SERVER_RETURN: 415 for another type of body, 413 above MAX_BYTES, 400 for wrong JSON."""
    content_type = req.environ.get("CONTENT_TYPE", "")
    kind = content_type.partition(";")[0].strip().lower()
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise SERVER_RETURN(HTTP_UNSUPPORTED_MEDIA_TYPE, f"expected application/json, not {content_type[:80]!r}")
    body = req.read(MAX_BYTES + 1)
    if len(body) > MAX_BYTES:
        raise SERVER_RETURN(HTTP_REQUEST_ENTITY_TOO_LARGE, f"the JSON is larger than {MAX_BYTES} bytes")
    try:
        value = loads(body.decode("utf-8"), parse_constant=_refuse, parse_float=_finite)
        if b"\\ud" in body or b"\\uD" in body:
            _check_pairs(value)
        return value
    except (ValueError, RecursionError) as error:  # ValueError: also a number of too many digits
        raise SERVER_RETURN(HTTP_BAD_REQUEST, f"the body is no JSON: {error}") from None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not in JSON")


def _finite(digits: str) -> float:
    """A number that can be sent on as JSON: Python takes 1e999 for infinite (RFC 8259 section 6)."""
    value = float(digits)
    if value in _INFINITE:
        raise ValueError(f"the number {digits[:80]} is too large")
    return value


def _check_pairs(value: Any) -> None:
    """Raise ValueError for half of a surrogate pair, which no text in UTF-8 can hold (RFC 8259 section 8.2)."""
    try:
        dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("half of a surrogate pair is no text") from None
