"""Debuggers (pdb) in the application: their prompt gets the terminal of the server, and the supervisor learns of it.

Knows pdb, and the method with which it and the classes that inherit from it ask what to do next. Does not know what the
supervisor makes of an open prompt.
Contract: this module is imported when a debugger is made, not before. From before the first prompt until the call goes
on (`continue`, `quit`, or its return to the server), with all steps between, the supervisor holds the other end of a
link. A byte on the link, or its end if the process dies, means that the prompt is left. The call goes on when the
supervisor has closed its end, so that no waiting client gets the old code again. One prompt at a time has the
terminal, and the terminal is set as before afterwards. Without a terminal the program goes on.
"""

from __future__ import annotations

import sys

from poorhttp.dev.page import terminal
from poorhttp.dev.page.problem import shown
from poorhttp.dev.watch.reports import OPENED, Reporter
from poorhttp.errors import say
from poorhttp.stdlib import os, select, socket, thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

LEFT = b"l"

PATIENCE = 500
"""Milliseconds for which a call waits until the supervisor has closed its end."""

NO_TERMINAL = "a breakpoint is passed over: there is no terminal (start the server in one, or set PYTHONBREAKPOINT)"

INTERRUPTED = r'"\C-c": "\C-e\C-uq\C-m"'
"""For readline: Ctrl-C types `q`. As a signal it would reach the main thread and the server, not the thread that waits
for a key."""


class _Visit:
    """A thread in a debugger. depth: how many prompts it has open, one within the other. turn: the locked terminal."""

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
        if is_here and not terminal.can_ask():
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
            terminal.restore(before)
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
    return f"{shown(frame.f_code.co_filename)}:{frame.f_lineno}: " if frame is not None else ""


def _lock_terminal() -> int:
    """Wait until no other prompt, in whatever process, has this terminal. Returns the descriptor whose close unlocks
    it; -1 for none.
    """
    from poorhttp.stdlib import fcntl

    try:
        descriptor = os.open(os.ttyname(sys.stdin.fileno()), os.O_RDWR | os.O_NOCTTY)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError:
        return -1  # the terminal has no name in this file system
    return descriptor


def _make_interrupt_a_key() -> Any:
    """Let Ctrl-C be a key for readline. Returns the settings of the terminal before, None where nothing was changed."""
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
