"""The records as runs: which there are, which are shown, and which newer ones replace.

Reads JSON. Knows neither how a run was measured nor how it is shown. A record may be anybody's: what is wrong in it is
told by name, and its texts come out as Markdown that shows them as they are.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from bench.report import Result
from bench.workloads import Row

Covered = tuple[str, str, Row]  # command, Python, row


class BadRecord(Exception):
    """What is wrong with a file that should be a record."""


@dataclass(frozen=True)
class Run:
    """One record: what was measured, on which machine, with which figures."""

    name: str  # `DATE/NAME`: of its directory and its file
    command: str  # `front` for `cost --front`
    date: datetime
    facts: Mapping[str, str]
    servers: Mapping[str, Mapping[str, str]]  # name -> version, command, note
    results: Mapping[Row, Result]

    @property
    def python(self) -> str:
        """The version of poorhttp's Python, without its last part."""
        found = re.search(r"\d+\.\d+", self.facts.get("python of poorhttp", ""))
        return found[0] if found else "unknown"

    @property
    def is_partial(self) -> bool:
        """Whether it was ended before its end."""
        return "partial" in self.facts

    def covers(self) -> set[Covered]:
        """What it has measured. A row that only has a remark, since its server was not installed, is not among it."""
        return {(self.command, self.python, row) for row, result in self.results.items() if result.turns()}


def read_all(directory: Path) -> list[Run]:
    """The records in the directory and in those below it, the newest first. Raises BadRecord."""
    runs = [read(path) for path in sorted(directory.rglob("*.json"))]
    return sorted(runs, key=lambda run: (run.date, run.name), reverse=True)


def read(path: Path) -> Run:
    """One record. Raises BadRecord."""
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        facts = {name: value for name, value in told["surroundings"].items() if name != "servers"}
        return Run(
            identity(path),
            command_of(facts["command"]),
            datetime.strptime(facts["date"], "%Y-%m-%d %H:%M:%S %z"),
            {plain(name): plain(value) for name, value in facts.items()},
            {plain(name): {key: plain(value) for key, value in server.items()}
             for name, server in told["surroundings"]["servers"].items()},
            {(plain(row["workload"]), plain(row["server"])): _result(row) for row in told["results"]},
        )  # fmt: skip
    except KeyError as error:
        raise BadRecord(f"{path.name}: no {error} in it; is it a record of `python -m bench`?") from error
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise BadRecord(f"{path.name}: {error}; is it a record of `python -m bench`?") from error


def identity(path: Path) -> str:
    """The name of the record in a file: `DATE/NAME`."""
    return f"{path.parent.name}/{path.stem}"


def command_of(line: str) -> str:
    """What a command line of the bench measured: `front` for `python -m bench cost --front lighttpd ...`,
    `memory-workers` for `python -m bench memory --app ...`, and `sessions-django` for `python -m bench sessions
    --suite django ...`; else the command.
    """
    words = line.split()
    command = words[words.index("bench") + 1]
    suite = re.search(r" --suite[ =](\w+)", line)
    if command == "sessions" and suite and suite[1] != "own":
        return f"sessions-{suite[1]}"
    if command == "memory" and re.search(r" --app\b", line):
        return "memory-workers"
    return "front" if command == "cost" and "--front" in words else command


def _result(row: Mapping[str, Any]) -> Result:
    for numbers in row["rounds"]:
        for column, value in numbers.items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise ValueError(f"{row['workload']}, {row['server']}: {column} is {value!r}, not a number")
    return Result([dict(each) for each in row["rounds"]], [plain(each) for each in row["failures"]],
                  plain(row["remark"]))  # fmt: skip


def plain(text: object) -> str:
    """Markdown that shows the text as it is, on one line."""
    shown = "".join(character if character.isprintable() else " " for character in str(text))
    return re.sub(r"([\\`*<\[\]&])", r"\\\1", shown)


def replaced(runs: Iterable[Run]) -> dict[str, list[str]]:
    """The names of the runs that are not shown, each with those of the newer runs that have all its rows.

    A row is replaced by the one of a newer run of the same command under the same Python, but not of one that was ended
    before its end. runs: the newest first.
    """
    newer: dict[Covered, str] = {}
    found = {}
    for run in runs:
        rows = run.covers()
        if rows <= newer.keys():
            found[run.name] = list(dict.fromkeys(newer[row] for row in sorted(rows)))
        elif not run.is_partial:
            newer = dict.fromkeys(rows, run.name) | newer
    return found


def unescaped(text: str) -> str:
    """The text that `plain` has made Markdown of."""
    return re.sub(r"\\(.)", r"\1", text)
