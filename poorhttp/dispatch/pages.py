"""The default pages: small centred html that says what happened, to which URI, and whom to ask; under debug also why.
Programs that ask for JSON get it.

Knows the words for a status. Contract: every text that is passed in is escaped here, and the result can always be
encoded. Imported only for a request that gets such a page.
"""

from __future__ import annotations

import sys

from poorhttp.dispatch.error_log import summary, trace_of
from poorhttp.dispatch.reasons import status_line
from poorhttp.pages.accepted import kind_of
from poorhttp.pages.document import document, escape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from poorhttp.dispatch.request import Request
    from poorhttp.dispatch.site import Site

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

_TITLES = {404: "Page Not Found"}


def write_page(req: Request, site: Site) -> None:
    """Write the page for the status of the answer, under debug with the reason that the handler gave for it."""
    reason = req._reason_of_status()
    shown = reason if reason and may_see_details(req, site) else ""
    if req.status >= 400 and _wants_json(req):
        _write_problem(req, detail=shown)
    else:
        req.write(page(req.status, req.method, req.uri, site.webmaster_of(req.environ), shown))


def write_cause(req: Request, site: Site, error: Exception) -> None:
    """Write the page of an error, under debug with its cause. A server's own page knows which clients may see that."""
    if not site.is_debugging(req.environ):
        write_page(req, site)
        return
    make = req.environ.get("poorhttp.error_page")  # of a server that has a better one
    if make is not None:
        fields, body = make(error, status_line(req.status))
        req.content_type = fields.pop("Content-Type")
        for name, value in fields.items():
            req.headers_out[name] = value
        req.write(body)
    elif _wants_json(req):
        _write_problem(req, detail=summary(error), traceback=trace_of(error))
    else:
        from poorhttp import __version__

        versions = (f"Poor Http / {__version__}", f"Python / {sys.version.split()[0]}")
        req.write(traceback_page(req.status, req.uri, trace_of(error), versions, site.webmaster_of(req.environ)))


def may_see_details(req: Request, site: Site) -> bool:
    """Whether this client gets what is for the author: under debug, and where the server shows its own error pages to
    clients on this machine alone, only these.
    """
    if not site.is_debugging(req.environ):
        return False
    if "poorhttp.error_page" not in req.environ:
        return True
    from poorhttp.pages.audience import may_see

    return may_see(req.environ)


def _wants_json(req: Request) -> bool:
    """Whether the client asks for JSON and not for html. Caches are told that the page depends on it."""
    known = [value for name, value in req.err_headers_out.items() if name.lower() == "vary"]
    req.headers_out["Vary"] = ", ".join([*known, "Accept"])
    return kind_of(req.environ.get("HTTP_ACCEPT", "")) == "json"


def _write_problem(req: Request, **members: str) -> None:
    """Write the page as JSON (RFC 9457): without a `type` it is about:blank, a status and nothing more."""
    from json import dumps

    problem: dict[str, Any] = {"title": status_line(req.status)[4:], "status": req.status}
    problem |= {name: text for name, text in members.items() if text}
    req.content_type = "application/problem+json"
    req.write(dumps(problem, indent=1) + "\n")


def page(status: int, method: str, uri: str, webmaster: str, reason: str = "") -> str:
    """The page for `status`. reason: what the handler says about it, "" for nothing."""
    text = _TEXTS.get(status, "The request for <code>{uri}</code> gave this answer.")
    told = text.format(uri=escape(uri), method=escape(method))
    detail = f'  <p class="reason">{escape(reason)}</p>\n' if reason else ""
    return _page(status, told, detail, _foot(webmaster))


def traceback_page(status: int, uri: str, trace: str, versions: Iterable[str], webmaster: str) -> str:
    """The page of an error for the author of the application: the traceback in striped lines."""
    lines = "".join(f"<pre>{escape(line)}</pre>\n" for line in trace.splitlines())
    detail = f"  <h2>Exception Traceback</h2>\n<div>\n{lines}</div>\n"
    return _page(status, _TEXTS[500].format(uri=escape(uri)), detail, _foot(webmaster, *versions))


def _foot(webmaster: str, *versions: str) -> str:
    return ", ".join([*versions, *([f"webmaster: {webmaster}"] if webmaster else [])])


def _page(status: int, text: str, detail: str, foot: str) -> str:
    """text, detail: html. foot: text."""
    body = f"  <p>{text}</p>\n{detail}"
    if foot:
        body += f"  <hr>\n  <small>{escape(foot)}</small>\n"
    return document(escape(_title(status)), body)


def _title(status: int) -> str:
    return f"{status} - {_TITLES.get(status) or status_line(status)[4:]}"
