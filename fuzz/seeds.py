"""Makes the seeds of the fuzz targets out of the corpus of the tests.

Knows the layout of the corpus (tests/corpus/README.md) and of the inputs (src/observe.rs, targets/response.rs). What is
in the folder already, as libFuzzer keeps there what it finds, stays.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

HERE = Path(__file__).parent
CORPUS = HERE.parent / "tests" / "corpus"
LIMITS = (b"0", b"1")  # the defaults, and tight ones
LONGEST = 20_000  # bytes; what is longer slows the fuzzer down and shows nothing new


def main(folder: Path) -> None:
    """Write one file for each seed to FOLDER/TARGET, named after its content."""
    requests = [path.read_bytes() for path in sorted(CORPUS.glob("*/*.http"))]
    bodies = [body for request in requests if b"hunked" in request for body in [request.partition(b"\r\n\r\n")[2]]]
    for target, seeds in {
        "head": [limits + request for request in requests for limits in LIMITS],
        "protocol": [limits + request for request in requests for limits in LIMITS],
        "body": [limits + body for body in bodies if body for limits in LIMITS],
        "response": responses(),
    }.items():
        (folder / target).mkdir(parents=True, exist_ok=True)
        short = [seed for seed in seeds if len(seed) <= LONGEST]
        for seed in short:
            (folder / target / hashlib.sha1(seed, usedforsecurity=False).hexdigest()).write_bytes(seed)


def responses() -> list[bytes]:
    """The fields and the body of each valid request as those of an answer, in several circumstances."""
    made = []
    for path in sorted((CORPUS / "valid").glob("*.json")):
        for request in json.loads(path.read_text(encoding="ascii"))["requests"]:
            fields = ["\x1f".join(field) for field in request["fields"]]
            for flags, status in (("\0", "200 OK"), ("\x0c", "404 Not Found"), ("\x01", "304 "), ("\x0e", "204")):
                text = flags + "\x1e".join([status, *fields]) + "\x1d" + request["body"].replace("\n", "\x1e")
                made.append(text.encode("latin-1"))
    return made
