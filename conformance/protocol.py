"""Our protocol without sockets: the example `verdicts`, which takes bytes and tells what a server would make of them.

It feeds each case whole, byte by byte, in lines, and in two parts, and tells where the way of cutting made a
difference. Cases up to 7 KB are cut in two at every place, longer ones near each CR, LF and limit, and evenly between
(tests/seen/mod.rs).
"""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote_to_bytes

from conformance.case import Case
from conformance.download import HERE
from conformance.talk import Answer, Exchange

COMMAND = ("cargo", "run", "--quiet", "--release", "--no-default-features", "--example", "verdicts")
Ask = Callable[[Case], tuple[Exchange, str]]


@contextlib.contextmanager
def running() -> Iterator[Ask]:
    """A function that tells of a case what would be exchanged, and how it must not be cut: "" where all is the same."""
    with subprocess.Popen(COMMAND, cwd=HERE.parent, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin and process.stdout
        stdin, stdout = process.stdin, process.stdout

        def ask(case: Case) -> tuple[Exchange, str]:
            stdin.write(len(case.raw).to_bytes(4, "little") + case.raw)
            stdin.flush()
            line = stdout.readline()
            if not line:
                raise RuntimeError(f"`{' '.join(COMMAND)}` ended at {case.name}")
            verdict = json.loads(line)
            differs = verdict["differs"]
            return as_exchange(verdict), "" if differs is None else f"cut {differs}"

        try:
            yield ask
        finally:
            stdin.close()


def as_exchange(verdict: dict[str, Any]) -> Exchange:
    answers = [Answer(200, as_seen(request), not request["persistent"]) for request in verdict["requests"]]
    refused = verdict["refused"]
    if refused:
        answers.append(Answer(refused, None, True))
    return Exchange(tuple(answers), closed=bool(answers and answers[-1].closes))


def as_seen(request: dict[str, Any]) -> dict[str, Any] | None:
    """What the application would see."""
    if request["answered_by_server"]:
        return None
    target, _, _ = request["target"].partition("?")
    if not target.startswith("/"):
        target = "/" + target.partition("://")[2].partition("/")[2]
    fields: dict[str, str] = {}
    for name, value in request["fields"]:
        variable = name.upper().replace("-", "_")
        variable = variable if variable in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{variable}"
        fields[variable] = f"{fields[variable]},{value}" if variable in fields else value
    if request["host"] is not None:
        fields["HTTP_HOST"] = request["host"]
    path = unquote_to_bytes(target.encode("latin-1")).decode("latin-1")
    return {
        "method": request["method"],
        "path": path,
        "query": request["query"],
        "fields": fields,
        "body": request["body"],
    }
