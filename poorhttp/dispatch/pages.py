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
    503: "The server cannot answer the request for <code>{uri}</code> now. Please try again later.",
}

STYLE = """\
   :root { color-scheme: light dark; --paper: #fff; --ink: #222; --line: #ddd; --stripe: #f3f3f3; --link: #05c; }
   @media (prefers-color-scheme: dark) {
    :root { --paper: #181a1b; --ink: #ddd; --line: #3a3d3f; --stripe: #222527; --link: #7ab8ff; }
   }
   body { max-width: 60em; margin: auto; padding: 1.5em 1em; text-align: center; font-family: sans-serif;
    background: var(--paper); color: var(--ink); overflow-wrap: anywhere; }
   a { color: var(--link); }
   hr { border: 0; border-top: 1px solid var(--line); }
   pre { margin: 0; padding: 2px 6px; text-align: left; white-space: pre-wrap; }
   pre:nth-child(even), tbody tr:nth-child(even) { background: var(--stripe); }
   table { width: 100%; border-collapse: collapse; text-align: left; }
   th, td { padding: .3em .6em; border-bottom: 1px solid var(--line); vertical-align: top; }
   th:nth-child(n+2), td:nth-child(n+2) { white-space: nowrap; }
   td span { white-space: nowrap; }
   th:nth-child(3), td:nth-child(3) { text-align: right; }
   th[aria-sort=ascending] a::after { content: " \\25B2"; }
   th[aria-sort=descending] a::after { content: " \\25BC"; }
   @media (max-width: 40em) {
    h1 { font-size: 1.3em; }
    th:nth-child(4), td:nth-child(4) { display: none; }
    th:nth-child(2), td:nth-child(2) { white-space: normal; overflow-wrap: normal; }
   }
"""
"""The style sheet of these pages and of the listing: for light and dark, for screens and phones."""

_PAGE = """\
<!DOCTYPE html>
<html lang="en">
 <head>
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <title>{title}</title>
  <style>
{style}  </style>
 </head>
 <body>
  <h1>{title}</h1>
{body} </body>
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


def document(title: str, body: str) -> str:
    """A document with the style sheet; title and body are html."""
    return _PAGE.format(title=title, style=STYLE, body=body)


def page(status: int, method: str, uri: str, webmaster: str) -> str:
    """The page for `status`."""
    text = _TEXTS.get(status, "The request for <code>{uri}</code> gave this answer.")
    told = text.format(uri=escape(uri), method=escape(method))
    return _page(status, told, "", f"webmaster: {webmaster}")


def traceback_page(status: int, uri: str, trace: str, versions: Iterable[str], webmaster: str) -> str:
    """The page of an error for the author of the application: the traceback in striped lines."""
    lines = "".join(f"<pre>{escape(line)}</pre>\n" for line in trace.splitlines())
    detail = f"  <h2>Exception Traceback</h2>\n<div>\n{lines}</div>\n"
    return _page(status, _TEXTS[500].format(uri=escape(uri)), detail, ", ".join((*versions, f"webmaster: {webmaster}")))


def _page(status: int, text: str, detail: str, foot: str) -> str:
    """text, detail: html. foot: text."""
    body = f"  <p>{text}</p>\n{detail}  <hr>\n  <small>{escape(foot)}</small>\n"
    return document(escape(_title(status)), body)


def _title(status: int) -> str:
    return f"{status} - {_TITLES.get(status) or status_line(status)[4:]}"
