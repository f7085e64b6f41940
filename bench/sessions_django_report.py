"""The tables of `sessions --suite django`, and which figures the advice is made from.

Pure: results in, Markdown and numbers out. A row is named by what is measured, `read thousand forking`, and by engine
and size, `db-kept 32KB`. What failed, or does not fit, has no number anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bench import report
from bench.workloads import Row

NONE = "none"
TITLES = {
    NONE: "without session", "cookie": "signed cookie", "file": "files", "cache": "Redis",
    "db": "PostgreSQL (new connections)", "db-kept": "PostgreSQL (kept)",
    "db-async": "PostgreSQL (new connections, async)", "db-kept-async": "PostgreSQL (kept, async)",
}  # fmt: skip
MODES = {"read": "a session that is read", "write": "a session that is read and written"}
COUNTS = {"one": "one for all 20 clients (ab)", "thousand": "a thousand in turn, asked for by 20 clients (tally)"}
WEBS = {"forking": "poorhttp forking", "gunicorn": "gunicorn sync"}
READS_AS = {"db-async": "db", "db-kept-async": "db-kept"}  # what only matters for writing
COLUMNS = {
    "req/s": "rate", "± req/s": "~rate", "of none": "share", "ms": "ms", "p50 ms": "p50", "p99 ms": "p99",
    "CPU µs/req": "cpu", "± CPU": "~cpu", "store's CPU µs/req": "store", "writes undone %": "lost",
}  # fmt: skip


@dataclass(frozen=True)
class Figures:
    """The results by the words of their rows."""

    results: report.Results

    def modes(self) -> list[str]:
        return self._words(0, 0)

    def counts(self) -> list[str]:
        return self._words(0, 1)

    def webs(self) -> list[str]:
        return self._words(0, 2)

    def engines(self, mode: str = "") -> list[str]:
        """But for the page without session; in the order of TITLES. mode: those that are measured in this one."""
        found = self._words(1, 0, mode)
        return [name for name in TITLES if name in found and name != NONE]

    def sizes(self) -> list[str]:
        return sorted(self._words(1, 1), key=kilobytes)

    def _words(self, part: int, place: int, mode: str = "") -> list[str]:
        rows = (row for row in self.results if row[0].startswith(mode))
        return list(dict.fromkeys(row[part].split()[place] for row in rows))

    def share(self, mode: str, count: str, web: str, engine: str, size: str) -> float | None:
        """The rate as a part of that of the page without session, in the same round."""
        return share(self.results, (f"{mode} {count} {web}", f"{engine} {size}"))

    def middle(self, mode: str, count: str, web: str, engine: str, size: str, column: str) -> float | None:
        result = self.results.get((f"{mode} {count} {web}", f"{engine} {size}"))
        return None if result is None else report.middle(result, column)


def kilobytes(size: str) -> int:
    return int(size.removesuffix("KB"))


def share(results: report.Results, row: Row) -> float | None:
    size = row[1].split()[1]
    return report.ratio(results, row, [(row[0], f"{NONE} {size}")], "rate")


def sections(results: report.Results) -> Iterator[str]:
    """For each of what is measured the rates by engine and size, and then a line for each row."""
    for workload in dict.fromkeys(row[0] for row in results):
        mode, count, web = workload.split()
        figures = Figures({row: result for row, result in results.items() if row[0] == workload})
        yield (
            f"## {workload}: {MODES[mode]}, {COUNTS[count]}, {WEBS[web]}\n\n"
            f"Requests per second, and in brackets their part of those without session:\n\n"
            f"{_matrix(figures, workload)}\n\n{_lines(figures, workload)}"
        )


def _matrix(figures: Figures, workload: str) -> str:
    sizes = figures.sizes()
    lines = [
        [TITLES[engine], *(_rate_and_share(figures.results, (workload, f"{engine} {size}")) for size in sizes)]
        for engine in (NONE, *figures.engines())
    ]
    return report.table(["engine", *sizes], lines)


def _rate_and_share(results: report.Results, row: Row) -> str:
    if row not in results:
        return report.ABSENT
    if results[row].failures:
        return "failed"
    part = share(results, row)
    told = report.cell(results, row, "rate")
    return told if part is None or row[1].startswith(f"{NONE} ") else f"{told} ({report.number(part)})"


def _lines(figures: Figures, workload: str) -> str:
    rows = [(workload, f"{engine} {size}") for engine in (NONE, *figures.engines()) for size in figures.sizes()]
    lines = [
        [row[1], *(_cell(figures.results, row, column) for column in COLUMNS.values()),
         report.remark(figures.results[row])]
        for row in rows if row in figures.results
    ]  # fmt: skip
    return report.table(["engine and size", *COLUMNS, "remarks"], lines)


def _cell(results: report.Results, row: Row, column: str) -> str:
    return report.number(share(results, row)) if column == "share" else report.cell(results, row, column)
