"""The default pages: small centred html that says what happened, to which URI, and whom to ask.

Knows html and the words for a status. Contract: every text that is passed in is escaped here, and the result can always
be encoded.
"""

from __future__ import annotations

from poorhttp.dispatch.reasons import status_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_TEXTS = {
    301: "The document has moved.",
    302: "The document has moved.",
    400: "The server could not understand the request for <code>{uri}</code>.",
    401: "You must log in to see <code>{uri}</code>.",
    403: "You do not have permission to see <code>{uri}</code>.",
    404: "Your request for <code>{uri}</code> was not found.",
    405: "The method {method} is not allowed for <code>{uri}</code>.",
    413: "The request for <code>{uri}</code> is too large.",
    500: "The server met an error on the request for <code>{uri}</code>.",
    501: "The method {method} is not implemented.",
}

_PAGE = """\
<!DOCTYPE html>
<html>
 <head>
  <meta charset="utf-8">
  <title>{title}</title>
  <style>
   body {{ width: 80%; margin: auto; padding-top: 30px; text-align: center; font-family: sans-serif; }}
   pre {{ margin: 0; padding: 2px 6px; text-align: left; white-space: pre-wrap; }}
   pre:nth-child(even) {{ background: #e7e7e7; }}
   pre:nth-child(odd) {{ background: #f7f7f7; }}
  </style>
 </head>
 <body>
  <h1>{title}</h1>
  <p>{text}</p>
{detail}  <hr>
  <small>{foot}</small>
 </body>
</html>
"""

_TITLES = {404: "Page Not Found"}
_ESCAPES = {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;", ord('"'): "&quot;", ord("'"): "&#x27;"}


def escape(text: str) -> str:
    """Make `text` fit for html content and quoted attributes.

    The module `html` of the standard library costs half a megabyte for its table of entities, which nobody needs here.
    """
    # Lone surrogates cannot be encoded, so they could not be sent either.
    return text.translate(_ESCAPES).encode("utf-8", "replace").decode("utf-8")


def page(status: int, method: str, uri: str, webmaster: str) -> str:
    """The page for `status`."""
    text = _TEXTS.get(status, "The request for <code>{uri}</code> gave this answer.")
    return _PAGE.format(
        title=escape(_title(status)),
        text=text.format(uri=escape(uri), method=escape(method)),
        detail="",
        foot=f"webmaster: {escape(webmaster)}",
    )


def traceback_page(uri: str, trace: str, versions: Iterable[str], webmaster: str) -> str:
    """The 500 page for the author of the application: the traceback in striped lines."""
    lines = "".join(f"<pre>{escape(line)}</pre>\n" for line in trace.splitlines())
    return _PAGE.format(
        title=_title(500),
        text=_TEXTS[500].format(uri=escape(uri)),
        detail=f"  <h2>Exception Traceback</h2>\n<div>\n{lines}</div>\n",
        foot=escape(", ".join((*versions, f"webmaster: {webmaster}"))),
    )


def _title(status: int) -> str:
    return f"{status} - {_TITLES.get(status) or status_line(status)[4:]}"
