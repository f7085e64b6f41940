"""What Python and the engine both declare: times, and the bytes that a worker reports. Both must be the same."""

from __future__ import annotations

import pytest

from poorhttp import _engine
from poorhttp.dev.serve import supervisor as dev_supervisor
from poorhttp.process import plan, worker
from poorhttp.system import signals

# Names in the engine -> the same times in Python, in seconds.
TIMES = {
    "FAST": [worker.FAST, plan.FAST, dev_supervisor.FAST],
    "REPEAT": [signals.REPEAT],
    "DRAIN": [worker.DRAIN_SECONDS, plan.DRAIN],
    "STANDSTILL": [worker.STANDSTILL],
    "LAST_GRACE": [],  # the engine's alone so far
}

REPORTS = {
    "STUCK": worker.STUCK[0],
    "SPENT": worker.SPENT[0],
    "ASKED": worker.ASKED[0],
    "OVERLOADED": worker.PRESSED[0],
    "CLOSED": worker.CLOSED[0],
    "LOAD": worker.LOAD,
}


@pytest.mark.parametrize("name", sorted(_engine.TIMING))
def test_a_time_is_the_same_in_the_engine_and_in_python(name: str) -> None:
    assert all(seconds * 1000 == _engine.TIMING[name] for seconds in TIMES[name])


def test_the_bytes_of_reports_are_the_same_in_the_engine_and_in_python() -> None:
    assert _engine.REPORTS == REPORTS


def test_no_two_reports_are_alike() -> None:
    words = [byte for name, byte in _engine.REPORTS.items() if name != "LOAD"] + [worker.READY[0], worker.FAILED[0]]
    assert len(set(words)) == len(words)
    assert max(words) < _engine.REPORTS["LOAD"]
