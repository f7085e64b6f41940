"""The supervisor's policy, with a clock that is a number."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poorhttp.process.workers.plan import (
    Action,
    Drain,
    Exit,
    Kill,
    Quit,
    Spawn,
    State,
    Stop,
    plan,
    wait,
)
from poorhttp.system import timing
from poorhttp.system.timing import DRAIN, FAST, KILL, PACE, REPEAT

GRACEFUL = 30.0


def state(wanted: int = 2, running: int = 0, now: float = 0.0) -> State:
    """A state in which workers 1 ... `running` were born at `now`, and serve."""
    made = State(wanted, GRACEFUL)
    for pid in range(1, running + 1):
        made.born(pid, now)
        made.ready(pid)
    return made


def perform(made: State, now: float) -> list[Action]:
    """Ask for the plan and note that all about workers was done."""
    actions = plan(made, now)
    for action in actions:
        made.performed(action, now)
    return actions


def long_to_leave(made: State, now: float) -> int:
    """How many workers have been draining for long."""
    return sum(each.draining is not None and now >= each.draining + timing.SOON for each in made.workers.values())


def spawn_times(made: State, until: float, life: float) -> list[float]:
    """Live through the plan from 0 to `until` with workers that each die after `life` seconds: when did it spawn?"""
    times: list[float] = []
    now = 0.0
    while now < until:
        for worker in list(made.workers.values()):
            if now >= worker.born + life:
                made.died(worker.pid, 1, now)
        for action in plan(made, now):
            assert action == Spawn()
            times.append(now)
            made.born(1000 + len(times), now)
        deaths = [worker.born + life for worker in made.workers.values()]
        waiting = wait(made, now)
        now = min(deaths + ([] if waiting is None else [now + waiting]))
    return times


def test_actions_are_equal_by_kind_and_subject() -> None:
    assert Stop(1) == Stop(1)
    assert Stop(1) != Stop(2)
    assert Stop(1) != Kill(1)
    assert Quit(1) != 1
    assert len({Spawn(), Spawn(), Exit(0)}) == 2
    assert repr([Spawn(), Exit(3)]) == "[Spawn(), Exit(3)]"


def test_the_first_worker_is_started_alone_and_the_others_together_once_it_serves() -> None:
    made = state(wanted=4)
    assert plan(made, 0.0) == [Spawn()]
    made.born(1, 0.0)
    assert (plan(made, 0.1), wait(made, 0.1)) == ([], pytest.approx(0.9)), "it does not serve yet"
    made.ready(1)
    assert plan(made, 0.2) == [Spawn()] * 3


def test_a_first_worker_that_hangs_is_not_waited_for() -> None:
    made = state(wanted=4)
    made.born(1, 0.0)
    assert plan(made, 0.9) == []
    assert plan(made, 1.0) == [Spawn()] * 3
    for pid in (2, 3, 4):
        made.born(pid, 1.0)
    assert (plan(made, 1.1), wait(made, 1.1)) == ([], None)


def test_where_nobody_serves_any_more_it_is_one_again() -> None:
    made = state(wanted=3, running=3)
    for pid in (1, 2, 3):
        made.died(pid, -9, 60.0)
    assert plan(made, 60.0) == [Spawn()]
    made.born(4, 60.0)
    made.died(4, 1, 60.0)
    assert wait(made, 60.0) == pytest.approx(0.1), "who fails before it serves is followed by another one"


def test_nothing_to_do_while_all_live() -> None:
    made = state(wanted=2, running=2)
    assert plan(made, 5.0) == []
    assert wait(made, 5.0) is None


def test_plan_changes_nothing() -> None:
    made = state(wanted=2, running=1)
    assert plan(made, 0.5) == plan(made, 0.5) == [Spawn()]


def test_a_worker_that_lived_is_replaced_at_once() -> None:
    made = state(wanted=2, running=2)
    made.died(1, -9, 60.0)
    assert plan(made, 60.0) == [Spawn()]


def test_young_deaths_double_the_wait_up_to_five_seconds() -> None:
    times = spawn_times(state(wanted=1), until=40.0, life=0.0)
    waits = [round(later - sooner, 6) for sooner, later in pairwise(times)]
    assert waits[:8] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


def test_workers_that_die_together_count_as_one_failure() -> None:
    made = state(wanted=4, running=4)
    for pid in (1, 2, 3, 4):
        made.died(pid, 1, 0.5)
    assert wait(made, 0.5) == pytest.approx(0.1)
    assert plan(made, 0.59) == []


def test_during_back_off_workers_are_started_one_by_one() -> None:
    made = state(wanted=4, running=4)
    for pid in (1, 2, 3, 4):
        made.died(pid, 1, 0.5)
    assert plan(made, 0.61) == [Spawn()]
    made.born(5, 0.61)
    made.ready(5)
    assert plan(made, 0.65) == []
    assert plan(made, 0.72) == [Spawn()]


def test_a_worker_that_lives_on_ends_the_back_off() -> None:
    made = state(wanted=3, running=1)
    for failure in range(6):  # the wait is 3.2 s now
        made.died(failure + 1, 1, failure + 0.5)
        made.born(failure + 2, failure + 0.6)
    made.ready(7)
    assert plan(made, 6.0) == []
    assert wait(made, 6.0) == pytest.approx(0.6)
    assert plan(made, 6.61) == [Spawn()] * 2
    made.died(7, 1, 100.0)
    assert plan(made, 100.0) == [Spawn()]


def test_a_worker_that_has_never_served_has_failed_to_start_however_long_it_took() -> None:
    """It may have loaded the application for a while, in vain."""
    made = state(wanted=1)
    for failure in range(4):
        made.born(failure, 10.0 * failure)
        made.died(failure, 3, 10.0 * failure + 5.0)
    assert wait(made, 35.0) == pytest.approx(0.8)
    made.born(9, 36.0)
    assert made.back_off(39.0) == pytest.approx(0.8), "nor has one that is at it"
    made.ready(9)
    assert made.back_off(39.0) == 0.0


def test_a_supervisor_that_wakes_up_just_when_the_back_off_ends_is_not_too_early() -> None:
    born = 0.13  # born + 1.0 - born is less than 1.0
    made = state(wanted=2)
    for _ in range(6):
        made.not_born(0.0)
    made.born(1, born)
    made.ready(1)
    assert plan(made, born + wait(made, born)) == [Spawn()]


def test_after_a_proof_of_life_the_back_off_begins_anew() -> None:
    made = state(wanted=2, running=2)
    for pid in (1, 2):
        made.died(pid, 1, 0.5)
    made.born(3, 0.6)
    made.ready(3)
    made.born(4, 9.0)
    made.died(4, 1, 9.5)
    assert wait(made, 9.5) == pytest.approx(0.1)


def test_an_old_worker_does_not_excuse_young_ones() -> None:
    made = state(wanted=2, running=2)
    made.died(2, 1, 100.0)
    for number, pid in enumerate((3, 4, 5)):
        made.born(pid, 100.0 + 10 * number)
        made.died(pid, 1, 100.1 + 10 * number)
    assert wait(made, 120.1) == pytest.approx(0.4)


def test_a_failing_fork_is_slowed_down_too() -> None:
    made = state(wanted=1)
    made.not_born(0.0)
    assert (plan(made, 0.05), plan(made, 0.11)) == ([], [Spawn()])
    made.not_born(0.11)
    assert wait(made, 0.11) == pytest.approx(0.2)


def test_stop_is_asked_of_each_worker_once() -> None:
    made = state(running=2)
    made.stop(10.0)
    assert perform(made, 10.0) == [Stop(1), Stop(2)]
    assert perform(made, 10.1) == []
    assert wait(made, 10.0) == GRACEFUL + 1


def test_nothing_is_started_while_stopping() -> None:
    made = state(running=2)
    made.stop(10.0)
    perform(made, 10.0)
    made.died(1, 0, 10.5)
    assert perform(made, 10.5) == []
    made.died(2, 0, 10.6)
    assert perform(made, 10.6) == [Exit(0)]


def test_a_worker_that_did_not_serve_yet_costs_a_stop_nothing() -> None:
    made = state(running=1)
    made.born(2, 9.9)
    made.stop(10.0)
    made.died(2, 1, 10.0)
    perform(made, 10.0)
    made.died(1, 0, 10.1)
    assert perform(made, 10.1) == [Exit(0)]


def test_stop_during_back_off_exits() -> None:
    made = state(wanted=1, running=1)
    made.died(1, 1, 0.1)
    made.stop(0.11)
    assert plan(made, 0.11) == [Exit(0)]


def test_a_late_worker_is_killed_a_second_after_its_time() -> None:
    made = state(running=2)
    made.stop(10.0)
    perform(made, 10.0)
    made.died(1, 0, 11.0)
    assert perform(made, 40.9) == []
    assert perform(made, 41.0) == [Kill(2)]
    assert perform(made, 42.0) == []
    assert wait(made, 42.0) is None
    made.died(2, -9, 42.0)
    assert perform(made, 42.0) == [Exit(1)]


def test_a_worker_that_does_not_serve_yet_is_killed_sooner() -> None:
    made = state(running=1)
    made.born(2, 9.0)
    made.stop(10.0)
    perform(made, 10.0)
    assert perform(made, 13.9) == []
    assert perform(made, 14.0) == [Kill(2)]
    made.died(2, -9, 14.0)
    assert not made.cut


def test_a_second_stop_means_at_once() -> None:
    made = state(running=2)
    made.stop(10.0)
    perform(made, 10.0)
    made.stop(10.5)
    assert perform(made, 10.5) == [Quit(1), Quit(2)]
    assert wait(made, 10.5) == 1.0
    assert perform(made, 11.5) == [Kill(1), Kill(2)]


def test_a_stop_told_twice_is_one_stop() -> None:
    made = state(running=1)
    made.stop(10.0)
    perform(made, 10.0)
    made.stop(10.0 + REPEAT / 2)
    assert perform(made, 10.1) == []


def test_stop_at_once_does_not_ask_first() -> None:
    made = state(running=1)
    made.stop_at_once(10.0)
    assert perform(made, 10.0) == [Quit(1)]
    made.died(1, 0, 10.1)
    assert perform(made, 10.1) == [Exit(0)]


def test_a_due_time_is_never_slept_over() -> None:
    made = state(running=1)
    made.stop(10.0)
    perform(made, 10.0)
    assert wait(made, 99.0) == 0.0


EVENTS = st.lists(
    st.tuples(st.sampled_from(["serve", "die", "crash", "stop", "quit", "pass"]), st.floats(0.0, 3.0)), max_size=60
)


@given(EVENTS, st.integers(1, 5))
def test_whatever_happens_the_plan_keeps_its_promises(events: list[tuple[str, float]], wanted: int) -> None:
    """Never more workers than wanted; each told once; and after a stop the end comes, in bounded time."""
    made = state(wanted)
    told: list[str] = []
    now, pids = 0.0, iter(range(1, 10_000))

    def live() -> Exit | None:
        for action in plan(made, now):
            if isinstance(action, Exit):
                return action
            if isinstance(action, Spawn):
                assert made.stopping is None
                made.born(next(pids), now)
            else:
                told.append(repr(action))
                made.performed(action, now)
        assert len(made.workers) <= wanted
        return None

    def die(code: int) -> None:
        if made.workers:
            made.died(next(iter(made.workers)), code, now)

    def happen(name: str) -> None:
        if name == "stop":
            made.stop(now)
        elif name == "quit":
            made.stop_at_once(now)
        elif name == "serve":
            for pid in made.workers:
                made.ready(pid)
        elif name != "pass":
            die(0 if name == "die" else -11)

    for name, seconds in events:
        now += seconds
        happen(name)
        if live() is not None:
            break
        waiting = wait(made, now)
        assert waiting is None or 0.0 <= waiting <= GRACEFUL + 1.001

    made.stop(now)
    ended = live()
    for _ in range(4):
        if ended is not None:
            break
        now += GRACEFUL + 1
        ended = live()
        for worker in [worker for worker in made.workers.values() if worker.killed]:
            made.died(worker.pid, -9, now)
    assert ended is not None or live() is not None
    assert len(told) == len(set(told))


# ------------------------------------------------------------------------------------------ after a reload


def reloaded(wanted: int, old: int) -> State:
    """A new image that has found workers 101 ... of the one before."""
    made = State(wanted, GRACEFUL)
    for number in range(old):
        made.adopted(101 + number, 0.0, is_leaving=False, is_closed=False)
    return made


def test_old_workers_leave_one_by_one_as_new_ones_serve() -> None:
    made = reloaded(wanted=2, old=2)
    assert perform(made, 0.0) == [Spawn()]
    made.born(1, 0.0)
    assert perform(made, 0.1) == [], "it does not serve yet"
    made.ready(1)
    assert perform(made, 0.2) == [Drain(101)]
    assert perform(made, 0.3) == [], "three are enough"
    made.died(101, 0, 0.4)
    assert perform(made, 0.4) == [Spawn()]
    made.born(2, 0.4)
    made.ready(2)
    assert perform(made, 0.5) == [Drain(102)]
    made.died(102, 0, 0.6)
    assert perform(made, 0.6) == []
    assert wait(made, 0.6) is None


def test_an_old_worker_that_takes_long_to_leave_keeps_no_other_from_it() -> None:
    made = reloaded(wanted=2, old=2)
    perform(made, 0.0)
    made.born(1, 0.0)
    made.ready(1)
    assert perform(made, 0.5) == [Drain(101)]
    assert (perform(made, 0.9), wait(made, 0.9)) == ([], pytest.approx(0.5 + timing.SOON - 0.9)), "it may leave soon"
    assert perform(made, 0.5 + timing.SOON) == [Spawn()], "it has calls in flight"
    made.born(2, 1.0)
    made.ready(2)
    assert perform(made, 1.1) == [Drain(102)]
    assert not made.replaces() and sorted(made.workers) == [1, 2, 101, 102]


def test_workers_of_the_image_before_leave_before_new_ones_that_are_replaced_too() -> None:
    made = reloaded(wanted=2, old=2)
    assert made.is_rolling()
    for pid, now in ((1, 0.0), (2, 1.0)):
        assert perform(made, now) == [Spawn()]
        made.born(pid, now)
        made.ready(pid)
        assert made.retire(pid)
        assert perform(made, now) == [Drain(100 + pid)]
        made.died(100 + pid, 0, now)
    assert not made.is_rolling() and 1 in made.serving_pids()


def test_old_workers_serve_until_they_have_said_that_they_accept_nobody_or_are_gone() -> None:
    made = reloaded(wanted=2, old=2)
    made.adopted(103, 0.0, is_leaving=True, is_closed=True)
    for pid in 1, 2:
        made.born(pid, 0.0)
        made.ready(pid)
    assert perform(made, 0.1) == [Drain(101), Drain(102)]
    assert made.is_rolling(), "they have not heard of it yet"
    made.closed(101)
    assert made.is_rolling()
    made.died(102, 0, 0.2)
    assert not made.is_rolling()


def test_old_workers_stay_while_new_ones_die() -> None:
    made = reloaded(wanted=2, old=2)
    for number in range(1, 4):
        now = 10.0 * number
        assert perform(made, now) == [Spawn()]
        made.born(number, now)
        made.died(number, 1, now + 0.1)
        assert perform(made, now + 0.1) == []
    assert sorted(made.workers) == [101, 102]


def test_an_old_worker_that_dies_makes_room_for_a_new_one() -> None:
    made = reloaded(wanted=2, old=2)
    made.died(101, -9, 5.0)
    assert plan(made, 5.0) == [Spawn()]


def test_a_worker_that_was_leaving_at_the_reload_is_not_told_again() -> None:
    made = State(1, GRACEFUL)
    made.adopted(101, 0.0, is_leaving=True, is_closed=True)
    made.adopted(102, 0.0, is_leaving=False, is_closed=False)
    assert perform(made, 0.0) == [], "one too many is there already"
    made.died(101, 0, 0.1)
    assert perform(made, 0.1) == [Spawn()]
    made.born(1, 0.1)
    made.ready(1)
    assert perform(made, 0.2) == [Drain(102)]


def test_a_worker_that_does_not_leave_is_killed() -> None:
    made = reloaded(wanted=1, old=1)
    made.born(1, 0.0)
    made.ready(1)
    assert perform(made, 0.0) == [Drain(101)]
    late = DRAIN + GRACEFUL + KILL
    assert wait(made, 0.0) == pytest.approx(late)
    assert perform(made, late) == [Kill(101)]
    made.died(101, -9, late)
    assert perform(made, late) == []


def test_a_stop_in_the_middle_of_a_reload_stops_all() -> None:
    made = reloaded(wanted=2, old=2)
    made.born(1, 0.0)
    made.ready(1)
    assert perform(made, 0.0) == [Drain(101)]
    made.stop(1.0)
    assert perform(made, 1.0) == [Stop(101), Stop(102), Stop(1)]


def test_fewer_workers_are_wanted() -> None:
    made = state(wanted=3, running=3)
    for pid in (1, 2, 3):
        made.ready(pid)
    made.wanted = 2
    assert perform(made, 9.0) == [Drain(1)]
    assert perform(made, 9.1) == []
    made.died(1, 0, 9.5)
    assert perform(made, 9.5) == []


@given(wanted=st.integers(1, 5), old=st.integers(0, 5), choices=st.lists(st.integers(0, 3), max_size=60))
def test_a_reload_never_has_too_many_nor_too_few(wanted: int, old: int, choices: list[int]) -> None:
    """Whatever happens in whichever order: at most one worker too many, beside those that take long to leave, and old
    ones go only where new ones serve.
    """
    made, now, pids = reloaded(wanted, old), 0.0, iter(range(1, 1000))
    for choice in choices:
        now += 0.6
        long = long_to_leave(made, now)
        serving = sum(each.is_ready and each.draining is None for each in made.workers.values())
        for action in plan(made, now):
            if isinstance(action, Spawn):
                made.born(next(pids), now)
            made.performed(action, now)
        assert len(made.workers) <= max(min(wanted + 1 + long, 2 * wanted), old)
        left = sum(each.is_ready and each.draining is None for each in made.workers.values())
        assert left >= min(serving, wanted)
        newborn = [pid for pid, each in made.workers.items() if not each.is_ready]
        leaving = [pid for pid, each in made.workers.items() if each.draining is not None]
        if choice == 0 and newborn:
            made.ready(newborn[0])
        elif choice == 1 and leaving:
            made.died(leaving[0], 0, now)
        elif choice == 2 and made.workers:
            made.died(min(made.workers), -9, now)


def test_a_fast_stop_waits_for_a_moment_only():
    made = state(wanted=2, running=2)
    made.stop_fast(100.0)
    assert perform(made, 100.0) == [Stop(1), Stop(2)]
    assert wait(made, 100.0) == FAST
    made.died(1, 0, 100.5)
    assert perform(made, 100.5) == []
    assert perform(made, 100.0 + FAST) == [Quit(2)]
    assert wait(made, 100.0 + FAST) == KILL
    assert perform(made, 100.0 + FAST + KILL) == [Kill(2)]


def test_a_fast_stop_told_again_is_one_at_once():
    made = state(wanted=1, running=1)
    made.stop_fast(100.0)
    made.stop_fast(100.0 + REPEAT / 2)
    assert perform(made, 100.1) == [Stop(1)]
    made.stop_fast(100.0 + 2 * REPEAT)
    assert perform(made, 100.2) == [Quit(1)]


def test_no_workers_are_wanted_until_some_are():
    made = state(wanted=2, running=2)
    made.ready(1)
    made.ready(2)
    made.wanted = 0
    assert set(perform(made, 5.0)) == {Drain(1), Drain(2)}
    made.died(1, 0, 6.0)
    made.died(2, 0, 6.0)
    assert plan(made, 6.0) == [] and wait(made, 6.0) is None
    made.wanted = 1
    assert plan(made, 7.0) == [Spawn()]


def test_a_worker_that_served_and_was_killed_has_not_failed_to_start():
    made = state(wanted=2, running=2)
    for pid in range(3, 23):
        made.died(pid - 2, -9, 0.2 * pid)
        assert plan(made, 0.2 * pid) == [Spawn()]
        made.born(pid, 0.2 * pid)
        made.ready(pid)
    made.died(21, -9, 5.0)
    made.born(23, 5.0)
    made.died(23, -9, 5.0)  # before it served
    assert plan(made, 5.0) == []


# ------------------------------------------------------------------------------------- a worker is to be replaced


def serving(wanted: int) -> State:
    """A state in which workers 1 ... `wanted` serve since 0."""
    made = state(wanted, running=wanted)
    for pid in range(1, wanted + 1):
        made.ready(pid)
    return made


def test_a_worker_to_be_replaced_leaves_once_its_successor_serves() -> None:
    made = serving(2)
    assert made.retire(1)
    assert not made.retire(1), "that is known"
    assert perform(made, 10.0) == [Spawn()]
    made.born(3, 10.0)
    assert perform(made, 10.5) == [], "the successor does not serve yet"
    made.ready(3)
    assert perform(made, 10.6) == [Drain(1)]
    assert not made.retire(1), "it leaves already"
    made.died(1, 0, 10.7)
    assert perform(made, 20.0) == []
    assert wait(made, 20.0) is None


def test_workers_are_replaced_one_by_one() -> None:
    made = serving(4)
    for pid in (1, 2, 3, 4):
        made.retire(pid)
    now, order = 10.0, []
    for successor in (5, 6, 7, 8):
        assert perform(made, now) == [Spawn()]
        made.born(successor, now)
        assert perform(made, now) == []
        made.ready(successor)
        (drain,) = perform(made, now)
        assert isinstance(drain, Drain)
        order.append(drain.pid)
        assert perform(made, now) == [], "five are enough"
        made.died(drain.pid, 0, now)
        assert perform(made, now) == [], "one after the other, with a breath between"
        assert wait(made, now) in (pytest.approx(PACE), None)
        now += PACE * 1.001
    assert sorted(order) == [1, 2, 3, 4]
    assert perform(made, now) == []


def test_a_worker_that_is_to_be_replaced_may_die_before() -> None:
    made = serving(2)
    made.retire(1)
    made.died(1, -9, 10.0)
    assert perform(made, 10.0) == [Spawn()]
    assert not made.retire(1), "it is gone"


@given(wanted=st.integers(1, 4), choices=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), max_size=80))
def test_whichever_workers_are_replaced_there_is_never_more_than_one_too_many(
    wanted: int, choices: list[tuple[int, int]]
) -> None:
    """Beside those that take long to leave; and never more than twice as many. And a worker that serves leaves only where as many
    serve as before, or as are wanted.
    """
    made, now, pids = serving(wanted), 0.0, iter(range(100, 1000))
    for choice, number in choices:
        now += 0.3
        long = long_to_leave(made, now)
        able = sum(each.is_ready and each.draining is None for each in made.workers.values())
        for action in plan(made, now):
            if isinstance(action, Spawn):
                made.born(next(pids), now)
            made.performed(action, now)
        assert len(made.workers) <= min(wanted + 1 + long, 2 * wanted)
        left = sum(each.is_ready and each.draining is None for each in made.workers.values())
        assert left >= min(able, wanted)
        living = sorted(made.workers)
        pid = living[number % len(living)] if living else 0
        if choice == 0:
            made.retire(pid)
        elif choice == 1 and pid:
            made.ready(pid)
        elif choice == 2 and pid and made.workers[pid].draining is not None:
            made.died(pid, 0, now)
        elif choice == 3 and pid:
            made.died(pid, -9, now)
    for _ in range(200):  # left alone it comes to rest with as many as are wanted, none of them to be replaced
        now += 6.0
        for action in plan(made, now):
            if isinstance(action, Spawn):
                pid = next(pids)
                made.born(pid, now)
                made.ready(pid)
            made.performed(action, now)
        for pid in [pid for pid, each in made.workers.items() if each.draining is not None]:
            made.died(pid, 0, now)
        for each in made.workers.values():
            each.is_ready = True
    assert len(made.workers) == wanted
    assert not any(each.is_old for each in made.workers.values())
