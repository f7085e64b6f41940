"""Reads an ini file whose sections all have the same keys. Knows neither servers nor workloads.

Values are texts; the caller says by a function for each key what becomes of one. A fault names file, section, key and
what was expected.
"""

from __future__ import annotations

import configparser
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any


class BadFile(SystemExit):
    """The file is wrong, and its user must correct it. Where this is not caught, the program ends with its text."""

    def __init__(self, path: Path, section: str, key: str, what: str) -> None:
        where = ", ".join([str(path), *([f"[{section}]"] if section else []), *([key] if key else [])])
        super().__init__(f"error: {where}: {what}")


def sections(path: Path) -> dict[str, dict[str, str]]:
    """The sections with their values, each on one line. `${section:key}` stands for another value."""
    parser = configparser.ConfigParser(
        delimiters=("=",), comment_prefixes=("#",), empty_lines_in_values=False, default_section="",
        interpolation=configparser.ExtendedInterpolation(),
    )  # fmt: skip
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    try:
        parser.read_string(path.read_text(encoding="utf-8"), source=str(path))
        return {name: {key: " ".join(value.split()) for key, value in parser.items(name)} for name in parser.sections()}
    except configparser.Error as error:
        raise BadFile(path, "", "", " ".join(str(error).split())) from error


def values(
    path: Path, section: str, texts: Mapping[str, str], kinds: Mapping[str, Callable[[str], Any]], needed: Iterable[str]
) -> dict[str, Any]:
    """The section's values by key. Raises BadFile.

    kinds: for each key what makes a value of a text; it raises ValueError with what was expected. needed: keys that may
    not be absent.
    """
    found = {}
    for key, text in texts.items():
        if key not in kinds:
            raise BadFile(path, section, key, f"no such key; expected one of {', '.join(kinds)}")
        try:
            found[key] = kinds[key](text)
        except ValueError as error:
            raise BadFile(path, section, key, f"{text!r}; expected {error}") from error
    for key in needed:
        if not found.get(key):
            raise BadFile(path, section, key, f"missing; expected {', '.join(needed)} in each section")
    return found


def whole_number(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError("a whole number")
    return int(text)


def yes_or_no(text: str) -> bool:
    if text not in ("yes", "no"):
        raise ValueError("yes or no")
    return text == "yes"


def names(text: str) -> tuple[str, ...]:
    """Names with commas between them."""
    found = tuple(name.strip() for name in text.split(","))
    if not all(found) or len(set(found)) < len(found):
        raise ValueError("names with commas between them, each once")
    return found
