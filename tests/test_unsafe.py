"""Every `unsafe` of the engine has its reason, and SECURITY.md says how many there are, file by file.

Knows Rust only as text without comments and strings. Clippy holds the reasons too (`undocumented_unsafe_blocks`); here
they are counted, so that one more cannot come unnoticed.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
KEYWORD = re.compile(r"\bunsafe\b(?!\()")


def code_of(text: str) -> list[str]:
    """The lines of Rust without comments and strings; attributes such as #![forbid(unsafe_code)] hold no keyword."""
    return [re.sub(r'//.*|"(?:\\.|[^"\\])*"', "", line) for line in text.splitlines()]


def unsafe_lines(text: str) -> list[int]:
    return [number for number, line in enumerate(code_of(text)) for _ in KEYWORD.findall(line)]


def has_reason(text: str, number: int) -> bool:
    """Whether a comment that begins with SAFETY: stands right above the line."""
    above = text.splitlines()[:number]
    comment = []
    while above and above[-1].lstrip().startswith("//"):
        comment.append(above.pop().strip())
    return bool(comment) and comment[-1].startswith("// SAFETY: ") and len(comment[-1]) > len("// SAFETY: ")


COUNTED = {
    path.relative_to(ROOT).as_posix(): len(unsafe_lines(path.read_text(encoding="utf-8")))
    for path in sorted((ROOT / "src").rglob("*.rs"))
}


def test_every_unsafe_has_its_number() -> None:
    table = re.findall(
        r"^\| `(src/[\w/]+\.rs)` \| (\d+) \| \S", (ROOT / "SECURITY.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert {name: int(count) for name, count in table} == {name: count for name, count in COUNTED.items() if count}
    total = re.search(r"(\d+) `unsafe` blocks", (ROOT / "SECURITY.md").read_text(encoding="utf-8"))
    assert total and int(total[1]) == sum(COUNTED.values())


def test_reading_and_writing_http_needs_none() -> None:
    assert [name for name, count in COUNTED.items() if count and name.startswith("src/http/")] == []


@pytest.mark.parametrize("name", [name for name, count in COUNTED.items() if count])
def test_every_unsafe_has_its_reason(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert [number + 1 for number in unsafe_lines(text) if not has_reason(text, number)] == []


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("unsafe { a() }", [0]),
        ("fn a() {\n    let b = unsafe { c() };\n}\nunsafe impl Send for A {}", [1, 3]),
        ('// unsafe\n/// unsafe {}\nlet a = "unsafe"; // unsafe', []),
        ("unsafe_code(); not_unsafe();", []),
        ("let a = unsafe { b(unsafe { c() }) };", [0, 0]),
    ],
)
def test_the_counting_counts(text: str, lines: list[int]) -> None:
    assert unsafe_lines(text) == lines


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("// SAFETY: because\nunsafe { a() }", True),
        ("// SAFETY: because\n// of this\nunsafe { a() }", True),
        ("unsafe { a() }", False),
        ("// because\nunsafe { a() }", False),
        ("// SAFETY:\nunsafe { a() }", False),
        ("// SAFETY: because\n\nunsafe { a() }", False),
    ],
)
def test_the_reason_is_looked_for(text: str, expected: bool) -> None:
    assert has_reason(text, len(text.splitlines()) - 1) is expected
