"""What processes weigh, and who is replaced for it, with figures and a clock that are numbers."""

import os
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poorhttp import memory
from poorhttp.memory import LONGEST_PAUSE, LOOK, PAUSE, Budget, weigh

MIB = 1 << 20


def test_this_process_weighs_something() -> None:
    assert MIB < weigh(os.getpid()) < 4096 * MIB


def test_a_process_that_is_gone_weighs_nothing() -> None:
    assert weigh(1 << 22) == 0


def test_where_the_share_is_not_told_all_that_is_resident_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    read = memory._read
    monkeypatch.setattr(memory, "_read", lambda pid, what: b"" if what == "smaps_rollup" else read(pid, what))
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    assert weigh(os.getpid()) == pytest.approx(resident, rel=0.2)


def test_within_the_budget_nobody_goes() -> None:
    budget = Budget(100 * MIB, 0.0)
    assert budget.judge({1: 50 * MIB, 2: 40 * MIB}, 10 * MIB, 1.0) == 0
    assert budget.text == ""
    assert budget.next_look == 1.0 + LOOK


def test_the_fattest_goes_and_the_figures_are_told() -> None:
    budget = Budget(100 * MIB, 0.0)
    budget.judge({1: 10 * MIB, 2: 10 * MIB}, 10 * MIB, 1.0)
    assert budget.judge({1: 40 * MIB, 2: 60 * MIB}, 10 * MIB, 6.0) == 2
    assert budget.text == (
        "110.0 MiB in all processes, memory = 100m; worker 2 has most, 60.0 MiB; another one takes its place"
    )


def test_a_worker_that_was_fat_from_its_first_request_goes_too() -> None:
    budget = Budget(100 * MIB, 0.0)
    assert budget.judge({1: 10 * MIB, 2: 120 * MIB}, 0, 1.0) == 2


def test_where_no_worker_has_grown_none_goes_and_that_is_told_seldom() -> None:
    budget, told = Budget(100 * MIB, 0.0), 0
    for second in range(0, 600, 5):
        assert budget.judge({1: 70 * MIB, 2: 72 * MIB}, 0, float(second)) == 0
        told += "no worker has grown" in budget.text
    assert told == 1


def test_a_single_worker_that_alone_is_too_fat_is_no_storm() -> None:
    """Whatever its successors do: ever more rarely, down to twice an hour."""
    budget, now, pid, times = Budget(100 * MIB, 0.0), 0.0, 1, []
    budget.judge({pid: 10 * MIB}, 0, now)
    while now < 6 * 3600:
        now += LOOK
        if budget.judge({pid: 150 * MIB}, 0, now):
            times.append(now)
            pid += 1
            budget.judge({pid: 10 * MIB}, 0, now + 1)
    pauses = [later - sooner for sooner, later in pairwise(times)]
    assert pauses[0] >= PAUSE
    assert pauses == sorted(pauses)
    assert pauses[-1] == pytest.approx(LONGEST_PAUSE, abs=LOOK)
    assert len(times) < 24


@given(
    st.lists(
        st.tuples(st.integers(0, 60), st.dictionaries(st.integers(1, 9), st.integers(1, 200).map(lambda n: n * MIB))),
        max_size=60,
    )
)
def test_whatever_the_figures_are(looks: list[tuple[int, dict[int, int]]]) -> None:
    """Only who is there goes, only where the budget is exceeded, the fattest, and never two within the pause."""
    budget, now, last = Budget(150 * MIB, 0.0), 0.0, float("-inf")
    for seconds, workers in looks:
        now += seconds
        chosen = budget.judge(workers, MIB, now)
        assert budget.next_look == now + LOOK
        if chosen:
            assert sum(workers.values()) + MIB > 150 * MIB
            assert workers[chosen] == max(workers.values())
            assert now - last >= PAUSE
            assert str(chosen) in budget.text
            last = now
