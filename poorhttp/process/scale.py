"""How many workers there should be, between the least and the most that the setting allows.

Knows how busy each worker says it is, and the policy. Does not know processes or clocks: it imports nothing, every time
is given to it (seconds of any steady clock). Imported only where least and most differ.
Contract: `wanted` is always within its bounds and changes by one at a time: up where every worker is pressed, down
where fewer would have room to spare for long; so that one does not follow from the other.
"""

from __future__ import annotations

PRESSED = 1.0
"""Seconds for which it counts that a worker was pressed: all its threads in the application, and somebody waiting."""

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

    __slots__ = ("_changed", "_pressed", "_told", "least", "most", "wanted")

    def __init__(self, least: int, most: int, now: float) -> None:
        self.least, self.most, self.wanted = least, most, least
        self._changed = now
        self._pressed: dict[int, float] = {}
        self._told: list[tuple[float, float]] = []

    def pressed(self, pid: int, now: float) -> None:
        """A worker has more to do than threads."""
        self._pressed[pid] = now

    def told(self, share: float, now: float) -> None:
        """A worker was busy for this share of the last second, all its threads together; an idle one tells nothing."""
        self._told.append((now, share))

    def step(self, by: int, now: float) -> None:
        """Somebody wants one more or fewer, now."""
        self._set(self.wanted + by, now)

    def decide(self, serving: list[int], now: float) -> bool:
        """Take the workers that serve and what they told for a decision; whether `wanted` has changed."""
        before = self.wanted
        self._pressed = {pid: since for pid, since in self._pressed.items() if pid in serving and now < since + PRESSED}
        self._told = [(time, share) for time, share in self._told if now < time + WINDOW]
        if len(serving) >= self.wanted and len(self._pressed) == len(serving) and now >= self._changed + GROW:
            self._set(self.wanted + 1, now)
        elif now >= self._changed + WINDOW and not self._pressed and self.load() <= ROOM * (self.wanted - 1):
            self._set(self.wanted - 1, now)
        return self.wanted != before

    def load(self) -> float:
        """How many workers' worth of work there was on average."""
        return sum(share for _, share in self._told) / WINDOW

    def wait(self) -> float | None:
        """In how many seconds to decide again if nothing is told; None if never: an idle server sleeps."""
        return LOOK if self.wanted > self.least else None

    def _set(self, wanted: int, now: float) -> None:
        wanted = min(max(wanted, self.least), self.most)
        if wanted != self.wanted:
            self.wanted, self._changed = wanted, now
