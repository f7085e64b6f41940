"""What Python and the engine both declare: times, and the bytes between a supervisor and its workers. Both are the same.

Knows the modules of Python as text only, so that no place that declares a name is missed.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from poorhttp import _engine

PACKAGE = Path(_engine.__file__).parent

# Names that a part of the package still has for others.
OTHER_NAMES = {"OVERLOADED": "PRESSED"}


def declared(name: str, kind: type) -> set[object]:
    """The constants of this type that modules of the package give this name."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign):
                target, value = node.targets[0], node.value
                targets = target.elts if isinstance(target, ast.Tuple) else [target]
                values = value.elts if isinstance(value, ast.Tuple) else [value]
                for each, given in zip(targets, values, strict=False):
                    if isinstance(each, ast.Name) and each.id == name and isinstance(given, ast.Constant):
                        found.add(given.value)
    return {value for value in found if type(value) is kind}


@pytest.mark.parametrize("name", sorted(_engine.TIMING))
def test_a_time_is_the_same_in_the_engine_and_in_python(name: str) -> None:
    assert declared(name, float) == {_engine.TIMING[name] / 1000}


@pytest.mark.parametrize("name", sorted({**_engine.WORDS, **_engine.REPORTS}.keys() - {"LOAD"}))
def test_a_byte_between_processes_is_the_same_in_the_engine_and_in_python(name: str) -> None:
    found = declared(name, bytes) or declared(OTHER_NAMES.get(name, name), bytes)
    assert found == {bytes([{**_engine.WORDS, **_engine.REPORTS}[name]])}


def test_no_two_bytes_between_processes_are_alike() -> None:
    from_python = {b"".join(declared(name, bytes)) for name in ("READY", "FAILED")}  # type: ignore[arg-type]
    reports = [byte for name, byte in _engine.REPORTS.items() if name != "LOAD"]
    assert len({*reports, *(value[0] for value in from_python)}) == len(reports) + 2
    assert max(reports) < _engine.REPORTS["LOAD"]
    assert declared("LOAD", int) == {_engine.REPORTS["LOAD"]}
    assert len(set(_engine.WORDS.values())) == len(_engine.WORDS)
