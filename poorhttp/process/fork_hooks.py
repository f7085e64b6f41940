"""Forks in a process of the server: hooks which the interpreter calls at each of them.

Knows three kinds of children. One that the application forks does not serve: it keeps no port and no worker, and hears
signals like any process. One that the server forks (a worker, for instance) keeps its signals blocked until
`hold_signals`, and is killed with its parent until it serves, for code of the application may run before and never end.
Of one that is forked by another such child the first rule holds. Does not know when the server forks.
"""

from __future__ import annotations

from poorhttp.stdlib import os, signal, thread
from poorhttp.system.exits import end_with
from poorhttp.system.signals import HANDLED, delay, forget, is_starting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from poorhttp._engine import Engine

engines: list[Engine] = []
"""The engine of this process, while it serves."""

close_in_children: list[Callable[[], None]] = []
"""Functions that close descriptors which a child that the application forks must not have."""

forking_own: dict[int, int] = {}
"""The threads that are forking a child of the server's own, with the number of their process."""

at_next_fork: list[Callable[[], None]] = []
"""Functions that are called once, in this process, when it has forked next: hooks of the application have run then."""

counted_forks: dict[int, int] = {}
"""How often these threads, by their identifiers, have forked."""

_newborn: list[int] = []
"""In a child of the server's own, until `hold_signals`: its process number."""

_abandoned: list[Engine] = []
"""In a child of the application's: the engine of its parent, which must not be taken down."""

_masks: dict[int, Any] = {}
"""The signals that a thread which is forking had blocked before, by its identifier."""


def hold_signals(mask: Any) -> None:
    """In a child of the server's own: let signals come; it hears them when it serves. mask: the parent's."""
    for signum in HANDLED:
        signal.signal(signum, delay)
    _newborn.clear()
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _before_fork() -> None:
    """Tell the engine, and hold signals back: a child that got one too early would write it into the pipe that it
    shares with its parent.
    """
    if thread.get_ident() in counted_forks:
        counted_forks[thread.get_ident()] += 1
    for engine in engines:
        engine.note_fork()
    if (engines or close_in_children) and not is_starting():
        # Noted before it is changed: each call may raise RequestTimeout, or the exception of a handler.
        _masks[thread.get_ident()] = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)


def _after_fork_in_parent() -> None:
    _restore_mask()
    while at_next_fork:
        at_next_fork.pop(0)()


def _restore_mask() -> None:
    mask = _masks.get(thread.get_ident())
    if mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        _masks.pop(thread.get_ident(), None)


def _after_fork_in_child() -> None:
    at_next_fork.clear()
    try:
        if thread.get_ident() in forking_own:
            parent = forking_own[thread.get_ident()]
            forking_own.clear()  # what it forks from now on, from another hook perhaps, is the application's
            _newborn.append(os.getpid())
            end_with(parent)
            return
        if _newborn:
            _newborn.clear()
            _masks[thread.get_ident()] = ()
        if thread.get_ident() in _masks:  # signals were held back
            forget()
        for engine in engines:
            engine.abandon()
        for close in close_in_children:
            close()
        _abandoned.extend(engines)  # what it forks is not the server's
        engines.clear()
        close_in_children.clear()
    finally:
        _restore_mask()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
