"""A program that runs as a child of this process: started in a directory, waited for, killed.

Knows posix_spawn(3) and waitpid(2). Does not know what the program is for. The standard library's `subprocess` is not
used: it weighs as much as the rest of the server, gevent and eventlet replace what it does, and it starts programs by a
fork, in which hooks of the application may run.
Contract: a child that another part of this process has reaped counts as one that ended with 0, as in `subprocess`; no
process but the child is ever killed.
"""

from __future__ import annotations

import sys

from poorhttp.stdlib import os, signal, thread, time
from poorhttp.system import timing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

MOVED = os.path.join(os.path.dirname(__file__), "moved.py")
"""The program that changes the directory first: posix_spawn(3) starts programs in that of this process, which all its
threads share."""


class Program:
    """One of Python's. Standard input is empty.

    arguments: of the interpreter, without its name. output, errors: descriptors for its standard output and error.
    Raises OSError.
    """

    def __init__(
        self, arguments: Sequence[str], environ: dict[bytes, bytes], directory: str, output: int, errors: int
    ) -> None:
        self._code: int | None = None
        self._waits = thread.allocate_lock()
        os.close(os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))  # or this raises OSError
        self.pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-S", MOVED, directory, sys.executable, *arguments],
            environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, output, 1),
                (os.POSIX_SPAWN_DUP2, errors, 2),
            ],
        )

    def poll(self) -> int | None:
        """Return its exit code, negative for a signal; None while it runs."""
        with self._waits:
            if self._code is None:
                self._look()
            return self._code

    def wait(self, seconds: float) -> int | None:
        """The same, once it has ended or so much time is over."""
        end = time.monotonic() + seconds
        while (code := self.poll()) is None and time.monotonic() < end:
            time.sleep(timing.CHILD_POLL)
        return code

    def kill(self) -> None:
        """End it at once, and wait for that."""
        with self._waits:
            if self._code is None:
                self._look()
            if self._code is None:
                os.kill(self.pid, signal.SIGKILL)
        self.wait(float("inf"))

    def _look(self) -> None:
        try:
            reaped, status = os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:
            self._code = 0
        else:
            self._code = os.waitstatus_to_exitcode(status) if reaped else None
