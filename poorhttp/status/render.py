"""The status of a server, shown as text for a terminal, as HTML, as JSON and for Prometheus.

Knows the dictionaries of `poorhttp.status.reader`. Does not know where the text goes.
"""

from __future__ import annotations

from poorhttp.status.layout import FAILED, SUCCEEDED
from poorhttp.status.reader import STATES
from poorhttp.stdlib import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from poorhttp.status.reader import Facts


def text(told: Facts, rates: dict[int, float] | None = None, width: int = 0) -> list[str]:
    """Lines for a person. rates: requests per second of each process. width: of the terminal in characters; 0: any."""
    answers = ", ".join(f"{count} {name}" for name, count in told["answers"].items() if count)
    refused = f", {told['refused']} of them refused" if told["refused"] else ""
    total = f", {sum(rates.values()):.1f}/s" if rates else ""
    lines = [f"requests: {told['requests']}{total}; answers: {answers or 'none'}{refused}"]
    lines.append(f"connections: {told['connections']} open, {told['accepted']} accepted")
    lines.append(f"threads: {told['busy']} of {told['threads']} busy")
    lines.append(f"last reload: {_reload(told['last_reload'])}")
    lines.append(
        f"{'pid':>8}  {'state':<8}  {'for':>10}  {'requests':>10}  {'req/s':>8}  {'busy':>9}  {'conn':>6}  {'MiB':>7}"
    )
    for row in told["processes"]:
        rate = (rates or {}).get(row["pid"])
        cells = [
            f"{row['pid']:>8}",
            f"{row['state']:<8}",
            f"{duration(row['seconds']):>10}",
            f"{row['requests']:>10}",
            "-".rjust(8) if rate is None else f"{rate:>8.1f}",
            f"{row['busy']}/{row['threads']}".rjust(9),
            f"{row['connections']:>6}",
            f"{_mib(row['pss']):>7}",
        ]
        lines.append("  ".join(cells))
        lines += [f"{call['seconds']:>18.1f} s  {call['method']} {call['path']}" for call in row["calls"]]
    return [line[:width] if width else line for line in lines]


def duration(seconds: float) -> str:
    """`3 d 4 h`, `5 min`, `12 s`: the two largest units of a time in seconds."""
    parts: list[str] = []
    left = int(seconds)
    for size, unit in (86400, "d"), (3600, "h"), (60, "min"), (1, "s"):
        if left >= size or (unit == "s" and not parts):
            parts.append(f"{left // size} {unit}")
        left %= size
    return " ".join(parts[:2])


def _mib(size: int | None) -> str:
    return f"{size / (1 << 20):.1f}" if size else "-"


def _reload(last: Facts | None) -> str:
    if last is None:
        return "none"
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(min(last["time"], 1 << 40)))
    return f"{last['result']}, {when}{': ' if last['why'] else ''}{last['why']}"


def html(told: Facts) -> str:
    """A page. Whatever clients sent is escaped."""
    rows = []
    for row in told["processes"]:
        numbers = (row["pid"], row["state"], duration(row["seconds"]), row["requests"])
        more = (f"{row['busy']}/{row['threads']}", row["connections"], _mib(row["pss"]))
        rows.append("<tr>" + "".join(f"<td>{_escaped(str(each))}</td>" for each in (*numbers, *more)) + "</tr>")
        for call in row["calls"]:
            line = _escaped(f"{call['seconds']:.1f} s  {call['method']} {call['path']}")
            rows.append(f'<tr><td></td><td colspan="6"><code>{line}</code></td></tr>')
    facts = [
        f"running for {duration(told['seconds'])}: pid {told['pid']}, {told['application']}",
        *text(told)[:4],
    ]
    return _PAGE.format(
        version=_escaped(told["version"]),
        facts="".join(f"<li>{_escaped(line)}</li>\n" for line in facts),
        rows="\n".join(rows),
    )


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>poorhttp {version}</title>
<style>
body {{ font-family: sans-serif }} td, th {{ padding: 0 1em; text-align: right }} code {{ white-space: pre }}
</style>
</head>
<body>
<h1>poorhttp {version}</h1>
<ul>
{facts}</ul>
<table>
<tr><th>pid</th><th>state</th><th>for</th><th>requests</th><th>busy</th><th>connections</th><th>MiB</th></tr>
{rows}
</table>
</body>
</html>
"""


def _escaped(text: str) -> str:
    for char, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("'", "&#39;")):
        text = text.replace(char, entity)
    return text


def prometheus(told: Facts) -> str:
    """The text format 0.0.4 of Prometheus. Nothing that clients sent is in it."""
    lines: list[str] = []

    def metric(name: str, kind: str, help: str, *values: tuple[str, float | int | None]) -> None:
        lines.append(f"# HELP poorhttp_{name} {help}")
        lines.append(f"# TYPE poorhttp_{name} {kind}")
        lines.extend(f"poorhttp_{name}{labels} {value}" for labels, value in values if value is not None)

    states: dict[str, int] = dict.fromkeys((*STATES.values(), "unknown"), 0)
    for row in told["processes"]:
        states[row["state"]] += 1
    calls = [call["seconds"] for row in told["processes"] for call in row["calls"]]
    metric("requests_total", "counter", "Requests answered.", ("", told["requests"]))
    answers = [(f'{{class="{name}"}}', count) for name, count in told["answers"].items()]
    metric("responses_total", "counter", "Answers by class, refusals included.", *answers)
    metric("refused_total", "counter", "Requests and connections refused with an answer.", ("", told["refused"]))
    metric("dropped_fields_total", "counter", "Header fields dropped for their names.", ("", told["dropped"]))
    metric("accepted_total", "counter", "Connections accepted.", ("", told["accepted"]))
    metric("connections", "gauge", "Connections open.", ("", told["connections"]))
    metric("threads", "gauge", "Threads that call the application.", ("", told["threads"]))
    metric("threads_busy", "gauge", "Threads in the application.", ("", told["busy"]))
    metric("longest_call_seconds", "gauge", "Seconds since the oldest call began.", ("", max(calls, default=0)))
    processes = [(f'{{state="{state}"}}', count) for state, count in states.items()]
    metric("processes", "gauge", "Processes that serve.", *processes)
    metric("memory_bytes", "gauge", "Memory of these processes (PSS).", ("", told["pss"]))
    metric("start_time_seconds", "gauge", "Start of this program, in seconds since the epoch.", ("", told["started"]))
    last = told["last_reload"]
    if last is not None and last["result"] in (SUCCEEDED, FAILED):
        is_success = int(last["result"] == SUCCEEDED)
        metric("last_reload_success", "gauge", "1 if the last reload succeeded, 0 if it failed.", ("", is_success))
        metric(
            "last_reload_time_seconds",
            "gauge",
            "Time of the last reload, in seconds since the epoch.",
            ("", last["time"]),
        )
    return "\n".join(lines) + "\n"


def json(told: Facts) -> str:
    """All of it as one JSON object."""
    from poorhttp.stdlib import json

    return json.dumps(told) + "\n"
