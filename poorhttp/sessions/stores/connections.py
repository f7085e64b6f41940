"""Connections of one process to a store: opened when they are needed, kept, and left alone by a forked child.

Knows processes and threads. Knows nothing of what goes over a connection. Contract: one thread at a time has a
connection; a connection that failed is closed; a child never uses or closes a connection that it inherited, for that
would reach into the parent's exchange.
"""

from __future__ import annotations

from os import getpid, register_at_fork
from typing import Generic, TypeVar
from weakref import WeakSet

from poorhttp.sessions.errors import Conflict, StoreDown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from poorhttp.sessions.store import Store

C = TypeVar("C")
R = TypeVar("R")

UNREADABLE = (ValueError, TypeError, LookupError, AttributeError)
"""What client libraries raise for an answer that they cannot read."""

_closed_before_forks: WeakSet[Store] = WeakSet()


def close_before_forks(store: Store) -> None:
    """Close the connections of a store each time before this process forks, for a library whose connections harm those
    of a child: SQLite takes the locks of the parent, which a child does not inherit, for its own.
    """
    _closed_before_forks.add(store)


def _close_before_fork() -> None:
    for store in list(_closed_before_forks):
        store.close()


register_at_fork(before=_close_before_fork)


class PerProcess(Generic[C]):
    """One object for each process, made when it is first asked for."""

    def __init__(self, make: Callable[[], C]) -> None:
        self._make = make
        self._of: tuple[int, C] | None = None
        self._inherited: list[C] = []  # kept, so that nothing finalises them here

    def get(self) -> C:
        of = self._of
        if of is not None and of[0] == getpid():
            return of[1]
        if of is not None:
            self._inherited.append(of[1])
        made = self._make()
        self._of = (getpid(), made)
        return made

    def take(self) -> C | None:
        """Return the object of this process to be closed, None if there is none."""
        of, self._of = self._of, None
        return of[1] if of is not None and of[0] == getpid() else None


class Connections(Generic[C]):
    """name: of the store, for messages. errors: what its client library raises. is_lost: whether an error means that a
    kept connection was closed by the other side, as after a restart, so that a new one is worth an attempt.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[], C],
        end: Callable[[C], object],
        errors: tuple[type[Exception], ...],
        is_lost: Callable[[Exception], bool],
    ) -> None:
        self._name = name
        self._make = make
        self._end = end
        self._errors: tuple[type[Exception], ...] = (*errors, OSError, *UNREADABLE)
        self._is_lost = is_lost
        self._idle: PerProcess[list[C]] = PerProcess(list)

    def use(self, work: Callable[[C], R]) -> R:
        """Call `work` with a connection; it reads the answer too. Raises StoreDown for what the library raises."""
        idle = self._idle.get()
        try:
            try:
                kept = idle.pop()
            except IndexError:
                return self._work(idle, self._make(), work)
            try:
                return self._work(idle, kept, work)
            except self._errors as error:
                if not self._is_lost(error):
                    raise
            self.close()  # the others were closed with it
            return self._work(idle, self._make(), work)
        except self._errors as error:
            raise StoreDown(f"{self._name}: {type(error).__name__}: {error}") from error

    def close(self) -> None:
        idle = self._idle.get()
        while idle:
            self._discard(idle.pop())

    def _work(self, idle: list[C], connection: C, work: Callable[[C], R]) -> R:
        try:
            result = work(connection)
        except Conflict:
            idle.append(connection)
            raise
        except BaseException:
            self._discard(connection)
            raise
        idle.append(connection)
        return result

    def _discard(self, connection: C) -> None:
        try:
            self._end(connection)
        except self._errors:
            return
