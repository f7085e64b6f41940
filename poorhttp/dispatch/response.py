"""A whole answer as a value, for a handler that returns it in place of writing it.

Knows nothing of requests. `returned` makes the answer of it.
"""

from __future__ import annotations

from poorhttp.dispatch.faults import shown
from poorhttp.dispatch.headers import checked_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any


class Response:
    """An answer: `return http.Response("gone", http.HTTP_GONE)`.

    body: str, bytes, a dict or list (JSON), or a generator. status: 200..599; None keeps that of the request, which is
    200, or in an error handler that of the error. content_type: None for that of the body. headers: fields by name, or
    pairs; each replaces what `req.headers_out` has of its name, but Set-Cookie.
    Raises ValueError and TypeError for another status or content_type.
    """

    def __init__(
        self,
        body: Any = b"",
        status: int | None = None,
        content_type: str | None = None,
        headers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
    ) -> None:
        if status is not None and not (isinstance(status, int) and 200 <= status <= 599):
            raise ValueError(f"the status of http.Response is {shown(status)}: expected http.HTTP_GONE or the like")
        if content_type is not None and not isinstance(content_type, str):
            raise TypeError(f"the content_type of http.Response is {shown(content_type)}: expected str, as 'text/css'")
        self.body = body
        self.status = status
        self.content_type: str | None = None if content_type is None else checked_value(content_type)
        self.headers = headers
