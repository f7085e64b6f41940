"""Debuggers (pdb) in the application: their prompt gets the terminal of the server, and reloads wait until it is left.

Knows pdb, the method by which it and the classes that inherit from it ask what to do next, and the settings of the
terminal (termios). Does not know what a reload is. Until the call goes on (`continue`, `quit`, or its return to the
server), the supervisor holds the other end of a link. A byte on the link, or its end, means that the prompt is left.
The call goes on when the supervisor has closed its end, so that no waiting client gets the old code again.
"""

from __future__ import annotations

import sys

from poorhttp.app.places import seen
from poorhttp.dev.watch.reports import OPENED, Reporter
from poorhttp.errors import say
from poorhttp.stdlib import os, select, signal, socket, thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import FrameType
    from typing import Any

    from poorhttp.logs.log import ErrorLog

LEFT = b"l"

PATIENCE = 500
"""Milliseconds for which a call waits until the supervisor has closed its end."""

NO_TERMINAL = "a breakpoint is passed over: there is no terminal (start the server in one, or set PYTHONBREAKPOINT)"

INTERRUPTED = r'"\C-c": "\C-e\C-uq\C-m"'
"""For readline: Ctrl-C types `q`. As a signal it would not reach the thread that waits for a key."""


class Prompts:
    """links: the descriptors whose other ends are held by the threads in a debugger."""

    def __init__(self, error_log: ErrorLog) -> None:
        self._error_log = error_log
        self._terminal = _settings()
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
        _restore(self._terminal)


class _Visit:
    """A thread in a debugger. depth: how many prompts it has open. turn: the locked terminal."""

    def __init__(self, link: int) -> None:
        self.link, self.turn = link, -1
        self.depth = 0

    def close(self) -> None:
        for descriptor in self.link, self.turn:
            if descriptor >= 0:
                os.close(descriptor)


_visits: dict[int, _Visit] = {}
"""By the identifiers of their threads."""


def attend(reporter: Reporter) -> None:
    """Report the prompts of all debuggers from now on, and give them the terminal."""
    pdb: Any = sys.modules["pdb"].Pdb
    interaction, dispatch_return = pdb.interaction, pdb.dispatch_return
    if interaction.__module__ == __name__:
        return

    def attended(self: Any, frame: FrameType | None, *rest: Any) -> None:
        is_here = bool(self.use_rawinput) and self.stdin is sys.stdin
        if is_here and not _can_ask():
            say(f"{_place(frame)}{NO_TERMINAL}")
            self.set_continue()
            return
        self.nosigint = True  # else pdb's handler would stay, and ask again at the Ctrl-C that ends the server
        self.mode = None  # else `quit` would end the process, since Python 3.14
        visit = _enter(reporter, is_here)
        before = _make_interrupt_a_key() if is_here else None
        is_left = True
        try:
            interaction(self, frame, *rest)
            is_left = frame is None or self.quitting or self.stoplineno == -1
        finally:
            _restore(before)
            visit.depth -= 1
            if is_left and not visit.depth:
                _leave()

    def returned(self: Any, frame: FrameType, value: Any) -> Any:
        result = dispatch_return(self, frame, value)
        if thread.get_ident() in _visits and _returns_to_server(frame):
            self.set_continue()
            _leave()
        return result

    pdb.interaction, pdb.dispatch_return = attended, returned
    os.register_at_fork(after_in_child=_forget)


def _enter(reporter: Reporter, is_here: bool) -> _Visit:
    """Report the prompt, then wait for the terminal, unless this thread is in a debugger already."""
    visit = _visits.get(thread.get_ident())
    if visit is None:
        theirs, link = socket.socketpair()
        visit = _visits[thread.get_ident()] = _Visit(link.detach())
        try:
            reporter.pass_descriptors(OPENED, [], theirs.fileno())
        except OSError:
            pass  # the supervisor is gone
        finally:
            theirs.close()
        if is_here:
            visit.turn = _lock_terminal()
    visit.depth += 1
    return visit


def _leave() -> None:
    visit = _visits.pop(thread.get_ident())
    try:
        os.write(visit.link, LEFT)
        closed = select.poll()
        closed.register(visit.link, select.POLLIN)
        closed.poll(PATIENCE)
    except OSError:
        pass  # the supervisor is gone
    finally:
        visit.close()


def _forget() -> None:
    """In a child that the application forks."""
    while _visits:
        _visits.popitem()[1].close()


def _returns_to_server(frame: FrameType) -> bool:
    """Whether this frame returns to code of the server, through which no author wants to step."""
    above = frame.f_back
    if above is None or _module(above).startswith("poorhttp.process."):
        return True
    return _module(above).startswith("poorhttp.") and not _module(frame).startswith("poorhttp.")


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__"))


def _place(frame: FrameType | None) -> str:
    return f"{seen(frame.f_code.co_filename)}:{frame.f_lineno}: " if frame is not None else ""


def _lock_terminal() -> int:
    """Wait until no other prompt has this terminal. Returns the descriptor whose close unlocks it; -1 for none."""
    from poorhttp.stdlib import fcntl

    try:
        descriptor = os.open(os.ttyname(sys.stdin.fileno()), os.O_RDWR | os.O_NOCTTY)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError:
        return -1  # the terminal has no name in this file system
    return descriptor


def _make_interrupt_a_key() -> Any:
    """Let Ctrl-C be a key for readline. Returns the settings of the terminal before; None: nothing was changed."""
    readline: Any = sys.modules.get("readline")
    if readline is None or "libedit" in (readline.__doc__ or ""):
        return None
    from poorhttp.stdlib import termios

    try:
        before = termios.tcgetattr(sys.stdin.fileno())
        now = [*before[:6], [*before[6]]]
        now[6][termios.VINTR] = b"\0"
        termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, now)
    except termios.error:
        return None
    readline.parse_and_bind(INTERRUPTED)
    return before


def _can_ask() -> bool:
    """Whether a prompt can be shown: in the background it cannot."""
    try:
        descriptor = sys.stdin.fileno()
        if not (os.isatty(descriptor) and os.isatty(sys.stdout.fileno())):
            return False
    except (AttributeError, OSError, ValueError):  # none, closed, or replaced by the application
        return False
    try:
        return os.tcgetpgrp(descriptor) == os.getpgrp()
    except OSError:
        return True  # the terminal of another session does not say


def _settings() -> Any:
    """The settings of the terminal, for `_restore`; None for no terminal."""
    try:
        from poorhttp.stdlib import termios

        return termios.tcgetattr(sys.stdin.fileno())
    except (AttributeError, ImportError, OSError, ValueError, termios.error):
        return None


def _restore(before: Any) -> None:
    """Set the terminal as it was, also from the background: a debugger that is killed leaves it without echo."""
    if before is not None:
        from poorhttp.stdlib import termios

        mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTTOU])
        try:
            termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, before)
        except (OSError, ValueError, termios.error):
            pass
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
