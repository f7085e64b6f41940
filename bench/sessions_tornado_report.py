"""Session engines beside what an article printed of those for Tornado: the tables, and the article's numbers.

Pure: results in, Markdown out. A run that failed has no number.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from bench import report
from bench.report import ABSENT, Results
from bench.workloads import Row


class Printed(NamedTuple):
    """Requests per second of the article's worst and best run."""

    worst: float
    best: float
    note: str = ""

    @property
    def share(self) -> float:
        """Of the best run, in that of Tornado without sessions."""
        return self.best / WITHOUT


CASES = {
    "new": "no request has a cookie, so that each makes a session and stores a value there, as in the article",
    "grown": "as `new`, with five times as many sessions stored before",
    "cookie": "all requests have the cookie of one session, which holds the value already: it is read, and not written",
    "changed": "each client has a session, and each request stores another value there: it is read and written",
}
ARTICLE = "new"  # the case that the article measured, whose client sent no cookie
WITHOUT = 1626.0  # requests per second of the article's Tornado without sessions
# "Benchmarking Tornado's sessions", of 2010: ab -n 10000 -c 300, nginx, four processes of Tornado on four cores.
PRINTED = {
    "tornado": Printed(WITHOUT, WITHOUT),
    "file": Printed(32, 160, "then 1,000 requests by 10 clients, and a third run that did not finish"),
    "directory": Printed(608, 869),
    "mariadb": Printed(1171, 1353, "then MySQL 5.1"),
    "memcached": Printed(1106, 1473, "then writes that nobody waited for"),
    "redis": Printed(1410, 1418, 'three runs "at around 1410"; then BGSAVE after each write'),
    "ferretdb": Printed(1520, 1582, "then MongoDB 1.2, and writes that nobody waited for"),
}
TITLES = {
    "tornado": "Tornado alone",
    "none": "poorhttp alone",
    "file": "one file",
    "directory": "directory of files",
    "mariadb": "MariaDB",
    "memcached": "Memcached",
    "redis": "Redis",
    "ferretdb": "FerretDB/SQLite",
}
OURS = tuple(name for name in TITLES if name != "tornado")
BASES = ("none", "tornado")  # rows without sessions, which the others are compared with
BASED_ON = {"grown": "new"}  # cases without such rows
UNITS = dict.fromkeys(("cpu", "front", "store"), 1e-6)
COSTS = {"processes, CPU µs": "cpu", "nginx, CPU µs": "front", "store, CPU µs": "store", "p50 ms": "p50",
         "p99 ms": "p99", "requests": "requests", "sessions before": "older", "sessions made": "made"}  # fmt: skip


def sections(results: Results) -> Iterator[str]:
    for case in dict.fromkeys(row[0] for row in results):
        rows = [row for row in results if row[0] == case]
        yield (
            f"## {case}: {CASES[case]}\n\nRequests per second of each run, and what part they are of those of a "
            f"server alone, without sessions, in the same round:\n\n{_rates(results, case, rows)}\n\n"
            f"Medians; CPU is for each request, and all of it on one core:\n\n{_costs(results, rows)}"
        )


def _rates(results: Results, case: str, rows: list[Row]) -> str:
    runs = max(results[row].turns() for row in rows)
    then = ("worst", "best", "share") if case == ARTICLE else ()
    heading = ["engine", *(f"run {i + 1}" for i in range(runs)), "worst", "best", "of poorhttp's", "of Tornado's"]
    lines = []
    for row in rows:
        printed = _then(row[1]) if then else []
        lines.append([TITLES[row[1]], *_of_row(results, row, runs), *printed, _remark(results, row)])
    return report.table([*heading, *(f"2010: {each}" for each in then), "remarks"], lines)


def _of_row(results: Results, row: Row, runs: int) -> list[str]:
    """Each run, the worst and the best one, and the shares."""
    result = results[row]
    rates = [] if result.failures else [numbers["rate"] for numbers in result.rounds]
    if not rates:
        return [ABSENT] * (runs + 2 + len(BASES))
    shown = [*map(report.number, rates), *[ABSENT] * (runs - len(rates))]
    case = BASED_ON.get(row[0], row[0])
    shares = [report.ratio(results, row, [(case, base)], "rate") for base in BASES]
    return [*shown, report.number(min(rates)), report.number(max(rates)), *map(_percent, shares)]


def _then(name: str) -> list[str]:
    if name not in PRINTED:
        return [ABSENT] * 3
    printed = PRINTED[name]
    return [report.number(printed.worst), report.number(printed.best), _percent(printed.share)]


def _percent(share: float | None) -> str:
    return ABSENT if share is None else f"{share:.1%}"


def _remark(results: Results, row: Row) -> str:
    case, name = row
    note = PRINTED[name].note if case == ARTICLE and name in PRINTED else ""
    return "; ".join(filter(None, [report.remark(results[row]), f"2010: {note}" * bool(note)]))


def _costs(results: Results, rows: list[Row]) -> str:
    lines = [[TITLES[row[1]], *(_cost(results, row, column) for column in COSTS.values())] for row in rows]
    return report.table(["engine", *COSTS], lines)


def _cost(results: Results, row: Row, column: str) -> str:
    value = report.middle(results[row], column)
    return report.number(None if value is None else value / UNITS.get(column, 1))
