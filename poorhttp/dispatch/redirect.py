"""The redirect: sends a client to another address and ends the handler.

Knows which targets are safe. Knows nothing of the table.
"""

from __future__ import annotations

from poorhttp.dispatch.constants import DONE, HTTP_MOVED_PERMANENTLY, HTTP_MOVED_TEMPORARILY
from poorhttp.dispatch.outcome import SERVER_RETURN
from poorhttp.dispatch.percent import URI, encoded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from poorhttp.dispatch.request import Request


STATUSES = 301, 302, 303, 307, 308


def redirect(req: Request, uri: str, permanent: int = 0, text: str | None = None) -> NoReturn:
    """Send the client to `uri` (a path of this host, or http://... or https://...) and end the handler.

    permanent: False for 302, True for 301, or the status itself: 301, 302, 303, 307 or 308 (RFC 9110 section 15.4).
    What was written is dropped; `text` is html for the few clients that do not follow, by default a link.
    Characters that a URI cannot hold are percent-encoded. Raises ValueError for control characters, backslashes, other
    schemes, and `//host`, which a browser takes for another host; RuntimeError if part of the answer has been sent.
    """
    target = checked_target(uri)
    if permanent not in (0, 1, *STATUSES):
        raise ValueError(f"permanent is {permanent!r}; expected True, False or one of {', '.join(map(str, STATUSES))}")
    req.discard()
    req.status = {0: HTTP_MOVED_TEMPORARILY, 1: HTTP_MOVED_PERMANENTLY}.get(permanent, int(permanent))
    req.headers_out["Location"] = target
    req.write(_link(target) if text is None else text)
    raise SERVER_RETURN(DONE)


def checked_target(uri: str) -> str:
    """Return `uri` fit for a Location field; see `redirect` for what is refused."""
    if not isinstance(uri, str):
        raise TypeError(f"a redirect goes to a str, not {type(uri).__name__}: {uri!r}")
    if not uri or "\\" in uri or any(c < " " or c == "\x7f" for c in uri):
        raise ValueError(f"cannot redirect to {uri!r}: empty, or with a backslash or a control character")
    # RFC 3986 section 3.1: a scheme ends at the first colon, if no / ? or # stands before it.
    path = uri.partition("?")[0].partition("#")[0]
    scheme, colon, _ = path.partition(":")
    if path.lstrip(" ").startswith("//") or path.startswith(" "):
        raise ValueError(f"cannot redirect to {uri!r}: write the scheme, http: or https:")
    if colon and "/" not in scheme and not path.lower().startswith(("http://", "https://")):
        raise ValueError(f"cannot redirect to {uri!r}: only http:// and https:// or a path of this host")
    return encoded(uri.encode("utf-8"), URI)


def _link(target: str) -> str:
    from poorhttp.pages.document import escape

    return f'<p>The document has moved <a href="{escape(target)}">here</a>.</p>\n'
