"""A dispatch table as a user with a strict type checker writes it: not run, but checked (test_typed.py)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import poorhttp.dispatch
from poorhttp import http
from poorhttp.dispatch import Request, Table
from poorhttp.sessions import Sessions

table = Table()
sessions = Sessions("memory:", idle=3600, same_site="Strict")


@table.route("/", http.METHOD_GET)
def index(req: Request) -> str:
    req.content_type = "text/plain"
    req.set_cookie("seen", "1", max_age=60)
    name: str = req.args.get("name", "world")
    return f"Hello, {name} from {req.remote_host}, {req.url_for('item', number=7)}"


@table.route("/item/<int:number>", http.METHOD_GET | http.METHOD_HEAD)
def item(req: Request, number: int) -> dict[str, Any]:
    if number > 9:
        http.abort(http.HTTP_NOT_FOUND, "there are nine")
    return {"number": number, "accept": req.headers_in.get("Accept", "")}


@table.route("/upload", http.METHOD_POST)
def upload(req: Request) -> http.Response:
    file = req.files["file"]
    file.save("/tmp/upload")
    size: int = len(file.value)
    return http.Response({"name": file.filename, "type": file.type, "size": size}, http.HTTP_CREATED)


@table.route("/slow")
def slow(req: Request) -> Iterator[str]:
    req.log_error("slow", http.LOG_INFO)
    yield "one"
    yield "two"


@table.route("/visits")
def visits(req: Request) -> str:
    session = req.session
    session["visits"] = session.get("visits", 0) + 1
    return f"{session['visits']}"


def old(req: Request) -> None:
    http.redirect(req, "/", permanent=True)


def low_level(req: Request) -> int:
    req.headers_out["X-Own"] = "1"
    req.write("text")
    return http.DONE


def missing(req: Request) -> str:
    return f"no {req.uri}: {req.reason}"


handlers = {"/old": (http.METHOD_GET, old), "/low": (http.METHOD_GET_POST, low_level)}
errors = {http.HTTP_NOT_FOUND: missing}
application = poorhttp.dispatch.application(table)
