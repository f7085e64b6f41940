"""A page as html: the one style sheet for error pages, the listing, /debug-info and the status page.

Knows html and css. Knows nothing of what a page tells. Contract: no page runs a script or loads anything.
"""

from __future__ import annotations

POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
"""The Content-Security-Policy of these pages (Content Security Policy Level 3)."""

FOR_AUTHOR = (
    ("Cache-Control", "no-store"),
    ("Content-Security-Policy", POLICY),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
)
"""The fields of a page that only the author of the application may see: no cache keeps it, and no other site has it."""

STYLE = """\
   :root { color-scheme: light dark; --paper: #fff; --ink: #1f2328; --faint: #59636e; --line: #d8dce0;
    --stripe: #f4f5f7; --link: #0550ae; --mark: #ffe1e1; --edge: #c9302c; }
   @media (prefers-color-scheme: dark) {
    :root { --paper: #16181a; --ink: #dcdfe2; --faint: #9da7b0; --line: #363b40; --stripe: #202427; --link: #7ab8ff;
     --mark: #5a2323; --edge: #e5534b; }
   }
   body { max-width: 62em; margin: auto; padding: 1.5em 1em; background: var(--paper); color: var(--ink);
    font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
   h1 { margin: .4em 0 .6em; font-size: 1.7em; line-height: 1.2; }
   h2 { margin: 2em 0 .4em; font-size: 1.15em; line-height: 1.2; }
   h1, .message { text-align: center; }
   .message pre, .report h1 { text-align: left; }
   a { color: var(--link); }
   hr { border: 0; border-top: 1px solid var(--line); }
   small, .faint, thead th { color: var(--faint); }
   code, pre { font-family: ui-monospace, monospace; font-size: .9em; }
   pre { margin: 0; padding: 2px 8px; white-space: pre-wrap; }
   pre:nth-child(even), tbody tr:nth-child(even) { background: var(--stripe); }
   .reason { padding: .5em .8em; border-left: 3px solid var(--edge); background: var(--stripe); text-align: left; }
   table { width: 100%; border-collapse: collapse; text-align: left; }
   th, td { padding: .3em .6em; border-bottom: 1px solid var(--line); vertical-align: top; }
   tbody th { width: 28%; font-weight: inherit; }
   .wide tbody th { width: 42%; }
   td small { display: block; }
   .listing th:nth-child(n+2), .listing td:nth-child(n+2) { white-space: nowrap; }
   .listing td span { white-space: nowrap; }
   .listing th:nth-child(3), .listing td:nth-child(3), .numbers th, .numbers td { text-align: right; }
   .numbers { overflow-wrap: normal; }
   .numbers td[colspan] { text-align: left; overflow-wrap: anywhere; }
   th[aria-sort=ascending] a::after { content: " \\25B2"; }
   th[aria-sort=descending] a::after { content: " \\25BC"; }
   details { margin: .3em 0; padding-left: .7em; border-left: 3px solid var(--line); font-size: .95em; }
   details th, details td { padding: .1em .6em; border: 0; }
   details.own { border-color: var(--edge); }
   details pre { padding: .5em 0; overflow-x: auto; white-space: pre; background: var(--stripe); }
   summary { cursor: pointer; }
   mark { display: block; width: max-content; min-width: 100%; background: var(--mark); color: inherit; }
   @media (max-width: 40em) {
    h1 { font-size: 1.35em; }
    .listing { font-size: .9em; }
    .listing th:nth-child(4), .listing td:nth-child(4) { display: none; }
    .listing th:nth-child(2), .listing td:nth-child(2) { white-space: normal; overflow-wrap: normal; }
    .facts tr { display: block; padding: .3em 0; border-bottom: 1px solid var(--line); }
    .facts th, .facts td { display: block; width: auto; padding: 0 .6em; border: 0; }
    .facts thead { display: none; }
    .facts tbody th { font-weight: bold; }
    .numbers { font-size: .8em; }
    .numbers th, .numbers td { padding: .3em .2em; }
   }
"""
"""For light and dark, for screens and phones. `body` is a `message` (a few words, centred) or a `report`; a table is a
`listing`, `facts` (on a phone each row stands by itself), perhaps `wide` at its begin, or `numbers`.
"""

_PAGE = """\
<!DOCTYPE html>
<html lang="en">
 <head>
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1">
{head}  <title>{title}</title>
  <style>
{style}  </style>
 </head>
 <body class="{kind}">
  <h1>{title}</h1>
{body} </body>
</html>
"""

_ESCAPES = {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;", ord('"'): "&quot;", ord("'"): "&#x27;"}


def escape(text: str) -> str:
    """Make `text` fit for html content and quoted attributes.

    The module `html` of the standard library costs half a megabyte for its table of entities, which nobody needs here.
    """
    # Lone surrogates cannot be encoded, so they could not be sent either.
    return text.translate(_ESCAPES).encode("utf-8", "backslashreplace").decode("utf-8")


def document(title: str, body: str, kind: str = "message", *, refresh: int = 0) -> str:
    """A document with the style sheet; title and body are html. kind: see `STYLE`. refresh: seconds after which a
    browser loads the page again, 0: never.
    """
    head = f'  <meta http-equiv="refresh" content="{refresh}">\n' if refresh else ""
    return _PAGE.format(title=title, style=STYLE, body=body, kind=kind, head=head)
