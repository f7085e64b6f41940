"""The page /debug-info: the table as the dispatcher has read it, and what it knows of the server and of the request.

Knows html. The dispatcher knows which clients get it. Contract: every text is escaped; values whose names look
like those of secrets are hidden, wherever they stand; objects of the application are shown by their types alone.
Imported only when somebody asks for it.
"""

from __future__ import annotations

import os
import sys

from poorhttp import __version__
from poorhttp.dispatch.converters import BUILT_IN
from poorhttp.dispatch.error_log import printable
from poorhttp.dispatch.percent import NAME, encoded
from poorhttp.dispatch.places import place_of, unwrapped
from poorhttp.pages.document import FOR_AUTHOR, document, escape
from poorhttp.pages.redaction import HIDDEN, cut, is_secret, target_without_secrets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from poorhttp.dispatch.request import Request
    from poorhttp.dispatch.routes import Handler, Methods
    from poorhttp.dispatch.site import Site

LONGEST = 1000
"""Characters of a value."""

_PLAIN = (bool, int, float, type(None))


def write(req: Request, site: Site) -> None:
    """Write the page."""
    environ = req.environ
    sections = [
        ("Table", _routes(req, site)),
        ("Functions", _functions(site)),
        ("Converters", _converters(site)),
        ("Files", _pairs(_files(req, site))),
        ("Sessions", _pairs(_sessions(site))),
        ("Versions", _pairs(_versions(environ))),
        ("Settings", _pairs(_settings(req, site))),
        ("Options", _values(req.get_options())),
        ("Headers", _values(dict(req.headers_in.items()))),
        ("Environ", _values({name: value for name, value in environ.items() if name != "poorhttp.options"})),
    ]
    body = "".join(f"  <h2>{heading}</h2>\n{content}" for heading, content in sections)
    req.set_defaults(FOR_AUTHOR)
    req.write(document("Debug info", body, "report"))


def _routes(req: Request, site: Site) -> str:
    mount: str = req.environ.get("SCRIPT_NAME", "").rstrip("/")
    rows = []
    for pattern, methods in site.routes.in_order():
        for function, names in _by_function(methods):
            shown = _code(pattern.text)
            if "GET" in names and not pattern.names and not pattern.text.startswith("//"):  # which would name a host
                address = encoded(mount.encode("latin-1") + pattern.text.encode("utf-8", "surrogateescape"), NAME)
                shown = f'<a href="{address}">{shown}</a>'
            rows.append((shown, ", ".join(names), _function(function)))
    if not rows:
        return _nothing("The table is empty.")
    return _table(("Path", "Methods", "Function"), rows)


def _by_function(methods: Methods) -> list[tuple[Handler, list[str]]]:
    """The functions of an entry, each with its methods; without the one that answers OPTIONS by itself."""
    found: list[tuple[Handler, list[str]]] = []
    for method, function in methods.items():
        if getattr(function, "__module__", None) == "poorhttp.dispatch.table":
            continue
        known = next((names for each, names in found if each is function), None)
        if known is None:
            found.append((function, [method]))
        else:
            known.append(method)
    return found


def _functions(site: Site) -> str:
    """Hooks, and the functions for errors."""
    rows = [(_code(name), _function(function)) for name, function in site.hooks.items()]
    for status, function in sorted(site.errors.items()):
        rows.append((_code(f"errors[{status}]"), _function(function)))
    return _table(("Called for", "Function"), rows) if rows else _nothing("No hooks and no error functions.")


def _converters(site: Site) -> str:
    rows = [
        (_code(f":{name}"), _code(expression), _function(function))
        for name, (expression, function) in site.converters.items()
    ]
    built_in = ", ".join(f":{name}" for name in BUILT_IN)
    own = _table(("Name", "Expression", "Function"), rows) if rows else ""
    return own + _nothing(f"Built in: {built_in}, :re:...:")


def _files(req: Request, site: Site) -> dict[str, str]:
    if site.files is None:
        return {"document": "none", "DOCUMENT_ROOT of the server": req.document_root() or "none"}
    return {"document": _readable(site.files.root), "index": "yes" if site.files.is_listed else "no"}


def _sessions(site: Site) -> Mapping[str, str]:
    if site.sessions is None:
        return {"sessions": "none"}
    facts = getattr(site.sessions, "facts", None)
    return {"sessions": type(site.sessions).__name__} if facts is None else facts()


def _versions(environ: dict[str, Any]) -> dict[str, str]:
    return {
        "poorhttp": __version__,
        "Python": sys.version,
        "server": str(environ.get("SERVER_SOFTWARE", "does not say")),
    }


def _settings(req: Request, site: Site) -> dict[str, str]:
    return {
        "webmaster": site.webmaster_of(req.environ) or "none",
        "buffer_limit": f"{site.buffer_limit} bytes",
        "log_level": str(req.environ.get("poorhttp.log_level", "info")),
        "process": f"{os.getpid()}, with {os.cpu_count()} processors",
        "user": f"{os.geteuid()}, group {os.getegid()}",
        "directory": os.getcwd(),
    }


def _function(function: Any) -> str:
    """Its name with the module, and the place of its code; of a function in a wrapper, not those of the wrapper."""
    inner = unwrapped(function)
    named = inner if hasattr(inner, "__qualname__") else type(inner)
    module = getattr(named, "__module__", None)  # a method of C, such as str.upper, has none
    name = _code(f"{module}.{named.__qualname__}" if module else named.__qualname__)
    place = place_of(inner).removeprefix(os.path.join(os.getcwd(), ""))
    return f"{name} <small>{_code(printable(place))}</small>" if place else name


def _values(values: Mapping[str, Any]) -> str:
    """Names with values, of which secrets are hidden."""
    return _pairs({name: _shown(name, values[name]) for name in sorted(values)})


def _shown(name: str, value: Any) -> str:
    if is_secret(name):
        return HIDDEN
    if type(value) is str:
        # With its question mark it is recognized as a query.
        text = target_without_secrets(f"?{value}")[1:] if name == "QUERY_STRING" else target_without_secrets(value)
        return cut(_readable(text), LONGEST)
    if type(value) in _PLAIN or (type(value) is tuple and all(type(each) in _PLAIN for each in value)):
        return repr(value)
    return f"<{type(value).__module__}.{type(value).__qualname__}>"


def _readable(text: str) -> str:
    """A text of the environ, whose bytes stand as Latin-1 (PEP 3333), as a person reads it."""
    try:
        return printable(text.encode("latin-1").decode())
    except UnicodeError:  # it is no UTF-8, or text already
        return printable(text)


def _pairs(values: Mapping[str, str]) -> str:
    if not values:
        return _nothing("None.")
    rows = "".join(
        f'    <tr><th scope="row">{_code(printable(name))}</th><td>{_code(value)}</td></tr>\n'
        for name, value in values.items()
    )
    return f'  <table class="facts">\n   <tbody>\n{rows}   </tbody>\n  </table>\n'


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """rows: cells as html."""
    head = "".join(f'<th scope="col">{each}</th>' for each in heads)
    lines = "".join(
        f'    <tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in others)}</tr>\n'
        for first, *others in rows
    )
    return (
        f'  <table class="facts wide">\n   <thead><tr>{head}</tr></thead>\n   <tbody>\n{lines}   </tbody>\n  </table>\n'
    )


def _code(text: str) -> str:
    return f"<code>{escape(text)}</code>"


def _nothing(text: str) -> str:
    return f'  <p class="faint">{escape(text)}</p>\n'
