"""What the processes of a server weigh, and which worker is to be replaced where they weigh too much together.

Knows how /proc tells the memory of a process and who started whom, and the policy. Does not know what a worker is but a
number, nor how one is replaced. Imported only where `memory` is set, and by `status`.
Contract: `Budget.judge` is pure: every time and every figure is given to it, and it never names two workers within
`PAUSE`.
"""

from __future__ import annotations

from poorhttp.lean import os
from poorhttp.units import Bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable

LOOK = 5.0
"""Seconds between two looks."""

PAUSE, LONGEST_PAUSE = 30.0, 1800.0
"""Seconds between two replacements at least: doubled where it did not help for long."""

REMINDER = 600.0
"""Seconds between two warnings that nothing helps."""

GROWN, GROWN_BYTES = 1.25, 4 << 20
"""A worker that weighs no more than so many times what a fresh one does, or so many bytes more, has not grown: its
successor would be no lighter."""


def weigh(pid: int) -> int:
    """Bytes of a process: its share of what it shares with others (PSS), or, where this user may not know that, all
    that is resident (RSS), so that what is shared counts many times; 0 where the process is gone.
    """
    for line in _read(pid, "smaps_rollup").splitlines():
        if line.startswith(b"Pss:"):
            return int(line.split()[1]) << 10
    resident = _read(pid, "statm").split()[1:2]
    return int(resident[0]) * os.sysconf("SC_PAGE_SIZE") if resident else 0


def processes() -> dict[int, tuple[int, int]]:
    """The parent of each process of this moment, and when it was started, in ticks: numbers are used again. None where
    that is not told, or no descriptor is left to ask.
    """
    try:
        names = os.listdir("/proc")
    except OSError:
        return {}
    seen = {}
    for each in names:
        if each.isdecimal():
            fields = _read(int(each), "stat").rpartition(b") ")[2].split()
            if fields:
                seen[int(each)] = int(fields[1]), int(fields[19])
    return seen


def below(tops: Iterable[int], seen: dict[int, tuple[int, int]], without: Container[int] = ()) -> set[int]:
    """What these processes have started, and what that has started; without: whom to leave out, with all below."""
    found: set[int] = set()
    level = set(tops)
    while level:
        level = {pid for pid, (parent, _) in seen.items() if parent in level and pid not in without} - found
        found |= level
    return found


class Tree:
    """What the workers weigh, each with all that it started, and what the rest does.

    A process that outlives the worker which started it is nobody's child, but weighs what it weighed, and was not got
    rid of by replacing. So it is counted on where it was seen before, and what a worker started is the worker's only
    where it is clearly more than that: its successor would start the same again, and there would be ever more of it.
    """

    __slots__ = ("_started", "orphaned")

    def __init__(self) -> None:
        self._started: dict[int, int] = {}  # what workers have started, and when
        self.orphaned = 0  # bytes of what outlived its worker

    def weigh(self, main: int, workers: Iterable[int]) -> tuple[dict[int, int], int]:
        """Bytes of each worker, and of all other processes of the server with this main process; nothing where that is
        not known.
        """
        seen = processes()
        if not seen:
            return {}, 0
        families = {pid: below([pid], seen) for pid in workers}
        mine = set().union(*families.values())
        orphans = {pid for pid, born in self._started.items() if pid not in mine and seen.get(pid, (0, 0))[1] == born}
        orphans |= below(orphans, seen)
        self._started = {pid: seen[pid][1] for pid in mine | orphans}
        self.orphaned = sum(map(weigh, orphans))
        others = sum(map(weigh, {main} | below([main], seen, without=families) - orphans)) + self.orphaned
        sizes = {}
        for pid, family in families.items():
            started = sum(map(weigh, family))
            is_its_own = started > GROWN * self.orphaned
            sizes[pid] = weigh(pid) + started * is_its_own
            others += started * (not is_its_own)
        return sizes, others


def show(size: int) -> str:
    """A size in MiB, for a person."""
    return f"{size / (1 << 20):.1f} MiB"


class Budget:
    """Who is to be replaced, and what is to be told; limit: bytes of all processes together."""

    __slots__ = ("_fresh", "_limit", "_pause", "_reminder", "_replaced", "_seen", "_tree", "next_look", "text")

    def __init__(self, limit: int, now: float) -> None:
        self._limit = limit
        self._tree = Tree()
        self._fresh = 0  # what the lightest worker weighed when it was seen first
        self._seen: set[int] = set()
        self._pause = PAUSE
        self._replaced = self._reminder = float("-inf")
        self.next_look = now + 1.0
        self.text = ""  # what the last judgement has to say, "" for nothing

    def look(self, main: int, workers: Collection[int], now: float) -> int:
        """Weigh the server with this main process, and judge. workers: those that serve; none while one is replaced."""
        sizes, others = self._tree.weigh(main, workers) if workers else ({}, 0)
        return self.judge(sizes, others, now, self._tree.orphaned)

    def judge(self, workers: dict[int, int], others: int, now: float, orphaned: int = 0) -> int:
        """Return the number of the worker to replace, 0 for none. workers: number -> bytes, those that serve and may
        go; others: bytes of all other processes; orphaned: of these, of what outlived its worker.
        """
        self.next_look, self.text = now + LOOK, ""
        for pid, size in workers.items():
            if pid not in self._seen:
                self._fresh = min(self._fresh or size, size)
        self._seen = set(workers)
        total = sum(workers.values()) + others
        if total <= self._limit or now < self._replaced + self._pause:
            return 0
        fattest = max(workers, key=lambda pid: workers[pid], default=0)
        over = f"{show(total)} in all processes, memory = {Bytes().show(self._limit)}"
        if orphaned:
            over += f" ({show(orphaned)} in what outlived the worker that started it: let it end with the worker)"
        if not fattest or workers[fattest] <= max(GROWN * self._fresh, self._fresh + GROWN_BYTES):
            self._remind(over, now)
            return 0
        is_soon = now < self._replaced + 4 * self._pause
        self._pause = min(2 * self._pause, LONGEST_PAUSE) if is_soon else PAUSE
        self._replaced = now
        self.text = f"{over}; worker {fattest} has most, {show(workers[fattest])}; another one takes its place"
        return fattest

    def _remind(self, over: str, now: float) -> None:
        if now >= self._reminder + REMINDER:
            self._reminder = now
            self.text = f"{over}; no worker has grown, so that none is replaced: lower processes, or raise memory"


def _read(pid: int, what: str) -> bytes:
    try:
        with open(f"/proc/{pid}/{what}", "rb") as file:
            return file.read(1 << 16)
    except OSError:
        return b""
