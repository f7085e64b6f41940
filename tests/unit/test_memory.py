"""What processes weigh, and who is replaced for it, with figures and a clock that are numbers."""

import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poorhttp.process.workers.memory import LONGEST_PAUSE, LOOK, PAUSE, Budget, Tree
from poorhttp.system import procfs
from poorhttp.system.procfs import below, weigh

MIB = 1 << 20


def test_this_process_weighs_something() -> None:
    assert MIB < weigh(os.getpid()) < 4096 * MIB


def test_a_process_that_is_gone_weighs_nothing() -> None:
    assert weigh(1 << 22) == 0


def test_where_the_share_is_not_told_all_that_is_resident_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    read = procfs.read
    monkeypatch.setattr(procfs, "read", lambda pid, what: b"" if what == "smaps_rollup" else read(pid, what))
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    assert weigh(os.getpid()) == pytest.approx(resident, rel=0.2)


STARTS = """
import subprocess, sys
keep = "import sys; kept = b'x' * (40 << 20); print('x', flush=True); sys.stdin.read()"
subprocess.Popen([sys.executable, "-c", keep], stdin=int(sys.argv[1]))
sys.stdin.read()
"""
"""Starts a process that weighs 40 MiB and lives until the input that it is named ends."""


@pytest.fixture
def worker() -> Iterator[subprocess.Popen[bytes]]:
    """A process with a heavy child, which outlives it until the end of the test."""
    source, end = os.pipe()
    made = subprocess.Popen(
        [sys.executable, "-c", STARTS, str(source)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[source]
    )
    os.close(source)
    assert made.stdout and made.stdout.readline()
    yield made
    os.close(end)
    made.communicate()  # to the end of the child, that has the same output
    made.stdout.close()


def test_a_worker_weighs_what_it_has_started_too(worker: subprocess.Popen[bytes]) -> None:
    sizes, others = Tree().weigh(os.getpid(), [worker.pid])
    assert sizes.keys() == {worker.pid}
    assert weigh(worker.pid) + 40 * MIB < sizes[worker.pid] < weigh(worker.pid) + 80 * MIB
    assert others == pytest.approx(weigh(os.getpid()), rel=0.1)


def test_what_the_supervisor_has_started_is_nobody_elses(worker: subprocess.Popen[bytes]) -> None:
    sizes, others = Tree().weigh(os.getpid(), [])
    assert sizes == {}
    assert others > weigh(os.getpid()) + 40 * MIB


def test_what_outlives_its_worker_is_counted_on_and_speaks_against_replacing(worker: subprocess.Popen[bytes]) -> None:
    tree = Tree()
    before = sum(tree.weigh(os.getpid(), [worker.pid])[0].values())
    assert tree.orphaned == 0
    worker.kill()
    worker.wait()
    with subprocess.Popen([sys.executable, "-c", STARTS, "0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout and other.stdout.readline()
        sizes, others = tree.weigh(os.getpid(), [other.pid])
        assert before > tree.orphaned > 40 * MIB
        assert sizes[other.pid] < 40 * MIB, "its successor would start the same again"
        assert others > weigh(os.getpid()) + tree.orphaned + 40 * MIB
        other.communicate()


def test_little_that_outlived_its_worker_hides_no_more_than_that(worker: subprocess.Popen[bytes]) -> None:
    tree = Tree()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as small:
        tree._started[small.pid] = procfs.processes()[small.pid][1]
        sizes, _ = tree.weigh(os.getpid(), [worker.pid])
        assert 0 < tree.orphaned < 40 * MIB < sizes[worker.pid]
        small.communicate(b"\n")


def test_what_outlived_its_worker_is_told() -> None:
    budget = Budget(100 * MIB, 0.0)
    assert budget.judge({1: 10 * MIB, 2: 11 * MIB}, 90 * MIB, 1.0, orphaned=80 * MIB) == 0
    assert budget.text.startswith(
        "111.0 MiB in all processes, memory = 100m (80.0 MiB in what outlived the worker that started it: "
        "let it end with the worker); no worker has grown"
    )


def test_the_processes_below_a_process() -> None:
    """A process that is left out is so with all below it; a circle, as numbers that are used again may make one, is no trap."""
    assert below([1], {2: (1, 0), 3: (2, 0), 4: (3, 0), 5: (9, 0)}) == {2, 3, 4}
    assert below([1], {1: (2, 0), 2: (1, 0)}) == {1, 2}
    assert below([1], {2: (1, 0), 3: (2, 0), 4: (3, 0), 5: (9, 0)}, without=[3]) == {2}


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
    """Only a worker that is there goes, only where the budget is exceeded, the largest, and never two within the pause."""
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
