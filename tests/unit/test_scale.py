"""How many workers there should be, with a clock that is a number."""

import ast
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from poorhttp.process import scale as module
from poorhttp.process.scale import GROW, LOOK, PRESSED, ROOM, WINDOW, Scale


def test_the_module_imports_nothing() -> None:
    tree = ast.parse(Path(module.__file__).read_text())
    imported = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    assert [node.module for node in imported if isinstance(node, ast.ImportFrom)] == ["__future__"]
    assert not [node for node in imported if isinstance(node, ast.Import)]


def press(scale: Scale, serving: list[int], now: float) -> bool:
    for pid in serving:
        scale.pressed(pid, now)
    return scale.decide(serving, now)


def test_it_begins_with_the_least_and_does_not_wake_up() -> None:
    scale = Scale(2, 8, 0.0)
    assert (scale.wanted, scale.wait()) == (2, None)
    assert not scale.decide([1, 2], 100.0)


def test_where_all_are_pressed_there_is_one_more() -> None:
    scale = Scale(2, 8, 0.0)
    assert press(scale, [1, 2], 5.0)
    assert (scale.wanted, scale.wait()) == (3, LOOK)


def test_where_one_is_not_pressed_there_is_none_more() -> None:
    scale = Scale(2, 8, 0.0)
    scale.pressed(1, 5.0)
    assert not scale.decide([1, 2], 5.0)
    scale.pressed(2, 5.0 + PRESSED)
    assert not scale.decide([1, 2], 5.0 + PRESSED), "that of the first one is over"


def test_one_by_one_and_only_when_the_last_one_serves() -> None:
    scale = Scale(1, 8, 0.0)
    assert press(scale, [1], 5.0)
    assert not press(scale, [1], 5.0 + GROW), "the second one does not serve yet"
    assert not press(scale, [1, 2], 5.0 + GROW / 2)
    assert press(scale, [1, 2], 5.0 + GROW)
    assert scale.wanted == 3


def test_never_more_than_the_most() -> None:
    scale = Scale(1, 3, 0.0)
    for second in range(2, 60):
        press(scale, list(range(scale.wanted)), float(second))
    assert scale.wanted == 3


def test_where_fewer_have_room_to_spare_for_long_there_is_one_fewer() -> None:
    scale = Scale(1, 8, 0.0)
    press(scale, [1], 5.0)
    assert not scale.decide([1, 2], 5.0 + WINDOW - 0.1)
    assert scale.decide([1, 2], 5.0 + WINDOW)
    assert (scale.wanted, scale.wait()) == (1, None)


def test_where_the_others_would_be_busy_all_stay() -> None:
    scale = Scale(1, 8, 0.0)
    press(scale, [1], 5.0)
    for second in range(6, 120):
        for _ in (1, 2):
            scale.told(ROOM / 2 + 0.05, float(second))
        assert not scale.decide([1, 2], float(second))


def test_somebody_may_want_one_more_or_fewer() -> None:
    scale = Scale(1, 2, 0.0)
    for by, wanted in ((1, 2), (1, 2), (-1, 1), (-1, 1)):
        scale.step(by, 1.0)
        assert scale.wanted == wanted


@given(
    bounds=st.tuples(st.integers(1, 4), st.integers(0, 4)),
    events=st.lists(
        st.tuples(st.integers(0, 20).map(lambda quarters: quarters / 4), st.booleans(), st.floats(0.0, 1.0)),
        max_size=120,
    ),
)
def test_whatever_is_told(bounds: tuple[int, int], events: list[tuple[float, bool, float]]) -> None:
    """Within the bounds, by one at a time, up at most once in GROW and down at most once in WINDOW."""
    least, most = bounds[0], bounds[0] + bounds[1]
    scale, now = Scale(least, most, 0.0), 0.0
    changes: list[tuple[float, int]] = [(0.0, 0)]
    for seconds, is_pressed, share in events:
        now += seconds
        before, serving = scale.wanted, list(range(scale.wanted))
        for pid in serving:
            scale.told(share, now)
            if is_pressed:
                scale.pressed(pid, now)
        assert scale.decide(serving, now) == (scale.wanted != before)
        assert least <= scale.wanted <= most
        assert (scale.wait() is None) == (scale.wanted == least)
        if scale.wanted != before:
            by = scale.wanted - before
            assert by in (-1, 1)
            assert now - changes[-1][0] >= (GROW if by > 0 else WINDOW)
            changes.append((now, by))


@given(work=st.floats(0.1, 7.9))
def test_a_steady_load_finds_its_number_and_stays_there(work: float) -> None:
    """Work for so many workers, evenly shared: grown as long as all are busy, then left alone."""
    scale, now, changes = Scale(1, 8, 0.0), 0.0, 0
    for _ in range(600):
        now += 1.0
        serving = list(range(scale.wanted))
        for pid in serving:
            scale.told(min(work / len(serving), 1.0), now)
            if work / len(serving) >= 0.95:
                scale.pressed(pid, now)
        changes += scale.decide(serving, now)
    assert changes == scale.wanted - 1, "never down again"
    assert work / scale.wanted < 0.95 or scale.wanted == 8
