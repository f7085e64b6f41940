"""The suites by name, each a function that gives its cases, and the least number of cases that it must give."""

from __future__ import annotations

from conformance import corpus, desync, gunicorn, llhttp
from conformance.case import Case, distinct, with_host
from conformance.download import Broken

SUITES = {"gunicorn": gunicorn, "llhttp": llhttp, "desync": desync, "corpus": corpus}
# Fewer means that the download, or our reading of it, is broken.
LEAST = {"gunicorn": 134, "llhttp": 120, "desync": 155, "corpus": 600}


def cases(suite: str) -> list[Case]:
    """All cases of a suite; raises Unavailable, or Broken where there are fewer than there must be."""
    found = list(distinct(SUITES[suite].cases()))
    if len(found) < LEAST[suite]:
        raise Broken(f"{suite}: {len(found)} cases, at least {LEAST[suite]} expected")
    return found if suite == "corpus" else [with_host(case) for case in found]
