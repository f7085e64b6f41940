"""Sessions for any WSGI application: what a site remembers of a client between requests, by a cookie.

    from poorhttp.sessions import SessionMiddleware
    application = SessionMiddleware(application, "sqlite:/var/lib/site/sessions.db")

The application finds the session of a request in `environ["poorhttp.session"]`, a handler of a dispatch table in
`req.session`: a `Session`. docs/sessions.md lists the addresses of stores; `Sessions` and `Policy` have the settings.

Imports nothing but the standard library, and a client library if the address of the store asks for it.
"""

from poorhttp.sessions.addresses import open_store
from poorhttp.sessions.errors import Conflict, SessionError, StoreDown, TooLarge, TooLate
from poorhttp.sessions.middleware import SessionMiddleware, Sessions
from poorhttp.sessions.policy import Policy
from poorhttp.sessions.session import Session
from poorhttp.sessions.store import Store

__all__ = [
    "Conflict",
    "Policy",
    "Session",
    "SessionError",
    "SessionMiddleware",
    "Sessions",
    "Store",
    "StoreDown",
    "TooLarge",
    "TooLate",
    "open_store",
]
