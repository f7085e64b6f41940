"""A number that may grow: how it is written, read and shown."""

import pytest

from poorhttp.config.units import Counts, Span


@pytest.mark.parametrize(
    ("text", "least", "most"), [("4", 4, 4), ("2..8", 2, 8), ("0", 0, 0), ("3..3", 3, 3), (" 1 .. 1024 ", 1, 1024)]
)
def test_a_number_that_may_grow(text: str, least: int, most: int) -> None:
    span = Counts(0, 1024).parse(text)
    assert (span, span.most) == (least, most)
    assert Counts(0, 1024).parse(Counts(0, 1024).show(span)).most == most


def test_a_number_that_may_grow_as_text() -> None:
    assert [str(Span(2, 8)), f"{Span(4, 4)}", Counts(0, 9).show(Span(0, 0))] == ["2..8", "4", "0"]


@pytest.mark.parametrize(
    "text", ["", "..", "2..", "..8", "8..2", "0..4", "2...8", "2..8..9", "2-8", "1..1025", "-1", "a"]
)
def test_a_number_that_may_grow_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"such as 2\.\.8"):
        Counts(0, 1024).parse(text)
