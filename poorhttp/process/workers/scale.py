"""How many workers there should be, between the least and the most that the setting allows.

Knows how busy each worker says it is, and the policy. Does not know processes or clocks: it imports nothing, every time
is given to it (seconds of any steady clock). Imported only where least and most differ.
Contract: `wanted` is always within its bounds and changes by one at a time: up where every worker is overloaded,
down where fewer would have had room to spare for long, so that the one does not follow from the other.
"""

from __future__ import annotations

OVERLOADED = 1.0
"""Seconds for which a worker counts as overloaded after it said so: all its threads were busy, and a client waited."""

GROW = 1.0
"""Seconds between two workers more."""

WINDOW = 15.0
"""Seconds whose load decides about one worker fewer; nothing changed meanwhile."""

LOOK = 5.0
"""Seconds between two looks whether there are too many."""

ROOM = 0.6
"""How busy the workers that would be left may be."""


class Scale:
    """The number of workers, from what they tell."""

    __slots__ = ("_changed", "_overloaded", "_shares", "least", "most", "wanted")

    def __init__(self, least: int, most: int, now: float) -> None:
        self.least, self.most, self.wanted = least, most, least
        self._changed = now
        self._overloaded: dict[int, float] = {}
        self._shares: list[tuple[float, float]] = []

    def overloaded(self, pid: int, now: float) -> None:
        """A worker has more to do than threads."""
        self._overloaded[pid] = now

    def busy(self, share: float, now: float) -> None:
        """A worker was busy for this share of the last second, all its threads together. An idle one says nothing."""
        self._shares.append((now, share))

    def step(self, by: int, now: float) -> None:
        """A signal asks for one more or fewer."""
        self._set(self.wanted + by, now)

    def decide(self, serving: list[int], now: float) -> bool:
        """Decide by what these workers, which serve, have reported; whether `wanted` has changed."""
        before = self.wanted
        self._overloaded = {
            pid: since for pid, since in self._overloaded.items() if pid in serving and now < since + OVERLOADED
        }
        self._shares = [(time, share) for time, share in self._shares if now < time + WINDOW]
        if len(serving) >= self.wanted and len(self._overloaded) == len(serving) and now >= self._changed + GROW:
            self._set(self.wanted + 1, now)
        elif now >= self._changed + WINDOW and not self._overloaded and self.load() <= ROOM * (self.wanted - 1):
            self._set(self.wanted - 1, now)
        return self.wanted != before

    def load(self) -> float:
        """How many workers' worth of work there was on average."""
        return sum(share for _, share in self._shares) / WINDOW

    def wait(self) -> float | None:
        """In how many seconds to decide again if nothing is reported; None if never: an idle server sleeps."""
        return LOOK if self.wanted > self.least else None

    def _set(self, wanted: int, now: float) -> None:
        wanted = min(max(wanted, self.least), self.most)
        if wanted != self.wanted:
            self.wanted, self._changed = wanted, now
