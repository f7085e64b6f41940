"""The functional tests of waitress, cheroot, CherryPy and Django with poorhttp as the server (conformance/functional).

All four run at the same time, for they mostly wait. What must hold of each: every test passes, but those that
`deviations.py` names, which fail as it says; and there were as many as there should be.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # the conformance runner is no part of the installed package

from conformance.functional import __main__, suites  # noqa: E402
from conformance.functional.deviations import ADAPTATIONS, DEVIATIONS, LEFT_OUT  # noqa: E402

LIMIT = suites.PATIENCE + 60


@pytest.fixture(scope="module")
def unpacked() -> Path:
    try:
        return suites.fetch()
    except suites.Unavailable as error:
        pytest.skip(f"no suite: {error}")


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


def test_a_record_counts_and_gives_reasons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(__main__, "RECORDS", tmp_path)
    tests = {"a": (suites.PASSED, ""), "b": (suites.DEVIATES, "A reason."), "c": (suites.UNRUN, "Another.")}
    __main__.record({"waitress": suites.Outcome(tests)})
    told = json.loads((tmp_path / "functional.json").read_text())
    assert told["suites"]["waitress"] == {
        **{"cases": 3, "passed": 1, "deviates": 1, "failed": 0, "not run": 1, "skipped": 0},
        "not passed": {
            "b": {"outcome": "deviates", "why": "A reason."},
            "c": {"outcome": "not run", "why": "Another."},
        },
    }
    assert told["source"] == ["waitress==3.0.2"]
    text = (tmp_path / "functional.md").read_text()
    assert "| waitress | 3 | 1 | 1 | 0 | 1 | 0 |" in text
    assert "- deviates: `b`: A reason." in text and "Peers: does not apply" in text


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


TOY = """
def test_passes(): pass
def test_fails(): assert 1 == 2
def test_deviates(): assert 3 == 4
def test_deviates_otherwise(): assert 5 == 6
def test_passes_in_spite(): pass
def test_left_out(): assert False
"""
SAID = """
from conformance.functional.deviations import DEVIATIONS, Deviation
DEVIATIONS["toy"] = (
    Deviation("Three.", ("toy/test_toy.py::test_deviates",), fails="3 == 4"),
    Deviation("Others.", ("toy/test_toy.py::test_deviates_*", "toy/test_toy.py::test_passes_*"), fails="7 == 8"),
    Deviation("Out.", ("toy/test_toy.py::test_left_out",)),
    Deviation("Gone.", ("toy/test_toy.py::test_gone",), fails="9 == 9"),
)
"""


def test_the_judge(tmp_path: Path) -> None:
    """A failure, a deviation that is another one or none, and one of a test that is not there: all are failures."""
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "test_toy.py").write_text(TOY)
    (tmp_path / "said.py").write_text(SAID)
    result = tmp_path / "result.json"
    paths = {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    told = {"FUNCTIONAL_SUITE": "toy", "FUNCTIONAL_RESULT": str(result)}
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "-p", "no:cacheprovider"]
    plugins = ["-p", "said", "-p", "conformance.functional.judge"]
    done = subprocess.run([*command, *plugins, str(tmp_path / "toy")], check=False, env=os.environ | paths | told)
    assert done.returncode == 1
    outcomes = {test.partition("::")[2]: outcome for test, (outcome, _) in json.loads(result.read_text()).items()}
    assert outcomes == {
        "test_passes": suites.PASSED,
        "test_fails": suites.FAILED,
        "test_deviates": suites.DEVIATES,
        "test_deviates_otherwise": suites.FAILED,
        "test_passes_in_spite": suites.FAILED,
        "test_left_out": suites.UNRUN,
        "test_gone": suites.FAILED,
    }
