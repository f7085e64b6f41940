"""Many requests, in order and broken, mean the same to us, to h11 and to llhttp, or the difference is explained.

Knows conformance/differential.py; `make fuzz` runs a million. Here a fixed seed, and one from POORHTTP_FUZZ_SEED or from
the clock, which a failure names.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
CASES = 10_000  # of each seed; about two and a half seconds
BUILD = ["cargo", "build", "--quiet", "--release", "--no-default-features", "--example", "verdicts"]


@pytest.fixture(scope="module")
def fuzzer() -> Any:
    """conformance/differential.py, with the engine built as it is now."""
    for name in ("h11", "httptools"):
        pytest.importorskip(name, reason=f"{name} is the oracle: pip install -e '.[fuzz]'")
    if shutil.which("cargo") is None:
        pytest.skip("the engine cannot be asked without cargo: " + " ".join(BUILD))
    subprocess.run(BUILD, cwd=ROOT, check=True, timeout=280)
    from conformance import differential

    return differential


def seeds() -> list[int]:
    return [1, int(os.environ.get("POORHTTP_FUZZ_SEED") or time.time_ns() // 1_000_000)]


@pytest.mark.timeout(300)  # the first one builds
@pytest.mark.parametrize("which", [0, 1], ids=["fixed", "fresh"])
def test_every_difference_is_explained(fuzzer: Any, which: int) -> None:
    seed = seeds()[which]
    print(f"POORHTTP_FUZZ_SEED={seed}")
    counts, failures = fuzzer.run(seed, CASES)
    assert failures == [], f"{len(failures)} with seed {seed}:\n" + "\n".join(failures[:5])
    assert counts["requests that we take"] > CASES / 2, "enough of them are in order"
    assert counts["cases that we refuse"] > CASES / 4, "enough of them are broken"


def test_a_case_is_made_from_its_seed_and_number(fuzzer: Any) -> None:
    assert fuzzer.case_of(5, 7) == fuzzer.case_of(5, 7)
    assert len({fuzzer.case_of(5, number) for number in range(100)}) > 90


def test_what_is_read_otherwise_is_told_and_never_explained(fuzzer: Any) -> None:
    """The judge itself: each way in which two readings can differ has its name."""
    reading, request = fuzzer.Reading, fuzzer.Request
    one = request("GET", "/", "", (("host", "a"),))
    cases = {
        None: (reading([one], "open"), reading([one], "open")),
        "other": (reading([one], "open"), reading([one._replace(body="x")], "open")),
        "fields": (reading([one], "open"), reading([one._replace(fields=())], "open")),
        "stricter": (reading([], "refused", "400"), reading([one], "open")),
        "laxer": (reading([one], "open"), reading([], "refused", "of their own")),
        "persistence": (reading([one], "closed"), reading([one, one], "open")),
    }
    for kind, (our, their) in cases.items():
        assert fuzzer.difference(our, their) == kind
    waiting = (reading([one, one], "open"), reading([one], "open"))
    assert fuzzer.difference(*waiting) == fuzzer.difference(*waiting[::-1]) == "other", "one waits inside a body"
    assert fuzzer.difference(*cases["stricter"][::-1]) == "laxer"
    for kind in ("other", "fields"):
        assert not [known for known in fuzzer.KNOWN if known.kind == kind], "never explained away"
    for kind in ("stricter", "laxer", "persistence"):
        assert fuzzer.explain(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", kind, *cases[kind]) is None, "only what is known is"
