"""llhttp's Markdown cases: a block `http` with the bytes, and a block `log` with the events of its parser.

Spans in a log have offset and length, so their bytes are taken from the input itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from conformance.case import Case, End, Request, request
from conformance.download import AIOHTTP, sdist

EVENT = re.compile(r"off=(\d+) (?:len=(\d+) span\[(\w+)\]=.*|error code=(\d+) reason=\"(.*)\"|(.+))")
# Not refusals: it stops where an upgrade or a tunnel begins, and ignores what follows `Connection: close`.
UPGRADE, AFTER_CLOSE = "22", "5"
HTTP2_PREFACE = "23"


@dataclass
class Message:
    """What the events told of one message so far."""

    spans: dict[str, bytes] = field(default_factory=dict)
    fields: list[tuple[str, str]] = field(default_factory=list)
    in_head: bool = True


def cases() -> Iterator[Case]:
    """The requests in strict mode, without those that pause the parser or leave out bodies through its interface."""
    for path in sorted(sdist(AIOHTTP, "vendor/llhttp/test/request").glob("*.md")):
        for name, meta, block, log in tests(path.read_text(encoding="utf-8")):
            if meta["type"] in ("request", "request-finish") and not meta.keys() & {"pause", "skipBody"}:
                yield from case(f"{path.stem}: {name}", unescape(block), log)


def tests(text: str) -> Iterator[tuple[str, dict[str, Any], str, str]]:
    """Heading, settings, and the blocks `http` and `log` of each test of a file."""
    meta: dict[str, Any] = {}
    blocks: dict[str, str] = {}
    name = block = ""
    for line in text.splitlines(keepends=True):
        if block and not line.startswith("```"):
            blocks[block] += line
        elif block:
            if block == "log":
                yield name, meta, blocks["http"], blocks["log"]
            block = ""
        elif line.startswith("```"):
            block = line.strip("`\n")
            blocks[block] = ""
        elif line.startswith("#"):
            name = line.strip("# \n")
        elif line.startswith("<!-- meta="):
            meta = json.loads(line.strip().removeprefix("<!-- meta=").removesuffix("-->"))


def unescape(text: str) -> bytes:
    """The bytes meant by a block: lines end with CRLF, `\\` joins lines; escapes are those of JavaScript."""
    text = re.sub(r"\\\n", "", text.removesuffix("\n")).replace("\n", "\r\n")
    for short, meant in {"r": "\r", "n": "\n", "t": "\t", "f": "\f"}.items():
        text = text.replace(f"\\{short}", meant)
    text = re.sub(r"\\x([0-9a-fA-F]+)", lambda match: chr(int(match[1], 16)), text)
    return re.sub(r"\\([0-7]{1,3})", lambda match: chr(int(match[1], 8)), text).encode()


def case(name: str, raw: bytes, log: str) -> Iterator[Case]:
    requests: list[Request] = []
    message, complete, error, reason = Message(), True, "", ""
    for line in log.splitlines():
        event = EVENT.fullmatch(line)
        if not event:
            continue
        offset, length, span, code, words, what = event.groups()
        if span:
            message.spans[span] = message.spans.get(span, b"") + raw[int(offset) : int(offset) + int(length)]
        elif code:
            error, reason = code, words
            raw = raw[: int(offset)] if code == UPGRADE else raw
        elif what == "message begin":
            message, complete = Message(), False
        elif what == "header_value complete" and message.in_head:
            message.fields.append((taken(message, "header_field"), taken(message, "header_value").strip(" \t")))
        elif what.startswith("headers complete"):
            message.in_head = False
        elif what == "message complete":
            body = taken(message, "body")
            requests.append(request(taken(message, "method"), taken(message, "url"), body, message.fields))
            complete = True
    if error == HTTP2_PREFACE:
        return
    refused = error not in ("", UPGRADE, AFTER_CLOSE)
    end: End = "refused" if refused else "nothing" if complete else "incomplete"
    yield Case("llhttp", name, raw, tuple(requests), end, note=reason)


def taken(message: Message, span: str) -> str:
    return message.spans.pop(span, b"").decode("latin-1")
