"""Numbers to verdicts and tables. Pure: knows neither servers nor files.

A result is a list of rounds, each a dict of named numbers, or the failures that made it void. Nothing here turns a
failure into a number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from bench.workloads import Row, Target

ABSENT = "–"  # noqa: RUF001
TARGET_HEADING = ("target", "limit", "measured", "verdict")
MEBIBYTES = (
    "pss", "alone", "dirty", "judged", "size", "growth", "grown dirty", "grown pss", "base", "private",
    "pss before", "pss after", "alone after", "worker before", "worker after",
)  # fmt: skip
UNITS = {**dict.fromkeys(MEBIBYTES, 2**20), **dict.fromkeys(("tree", "waiting"), 1e6), "cpu": 1e-6, "front": 1e-6}


@dataclass
class Result:
    rounds: list[dict[str, float]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    remark: str = ""

    def turns(self) -> int:
        """How often it was measured."""
        return len(self.rounds) + len(self.failures)


Results = Mapping[Row, Result]


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that at least `percent` of the values do not exceed (nearest rank)."""
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]


def middle(result: Result, column: str) -> float | None:
    """The median over the rounds; None where a round failed or has no such number."""
    values = [numbers.get(column) for numbers in result.rounds]
    return None if result.failures or not values or None in values else median(values)


def spread(result: Result, column: str) -> float | None:
    """(largest - smallest) / median over the rounds; None where there is only one."""
    centre = middle(result, column)
    if not centre or len(result.rounds) == 1:
        return None
    values = [numbers[column] for numbers in result.rounds]
    return (max(values) - min(values)) / centre


def ratio(
    results: Results, row: Row, over: Sequence[Row], column: str, best: Callable[[list[float]], float] = min
) -> float | None:
    """The median over the rounds of the row's number divided by the best of `over` in the same round."""
    rows = [results.get(name, Result()) for name in (row, *over)]
    if any(middle(result, column) is None for result in rows):
        return None
    rounds = zip(*([numbers[column] for numbers in result.rounds] for result in rows), strict=False)
    return median(mine / best(others) for mine, *others in rounds)


def measured(target: Target, results: Results) -> float | None:
    """The target's number in the target's unit: the median over the rounds.

    A target of `<= 0` names what must never happen, so there it is the number of the worst round.
    """
    if target.needs and not all(numbers.get(target.needs) for numbers in _rounds(target.row, results)):
        return None
    if target.over:
        best = max if target.sense == ">=" else min
        over = _that_count(target, results)
        return ratio(results, target.row, over, target.column, best) if over else None
    result = results.get(target.row, Result())
    value = middle(result, target.column)
    if value is not None and (target.sense, target.limit) == ("<=", 0):
        value = max(numbers[target.column] for numbers in result.rounds)
    return None if value is None else value / UNITS.get(target.column, 1)


def _that_count(target: Target, results: Results) -> list[Row]:
    """The rows that the target's row is compared with: those of `over`, without those that it leaves out."""
    over = list(target.over)
    if target.leaves_out_failed:
        over = [row for row in over if middle(results.get(row, Result()), target.column) is not None]
    if serves := target.serves:
        over = [row for row in over if all(map(serves, _rounds(row, results)))]
    return over


def best(target: Target, results: Results) -> str:
    """The server that the target's row is compared with, the best by its median if there are several; else nothing."""
    found = {row[1]: value for row in _that_count(target, results) if row in results
             and (value := middle(results[row], target.column)) is not None}  # fmt: skip
    choose = max if target.sense == ">=" else min
    return choose(found, key=found.__getitem__) if found else ""


def _rounds(row: Row, results: Results) -> list[dict[str, float]]:
    return results.get(row, Result()).rounds


def verdict(target: Target, results: Results) -> str:
    """met, missed, failed (a row it needs failed) or not run."""
    value = measured(target, results)
    if value is None:
        rows = [results.get(row) for row in (target.row, *_that_count(target, results))]
        return "FAILED" if any(row and row.failures for row in rows) else "not run"
    met = {"<=": value <= target.limit, "<": value < target.limit, ">=": value >= target.limit}[target.sense]
    return "met" if met else "MISSED"


def target_table(targets: Sequence[Target], results: Results) -> str:
    """The targets of the rows that the results have, with a word how many others there are."""
    if not targets:
        return "There are none."
    judged = [target for target in targets if target.row in results]
    parts = [table(TARGET_HEADING, [target_row(target, results) for target in judged])] if judged else []
    if others := len(targets) - len(judged):
        parts.append(f"This run does not have the rows of {others} of the {len(targets)} targets.")
    return "\n\n".join(parts)


def target_row(target: Target, results: Results) -> list[str]:
    limit = f"{target.sense} {number(target.limit)} {target.unit}".strip()
    return [target.text, limit, number(measured(target, results)), verdict(target, results)]


def result_table(results: Results, workload: str, columns: Mapping[str, str]) -> str:
    """One line for each server of the workload; `columns` maps heading to the number's name.

    A name may begin with `~` for the spread over rounds, or `/` for the ratio to the row `bare`; `a/b` is the ratio of
    the server's `a` in this workload to its `a` in the workload `b`.
    """
    lines = []
    for row, result in results.items():
        if row[0] == workload:
            cells = [cell(results, row, name) for name in columns.values()]
            lines.append([row[1], *cells, remark(result)])
    return table(["server", *columns, "remarks"], lines)


def cell(results: Results, row: Row, name: str) -> str:
    if name.startswith("~"):
        part = spread(results[row], name[1:])
        return ABSENT if part is None else f"{part:.1%}"
    if name.startswith("/"):
        return number(ratio(results, row, [(row[0], "bare")], name[1:]))
    if "/" in name:
        column, _, other = name.partition("/")
        return number(ratio(results, row, [(other, row[1])], column))
    value = middle(results[row], name)
    return number(None if value is None else value / UNITS.get(name, 1))


def remark(result: Result) -> str:
    if result.failures:
        rounds = len(result.failures) + len(result.rounds)
        return f"**FAILED** in {len(result.failures)} of {rounds} rounds: {result.failures[0]}"
    faults = sum(numbers.get("errors", 0) for numbers in result.rounds)
    return "; ".join(part for part in (result.remark, f"{faults:.0f} faults" if faults else "") if part)


def number(value: float | None) -> str:
    """Three significant digits, thousands separated."""
    if value is None:
        return ABSENT
    if value == int(value):
        return f"{value:,.0f}"
    return f"{value:,.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


def table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose columns are aligned in plain text too."""
    clean = [[text.replace("|", "\\|").replace("\n", " ") for text in row] for row in (heading, *rows)]
    widths = [max(len(row[i]) for row in clean) for i in range(len(heading))]
    widths[-1] = min(widths[-1], 7)
    lines = [
        "| " + " | ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) + " |" for row in clean
    ]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])
