"""A debugger that is opened in the application: what its prompt needs in the terminal of the server, and that the
supervisor hears of it.

Knows pdb, and by it those who inherit from it: the method in which each asks what to do next. Does not know what the
supervisor makes of it. Contract: nothing of this is imported before a debugger is made. From before the first prompt
until the call is let go (`continue`, `quit`, its return to the server), with all steps between, the supervisor has one
end of a connection: what is written there, or its end of file where the process dies, means that the prompt is left,
and the call goes on once the supervisor has closed it: nobody who waits is to meet the old code again. One prompt has
the terminal at a time, and it is set afterwards as before; without a terminal the program goes on.
"""

from __future__ import annotations

import sys

from poorhttp.dev.page.problem import shown
from poorhttp.dev.watch.reports import OPENED, Teller
from poorhttp.errors import say
from poorhttp.stdlib import os, select, socket, thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

LEFT = b"l"

PATIENCE = 500
"""Milliseconds that a call waits for the supervisor to hear that its prompt is left."""

NO_TERMINAL = "a breakpoint is passed over: there is no terminal (start the server in one, or set PYTHONBREAKPOINT)"

INTERRUPTED = r'"\C-c": "\C-e\C-uq\C-m"'
"""For readline: Ctrl-C types `q`. A signal would reach the main thread, and the server, but not who waits for a key."""


class _Visit:
    """What a thread keeps while it is in a debugger. depth: how many prompts it is in, one within the other."""

    def __init__(self, link: int) -> None:
        self.link, self.turn = link, -1
        self.depth = 0

    def close(self) -> None:
        for descriptor in self.link, self.turn:
            if descriptor >= 0:
                os.close(descriptor)


_visits: dict[int, _Visit] = {}
"""By the identifiers of their threads."""


def attend(teller: Teller) -> None:
    """A debugger is being made: attend to the prompts of all of them."""
    pdb: Any = sys.modules["pdb"].Pdb
    interaction, dispatch_return = pdb.interaction, pdb.dispatch_return
    if interaction.__module__ == __name__:
        return

    def attended(self: Any, frame: FrameType | None, *rest: Any) -> None:
        is_here = bool(self.use_rawinput) and self.stdin is sys.stdin
        if is_here and not _has_terminal():
            say(f"{_place(frame)}{NO_TERMINAL}")
            self.set_continue()
            return
        self.nosigint = True  # else its handler would stay, and ask again at the Ctrl-C that ends the server
        self.mode = None  # else `quit` would exit, since Python 3.14
        visit = _enter(teller, frame, is_here)
        terminal = _set_terminal() if is_here else None
        is_left = True
        try:
            interaction(self, frame, *rest)
            is_left = frame is None or self.quitting or self.stoplineno == -1
        finally:
            _restore(terminal)
            visit.depth -= 1
            if is_left and not visit.depth:
                _leave()

    def returned(self: Any, frame: FrameType, value: Any) -> Any:
        result = dispatch_return(self, frame, value)
        if thread.get_ident() in _visits and _is_over(frame):
            self.set_continue()
            _leave()
        return result

    pdb.interaction, pdb.dispatch_return = attended, returned
    os.register_at_fork(after_in_child=_forget)


def _enter(teller: Teller, frame: FrameType | None, is_here: bool) -> _Visit:
    """Tell the supervisor, then wait for a turn, unless this thread has one."""
    visit = _visits.get(thread.get_ident())
    if visit is None:
        theirs, link = socket.socketpair()
        visit = _visits[thread.get_ident()] = _Visit(link.detach())
        try:
            teller.pass_on(OPENED, [], theirs.fileno())
        except OSError:
            pass  # the supervisor is gone
        finally:
            theirs.close()
        if is_here:
            visit.turn = _turn()
    visit.depth += 1
    return visit


def _leave() -> None:
    visit = _visits.pop(thread.get_ident())
    try:
        os.write(visit.link, LEFT)
        heard = select.poll()
        heard.register(visit.link, select.POLLIN)
        heard.poll(PATIENCE)
    except OSError:
        pass  # the supervisor is gone
    finally:
        visit.close()


def _forget() -> None:
    """In a child that the application forks."""
    while _visits:
        _visits.popitem()[1].close()


def _is_over(frame: FrameType) -> bool:
    """Whether this frame returns to the server, where nobody wants to go step by step."""
    above = frame.f_back
    if above is None or _module(above) == "poorhttp.process.worker":
        return True
    return _module(above).startswith("poorhttp.") and not _module(frame).startswith("poorhttp.")


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__"))


def _place(frame: FrameType | None) -> str:
    return f"{shown(frame.f_code.co_filename)}:{frame.f_lineno}: " if frame is not None else ""


# The terminal


def _has_terminal() -> bool:
    """Whether somebody can be asked: in the background he cannot."""
    try:
        descriptor = sys.stdin.fileno()
        if not (os.isatty(descriptor) and os.isatty(sys.stdout.fileno())):
            return False
    except (AttributeError, OSError, ValueError):  # none, closed, or something of the application's
        return False
    try:
        return os.tcgetpgrp(descriptor) == os.getpgrp()
    except OSError:
        return True  # the terminal of another session: it has no say


def _turn() -> int:
    """Wait until nobody else, in whatever process, asks on this terminal: what is to be closed then; -1 for nothing."""
    from poorhttp.stdlib import fcntl

    try:
        descriptor = os.open(os.ttyname(sys.stdin.fileno()), os.O_RDWR | os.O_NOCTTY)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError:
        return -1  # it has no name here
    return descriptor


def _set_terminal() -> Any:
    """Let Ctrl-C be a key; how the terminal was set before, None where it stays so."""
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


def _restore(terminal: Any) -> None:
    if terminal is not None:
        from poorhttp.stdlib import termios

        try:
            termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, terminal)
        except (OSError, ValueError, termios.error):
            return
