"""The exception that ends a handler with a status.

Knows nothing of requests or the table. Contract: a handler, or whatever it calls, may raise it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn


class SERVER_RETURN(Exception):
    """End the handler here as if it had returned `code`: http.DONE, an HTTP_* number, an http.Response ...

    details: the reason, for the error log at level debug, and for `req.reason`; under `debug` for the page too.
    """

    def __init__(self, code: Any = None, *details: object) -> None:
        super().__init__(code, *details)
        self.code = code
        self.details = details

    def reason(self) -> str:
        """The details as one text."""
        try:
            return " ".join(map(str, self.details))
        except Exception as error:  # of the application's own __str__
            return f"details that cannot be shown: {type(error).__name__}"


def abort(code: Any, *details: object) -> NoReturn:
    """End the handler here as if it had returned `code`: `http.abort(http.HTTP_FORBIDDEN, "only for members")`. See
    `SERVER_RETURN`.
    """
    raise SERVER_RETURN(code, *details)
