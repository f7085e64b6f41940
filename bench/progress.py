"""How far a run has come, on stderr: the round, the row, how long the rest takes, and the time of day when it is over.

Knows the rows only. Nothing is drawn while a row is measured, as that would take CPU from the load; the time of day
stays right meanwhile. On a terminal it is a bar by rich, or without that library one line that is written anew;
elsewhere it is a line for each measurement.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator, Sequence
from statistics import mean
from typing import Any, TextIO

from bench.workloads import Row


class Progress:
    def __init__(self, turns: Sequence[Row], stream: TextIO | None = None) -> None:
        """turns: the rows that are to be measured, in their order; a row comes again in each round."""
        self._turns = turns
        self._took: dict[Row, float] = {}  # seconds for its last measurement
        self._done = 0
        self._stream = stream or sys.stderr
        self._bar = _bar(self._stream, len(turns)) if self._stream.isatty() else None

    @contextlib.contextmanager
    def measuring(self, what: str) -> Iterator[None]:
        """The next of the turns is measured in the block. what: round, workload and server."""
        self._show(f"{what}; {self._remaining()}")
        begin = time.monotonic()
        yield
        self._took[self._turns[self._done]] = time.monotonic() - begin
        self._done += 1

    def end(self) -> None:
        """Remove what stands on the terminal."""
        with contextlib.suppress(OSError):
            if self._bar:
                self._bar.stop()
            elif self._stream.isatty():
                print("\r\033[K", end="", file=self._stream, flush=True)

    def left(self) -> float | None:
        """Seconds for the rest; None where nothing has been measured yet.

        A row takes as long as last time; a new one as long as the others of its workload, or else as all others.
        """
        if not self._took:
            return None
        by_workload: dict[str, list[float]] = {}
        for (workload, _), seconds in self._took.items():
            by_workload.setdefault(workload, []).append(seconds)
        other = mean(self._took.values())
        return sum(
            self._took[row] if row in self._took else mean(by_workload.get(row[0], [other]))
            for row in self._turns[self._done :]
        )

    def _remaining(self) -> str:
        place, seconds = f"{self._done + 1} of {len(self._turns)}", self.left()
        if seconds is None:
            return place
        end = time.strftime("%H:%M", time.localtime(time.time() + seconds))
        minutes, rest = divmod(round(seconds), 60)
        left = f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
        return f"{place}, {left} left, until {end}"

    def _show(self, text: str) -> None:
        with contextlib.suppress(OSError):  # a terminal that was closed must not void what is measured
            if self._bar:
                self._bar.update(self._bar.task_ids[0], completed=self._done, description=text, refresh=True)
            elif self._stream.isatty():
                print(f"\r\033[K{text}", end="", file=self._stream, flush=True)
            else:
                print(text, file=self._stream, flush=True)


def _bar(stream: TextIO, total: int) -> Any:
    """A bar by rich, begun; None if that library is not installed."""
    try:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Bar
    except ImportError:
        return None
    bar = Bar(
        BarColumn(bar_width=20), TextColumn("{task.description}", markup=False), console=Console(file=stream),
        auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False,
    )  # fmt: skip
    bar.add_task("", total=total)
    bar.start()
    return bar
