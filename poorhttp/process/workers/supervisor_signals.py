"""The signals of a supervisor: each becomes one byte in a pipe, which its loop reads.

Knows handlers and masks. Does not know what a signal does (`process.supervisor`).
"""

from __future__ import annotations

from poorhttp.listen.sockets import let_go
from poorhttp.process.fork_hooks import close_in_children
from poorhttp.stdlib import signal
from poorhttp.system import signals
from poorhttp.system.wake_pipe import WakePipe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any

HEARD = (*signals.HANDLED, signal.SIGCHLD, signal.SIGWINCH)


class SupervisorSignals:
    """Heard from the making until `end`. pipe: where they are read."""

    def __init__(self) -> None:
        # Together: a signal that came between the two would be heard twice, delayed by the handler of the start too.
        mask = self.block()
        self.pipe = WakePipe()
        close_in_children.append(self._close_in_child)
        self._give_children_back = signals.keeper_of(signal.SIGCHLD)
        self._old: dict[int, Any] = {signum: signals.afterwards(signum) for signum in HEARD}
        for signum in HEARD:
            signal.signal(signum, _heard)
        self.unblock(mask)
        signals.raise_delayed()

    def block(self) -> Any:
        """Let signals wait; return what `unblock` takes."""
        return signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)

    def unblock(self, mask: Any) -> None:
        """Let them come again."""
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def held_back(self, do: Callable[[bytes], None]) -> None:
        """Call `do` with the signals that came until now, while those that come from now on are the next program's."""
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signals.HANDLED)
        handlers = signals.hold_back()
        do(self.pipe.read())
        signals.restore(handlers)
        self.unblock(mask)

    def forget(self) -> None:
        """In a worker: hear none of them for the supervisor.

        The handlers stay until the worker has its own. Signals are blocked now, and one that waits would be thrown away
        by the kernel if it were ignored for a moment.
        """
        signal.set_wakeup_fd(-1)
        close_in_children.remove(self._close_in_child)
        self.pipe.close()
        signals.restore({signum: self._old[signum] for signum in (signal.SIGCHLD, signal.SIGWINCH)})
        self._give_children_back()

    def end(self) -> None:
        """Give them back to those that had them before."""
        signals.restore(self._old)
        close_in_children.remove(self._close_in_child)
        self.pipe.restore()
        self.pipe.close()

    def _close_in_child(self) -> None:
        """A child that the application has forked wakes nobody here."""
        let_go((), [self.pipe.reader, self.pipe.writer])


def _heard(signum: int, frame: FrameType | None) -> None:
    """Do nothing: the interpreter has written the byte that wakes the loop."""
