"""A session as the application sees it: a mapping that is loaded when it is first used, and saved once.

Knows the life of a session in one request. A `Keeper` knows where sessions are kept, `Cookie` how the client holds one.
"""

from __future__ import annotations

from collections.abc import MutableMapping

from poorhttp.sessions.errors import StoreDown, TooLarge, TooLate
from poorhttp.sessions.records import check, dump, largest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, Protocol

    from _typeshed.wsgi import WSGIEnvironment

    from poorhttp.sessions.records import Record

    class Held(Protocol):
        """A session that was loaded, and what its keeper needs to replace it."""

        record: Record
        data: dict[str, Any]

    class Keeper(Protocol):
        """Where sessions are kept. A token is what the cookie holds. Each method may raise StoreDown."""

        def load(self, token: str) -> Any | None:
            """Return the session (`Held`), None if there is none, or it has expired."""

        def create(self, text: bytes) -> str:
            """Keep a new session with this JSON; return its token."""

        def replace(self, held: Any, data: dict[str, Any], is_rotated: bool) -> str | None:
            """Keep changed data; return the token if it is another one, "" if the session is over."""

        def refresh(self, held: Any) -> str | None:
            """Note that a session was used; return the token if it is another one."""

        def end(self, held: Any) -> None:
            """Remove a session."""

        def release(self, held: Any) -> None:
            """Let other requests have a session that was loaded."""


class Session(MutableMapping[str, "Any"]):
    """What the site remembers of a client: str keys, values that JSON has. Changes within a value are saved too.

    The first use loads it. It is saved, if it was changed, right before the head of the answer is sent; a change or a
    first use after that raises TooLate. Every use may raise StoreDown, which the middleware turns into 503. When the
    session is saved, a value that JSON does not have is a SessionError, and too much data TooLarge; both name the key.
    """

    # With slots `session.user = ...`, a mistake for `session["user"]`, raises.
    __slots__ = (
        *("_data", "_environ", "_failure", "_find", "_held", "_is_closed", "_is_ended", "_is_rotated", "_keeper"),
        "_may_differ",  # whether a key was set or deleted, or a value given out that can be changed
    )

    def __init__(self, keeper: Keeper, find: Callable[[WSGIEnvironment], str], environ: WSGIEnvironment) -> None:
        """find: returns the token that the client sent, or ""."""
        self._keeper = keeper
        self._find = find
        self._environ = environ
        self._data: dict[str, Any] | None = None
        self._held: Held | None = None
        self._failure: StoreDown | None = None
        self._is_closed = self._is_ended = self._is_rotated = self._may_differ = False

    @property
    def is_new(self) -> bool:
        """Whether the client has no session yet."""
        self._loaded()
        return self._held is None

    @property
    def created(self) -> float | None:
        """When the session was made, in seconds since 1970; None if it is new."""
        self._loaded()
        return None if self._held is None else self._held.record.created

    @property
    def is_used(self) -> bool:
        """Whether the application has used the session in this request."""
        return self._data is not None or self._failure is not None

    @property
    def failure(self) -> StoreDown | None:
        """Why the session could not be loaded, saved or ended. Then the answer is 503, or one that the application has
        made after start_response had told it.
        """
        return self._failure

    def rotate(self) -> None:
        """Give the session a new id, and keep its data. Call it at login and when rights change: the old id does
        not work any more, so nobody who knows it gets in.
        """
        self._changeable()
        self._is_rotated = True

    def invalidate(self) -> None:
        """End the session now, at logout: record, data and cookie. Keys that are set afterwards make a new one."""
        self._changeable()
        held, self._held = self._held, None
        self._data = {}
        # A form of another site comes without the cookie (SameSite). It must not log the user out.
        self._is_ended = bool(self._find(self._environ))
        if held is not None:
            try:
                self._keeper.end(held)
            except StoreDown as error:
                self._failure = error
                raise

    def __getitem__(self, key: str) -> Any:
        value = self._loaded()[key]
        if isinstance(value, (dict, list)):
            self._may_differ = True
        return value

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key; `default` if there is none. A list or dict may be changed in place."""
        value = self._loaded().get(key, default)
        if isinstance(value, (dict, list)):
            self._may_differ = True
        return value

    def __setitem__(self, key: str, value: Any) -> None:
        self._changeable()[key] = value

    def __delitem__(self, key: str) -> None:
        del self._changeable()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaded())

    def __len__(self) -> int:
        return len(self._loaded())

    def __repr__(self) -> str:
        """Without the data, which may be secret and would get into logs."""
        return f"<Session, {'not used' if self._data is None else f'{len(self._data)} keys'}>"

    def close(self) -> str | None:
        """Save the session, for the head of the answer is about to be sent.

        Returns the value of a cookie to set, "" for one to remove, None for no change. Raises StoreDown, TooLarge,
        SessionError.
        """
        self._is_closed = True
        if self._failure is not None:
            raise self._failure
        if self._data is None:
            return None
        try:
            return self._saved()
        except StoreDown as error:
            self._failure = error
            raise
        except TooLarge as error:
            raise TooLarge(f"{error} ({largest(self._data)})") from None
        finally:
            if self._held is not None:
                self._keeper.release(self._held)

    def abandon(self) -> str | None:
        """Let the session be without saving it, as the answer is an error. Returns what `close` does."""
        self._is_closed = True
        if self._held is not None:
            self._keeper.release(self._held)
        return "" if self._is_ended else None

    def _saved(self) -> str | None:
        data = self._data or {}
        held = self._held
        if held is not None and not self._is_rotated and not (self._may_differ and dump(data) != held.record.text):
            return self._keeper.refresh(held)
        check(data, "session")
        if held is None:
            return self._keeper.create(dump(data)) if data else ("" if self._is_ended else None)
        return self._keeper.replace(held, data, self._is_rotated)

    def _loaded(self) -> dict[str, Any]:
        if self._data is None:
            if self._failure is not None:
                raise self._failure
            if self._is_closed:
                raise TooLate("the session was first used after the head of the answer was sent: read it before that")
            token = self._find(self._environ)
            try:
                self._held = self._keeper.load(token) if token else None
            except StoreDown as error:
                self._failure = error
                raise
            self._data = {} if self._held is None else self._held.data
        return self._data

    def _changeable(self) -> dict[str, Any]:
        if self._is_closed:
            raise TooLate("the session was changed after the head of the answer was sent: change it before that")
        self._may_differ = True
        return self._loaded()
