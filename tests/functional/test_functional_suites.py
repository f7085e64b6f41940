"""The functional tests of waitress, cheroot, CherryPy and Django with poorhttp as the server (conformance/functional).

All four run at the same time, for they mostly wait. What must hold of each: every test passes, but those that
`deviations.py` names, which fail as it says; and there were as many as there should be.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # the conformance runner is no part of the installed package

from conformance.functional import suites  # noqa: E402
from conformance.functional.deviations import ADAPTATIONS, DEVIATIONS, LEFT_OUT  # noqa: E402

LIMIT = suites.PATIENCE + 60


@pytest.fixture(scope="module")
def unpacked() -> Path:
    try:
        return suites.fetch()
    except suites.Unavailable as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def outcomes(unpacked: Path) -> Iterator[dict[str, Future[suites.Outcome]]]:
    """Every suite, running."""
    with ThreadPoolExecutor(len(suites.SUITES)) as pool:
        yield {name: pool.submit(suites.run, name, unpacked) for name in suites.SUITES}


@pytest.mark.timeout(LIMIT)
@pytest.mark.parametrize("name", suites.SUITES)
def test_suite(name: str, outcomes: dict[str, Future[suites.Outcome]], capsys: pytest.CaptureFixture[str]) -> None:
    outcome = outcomes[name].result()
    with capsys.disabled():
        print(f" {name}: {outcome.summary()} ", end="")
    assert not outcome.failures(), "\n".join(outcome.failures())
    assert not suites.shortfall(name, outcome)


def test_every_reason_is_a_sentence() -> None:
    for name in suites.SUITES:
        for said in DEVIATIONS[name]:
            assert said.tests and said.reason.endswith("."), said
        assert all(each.endswith(".") for each in (*ADAPTATIONS[name], *LEFT_OUT[name]))


@pytest.mark.parametrize("name", suites.SUITES)
def test_what_is_left_out_is_there(name: str, unpacked: Path) -> None:
    suite = suites.SUITES[name]
    for each in suites.left_out(name):
        assert (unpacked / suite.home / suite.tests[0] / each).is_file()
