"""`sessions --suite django` in small: real servers and stores, a few requests, and the numbers that are shown."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # the bench is no part of the installed package

from bench import launch, sessions_django  # noqa: E402
from bench.client import Missing, Unable  # noqa: E402
from bench.sessions_django import Amount, Case  # noqa: E402
from bench.sessions_django_report import COLUMNS  # noqa: E402

TINY = Amount(40, 40, 0.5, 5)
NOT_OF_A_ROW = {"share", "~rate", "~cpu"}  # but of several

pytestmark = pytest.mark.usefixtures("tally")


def numbers(case: Case, directory: Path) -> dict[str, object]:
    """What the bench finds, with the interpreter of the tests for gunicorn too."""
    try:
        return sessions_django.cost(case, launch.Setting(peers=sys.executable, work=directory), TINY)
    except Missing as missing:
        pytest.skip(str(missing))


@pytest.mark.parametrize(
    "case",
    [Case("forking", "none", "read", "one", "4KB"), Case("forking", "file", "write", "one", "1KB"),
     Case("forking", "cookie", "write", "thousand", "4KB"), Case("forking", "cache", "read", "thousand", "0KB"),
     Case("forking", "db-kept-async", "write", "thousand", "1KB"), Case("gunicorn", "file", "write", "thousand", "1KB"),
     Case("gunicorn", "db", "read", "one", "0KB")],
    ids=lambda case: " ".join(case.row),
)  # fmt: skip
def test_a_row_in_small_gives_the_numbers_that_are_shown(case: Case, tmp_path: Path) -> None:
    found = numbers(case, tmp_path)
    has_store = case.engine not in ("none", "cookie", "file")
    is_counted = case.mode == "write" and case.engine not in ("none", "cookie")
    due = (
        set(COLUMNS.values())
        - NOT_OF_A_ROW
        - ({"store"} if not has_store else set())
        - ({"lost"} if not is_counted else set())
    )
    assert due <= found.keys() and ("store" in found) is has_store and ("lost" in found) is is_counted
    assert all(found[name] > 0 for name in ("rate", "ms", "p50", "p99", "cpu"))  # type: ignore[operator]
    assert str(found["remark"]).startswith("cookie of ") is (case.engine == "cookie")
    if case.count == "one":
        assert found["requests"] == TINY.requests


def test_a_session_that_no_cookie_holds_says_so(tmp_path: Path) -> None:
    with pytest.raises(Unable, match=r"does not fit: a cookie of [\d,]+ bytes, of 4,096"):
        numbers(Case("forking", "cookie", "read", "one", "16KB"), tmp_path)


def test_a_thing_in_a_basket_takes_64_bytes(tmp_path: Path) -> None:
    """So that the sizes of the rows are those of the data."""
    code = (
        "import json, django_sessions as site; items = site.content(3)['items']; "
        "print(len(json.dumps(items, separators=(',', ':'))), len({each['name'] for each in items}))"
    )
    setting = replace(launch.Setting(), variables={"ENGINE": "none", "SIZE": "4"})
    done = sessions_django.subprocess.run(
        [setting.python, "-c", code], cwd=launch.APPS, env=launch.environment(ours=True) | setting.variables,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stdout.split() == ["4097", "64"], done.stderr
