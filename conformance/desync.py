"""The YAML cases of http_desync_guardian: heads that servers disagree about, in four tiers. Needs PyYAML.

A head that is framed as RFC 9112 has it gets the body that it announces, so that it can be accepted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from conformance.case import Case, End, request
from conformance.download import GUARDIAN, Unavailable, crate

# "Acceptable" and "Ambiguous" say themselves that a request may be refused, or be served with care.
ENDS: dict[str, End] = {"Compliant": "nothing", "Acceptable": "either", "Ambiguous": "either", "Severe": "refused"}


def cases() -> Iterator[Case]:
    try:
        import yaml
    except ImportError as error:
        raise Unavailable("PyYAML is not installed: pip install pyyaml") from error
    for path in sorted(crate(GUARDIAN, "tests").glob("*.yaml")):
        # The base loader leaves scalars as they are written: 012 and 1_000 are values to test, not numbers.
        for told in yaml.load(path.read_text(encoding="utf-8"), yaml.BaseLoader):
            yield case(f"{path.stem}: {told['name']}", told)


def case(name: str, told: dict[str, Any]) -> Case:
    fields = [(wire(field["name"]), wire(field["value"])) for field in told["headers"] or []]
    expected = told["expected"]
    body, framed = body_of(fields)
    target = wire(told["uri"])
    line = " ".join(filter(None, (told["method"], target, told["version"])))
    raw = "".join([f"{line}\r\n", *(f"{name}: {value}\r\n" for name, value in fields), "\r\n", framed])
    end = ENDS[expected["tier"]]
    stripped = [(name, value.strip(" \t")) for name, value in fields]
    requests = (request(told["method"], target, body, stripped),) if end == "nothing" else ()
    return Case("desync", name, raw.encode("latin-1"), requests, end, note=f"{expected['tier']}: {expected['reason']}")


def wire(text: str) -> str:
    """The suite encodes as UTF-8; here a character is a byte."""
    return text.encode().decode("latin-1")


def body_of(fields: list[tuple[str, str]]) -> tuple[str, str]:
    """The body that a head announces, and its bytes on the wire."""
    told = {name.lower(): value.strip(" \t") for name, value in fields}
    if told.get("transfer-encoding", "").lower() == "chunked":
        return "hello", "5\r\nhello\r\n0\r\n\r\n"
    length = told.get("content-length", "")
    body = "x" * int(length) if length.isascii() and length.isdigit() and len(length) < 8 else ""
    return body, body
