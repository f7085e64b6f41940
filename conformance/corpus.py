"""Our own tests/corpus: what its README says, as cases. It holds poorhttp's policy, stricter than others must be."""

from __future__ import annotations

import json
from collections.abc import Iterator

from conformance.case import Case, Request
from conformance.download import HERE

CORPUS = HERE.parent / "tests" / "corpus"


def cases() -> Iterator[Case]:
    for path in sorted(CORPUS.glob("valid/*.http")):
        told = json.loads(path.with_suffix(".json").read_text())
        requests = tuple(
            Request(
                one["method"],
                one["path"],
                one["query"],
                one["body"],
                tuple(map(tuple, one["fields"])),
                one.get("host"),
                one.get("answered_by_server", False),
            )
            for one in told["requests"]
        )
        yield Case("corpus", f"valid/{path.stem}", path.read_bytes(), requests, "nothing", note=told["why"])
    for path in sorted(CORPUS.glob("invalid/*.http")):
        told = json.loads(path.with_suffix(".json").read_text())
        first = (None,) * told.get("after", 0)
        yield Case("corpus", f"invalid/{path.stem}", path.read_bytes(), first, "refused", told["status"], told["why"])
