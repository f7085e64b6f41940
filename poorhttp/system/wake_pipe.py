"""The pipe into which the interpreter writes each signal as one byte, so that a loop which polls is woken by it.

Knows the interpreter's wake-up descriptor (signal.set_wakeup_fd). Does not know what a signal does.
"""

from __future__ import annotations

from poorhttp.stdlib import os, signal
from poorhttp.system.signals import read_all


class WakePipe:
    """From its making until `restore` every signal with a Python handler becomes one byte.

    reader, writer: the two ends; neither blocks.
    """

    __slots__ = ("_before", "reader", "writer")

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.reader, False)
        os.set_blocking(self.writer, False)
        self._before = signal.set_wakeup_fd(self.writer, warn_on_full_buffer=False)

    def read(self) -> bytes:
        """The signals that came; several of the same kind may be one byte or many."""
        return read_all(self.reader)

    def write(self, signum: int) -> None:
        """Write the byte of this signal, unless the interpreter has: if so, its wake-up descriptor is still ours.

        One that belongs to another loop (asyncio's) stays, since that loop may be waiting for it; where there is none,
        ours is set again.
        """
        present = signal.set_wakeup_fd(self.writer, warn_on_full_buffer=False)
        if present == self.writer:
            return
        try:
            os.write(self.writer, bytes([signum]))
            if present != -1:
                signal.set_wakeup_fd(present)
        except (OSError, ValueError):
            return  # the pipe is full of signals that were not read yet, or theirs is closed

    def restore(self) -> None:
        """Give the interpreter the descriptor that it had before."""
        signal.set_wakeup_fd(self._before)

    def close(self) -> None:
        """Raises OSError where the application has closed one of them."""
        os.close(self.reader)
        os.close(self.writer)
