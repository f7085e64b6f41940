"""The status page: a WSGI application that the engine calls in place of the application (`status_path`).

Knows which kind of answer a client wants. Does not know what is in it (`poorhttp.status.render`).
"""

from __future__ import annotations

from poorhttp.status import reader, render
from poorhttp.stdlib import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

HTML, JSON, PROMETHEUS = "text/html; charset=utf-8", "application/json", "text/plain; version=0.0.4; charset=utf-8"


def answer(descriptor: int, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Answer with what the server of this scoreboard does, in the format that the client asks for."""
    if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
        return _send(start_response, "405 Method Not Allowed", HTML, "", ("Allow", "GET, HEAD"))
    told = reader.read_scoreboard(descriptor, os.getpid())
    if told is None:
        return _send(start_response, "503 Service Unavailable", "text/plain", "the scoreboard cannot be read\n")
    kind = wanted(environ["PATH_INFO"], environ["QUERY_STRING"], environ.get("HTTP_ACCEPT", ""))
    show = {HTML: render.html, JSON: render.json, PROMETHEUS: render.prometheus}[kind]
    return _send(start_response, "200 OK", kind, show(told))


def wanted(path: str, query: str, accept: str) -> str:
    """The media type of the answer: HTML if a browser asks, Prometheus by name, else JSON."""
    if query == "prometheus" or path.endswith("/metrics"):
        return PROMETHEUS
    if query != "json" and "text/html" in accept and "application/json" not in accept:
        return HTML
    return JSON


def _send(start_response: Callable[..., Any], status: str, kind: str, body: str, *more: tuple[str, str]) -> list[bytes]:
    data = body.encode("ascii", "xmlcharrefreplace" if kind == HTML else "backslashreplace")
    policy = ("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
    fields = [("Content-Type", kind), ("Content-Length", str(len(data))), ("Cache-Control", "no-store"), policy]
    start_response(status, [*fields, ("Vary", "Accept"), ("X-Content-Type-Options", "nosniff"), *more])
    return [data]
