"""The status of a server, read from its scoreboard into plain dictionaries.

Knows the layout of a scoreboard and how to find it in /proc. Does not know how the result is shown. Another process
wrote the memory, and it holds what clients sent: a reader believes only what fits, leaves out a cell that is being
written, and keeps of a path only printable ASCII; all else becomes an escape.
"""

from __future__ import annotations

import stat
from sys import byteorder

from poorhttp.status import calls
from poorhttp.status.layout import CELL, COUNTERS, FACTS, HEAD, LAYOUT, MAGIC, NAME, ROW, SPARE, SUMS, WORD, numbers
from poorhttp.stdlib import binascii, os, time
from poorhttp.system import procfs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, TypeVar

    Facts = dict[str, Any]
    T = TypeVar("T")

STATES = {1: "starting", 2: "serving", 3: "draining", 4: "stopping", 5: "stuck"}
CLASSES = ("1xx", "2xx", "3xx", "4xx", "5xx")

MOST_ROWS, MOST_CELLS = 2 * 1024 + SPARE, 1025
"""The most that a scoreboard can have: `processes` and `threads` are at most 1024."""

LONGEST = 1.0
"""Seconds after which a reader looks at no more calls: the memory may hold anything."""

MOMENT = 0.02
"""Seconds that a call must have lasted to be listed."""

TRIES = 5
"""How often a head with a wrong checksum is read: the server may be writing it."""


def read_server(pid: int) -> Facts | None:
    """The status of the server with this main process; None where it has no scoreboard (yet). Raises PermissionError.

    `version`, `shape`, `is_supervised`, `application`, `pid`, `started` (s since the epoch), `seconds`; `last_reload`
    (`result`, `time`, `why`) or None; `immortal`: whether the objects of the application are, or None without a
    supervisor; `processes`, those that serve (see `_row`); and the sums over all processes, those that have ended
    included.
    """
    return _asked(pid, read_scoreboard)


def find_main_process(pid: int) -> int:
    """The main process of the server to which this process belongs; 0 if that is not known."""
    try:
        return _number((_facts_of(pid) or {}).get("pid", ""))
    except PermissionError:
        return 0


def serves(pid: int) -> bool:
    """Whether a process of this server was ready to serve clients. Raises PermissionError."""
    facts = _facts_of(pid) or {"serves": "no"}
    return facts.get("serves") != "no"  # a version before this one does not tell


def read_start(pid: int) -> dict[str, str]:
    """How the server with this main process was started: `home` (see `cli.way_to`), `ini` and `pidfile`. Empty if it
    does not tell. Raises PermissionError.
    """
    facts = _facts_of(pid) or {}
    is_it = "home" in facts and facts.get("pid") == str(pid)
    return {name: facts[name] for name in ("home", "ini", "pidfile")} if is_it else {}


def read_last_reload(pid: int) -> Facts | None:
    """`can_reload`, which a program that calls `poorhttp.run()` cannot, and after a reload `result`, `time` and `why`.
    None if the process has no scoreboard. Raises PermissionError.
    """
    facts = _facts_of(pid)
    return None if facts is None else {"can_reload": facts.get("reloads") != "no"} | _last_reload(facts)


def read_scoreboard(descriptor: int, teller: int = 0) -> Facts | None:
    """The status of the server of this open scoreboard, as `read_server` tells it. During a reload the workers of the
    program before are on another scoreboard. teller: the process that asks, one of whose threads is busy with nothing
    but this.
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
        rows += _rows_of_child(each, end)
    for row in rows:
        row["pss"] = procfs.pss(row["pid"]) or None
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
        "immortal": facts.get("immortal"),
    }
    for name in ("requests", "refused", "cut", "accepted", "dropped"):
        told[name] = past[name] + sum(row[name] for row in counted)
    told["answers"] = {name: past[name] + sum(row["answers"][name] for row in counted) for name in CLASSES}
    for name in ("connections", "threads", "busy"):
        told[name] = sum(row[name] for row in rows)
    told["pss"] = sum(row["pss"] or 0 for row in rows) or None
    return told | {"processes": rows}


def _facts_of(pid: int) -> dict[str, str] | None:
    """The facts in the head of the scoreboard of a process; None if it has none. Raises PermissionError."""
    return _asked(pid, _facts)


def _asked(pid: int, ask: Callable[[int], T]) -> T | None:
    """What a function returns for the open scoreboard of a process; None if it has none. Raises PermissionError."""
    own = _open(pid)
    if own < 0:
        return None
    try:
        return ask(own)
    finally:
        os.close(own)


def _open(pid: int) -> int:
    """Open the scoreboard of a process; -1 if it has none. Raises PermissionError, also if /proc hides it."""
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
    """The number of rows and of cells in each; 0, 0 if this is no scoreboard, or one of another version."""
    head = os.pread(descriptor, len(MAGIC) + 3 * WORD, 0)
    if len(head) != len(MAGIC) + 3 * WORD or not head.startswith(MAGIC):
        return 0, 0
    layout, rows, cells = numbers(head[len(MAGIC) :])
    fits = HEAD + rows * (ROW + cells * CELL) <= os.fstat(descriptor).st_size
    return (rows, cells) if layout == LAYOUT and rows <= MOST_ROWS and cells <= MOST_CELLS and fits else (0, 0)


def _facts(descriptor: int) -> dict[str, str]:
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
    """The figures of each row. The first row of each of these processes has `is_shown` set, and its calls if it is read
    before `end`, in seconds of `time.monotonic`.
    """
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
    """A row that was read three times. A cell counts only if it did not change meanwhile.

    `pid`, `state`, `started`, `seconds`, `threads`, `busy` (those in the application), `connections`, `accepted`,
    `requests`, `answers` by class (refusals included), `refused` (with an answer), `cut` (without one), `dropped`
    (fields), `calls`: those that have lasted a moment, the oldest first, each with `seconds`, `method` and `path`.
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


def _rows_of_child(pid: int, end: float) -> list[Facts]:
    """The row of a child that is not on this scoreboard: a worker of the program before a reload."""
    if time.monotonic() >= end:
        return []
    try:
        rows = _asked(pid, lambda own: list(_rows(own, {pid}, end))) or []
    except PermissionError:
        return []
    return [row for row in rows if row.pop("is_shown")]


def _second_class(counts: dict[str, int]) -> int:
    """The number of 2xx answers: those requests whose answer no rarer class has counted."""
    others = sum(counts[name] for name in ("1xx", "3xx", "4xx", "5xx"))
    return max(counts["requests"] + counts["refused"] - others, 0)


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else 0


def printable(text: str) -> str:
    """The text with an escape for each character that is not printable ASCII."""
    return "".join(char if " " <= char <= "~" else char.encode("unicode_escape").decode("ascii") for char in text)
