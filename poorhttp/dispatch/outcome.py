"""The exception that ends a handler with a status.

Knows nothing of requests or the table. Contract: a handler, or whatever it calls, may raise SERVER_RETURN.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class SERVER_RETURN(Exception):
    """End the handler here as if it had returned `code`: http.DONE, http.OK or an HTTP_* number.

    details: for the error log at level debug.
    """

    def __init__(self, code: Any = None, *details: object) -> None:
        super().__init__(code, *details)
        self.code = code
        self.details = details
