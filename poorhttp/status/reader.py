"""What a server is doing, read from its board: one plain structure, and that as words, JSON, HTML and for Prometheus.

Knows how a board is laid out (`poorhttp.status.scoreboard`, `src/net/report/board.rs`), and /proc. Does not know
how it is asked for.
Imported only then.
Contract: what is read is another process's, and what clients sent is in it: nothing is believed that does not fit, a
half-written cell is left out, and of a path only printable ASCII is kept, anything else as its escape.
"""

from __future__ import annotations

import stat
from sys import byteorder

from poorhttp.status import calls
from poorhttp.status.calls import numbers
from poorhttp.status.scoreboard import (
    CELL,
    COUNTERS,
    FACTS,
    FAILED,
    HEAD,
    LAYOUT,
    MAGIC,
    NAME,
    ROW,
    SPARE,
    SUCCEEDED,
    SUMS,
    WORD,
)
from poorhttp.stdlib import binascii, os, time
from poorhttp.system import procfs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    Facts = dict[str, Any]

STATES = {1: "starting", 2: "serving", 3: "draining", 4: "stopping", 5: "stuck"}
CLASSES = ("1xx", "2xx", "3xx", "4xx", "5xx")

MOST_ROWS, MOST_CELLS = 2 * 1024 + SPARE, 1025
"""No board has more: `processes` and `threads` are 1024 at most."""

LONGEST = 1.0
"""Seconds after which no more calls are looked at: another process can write whatever it wants into its board."""

MOMENT = 0.02
"""Seconds that a call lasts before it is worth a line."""

TRIES = 5
"""How often a head is read that does not fit its checksum: it is being written."""

HTML, JSON, PROMETHEUS = "text/html; charset=utf-8", "application/json", "text/plain; version=0.0.4; charset=utf-8"


def of(pid: int) -> Facts | None:
    """What the server with this main process does; None where it has no board, or none yet. Raises PermissionError.

    `version`, `shape`, `is_supervised`, `application`, `pid`, `started` (s since the epoch), `seconds`; `last_reload`
    (`result`, `time`, `why`) or None; `processes`, those that serve (see `_row`); and the sums of all, of those that
    are gone too.
    """
    own = _open(pid)
    if own < 0:
        return None
    try:
        return gather(own)
    finally:
        os.close(own)


def main_of(pid: int) -> int:
    """The main process of the server to which this process belongs; 0 where that is not known."""
    try:
        return _number((_facts_of(pid) or {}).get("pid", ""))
    except PermissionError:
        return 0


def serves(pid: int) -> bool:
    """Whether a process of this server was ready to serve clients. Raises PermissionError."""
    facts = _facts_of(pid) or {"serves": "no"}
    return facts.get("serves") != "no"  # a version before this one does not tell


def start(pid: int) -> dict[str, str]:
    """How the server with this main process was started: `home`, the directory as it was named (`cli.way_to`), `ini`
    and `pidfile`, "" for none. Empty where there is no such server, or it does not tell. Raises PermissionError.
    """
    facts = _facts_of(pid) or {}
    is_it = "home" in facts and facts.get("pid") == str(pid)
    return {name: facts[name] for name in ("home", "ini", "pidfile")} if is_it else {}


def last_reload(pid: int) -> Facts | None:
    """`can_reload`, which a program that calls `poorhttp.run()` cannot, and what `last_reload` holds, nothing where
    there was none; None where it has no board. Raises PermissionError.
    """
    facts = _facts_of(pid)
    return None if facts is None else {"can_reload": facts.get("reloads") != "no"} | _last_reload(facts)


def gather(descriptor: int, teller: int = 0) -> Facts | None:
    """The same of the server whose board this is; its workers of an image before are found by their parent. teller: the
    one of them that tells it, with a thread that is busy with nothing else.
    """
    facts = _facts(descriptor)
    if not facts:
        return None
    now = int(time.time())
    pid = _number(facts.get("pid", ""))
    end = time.monotonic() + LONGEST
    processes = {pid, *procfs.children(pid)}
    counted = list(_rows(descriptor, processes, end))
    rows = [row for row in counted if row.pop("is_shown") and procfs.lives(row["pid"])]
    for each in sorted(processes - {pid, *(row["pid"] for row in rows)}):
        rows += _elsewhere(each, end)
    for row in rows:
        row["pss"] = procfs.pss(row["pid"]) * 1024 or None
        row["busy"] = max(row["busy"] - (row["pid"] == teller), 0)
    past = {name: _number(facts.get(name, "")) for name in SUMS}
    past["2xx"] = _second_class(past)
    told: Facts = {
        "version": facts.get("version", ""),
        "application": facts.get("title", ""),
        "shape": facts.get("shape", ""),
        "is_supervised": facts.get("supervised") == "yes",
        "pid": pid,
        "started": _number(facts.get("started", "")),
        "seconds": max(now - _number(facts.get("started", "")), 0),
        "last_reload": _last_reload(facts) or None,
    }
    for name in ("requests", "refused", "cut", "accepted", "dropped"):
        told[name] = past[name] + sum(row[name] for row in counted)
    told["answers"] = {name: past[name] + sum(row["answers"][name] for row in counted) for name in CLASSES}
    for name in ("connections", "threads", "busy"):
        told[name] = sum(row[name] for row in rows)
    told["pss"] = sum(row["pss"] or 0 for row in rows) or None
    return told | {"processes": rows}


# Reading


def _facts_of(pid: int) -> dict[str, str] | None:
    """Those on the board of a process; None where there is none. Raises PermissionError."""
    own = _open(pid)
    if own < 0:
        return None
    try:
        return _facts(own)
    finally:
        os.close(own)


def _open(pid: int) -> int:
    """The board of a process, open to be read; -1 where there is none. Raises PermissionError, where /proc does not
    show it too.
    """
    try:
        names = os.listdir(f"/proc/{pid}/fd")
    except (FileNotFoundError, ProcessLookupError):
        if procfs.lives(pid):
            raise PermissionError(procfs.HIDDEN) from None
        return -1
    for name in names:
        path = f"/proc/{pid}/fd/{name}"
        try:
            if not os.readlink(path).startswith(f"/memfd:{NAME} "):
                continue
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except (FileNotFoundError, ProcessLookupError):
            continue  # it was closed meanwhile
        if stat.S_ISREG(os.fstat(descriptor).st_mode) and _shape(descriptor) != (0, 0):
            return descriptor
        os.close(descriptor)
    return -1


def _last_reload(facts: dict[str, str]) -> Facts:
    if "reload" not in facts:
        return {}
    seconds, _, millionths = facts.get("reload_time", "").partition(".")
    when = _number(seconds) + _number(millionths) / 1e6
    return {"result": facts["reload"], "time": when, "why": facts.get("reload_why", "")}


def _shape(descriptor: int) -> tuple[int, int]:
    """Rows, and cells of each; 0, 0 where it is no board, or one of another version."""
    head = os.pread(descriptor, len(MAGIC) + 3 * WORD, 0)
    if len(head) != len(MAGIC) + 3 * WORD or not head.startswith(MAGIC):
        return 0, 0
    layout, rows, cells = numbers(head[len(MAGIC) :])
    fits = HEAD + rows * (ROW + cells * CELL) <= os.fstat(descriptor).st_size
    return (rows, cells) if layout == LAYOUT and rows <= MOST_ROWS and cells <= MOST_CELLS and fits else (0, 0)


def _facts(descriptor: int) -> dict[str, str]:
    """What the head says."""
    for _ in range(TRIES):
        head = os.pread(descriptor, HEAD - FACTS, FACTS)
        if len(head) < 2 * WORD:
            return {}
        length, checksum = numbers(head[: 2 * WORD])
        text = head[2 * WORD :][:length]
        if binascii.crc32(text) == checksum:
            lines = (line.partition(" ") for line in text.decode("utf-8", "replace").split("\n"))
            return {name: printable(value) for name, _, value in lines}
    return {}


def _rows(descriptor: int, processes: set[int], end: float) -> Iterator[Facts]:
    """What each row counts; the first one of each of these processes `is_shown`, up to that time with its calls."""
    rows, cells = _shape(descriptor)
    size = ROW + cells * CELL
    left = set(processes)
    for index in range(rows):
        offset = HEAD + index * size
        data = os.pread(descriptor, ROW, offset)
        owner = int.from_bytes(data[:WORD], byteorder)
        if not owner:
            continue
        is_shown = owner in left
        left.discard(owner)
        is_looked_at = is_shown and time.monotonic() < end
        before, data, after = (os.pread(descriptor, size if is_looked_at else ROW, offset) for _ in range(3))
        if ROW <= len(before) == len(data) == len(after):
            yield _row(before, data, after) | {"pid": owner, "is_shown": is_shown}


def _row(before: bytes, data: bytes, after: bytes) -> Facts:
    """A row that was read three times; a cell counts where it did not change meanwhile.

    `pid`, `state`, `started`, `seconds`, `threads`, `busy` (those in the application), `connections`, `accepted`,
    `requests`, `answers` by class (with what was refused), `refused` (with an answer), `cut` (without one), `dropped`
    (fields, for their names), `calls`: those that have lasted a moment, `seconds`, `method`, `path`, the oldest first;
    null where that cannot be known.
    """
    words = numbers(data[:ROW])
    row: Facts = {"pid": words[0], "state": STATES.get(words[2], "unknown"), "started": words[1]}
    row["seconds"] = max(int(time.time()) - words[1], 0)
    counts = {name: words[index] for index, name in COUNTERS.items()}
    counts["2xx"] = _second_class(counts)
    going: list[Facts] = []
    busy = 0
    for start in range(ROW, len(data), CELL):
        cells = [each[start : start + CELL] for each in (before, data, after)]
        busy += any(cells[1][WORD : 2 * WORD])
        call = _call(*cells)
        if call is not None and call.seconds() > MOMENT:
            about = {"method": printable(call.method), "path": printable(call.path())}
            going.append({"seconds": call.seconds()} | about)
    going.sort(key=lambda call: -call["seconds"])
    row |= {"threads": words[3], "busy": min(busy, words[3]), "connections": counts["connections"]}
    row |= {name: counts[name] for name in ("accepted", "requests", "refused", "cut", "dropped")}
    return row | {"answers": {name: counts[name] for name in CLASSES}, "calls": going}


def _call(before: bytes, cell: bytes, after: bytes) -> calls.Call | None:
    """The call that goes on in a cell; None where there is none, or it is being written."""
    sequences = {each[2 * WORD : 3 * WORD] for each in (before, cell, after)}
    return calls.of_cell(cell) if len(sequences) == 1 else None


def _elsewhere(pid: int, end: float) -> list[Facts]:
    """The row of a child that is not on this board: of a worker of an image before this one, that is on that one's. One
    that does not serve yet has none, nor has a child of the application.
    """
    try:
        own = _open(pid) if time.monotonic() < end else -1
    except PermissionError:
        return []
    try:
        return [row for row in _rows(own, {pid}, end) if row.pop("is_shown")] if own >= 0 else []
    finally:
        if own >= 0:
            os.close(own)


def _second_class(counts: dict[str, int]) -> int:
    """How many answers were 2xx: those are not counted by themselves."""
    others = sum(counts[name] for name in ("1xx", "3xx", "4xx", "5xx"))
    return max(counts["requests"] + counts["refused"] - others, 0)


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else 0


def printable(text: str) -> str:
    """Only printable ASCII: all else as an escape."""
    return "".join(char if " " <= char <= "~" else char.encode("unicode_escape").decode("ascii") for char in text)


# Showing


def text(told: Facts, rates: dict[int, float] | None = None, width: int = 0) -> list[str]:
    """The same for a person, line by line; rates: requests per second of each process; width: of the terminal."""
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
    """`3 d 4 h`, `5 min`, `12 s`: the two greatest units."""
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
    """A page. What comes from clients is escaped."""
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
    """Its text format 0.0.4; nothing that clients sent is in it."""
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
    metric("responses_total", "counter", "Answers by class, with those to what was refused.", *answers)
    metric("refused_total", "counter", "What was refused with an answer.", ("", told["refused"]))
    metric("dropped_fields_total", "counter", "Fields dropped for their names.", ("", told["dropped"]))
    metric("accepted_total", "counter", "Connections accepted.", ("", told["accepted"]))
    metric("connections", "gauge", "Connections open.", ("", told["connections"]))
    metric("threads", "gauge", "Threads that call the application.", ("", told["threads"]))
    metric("threads_busy", "gauge", "Threads in the application.", ("", told["busy"]))
    metric("longest_call_seconds", "gauge", "Since when the oldest call goes on.", ("", max(calls, default=0)))
    processes = [(f'{{state="{state}"}}', count) for state, count in states.items()]
    metric("processes", "gauge", "Processes that serve.", *processes)
    metric("memory_bytes", "gauge", "Of those together, in proportion (PSS).", ("", told["pss"]))
    metric("start_time_seconds", "gauge", "Start of this image, since the epoch.", ("", told["started"]))
    last = told["last_reload"]
    if last is not None and last["result"] in (SUCCEEDED, FAILED):
        metric("last_reload_success", "gauge", "Whether it did.", ("", int(last["result"] == SUCCEEDED)))
        metric("last_reload_time_seconds", "gauge", "When, since the epoch.", ("", last["time"]))
    return "\n".join(lines) + "\n"


def json(told: Facts) -> str:
    """All of it."""
    from poorhttp.stdlib import json

    return json.dumps(told) + "\n"


# Answering


def answer(descriptor: int, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """A WSGI application: what the server of this board does, as whoever asks understands it."""
    if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
        return _send(start_response, "405 Method Not Allowed", HTML, "", ("Allow", "GET, HEAD"))
    told = gather(descriptor, os.getpid())
    if told is None:
        return _send(start_response, "503 Service Unavailable", "text/plain", "there is nothing to tell\n")
    kind = wanted(environ["PATH_INFO"], environ["QUERY_STRING"], environ.get("HTTP_ACCEPT", ""))
    return _send(start_response, "200 OK", kind, {HTML: html, JSON: json, PROMETHEUS: prometheus}[kind](told))


def wanted(path: str, query: str, accept: str) -> str:
    """The kind of answer: HTML where a browser asks, which is to be told by name; JSON unless something else is."""
    if query == "prometheus" or path.endswith("/metrics"):
        return PROMETHEUS
    if query != "json" and "text/html" in accept and "application/json" not in accept:
        return HTML
    return JSON


def _send(start_response: Callable[..., Any], status: str, kind: str, body: str, *more: tuple[str, str]) -> list[bytes]:
    data = body.encode("ascii", "xmlcharrefreplace" if kind == HTML else "backslashreplace")
    policy = ("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
    fields = [("Content-Type", kind), ("Content-Length", str(len(data))), ("Cache-Control", "no-store"), policy]
    start_response(status, [*fields, ("Vary", "Accept"), ("X-Content-Type-Options", "nosniff"), *more])
    return [data]
