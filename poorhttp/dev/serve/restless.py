"""Files that change at every load, because the application causes the change: they must not cause loads for ever.

Such a file changes with each load, and not without one; the author, who may save often, also saves between loads. So
after some loads in a row that the same file has spoiled, nothing is loaded for a while, to see whether it changes.
"""

from __future__ import annotations

from poorhttp.dev.watch.paths import Signature, signature

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

RESTLESS = 10
"""Loads in a row that a file spoils by a change, seen during the load or after it."""

REST, LONGEST_REST = 1.0, 10.0
"""Seconds of a rest: twice the time of the last load, within these limits."""

RESTS = 3
"""Rests, each followed by a spoiled load, in which a file must not change to be ignored."""


class Restless:
    """The files that spoil loads. until: when the rest is over, None while there is none."""

    def __init__(self) -> None:
        self.until: float | None = None
        self._before: dict[str, Signature | None] = {}  # the restless files at the begin of the rest
        self._spoiled: dict[str, int] = {}  # loads in a row that a file has spoiled
        self._rested: dict[str, int] = {}  # rests in a row in which a file did not change

    def note(self, changed: Iterable[str], is_spoiled: bool) -> None:
        """These files have changed. is_spoiled: since the last load began, so that it has to be repeated."""
        self._spoiled = {path: self._spoiled.get(path, 0) + 1 for path in changed if is_spoiled}
        self._rested = {path: count for path, count in self._rested.items() if path in self._spoiled}

    def paths(self) -> list[str]:
        """The restless files."""
        return sorted(path for path, count in self._spoiled.items() if count >= RESTLESS)

    def are_known(self) -> bool:
        """Whether it is certain that they change only with a load."""
        return all(self._rested.get(path, 0) >= RESTS for path in self.paths())

    def begin_rest(self, now: float, took: float) -> None:
        """Load nothing for a while. took: seconds of the last load."""
        self._before = {path: signature(path) for path in self.paths()}
        self.until = now + min(max(2 * took, REST), LONGEST_REST)

    def end_rest(self) -> None:
        """The rest is over: see which of the files have changed in it."""
        self.until = None
        for path, found in self._before.items():
            if signature(path) == found:
                self._rested[path] = self._rested.get(path, 0) + 1
            else:
                self._rested.pop(path, None)
                self._spoiled.pop(path, None)
