"""gunicorn's tests/requests: `NAME.http` in an escaped form, and beside it a Python file with what its parser gives.

The Python is read, not run: an assignment `request = ...` holds dicts of literals, or the name of an exception.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from conformance.case import Case, End, Request, request, with_host
from conformance.download import GUNICORN, sdist

ESCAPES = {rb"\r\n": b"\r\n", rb"\0": b"\0", rb"\n": b"\n", rb"\t": b"\t"}
INCOMPLETE = {"NoMoreData", "ChunkMissingTerminator"}  # known only when the client says no more


# Settings of gunicorn that poorhttp has too, and the options that say the same. Any other is its own: its cases are
# served as everybody's defaults have it, and deviations.py tells why.
SETTINGS = {
    "proxy_protocol": ("--proxy-protocol",),
    "limit_request_fields": ("--max-fields", "2"),  # as in the one case that sets it
}


def cases() -> Iterator[Case]:
    """All cases but those of `settled`."""
    return (case for case in all_cases() if not case.settings)


def settled() -> list[Case]:
    """The cases of a setting that poorhttp has too; they say nothing of a server without it."""
    return [with_host(case) for case in all_cases() if case.settings]


def preface(settings: tuple[str, ...]) -> bytes:
    """What a connection that belongs to no case begins with."""
    return b"PROXY UNKNOWN\r\n" if "--proxy-protocol" in settings else b""


def all_cases() -> Iterator[Case]:
    for path in sorted(sdist(GUNICORN, "tests/requests").glob("*/*.http")):
        source = path.with_suffix(".py").read_text(encoding="utf-8")
        settings = re.findall(r"""cfg\.set\(\s*["'](\w+)""", source)
        options = tuple(option for name in settings for option in SETTINGS.get(name, ()))
        name = f"{path.parent.name}/{path.stem}"
        expected = told(source)
        note = f"with gunicorn's {', '.join(settings)}" if settings else ""
        requests: tuple[Request, ...] = ()
        end: End = "nothing"
        if isinstance(expected, str):
            end, note = "incomplete" if expected in INCOMPLETE else "refused", expected
        elif any(is_short(one) for one in expected):
            end, note = "incomplete", "its parser gives a body in part"
        else:
            requests = tuple(map(facts, expected))
        status = 431 if options and expected == "LimitRequestHeaders" else None
        yield Case("gunicorn", name, unescape(path), requests, end, status, note, options)


def unescape(path: Path) -> bytes:
    r"""The bytes meant by a file: line ends mean nothing, `\r\n`, `\n`, `\t`, `\0` and `\xHH` are the bytes."""
    text = path.read_bytes().replace(b"\n", b"")

    def meant(match: re.Match[bytes]) -> bytes:
        return bytes([int(match[1], 16)]) if match[1] else ESCAPES[match[0]]

    return re.sub(rb"\\r\\n|\\[0nt]|\\x([0-9A-Fa-f]{2})", meant, text)


def is_short(expected: dict[str, Any]) -> bool:
    """The head announces more than the case holds."""
    return any(name == "CONTENT-LENGTH" and int(length) > len(expected["body"]) for name, length in expected["headers"])


def facts(expected: dict[str, Any]) -> Request:
    body = expected["body"]  # b"..." and, in one file, "..."
    decoded = body.decode("latin-1") if isinstance(body, bytes) else body
    return request(expected["method"], expected["uri"], decoded, [tuple(field) for field in expected["headers"]])


def told(source: str) -> Any:
    """The value of `request`: a list of dicts, or the name of an exception."""
    names: dict[str, Any] = {}
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            names[statement.targets[0].id] = value(statement.value, names)
    expected = names["request"]
    return [expected] if isinstance(expected, dict) else expected


def value(node: ast.expr, names: dict[str, Any]) -> Any:
    """The value of an expression of these files: literals, names, `uri(text)`, and methods of text."""
    match node:
        case ast.Dict():
            pairs = zip(node.keys, node.values, strict=True)
            return {value(key, names): value(item, names) for key, item in pairs if key}
        case ast.List() | ast.Tuple():
            return [value(item, names) for item in node.elts]
        case ast.Name():
            return names.get(node.id, node.id)
        case ast.Call(func=ast.Name(id="uri"), args=[target]):
            return value(target, names)
        case ast.Call(func=ast.Attribute(attr="replace" | "encode" | "decode" as method, value=text), args=arguments):
            return getattr(value(text, names), method)(*(value(argument, names) for argument in arguments))
        case ast.Call():
            return None  # Config(): whatever is set on it is read by its text
        case _:
            return ast.literal_eval(node)
