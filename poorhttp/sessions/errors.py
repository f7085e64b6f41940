"""The errors of sessions. Knows nothing else."""

from __future__ import annotations


class SessionError(Exception):
    """A fault in how sessions are used or set up: the message says which value, what was expected, what to do."""


class TooLarge(SessionError):
    """The data of a session is longer than its store or a cookie may hold. Nothing was saved."""


class TooLate(SessionError):
    """A session was changed, or used for the first time, after the head of the answer was sent: too late to save it,
    and to say in the head that the answer depends on the cookie.
    """


class StoreDown(SessionError):
    """The store cannot be reached, is late, or refuses: the client gets 503, never an empty session."""


class Conflict(Exception):
    """The record is not the one that was loaded: it was changed, deleted or has expired, or the new one exists."""
