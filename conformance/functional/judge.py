"""A plugin of pytest inside the process of a suite: holds each test to what `deviations.py` says of it.

Knows pytest's reports. Contract: a test of which nothing is said must pass. One that is said to deviate must fail, and
its failure must hold the words that are given there, so that the reason is the true one; one that is said not to be run
is not. What is said of a test that is not there is a failure too. The outcomes go to a file of JSON.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from conformance.functional.deviations import DEVIATIONS, Deviation
from conformance.functional.suites import DEVIATES, FAILED, PASSED, SKIPPED, UNRUN

SAID = DEVIATIONS[os.environ["FUNCTIONAL_SUITE"]]
OUTCOMES: dict[str, tuple[str, str]] = {}


def name_of(item: pytest.Item) -> str:
    """The node id with one directory: `test/test_core.py::test_garbage_in`."""
    return f"{item.path.parent.name}/{item.path.name}::{item.nodeid.partition('::')[2]}"


def is_named(name: str, pattern: str) -> bool:
    return name == pattern or fnmatchcase(name, pattern)


def said_of(name: str) -> Deviation | None:
    said = [each for each in SAID if any(is_named(name, pattern) for pattern in each.tests)]
    if len(said) > 1:
        raise pytest.UsageError(f"{name} is in two deviations: {[each.reason for each in said]}")
    return said[0] if said else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    names = [name_of(item) for item in items]
    if not config.getoption("keyword"):
        for each in SAID:
            for pattern in each.tests:
                if not any(is_named(name, pattern) for name in names):
                    OUTCOMES[pattern] = (FAILED, "deviations.py names a test that is not there")
    for item, name in zip(items, names, strict=True):
        said = said_of(name)
        if said and not said.fails:
            OUTCOMES[name] = (UNRUN, said.reason)
            item.add_marker(pytest.mark.skip(reason=said.reason))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Iterator[Any]:
    report = yield
    name, said = name_of(item), said_of(name_of(item))
    if said and not said.fails:
        return report
    before = OUTCOMES.get(name, ("", ""))[0]
    if said and report.failed and before != FAILED:
        if re.search(said.fails, report.longreprtext, re.DOTALL):
            OUTCOMES[name] = (DEVIATES, said.reason)
            report.outcome, report.wasxfail = "skipped", said.reason
        else:
            OUTCOMES[name] = (FAILED, f"fails otherwise than declared ({said.fails}):\n{report.longreprtext[-3000:]}")
    elif report.failed:
        OUTCOMES[name] = (FAILED, report.longreprtext[-3000:])
    elif report.skipped and not before:
        OUTCOMES[name] = (SKIPPED, report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr))
    elif said and report.when == "teardown" and before == PASSED:
        OUTCOMES[name] = (FAILED, f"passes, but is declared to deviate: {said.reason}")
        report.outcome, report.longrepr = "failed", OUTCOMES[name][1]
    elif report.when == "call" and not before:
        OUTCOMES[name] = (PASSED, "")
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    Path(os.environ["FUNCTIONAL_RESULT"]).write_text(json.dumps(OUTCOMES))
    if session.exitstatus == 0 and any(outcome == FAILED for outcome, _ in OUTCOMES.values()):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
