"""The status of a server, shown: as text for a terminal, as HTML, as JSON and for Prometheus; and the status page,
which the engine calls in place of the application (`status_path`).

Knows the dictionaries of `poorhttp.status.reader`, and which of these forms a client wants.
"""

from __future__ import annotations

from poorhttp.pages.document import POLICY, document, escape
from poorhttp.status.layout import FAILED, SUCCEEDED
from poorhttp.status.reader import STATES, read_scoreboard
from poorhttp.stdlib import os, time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from poorhttp.status.reader import Facts

HTML, JSON, PROMETHEUS = "text/html; charset=utf-8", "application/json", "text/plain; version=0.0.4; charset=utf-8"


_LINE = "{:>8}  {:<8}  {:>10}  {:>10}  {:>8}  {:>9}  {:>6}  {:>7}"


def text(told: Facts, rates: dict[int, float] | None = None, width: int = 0) -> list[str]:
    """Lines for a person. rates: requests per second of each process. width: of the terminal in characters; 0: any."""
    lines = _summary(told, f", {sum(rates.values()):.1f}/s" if rates else "")
    lines.append(_LINE.format("pid", "state", "for", "requests", "req/s", "busy", "conn", "MiB"))
    for row in told["processes"]:
        pid, state, seconds, requests, *more = _cells(row)
        rate = (rates or {}).get(row["pid"])
        cells = [pid, state, seconds, requests, "-" if rate is None else f"{rate:.1f}", *more]
        lines.append(_LINE.format(*cells))
        lines += [f"{call['seconds']:>18.1f} s  {call['method']} {call['path']}" for call in row["calls"]]
    return [line[:width] if width else line for line in lines]


def _summary(told: Facts, rate: str = "") -> list[str]:
    """Lines about the server as a whole."""
    answers = ", ".join(f"{count} {name}" for name, count in told["answers"].items() if count)
    refused = f", {told['refused']} of them refused" if told["refused"] else ""
    lines = [
        f"requests: {told['requests']}{rate}; answers: {answers or 'none'}{refused}",
        f"connections: {told['connections']} open, {told['accepted']} accepted",
        f"threads: {told['busy']} of {told['threads']} busy",
        f"last reload: {_reload(told['last_reload'])}",
    ]
    if told["immortal"]:
        lines.append(f"application immortal: {told['immortal']}")
    return lines


def duration(seconds: float) -> str:
    """`3 d 4 h`, `5 min`, `12 s`: the two largest units of a time in seconds."""
    parts: list[str] = []
    left = int(seconds)
    for size, unit in (86400, "d"), (3600, "h"), (60, "min"), (1, "s"):
        if left >= size or (unit == "s" and not parts):
            parts.append(f"{left // size} {unit}")
        left %= size
    return " ".join(parts[:2])


def _cells(row: Facts) -> list[str]:
    """What is told of a process: number, state, age, requests, busy threads, connections, memory."""
    numbers = [str(row["pid"]), row["state"], duration(row["seconds"]), str(row["requests"])]
    memory = f"{row['pss'] / (1 << 20):.1f}" if row["pss"] else "-"
    return [*numbers, f"{row['busy']}/{row['threads']}", str(row["connections"]), memory]


def _reload(last: Facts | None) -> str:
    if last is None:
        return "none"
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(min(last["time"], 1 << 40)))
    return f"{last['result']}, {when}{': ' if last['why'] else ''}{last['why']}"


def html(told: Facts) -> str:
    """A page. Whatever clients sent is escaped."""
    rows = []
    for row in told["processes"]:
        rows.append("<tr>" + "".join(f"<td>{escape(each)}</td>" for each in _cells(row)) + "</tr>")
        for call in row["calls"]:
            line = escape(f"{call['seconds']:.1f} s  {call['method']} {call['path']}")
            rows.append(f'<tr><td colspan="7"><code>{line}</code></td></tr>')
    facts = [
        f"running for {duration(told['seconds'])}: pid {told['pid']}, {told['application']}",
        *_summary(told),
    ]
    listed = "".join(f"<li>{escape(line)}</li>\n" for line in facts)
    title = escape(f"poorhttp {told['version']}")
    return document(title, _BODY.format(facts=listed, rows="\n".join(rows)), "report")


_BODY = """\
<ul>
{facts}</ul>
<table class="numbers">
<thead><tr><th>pid</th><th>state</th><th>for</th><th>requests</th><th>busy</th><th>conn</th><th>MiB</th></tr></thead>
<tbody>
{rows}
</tbody>
</table>
"""


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


def answer(descriptor: int, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Answer with what the server of this scoreboard does, in the format that the client asks for."""
    if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
        return _send(start_response, "405 Method Not Allowed", HTML, "", ("Allow", "GET, HEAD"))
    told = read_scoreboard(descriptor, os.getpid())
    if told is None:
        return _send(start_response, "503 Service Unavailable", "text/plain", "the scoreboard cannot be read\n")
    kind = wanted(environ["PATH_INFO"], environ["QUERY_STRING"], environ.get("HTTP_ACCEPT", ""))
    show = {HTML: html, JSON: json, PROMETHEUS: prometheus}[kind]
    return _send(start_response, "200 OK", kind, show(told))


def wanted(path: str, query: str, accept: str) -> str:
    """The media type of the answer: HTML if a browser asks, Prometheus by name, else JSON."""
    if query == "prometheus" or path.endswith("/metrics"):
        return PROMETHEUS
    if query != "json" and "text/html" in accept and "application/json" not in accept:
        return HTML
    return JSON


def _send(start_response: Callable[..., Any], status: str, kind: str, body: str, *more: tuple[str, str]) -> list[bytes]:
    data = body.encode("ascii", "xmlcharrefreplace" if kind == HTML else "backslashreplace")
    policy = ("Content-Security-Policy", POLICY)
    fields = [("Content-Type", kind), ("Content-Length", str(len(data))), ("Cache-Control", "no-store"), policy]
    start_response(status, [*fields, ("Vary", "Accept"), ("X-Content-Type-Options", "nosniff"), *more])
    return [data]
