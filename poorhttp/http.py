"""The names that an application of a dispatch table uses: `from poorhttp import http`, then `http.METHOD_GET` ...

Knows which names there are; their meaning stands in `poorhttp.dispatch`. Contract: an unknown name is an AttributeError
that suggests a known one; HTTPMethod and HTTPStatus are those of the standard library.
"""

from __future__ import annotations

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

_OF_FIELDS = ("Field", "Fields", "FormError", "MissingField")
_OF_THE_STANDARD_LIBRARY = ("HTTPMethod", "HTTPStatus")


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
            from poorhttp.dispatch import field

            return getattr(field, name)
        if name == "FieldStorage":
            from poorhttp.dispatch.form import FieldStorage

            return FieldStorage
        if name in _OF_THE_STANDARD_LIBRARY:
            import http

            return getattr(http, name)
        raise AttributeError(f"module 'poorhttp.http' has no name {name!r}{_hint(name)}", name=name)


def _hint(name: str) -> str:
    if name.startswith("__"):  # asked for by the interpreter, not by an author
        return ""
    from difflib import get_close_matches

    known = [
        known
        for known in (*globals(), *_OF_FIELDS, "FieldStorage", *_OF_THE_STANDARD_LIBRARY)
        if not known.startswith("_")
    ]
    nearest = get_close_matches(name, known, 1) or get_close_matches(name.upper(), known, 1)
    return f"; did you mean {nearest[0]}?" if nearest else ""
