"""The article's tables and bar charts, in its order and with its column names, beside what it printed in 2010.

Pure: results in, Markdown and pictures out. A configuration that failed has no number in any of them.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from bench import charts, report
from bench.article import CONFIGURATIONS, PAGES
from bench.article_2010 import ENDED_EARLY, PRINTED
from bench.visits import EACH, LIMIT
from bench.workloads import Row

Numbers = dict[str, list[float | None]]  # a number's name -> one for each configuration

# fmt: off
COLUMNS = {
    "serial": {name: name for name in ("ans/s", "res/s", "real/s", "ans t", "res t")},
    "parallel": {"ans/s": "ans/s", "req/s": "res/s", "preq/s": "real/s", "ans t": "ans t", "req t": "res t"},
    "memory": {"size": "size", "vsize": "vsize", "4 x size": "4 x size"},
}
BESIDE = {
    "serial": {"ans t p50 ms": "p50", "p99 ms": "p99", "arrived": "arrived", "CPU µs/req": "cpu",
               "client's µs/req": "client us", "answers": "requests"},
    "parallel": {"ans t p50 ms": "p50", "p99 ms": "p99", "arrived": "arrived", "CPU µs/req": "cpu",
                 "client's µs/req": "client us", "answers": "requests", "unfinished": "unfinished",
                 "seconds": "seconds"},
    "memory": {"size after 10": "size after 10", "N": "N", "N x size": "N x size", "PSS MiB": "pss",
               "USS MiB": "uss"},
}
WHAT = {
    "serial": "one request after another",
    "parallel": f"{EACH} requests at once each second, until {LIMIT} have no answer",
    "memory": "after 10 and then 100 parallel requests",
}
UNITS_TOLD = {
    "serial": "`ans t`, `res t` and `arrived` are seconds.",
    "parallel": "`ans t`, `req t` and `arrived` are seconds.",
    "memory": "Sizes are KiB, but for PSS and USS.",
}
# The charts of a test: unit, which of its COLUMNS, and how much of their unit is one of the chart's.
OF_SPEED = (("per second, larger is better", slice(3), 1.0), ("ms, smaller is better", slice(3, 5), 1e-3))
DRAWN = {
    "serial": OF_SPEED,
    "parallel": OF_SPEED,
    "memory": (("MiB, smaller is better", slice(3), 1024.0),),
}
# fmt: on
UNITS = {"cpu": 1e-6, "pss": 2**20, "uss": 2**20}
# The chart of 2010 left this one out: beside it the others would have been too short to compare.
LEFT_OUT = ("memory", "apache", "4 x size")


def sections(results: report.Results) -> Iterator[str]:
    for workload in dict.fromkeys(row[0] for row in results):
        test, _, page = workload.partition(" ")
        what = f"{PAGES[page].what}, " if page else ""
        names = [server for of, server in results if of == workload]
        parts = [f"## {workload}: {what}{WHAT[test]}", UNITS_TOLD[test]]
        parts += [_compared(results, workload, test, names), _beside(results, workload, test, names)]
        yield "\n\n".join(parts)


def _compared(results: report.Results, workload: str, test: str, names: Sequence[str]) -> str:
    columns, printed = COLUMNS[test], PRINTED.get(workload)
    heading = ["", *columns, *(f"2010: {name}" for name in columns if printed)]
    lines = []
    for name in names:
        then = (printed or {}).get(name, {})
        now = [_cell(results[(workload, name)], column) for column in columns.values()]
        old = [report.number(then.get(column)) for column in columns.values() if printed]
        lines.append([_title(workload, name), *now, *old, _remark(results, workload, name)])
    return report.table([*heading, "remarks"], lines)


def _cell(result: report.Result, column: str) -> str:
    value = report.middle(result, column)
    return report.number(None if value is None else value / UNITS.get(column, 1))


def _remark(results: report.Results, workload: str, name: str) -> str:
    early = "2010: ended early" if workload == "parallel light" and name in ENDED_EARLY else ""
    return "; ".join(filter(None, [report.remark(results[(workload, name)]), early]))


def _beside(results: report.Results, workload: str, test: str, names: Sequence[str]) -> str:
    columns = BESIDE[test]
    lines = [
        [_title(workload, name), *(_cell(results[(workload, name)], column) for column in columns.values())]
        for name in names
    ]
    return report.table(["", *columns], lines)


def _title(workload: str, name: str) -> str:
    """The article's name of the configuration, which is another one in its table of memory."""
    title = CONFIGURATIONS[name].title
    if workload != "memory":
        return title
    return {"apache": "Apache"}.get(name, title if title.startswith("Lighttpd") else f"Poor Http {title}")


def pictures(results: report.Results, now: str, columns: int = 2) -> Iterator[tuple[str, str]]:
    """The article's charts as pictures, each with a name. Raises Failure where they cannot be drawn.

    now: the title of the charts of the results, beside `2010`. columns: how many charts stand side by side.
    """
    for workload in dict.fromkeys(row[0] for row in results):
        both = [
            chart
            for what, which, unit in DRAWN[workload.partition(" ")[0]]
            for chart in _of_both_years(results, workload, what, which, unit, now)
        ]
        yield workload.replace(" ", "-"), charts.svg(both, columns)


def _of_both_years(
    results: report.Results, workload: str, what: str, which: slice, unit: float, now: str
) -> Iterator[charts.Bars]:
    """The chart of 2010, if there is one, and that of the results."""
    shown = dict(list(COLUMNS[workload.partition(" ")[0]].items())[which])
    names = [server for of, server in results if of == workload and server != "bare"]

    def bars(title: str, numbers: Numbers, ended: Container[str], absent: str, note: str = "") -> charts.Bars:
        groups = {name: _title(workload, name) + " *" * (name in ended) for name in names}
        star = "; * ended early" * any(name in ended for name in names)
        series = {heading: [value and value / unit for value in numbers[column]] for heading, column in shown.items()}
        missing = {groups[name]: absent for i, name in enumerate(names)
                   if all(values[i] is None for values in numbers.values())}  # fmt: skip
        return charts.Bars(f"{title}: {workload}", what + star + note, list(groups.values()), series, missing)

    if printed := PRINTED.get(workload):
        then: Numbers = {
            column: [None if (workload, name, column) == LEFT_OUT else printed.get(name, {}).get(column)
                     for name in names]
            for column in shown.values()
        }  # fmt: skip
        early = ENDED_EARLY if workload == "parallel light" else ()
        left_out = ""
        if workload == LEFT_OUT[0]:
            _, name, column = LEFT_OUT
            value = report.number(printed[name][column] / unit)
            left_out = f"; {column} of {_title(workload, name)}, {value}, was left out"
        yield bars("2010", then, early, "not measured", left_out)
    rows: list[Row] = [(workload, name) for name in names]
    values: Numbers = {column: [report.middle(results[row], column) for row in rows] for column in shown.values()}
    yield bars(now, values, [row[1] for row in rows if report.middle(results[row], "stopped")], "failed")
