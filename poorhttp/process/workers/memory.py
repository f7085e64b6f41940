"""The memory of the processes of a server, and which worker is replaced where they take too much together.

Knows how /proc tells the memory of a process and who started whom, and the policy. Does not know what a worker is but a
number, nor how one is replaced. Imported only where `memory` is set, and by `status`.
Contract: `Budget.judge` is pure: every time and every figure is given to it, and it never names two workers within
`PAUSE`.
"""

from __future__ import annotations

from poorhttp.config.units import Bytes
from poorhttp.system import procfs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

LOOK = 5.0
"""Seconds between two looks."""

PAUSE, LONGEST_PAUSE = 30.0, 1800.0
"""Seconds between two replacements at least: doubled where it did not help for long."""

REMINDER = 600.0
"""Seconds between two warnings that nothing helps."""

GROWN, GROWN_BYTES = 1.25, 4 << 20
"""A worker that weighs no more than so many times what a fresh one does, or so many bytes more, has not grown: its
successor would be no lighter."""


class Tree:
    """The memory of the workers, each with the processes that it started, and of all other processes.

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
        seen = procfs.processes()
        if not seen:
            return {}, 0
        families = {pid: procfs.below([pid], seen) for pid in workers}
        mine = set().union(*families.values())
        orphans = {pid for pid, born in self._started.items() if pid not in mine and seen.get(pid, (0, 0))[1] == born}
        orphans |= procfs.below(orphans, seen)
        self._started = {pid: seen[pid][1] for pid in mine | orphans}
        self.orphaned = sum(map(procfs.weigh, orphans))
        others = sum(map(procfs.weigh, {main} | procfs.below([main], seen, without=families) - orphans)) + self.orphaned
        sizes = {}
        for pid, family in families.items():
            started = sum(map(procfs.weigh, family))
            is_its_own = started > GROWN * self.orphaned
            sizes[pid] = procfs.weigh(pid) + started * is_its_own
            others += started * (not is_its_own)
        return sizes, others


def show(size: int) -> str:
    """A size in MiB, for a person."""
    return f"{size / (1 << 20):.1f} MiB"


class Budget:
    """Which worker is to be replaced, and why, in words; limit: bytes of all processes together."""

    __slots__ = ("_fresh", "_limit", "_pause", "_reminder", "_replaced", "_seen", "_tree", "next_look", "text")

    def __init__(self, limit: int, now: float) -> None:
        self._limit = limit
        self._tree = Tree()
        self._fresh = 0  # what the lightest worker weighed when it was seen first
        self._seen: set[int] = set()
        self._pause = PAUSE
        self._replaced = self._reminder = float("-inf")
        self.next_look = now + 1.0
        self.text = ""  # what is to be logged after the last judgement, "" for nothing

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
        largest = max(workers, key=lambda pid: workers[pid], default=0)
        over = f"{show(total)} in all processes, memory = {Bytes().show(self._limit)}"
        if orphaned:
            over += f" ({show(orphaned)} in what outlived the worker that started it: let it end with the worker)"
        if not largest or workers[largest] <= max(GROWN * self._fresh, self._fresh + GROWN_BYTES):
            self._remind(over, now)
            return 0
        is_soon = now < self._replaced + 4 * self._pause
        self._pause = min(2 * self._pause, LONGEST_PAUSE) if is_soon else PAUSE
        self._replaced = now
        self.text = f"{over}; worker {largest} has most, {show(workers[largest])}; another one takes its place"
        return largest

    def _remind(self, over: str, now: float) -> None:
        if now >= self._reminder + REMINDER:
            self._reminder = now
            self.text = f"{over}; no worker has grown, so that none is replaced: lower processes, or raise memory"
