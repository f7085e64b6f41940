"""Any stream of bytes means the same however it is cut: mutated requests, whole and in pieces, get the same answers.

Knows the corpus as raw material; judges nothing but sameness, and that no answer is a 500 and no process ends.
"""

from __future__ import annotations

import contextlib
import random
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

CORPUS = Path(__file__).parents[1] / "corpus"
RAW = [raw for path in sorted(CORPUS.glob("*/*.http")) if 0 < len(raw := path.read_bytes()) < 2000]
SPICE = [
    b"\r\n",
    b"\n",
    b"\r",
    b"\0",
    b" ",
    b"\t",
    b":",
    b"0",
    b"\xff",
    b"\r\n\r\n",
    b"Host: a\r\n",
    b";",
    b"chunked",
    b"GET ",
]


def mutated(chance: random.Random) -> bytes:
    """One or two requests of the corpus with a few bytes changed, removed, doubled or put in."""
    raw = bytearray(b"".join(chance.choices(RAW, k=chance.choice([1, 1, 2]))))
    for _ in range(chance.choice([0, 1, 1, 2, 3])):
        at = chance.randrange(len(raw) + 1)
        kind = chance.randrange(4)
        if kind == 0:
            raw[at:at] = chance.choice(SPICE)
        elif kind == 1:
            del raw[at : at + chance.randrange(1, 4)]
        elif kind == 2:
            raw[at:at] = raw[at : at + chance.randrange(1, 30)]
        else:
            raw[at : at + 1] = bytes([chance.randrange(256)])
    return bytes(raw)


def answers(server: Any, pieces: list[bytes]) -> bytes:
    """All that the server says, without dates, interim responses and the words of a refusal.

    The words may differ: what is wrong with a line is known better when all of it is there.
    """
    with server.connect() as client:
        client.send_split(*pieces)
        with contextlib.suppress(OSError):  # the server may have closed already
            client.half_close()
        said = client.rest_or_reset()
    said = said.replace(b"HTTP/1.1 100 Continue\r\n\r\n", b"")
    said = re.sub(rb"(HTTP/1\.1 [45]\d\d [^\r]*\r\n).*", rb"\1", said, flags=re.DOTALL)
    return re.sub(rb"\r\nDate: [^\r]*", b"", said)


@pytest.mark.parametrize("first", range(0, 400, 50))
def test_the_same_answers_however_it_is_cut(serve: Any, first: int) -> None:
    server = serve("def application(environ, start_response):\n" + APP)
    for seed in range(first, first + 50):
        print(seed)  # what a failure shows last
        chance = random.Random(seed)
        raw = mutated(chance)
        whole = answers(server, [raw])
        assert b"HTTP/1.1 500" not in whole
        assert answers(server, [raw[i : i + 1] for i in range(len(raw))]) == whole
        cuts = sorted({0, len(raw), *(chance.randrange(len(raw) + 1) for _ in range(5))})
        assert answers(server, [raw[a:b] for a, b in pairwise(cuts)]) == whole


APP = """
    body = environ["wsgi.input"].read()
    parts = [environ["REQUEST_METHOD"], environ["PATH_INFO"], environ["QUERY_STRING"], environ.get("HTTP_HOST", "")]
    answer = ("|".join(parts) + "|").encode("latin-1") + body
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(answer)))])
    return [answer]
"""
