"""The names that an application of a dispatch table uses: `from poorhttp import http`, then `http.METHOD_GET` ...

DONE, OK: a handler has written its answer. DECLINED: default_handler is to answer. HTTP_ERROR: the page for 500.
METHOD_*: methods (RFC 9110 section 9) for the table, joined by `|`. METHOD_GET includes HEAD; METHOD_GET_POST and
METHOD_ALL are several. METHOD_BITS: name of a method -> its number.
HTTP_*: statuses (RFC 9110 section 15) by the names of mod_python, which a handler returns for their pages.
LOG_*, APLOG_*: levels for `req.log_error`, from 0, LOG_EMERG, to 7, LOG_DEBUG.
HTTPMethod, HTTPStatus: those of the standard library's http.

Knows which names there are. Contract: an unknown name is an AttributeError that suggests a known one. What a handler
gets, the request, is `poorhttp.dispatch.Request`.
"""

from __future__ import annotations

from poorhttp.dispatch import constants
from poorhttp.dispatch.constants import *  # noqa: F403
from poorhttp.dispatch.constants import DONE
from poorhttp.dispatch.outcome import SERVER_RETURN as SERVER_RETURN
from poorhttp.dispatch.outcome import abort as abort
from poorhttp.dispatch.redirect import redirect as redirect
from poorhttp.dispatch.response import Response as Response

TYPE_CHECKING = False
if TYPE_CHECKING:
    from poorhttp.dispatch.field import Field as Field
    from poorhttp.dispatch.field import Fields as Fields
    from poorhttp.dispatch.field import FormError as FormError
    from poorhttp.dispatch.field import MissingField as MissingField
    from poorhttp.dispatch.form import FieldStorage as FieldStorage
    from poorhttp.dispatch.request import Request

_OF_FIELDS = ("Field", "Fields", "FieldStorage", "FormError", "MissingField")
_OF_THE_STANDARD_LIBRARY = ("HTTPMethod", "HTTPStatus")

_OURS = ("SERVER_RETURN", "Response", "abort", "redirect", "sendfile")
_NUMBERS = sorted(name for name in vars(constants) if name.isupper())

__all__ = [*_OURS, *_OF_FIELDS, *_NUMBERS]  # noqa: PLE0604  # all of them are str


def sendfile(req: Request, path: str, offset: int = 0, limit: int = -1, *, download: str | None = None) -> int:
    """Send a file as the whole answer: `return http.sendfile(req, path)`, or with download=NAME for a browser to save
    under that name. See the request's method of this name.
    """
    req.sendfile(path, offset, limit, download=download)
    return DONE


if not TYPE_CHECKING:  # else every name would exist for a type checker

    def __getattr__(name: str) -> object:
        """Import a name that few applications need. Raises AttributeError with a suggestion for an unknown name."""
        if name in _OF_FIELDS:
            from poorhttp.dispatch import form  # which has those of `field` too

            return getattr(form, name)
        if name in _OF_THE_STANDARD_LIBRARY:
            import http

            return getattr(http, name)
        raise AttributeError(f"module 'poorhttp.http' has no name {name!r}{_hint(name)}", name=name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


def _hint(name: str) -> str:
    if name.startswith("__"):  # asked for by the interpreter, not by an author
        return ""
    from difflib import get_close_matches

    known = [known for known in (*globals(), *_OF_FIELDS, *_OF_THE_STANDARD_LIBRARY) if not known.startswith("_")]
    nearest = get_close_matches(name, known, 1) or get_close_matches(name.upper(), known, 1)
    return f"; did you mean {nearest[0]}?" if nearest else ""
