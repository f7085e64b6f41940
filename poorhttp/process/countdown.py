"""Which of several workers that stop is the last one to accept connections: it alone lets nobody in any more.

Knows a pipe. Each worker that stops accepting takes a byte from it; there is one less than workers once all are to
stop, so the worker that finds none at its end is the last.
"""

from __future__ import annotations

from poorhttp.stdlib import os


class Countdown:
    """pipe: read and write end, empty for sockets that are not this server's own (is_own), where nobody is the last."""

    def __init__(self, is_own: bool) -> None:
        self.pipe: list[int] = list(os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)) if is_own else []

    def reader(self) -> int | None:
        """What a worker gets."""
        return self.pipe[0] if self.pipe else None

    def begin(self, staying: int) -> None:
        """All stop now; staying: how many workers accept connections."""
        if self.pipe:
            os.write(self.pipe[1], bytes(max(staying - 1, 0)))
        self.end()

    def forget(self) -> None:
        """In a worker: the other end is the supervisor's alone."""
        if self.pipe:
            os.close(self.pipe.pop())

    def end(self) -> None:
        """Keep neither end."""
        while self.pipe:
            os.close(self.pipe.pop())
