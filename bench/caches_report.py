"""The tables of DiskCache's article, of the caches of today, and beside them what the article printed.

Pure: results in, Markdown out. A cache that failed has no number in any of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench import caches_article as article
from bench import report
from bench.caches import LISTINGS, SCENARIOS
from bench.caches_workload import ACTIONS, KEYS
from bench.workloads import Row

# Heading -> number of an action, and by what it is divided.
COLUMNS = {"Count": ("count", 1), "Miss": ("miss", 1), "Median µs": ("median", 1), "P90 µs": ("p90", 1),
           "P99 µs": ("p99", 1), "Max ms": ("max", 1e3), "Total s": ("total", 1)}  # fmt: skip
BESIDE = ("Median µs", "P90 µs", "P99 µs", "Miss")  # what is shown beside the article's
WHOLE = {"operations/s": "rate", "± operations/s": "~rate", "± median of get": "~get median",
         "± median of set": "~set median", "keys that another process found": "kept", "clock µs": "clock"}  # fmt: skip
SLIP = """\
The article's program called `glob.glob1` {calls} times and took the sum for the time of one call. So its listing of 100
files did not take {printed} ms, "more than five milliseconds", but {once} µs."""


def sections(results: report.Results) -> Iterator[str]:
    for workload in dict.fromkeys(row[0] for row in results):
        names = [server for of, server in results if of == workload]
        tables = list(_listing(results, names) if workload == "listing" else _timings(results, workload, names))
        yield "\n\n".join([f"## {workload}: {SCENARIOS[workload].what}", *tables])


def _timings(results: report.Results, workload: str, names: Sequence[str]) -> Iterator[str]:
    lines = [line for name in names for line in _lines(results, (workload, name))]
    yield report.table(["cache", "action", *COLUMNS, "remarks"], lines)
    whole = WHOLE | ({"gets that found nothing though a value was there": "lost"} if workload == "alone" else {})
    yield f"One process filled the cache with {KEYS:,} keys, and another one looked for them before all others began."
    yield report.table(
        ["cache", *whole],
        [[name, *(report.cell(results, (workload, name), each) for each in whole.values())] for name in names],
    )
    if workload == "djangocache":
        yield counts(results, workload, names)
        beside = [line for name in names for line in _beside(results, (workload, name))]
        heads = [f"{whose}{head}" for head in BESIDE for whose in ("", "article: ")]
        yield report.table(["cache", "action", *heads], beside)


def _lines(results: report.Results, row: Row) -> Iterator[list[str]]:
    """A line for each action and one for all, as in the article; one alone where there are no figures."""
    result = results[row]
    remark = report.remark(result)
    for action in ACTIONS if report.middle(result, "count") is not None else ():
        cells = [_cell(result, f"{action} {name}", by) for name, by in COLUMNS.values()]
        yield [row[1], action, *cells, remark]
        remark = ""
    count, total = (_cell(result, name, 1) for name in ("count", "total"))
    yield [row[1], "total", count, *[""] * (len(COLUMNS) - 2), total, remark]


def _cell(result: report.Result, column: str, by: float) -> str:
    value = report.middle(result, column)
    return report.number(None if value is None else value / by)


def counts(results: report.Results, workload: str, names: Sequence[str]) -> str:
    """Whether the operations were those of the article, in words."""
    found = {tuple(report.middle(results[(workload, name)], f"{action} count") for action in ACTIONS) for name in names}
    found -= {(None,) * len(ACTIONS)}
    printed = ", ".join(f"{action} {count:,}" for action, count in article.COUNTS.items())
    if found == {tuple(article.COUNTS.values())}:
        return f"The operations that are timed are, of each cache, exactly the article's: {printed}."
    return f"The article timed other operations than this run: {printed}, from {article.OPERATIONS:,} of each process."


def _beside(results: report.Results, row: Row) -> Iterator[list[str]]:
    result = results[row]
    for action, printed in article.PRINTED.get(row[1], {}).items():
        then = dict(zip(article.COLUMNS, printed, strict=True))
        cells = [
            text
            for name, by in (COLUMNS[head] for head in BESIDE)
            for text in (_cell(result, f"{action} {name}", by), report.number(then[name] / by))
        ]
        yield [row[1], action, *cells]


def _listing(results: report.Results, names: Sequence[str]) -> Iterator[str]:
    heads = {"glob.glob1 µs": "glob1", "glob.glob µs": "glob", "a set µs": "set"}
    lines = []
    for name in names:
        printed = article.LISTING[LISTINGS[name]]
        cells = [report.cell(results, ("listing", name), column) for column in heads.values()]
        then = [f"{printed:,.3f}", report.number(printed * 1e3 / article.LISTING_CALLS)]
        lines.append([f"{LISTINGS[name]:,}", *cells, *then, report.remark(results[("listing", name)])])
    yield report.table(
        ["files", *heads, "article, as printed: ms", f"article / {article.LISTING_CALLS}: µs", "remarks"], lines
    )
    once = article.LISTING[100] * 1e3 / article.LISTING_CALLS
    yield SLIP.format(calls=article.LISTING_CALLS, printed=article.LISTING[100], once=report.number(once))
