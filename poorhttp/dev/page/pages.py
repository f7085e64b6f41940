"""The answer that describes a problem, as HTML, JSON (RFC 9457) or text, by what the client accepts.

Knows the environ of a request, and which clients may see details: those on this machine that asked for it by name. Does
not know where problems come from. Every text is escaped; the page runs no script and cannot be framed.
"""

from __future__ import annotations

import re
from json import dumps

from poorhttp.pages.accepted import kind_of
from poorhttp.pages.audience import may_see
from poorhttp.pages.document import FOR_AUTHOR, document, escape
from poorhttp.pages.redaction import HIDDEN, cut, is_secret, target_without_secrets, without_secrets
from poorhttp.stdlib import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from poorhttp.dev.page.problem import Problem

    Answer = tuple[str, list[tuple[str, str]], bytes]

_CONTROLS = re.compile("[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069]")

_SUMMARY = "The application failed; the error log says more."


def answer(problem: Problem, environ: dict[str, Any], status: str, refresh: int = 0, editor: str = "") -> Answer:
    """Status, header fields and body. refresh: seconds after which the page loads itself again, 0: never. editor: the
    URL that opens `{path}` at `{line}`, "" for no links.
    """
    visible = may_see(environ)
    kind = kind_of(environ.get("HTTP_ACCEPT", ""))
    if kind == "html":
        text = html(problem, environ, status, refresh, editor) if visible else _bare(status)
        body, content = _without_controls(text), "text/html; charset=utf-8"
    elif kind == "json":
        body, content = _json(problem, status, visible), "application/problem+json"
    else:
        text = text_of(problem) if visible else f"{status}\n{_SUMMARY}\n"
        body, content = _without_controls(text), "text/plain; charset=utf-8"
    data = body.encode("utf-8", "backslashreplace")
    fields = [("Content-Type", content), ("Content-Length", str(len(data))), *FOR_AUTHOR, ("Vary", "Accept")]
    if refresh:
        fields.append(("Retry-After", str(refresh)))
    return status, fields, data


def _without_controls(text: str) -> str:
    """Escape control characters, which a terminal obeys, and those that change the direction of writing."""
    return _CONTROLS.sub(lambda found: ascii(found[0])[1:-1], text)


def text_of(problem: Problem) -> str:
    """A problem as text, as in a terminal."""
    where = f"\n{problem['where']}" if problem["where"] else ""
    hint = f"\nhint: {problem['hint']}" if problem["hint"] else ""
    trace = problem["trace"].rstrip("\n")
    return f"{trace}\n{where}{hint}".rstrip("\n") + "\n"


def _json(problem: Problem, status: str, visible: bool) -> str:
    shown: dict[str, Any] = {"type": "about:blank", "title": status.partition(" ")[2], "status": int(status[:3])}
    shown["detail"] = problem["title"] if visible else _SUMMARY
    if visible:
        frames = [
            {name: frame[name] for name in ("file", "line", "name", "theirs")}
            for section in problem["sections"]
            for frame in section["frames"]
        ]
        shown |= {"where": problem["where"], "hint": problem["hint"], "traceback": problem["trace"], "frames": frames}
    return dumps(shown, indent=1) + "\n"


def _bare(status: str) -> str:
    return document(escape(status), f"<p>{escape(_SUMMARY)}</p>\n")


def html(problem: Problem, environ: dict[str, Any], status: str, refresh: int, editor: str) -> str:
    parts = [
        f"<p>{_place(problem['where'], problem['file'], editor)}</p>" if problem["where"] else "",
        f'<p class="faint">{escape(problem["hint"])}</p>' if problem["hint"] else "",
    ]
    for section in problem["sections"]:
        parts.append(f"<h2>{escape(section['heading'])}</h2>" if section["heading"] else "")
        parts += [_frame(frame, editor) for frame in section["frames"]]
        parts.append(f"<pre>{escape(section['text'])}</pre>")
    if problem["trace"] not in (problem["title"], *(section["text"] for section in problem["sections"])):
        trace = escape(problem["trace"])
        parts.append(f"<h2>As Python shows it</h2><details><summary>traceback</summary><pre>{trace}</pre></details>")
    parts.append(f'<h2>Request</h2>{_request(environ)}<p class="faint">{escape(status)}</p>\n')
    return document(escape(problem["title"]), "".join(parts), "report", refresh=refresh)


def _place(shown: str, file: str, editor: str) -> str:
    """A place in a file, with a link if the file exists. shown: path and `:line`."""
    code = f"<code>{escape(shown)}</code>"
    if not editor or not file or file.startswith("<"):
        return code
    from poorhttp.stdlib import urllib  # imported here as it makes the start longer

    try:
        path = urllib.parse.quote_from_bytes(os.fsencode(os.path.abspath(file)))
    except UnicodeEncodeError:
        return code
    if "//{path}" not in editor:
        editor = editor.replace("/{path}", "{path}")  # the path begins with a slash
    url = editor.replace("{path}", path).replace("{line}", shown.rpartition(":")[2])
    return f'<a href="{escape(url)}">{code}</a>'


def _frame(frame: dict[str, Any], editor: str) -> str:
    place = _place(f"{frame['file']}:{frame['line']}", frame["file"], editor)
    summary = f"<summary>{place} {escape(frame['name'])}</summary>"
    if not frame["theirs"]:
        return f"<details>{summary}<pre>{escape(frame['text'])}</pre></details>"
    lines = ""
    for number, text in frame["source"]:
        line = escape(f"{number:5} {text}")
        lines += f"<mark>{line}</mark>" if number == frame["line"] else f"{line}\n"
    known = f"<details><summary>variables</summary>{_table(frame['locals'])}</details>" if frame["locals"] else ""
    code = lines or escape(frame["text"])
    return f'<details class="own" open>{summary}<pre>{code}</pre>{known}</details>'


def _request(environ: dict[str, Any]) -> str:
    """Method, target and header fields; not the environment of the server."""
    target = str(environ.get("REQUEST_URI") or environ.get("PATH_INFO", ""))
    rows = [("", f"{environ.get('REQUEST_METHOD', '')} {target_without_secrets(target)}")]
    for name, value in sorted(environ.items()):
        if name.startswith("HTTP_") or name in ("CONTENT_TYPE", "CONTENT_LENGTH"):
            field = name.removeprefix("HTTP_").replace("_", "-").title()
            text = HIDDEN if is_secret(name) else without_secrets(str(value))
            rows.append((field, cut(text, 400)))
    return _table(rows)


def _table(rows: list[tuple[str, str]]) -> str:
    cells = "".join(
        f"<tr><th><code>{escape(name)}</code></th><td><code>{escape(value)}</code></td></tr>" for name, value in rows
    )
    return f'<table class="facts">{cells}</table>'
