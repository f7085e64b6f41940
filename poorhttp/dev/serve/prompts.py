"""Open breakpoints: reloads wait until they are left, and the terminal is set as before if a process dies in one.

Knows the links from debuggers (`page.breakpoints`). Does not know what a reload is.
"""

from __future__ import annotations

from poorhttp.dev.page import terminal
from poorhttp.stdlib import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from poorhttp.logs.log import ErrorLog


class Prompts:
    """links: the descriptors whose other ends are held by the threads in a debugger."""

    def __init__(self, error_log: ErrorLog) -> None:
        self._error_log = error_log
        self._terminal = terminal.settings()
        self._is_holding = False
        self.links: set[int] = set()

    def opened(self, links: Iterable[int]) -> None:
        self.links.update(links)

    def hold(self) -> None:
        """A reload has to wait; the log says so once."""
        if not self._is_holding:
            self._error_log.write("N", "a breakpoint is open: reloads wait until it is left")
        self._is_holding = True

    def hear(self, ready: set[int], release: Callable[[], None]) -> None:
        """See which prompts are left, and let their calls go on. ready: readable descriptors. release: called before,
        if a reload has waited for the last prompt.
        """
        left = ready & self.links
        words = [os.read(link, 1) for link in left]
        self.links -= left
        if self._is_holding and not self.links:
            self._is_holding = False
            release()
        for link in left:
            os.close(link)  # from here on the call goes on
        if b"" in words:  # a process has died; last, as the author may ask when the terminal is back
            self.restore_terminal()

    def restore_terminal(self) -> None:
        terminal.restore(self._terminal)
