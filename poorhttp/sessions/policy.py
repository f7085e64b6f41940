"""For how long sessions live, how large they may be, and what happens when requests change the same one.

Knows the settings and their bounds. Knows nothing of stores and cookies.
"""

from __future__ import annotations

from poorhttp.sessions.errors import SessionError

CONCURRENCY = ("merge", "lock")


class Policy:
    """The settings of sessions that do not concern the cookie; times in seconds, sizes in bytes.

    idle: a session ends when it was not used for so long. Its use is noted once in each twentieth of this time
    (refresh), so it may end that much earlier. absolute: a session ends so long after it was made. max_bytes: of a
    session's JSON in a store.
    concurrency: "merge" puts the changes of two requests together; with "lock" the second waits for the first,
        `lock_timeout` at most. rotation_grace: for how long `rotate()` leaves the old session to requests that are on
        their way, with the data from before.
    """

    __slots__ = ("absolute", "concurrency", "idle", "lock_timeout", "max_bytes", "refresh", "rotation_grace")

    def __init__(
        self,
        idle: float = 1800,
        absolute: float = 43200,
        max_bytes: int = 512 * 1024,
        concurrency: str = "merge",
        lock_timeout: float = 5,
        rotation_grace: float = 0,
    ) -> None:
        """Raises SessionError."""
        self.idle: float = _number("idle", idle)
        self.absolute: float = _number("absolute", absolute)
        self.max_bytes: int = int(_number("max_bytes", max_bytes))
        self.lock_timeout: float = _number("lock_timeout", lock_timeout)
        self.rotation_grace: float = _number("rotation_grace", rotation_grace, low=0)
        self.refresh: float = self.idle / 20
        if concurrency not in CONCURRENCY:
            raise SessionError(f"concurrency is {concurrency!r}; expected one of {', '.join(CONCURRENCY)}")
        self.concurrency: str = concurrency


def _number(name: str, value: object, low: float = 0.001) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value < 1e10:
        raise SessionError(f"{name} is {value!r}; expected a number from {low} up")
    return float(value)
