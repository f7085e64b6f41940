"""The corpus is well-formed: every case has both its files, every fact its type, every valid case adds up.

Knows the format of tests/corpus/README.md and the table of tests/corpus/ADVISORIES.md; knows no server.
"""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

import pytest

CORPUS = Path(__file__).parents[1] / "corpus"
STATUSES = {400, 413, 414, 417, 431, 501, 505}
REQUEST_TYPES: dict[str, type | tuple[type, ...]] = {
    "method": str,
    "target": str,
    "path": str,
    "query": str,
    "version": str,
    "fields": list,
    "body": str,
    "persistent": bool,
    "content_length": (int, type(None)),
}
OPTIONAL_TYPES: dict[str, type] = {"dropped": list, "host": str, "answered_by_server": bool}


def cases(kind: str) -> list[Any]:
    return [pytest.param(path, id=path.stem) for path in sorted((CORPUS / kind).glob("*.http"))]


def facts_of(path: Path) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(path.with_suffix(".json").read_text(encoding="ascii"))
    return facts


@pytest.mark.parametrize("kind", ["valid", "invalid"])
def test_every_case_has_two_files_and_a_plain_name(kind: str) -> None:
    bytes_of = {path.stem for path in (CORPUS / kind).glob("*.http")}
    facts = {path.stem for path in (CORPUS / kind).glob("*.json")}
    assert bytes_of == facts
    assert all(re.fullmatch(r"[a-z0-9.-]+", name) for name in bytes_of)
    assert len(list((CORPUS / kind).iterdir())) == 2 * len(bytes_of)


def test_no_name_is_both_valid_and_invalid() -> None:
    valid, invalid = ({path.stem for path in (CORPUS / kind).glob("*.http")} for kind in ("valid", "invalid"))
    assert not valid & invalid


def test_there_are_enough_cases() -> None:
    assert len(cases("valid")) >= 100
    assert len(cases("invalid")) >= 300


@pytest.mark.parametrize("path", cases("valid"))
def test_valid_facts(path: Path) -> None:
    facts = facts_of(path)
    assert set(facts) == {"why", "requests"}
    assert facts["why"].endswith((".", ")."))
    for request in facts["requests"]:
        check_request(request)


def check_request(request: dict[str, Any]) -> None:
    assert set(REQUEST_TYPES) <= set(request) <= set(REQUEST_TYPES) | set(OPTIONAL_TYPES)
    for key, value in request.items():
        expected = REQUEST_TYPES.get(key) or OPTIONAL_TYPES[key]
        assert isinstance(value, expected), key
    assert request["version"] in ("1.0", "1.1")
    for name, value in request["fields"]:
        assert value == value.strip(" \t")
        assert "_" not in name
        assert name.lower() != "proxy"
    for text in (request["target"], request["path"], request["query"], request["body"]):
        text.encode("latin-1")
    if request["content_length"] is not None:
        assert len(request["body"]) == request["content_length"]
    if request["target"].startswith("/"):
        raw, _, query = request["target"].partition("?")
        assert request["path"] == unquote_to_bytes(raw).decode("latin-1")
        assert request["query"] == query


@pytest.mark.parametrize("path", cases("valid"))
def test_valid_bytes_hold_the_request_lines_in_order(path: Path) -> None:
    raw = path.read_bytes()
    start = 0
    for request in facts_of(path)["requests"]:
        line = f"{request['method']} {request['target']} HTTP/".encode("latin-1")
        start = raw.index(line, start) + len(line)


@pytest.mark.parametrize("path", cases("invalid"))
def test_invalid_facts(path: Path) -> None:
    facts = facts_of(path)
    assert {"why", "status"} <= set(facts) <= {"why", "status", "after"}
    assert facts["status"] in STATUSES
    assert facts["why"].endswith((".", ")."))
    assert facts.get("after", 1) >= 1


def test_no_two_invalid_cases_are_the_same_bytes() -> None:
    seen: dict[bytes, str] = {}
    for path in sorted((CORPUS / "invalid").glob("*.http")):
        raw = path.read_bytes()
        assert raw not in seen, f"{path.stem} is {seen.get(raw)}"
        seen[raw] = path.stem


# ------------------------------------------------------------------------------------------------------- advisories

ROWS = [
    (identifier, shown)
    for identifier, shown in re.findall(
        r"^\| ([^|]+) \| [^|]+ \| [^|]+ \| ([^|]+) \|$", (CORPUS / "ADVISORIES.md").read_text(), re.MULTILINE
    )
    if identifier != "id"
]
SHOWN = {identifier: set(re.findall(r"`([^`]+)`", shown)) for identifier, shown in ROWS}
OWN_TESTS = [
    node
    for node in ast.parse((CORPUS.parent / "wire" / "test_wire_advisories.py").read_text(encoding="utf-8")).body
    if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
]


def test_an_advisory_stands_in_one_row_that_says_why_it_does_not_hold() -> None:
    assert len(SHOWN) > 200
    assert len(SHOWN) == len(ROWS)
    assert [identifier for identifier, shown in ROWS if "`" not in shown and "cannot apply: " not in shown] == []


def test_every_name_in_the_table_exists_and_every_advisory_case_is_there() -> None:
    names = set().union(*SHOWN.values())
    have = {path.stem for kind in ("valid", "invalid") for path in (CORPUS / kind).glob("advisory-*.http")}
    assert {name for name in names if not name.startswith("test_")} == have
    sources = [path.read_text(encoding="utf-8") for path in CORPUS.parent.rglob("test_*.py")]
    tests = set(re.findall(r"^def (test_\w+)", "\n".join(sources), re.MULTILINE))
    assert {name for name in names if name.startswith("test_")} - tests == set()
    assert {test.name for test in OWN_TESTS} - names == set()


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*/advisory-*.http")), ids=lambda path: path.stem)
def test_an_advisory_case_names_the_advisories_that_name_it(path: Path) -> None:
    identifiers = facts_of(path)["why"].partition(": ")[0].split(", ")
    assert set(identifiers) == {identifier for identifier, shown in SHOWN.items() if path.stem in shown}


def test_the_table_marks_as_open_what_is_an_expected_failure() -> None:
    failing = {test.name for test in OWN_TESTS if any("xfail" in ast.unparse(mark) for mark in test.decorator_list)}
    assert set(re.findall(r"`(test_\w+)` \*open\*", "\n".join(shown for _, shown in ROWS))) == failing
