"""The middleware: it gives each request its session, and saves the session before the head of the answer is sent.

Knows PEP 3333, the cookie and the keeper of the sessions. Contract: `start_response` of the server is called after the
session was saved; if the store fails, the client gets 503, and nothing of the answer that the application made, unless
that is a page about this failure.
"""

from __future__ import annotations

from poorhttp.sessions.addresses import FORMS, open_store
from poorhttp.sessions.answers import Answer, Streamed, close
from poorhttp.sessions.cookies import Cookie, is_local
from poorhttp.sessions.errors import SessionError, StoreDown
from poorhttp.sessions.policy import Policy
from poorhttp.sessions.session import Session
from poorhttp.sessions.signed import SignedSessions
from poorhttp.sessions.signing import Signer
from poorhttp.sessions.stored import StoredSessions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

    from poorhttp.sessions.session import Keeper
    from poorhttp.sessions.store import Store

ENVIRON_KEY = "poorhttp.session"

READ = [("Vary", "Cookie")]
"""The fields of an answer whose session was used, and not changed."""

DROPPED = (
    "the cookie of the session is Secure, but the request came by plain http, where browsers drop it: "
    "serve by https, let the server know the scheme that the front server saw (under poorhttp "
    "forwarded = x-forwarded), or set secure=False"
)
PLAIN = "the cookie is not Secure, as is right for http on this machine; behind a front server set secure=True"


class Sessions:
    """Where a site keeps its sessions, and how: `Sessions("redis://localhost", idle=3600).wrap(application)`.

    A dispatch table may have one under the name `sessions`.
    """

    def __init__(
        self,
        store: str | Store,
        *,
        secrets: str | bytes | Sequence[str | bytes] | None = None,
        cookie: str = "session",
        secure: bool | None = None,
        same_site: str = "Lax",
        persistent: bool = False,
        **limits: Any,
    ) -> None:
        """store: an address (`open_store` lists them), "cookie:" for signed cookies, or an object like `Store`.

        secrets: for "cookie:"; the first signs, all of them are accepted. cookie: its name, to which `__Host-` is
        added. secure: None for Secure except by plain http from this machine to localhost. persistent: whether
        browsers keep the cookie when they are closed. limits: those of `Policy`. Raises SessionError.
        """
        self.policy: Policy = _policy(limits)
        self.cookie: Cookie = Cookie(cookie, secure, same_site, persistent)
        self.store: Store | None = None
        self._keeper: Keeper
        self._notes: list[str] = []
        self._noted_once: set[str] = set()
        if store == "cookie:":
            self._keeper = SignedSessions(Signer(secrets, f"cookie {cookie}"), self.policy, self.cookie.room())
            if self.policy.concurrency != "merge":
                raise SessionError("sessions in a cookie have no lock: take another store for concurrency='lock'")
        else:
            if secrets:
                raise SessionError("secrets are for the store 'cookie:' only; ids in other stores need none")
            self.store = open_store(store) if isinstance(store, str) else _checked(store)
            self._keeper = StoredSessions(self.store, self.policy, self._notes.append)

    def facts(self) -> dict[str, str]:
        """What may be told of it to a person; not the address of the store, which may have a password."""
        return {
            "store": "the cookie itself, signed" if self.store is None else type(self.store).__name__,
            "idle": f"{self.policy.idle:g} s",
            "absolute": f"{self.policy.absolute:g} s",
            "concurrency": self.policy.concurrency,
        }

    def wrap(self, app: WSGIApplication, *, makes_pages: bool = False) -> WSGIApplication:
        """Return the application with sessions.

        makes_pages: whether the application answers errors of sessions itself, as a dispatch table does. Then
        start_response saves the session and raises what fails, after which the application calls it again.
        """
        return _Middleware(app, self, makes_pages)

    def session(self, environ: WSGIEnvironment) -> Session:
        """Return the session of a request, for a middleware of your own; nothing is loaded yet."""
        return Session(self._keeper, self._token, environ)

    def fields(self, environ: WSGIEnvironment, session: Session, is_failed: bool) -> list[tuple[str, str]]:
        """Save the session and return the fields that the answer needs for it.

        is_failed: whether the answer is an error of the server, after which nothing is saved. Raises what
        `Session.close` does.
        """
        token = session.abandon() if is_failed else session.close()
        if self._notes:
            self._tell(environ)
        if not session.is_used:
            return []
        if token is None:
            return READ
        if token == "":
            field = self.cookie.removal(environ)
        else:
            field = self.cookie.field(environ, token, self.policy.absolute)
            self._note_http(environ)
        return [("Vary", "Cookie"), ("Cache-Control", "no-store"), field]

    def _token(self, environ: WSGIEnvironment) -> str:
        if self.store is not None and not self.store.is_shared and environ.get("wsgi.multiprocess"):
            hint = "take a store that processes share, such as sqlite:/var/lib/site/sessions.db"
            raise SessionError(f"sessions in memory work in one process only, and this server has several: {hint}")
        return self.cookie.read(environ)

    def _note_http(self, environ: WSGIEnvironment) -> None:
        """Say once in a process what plain http means for the cookie that was just set."""
        if environ["wsgi.url_scheme"] == "https":
            return
        is_here, is_secure = is_local(environ), self.cookie.is_secure(environ)
        if is_secure and not is_here:
            note = DROPPED
        elif is_here and self.cookie.is_by_rule:
            note = PLAIN
        else:
            return
        if note not in self._noted_once:
            self._noted_once.add(note)
            self._notes.append(note)
            self._tell(environ)

    def _tell(self, environ: WSGIEnvironment) -> None:
        while self._notes:
            environ["wsgi.errors"].write(f"sessions: {self._notes.pop()}\n")


class _Middleware:
    """An application with sessions."""

    def __init__(self, app: WSGIApplication, sessions: Sessions, makes_pages: bool = False) -> None:
        self._app = app
        self.sessions = sessions
        self._makes_pages = makes_pages

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request: the WSGI callable."""
        session = environ[ENVIRON_KEY] = self.sessions.session(environ)
        answer = Answer(self.sessions, session, environ, start_response, self._makes_pages)
        try:
            body = self._app(environ, answer.start)
        except StoreDown as error:
            return answer.refused(error)
        except BaseException:
            session.abandon()
            raise
        if not answer.is_started:
            return Streamed(body, answer)  # start_response comes with the first block
        try:
            answer.begin()
        except BaseException:
            close(body)
            raise
        if not answer.is_refused:
            return body
        close(body)
        return answer.page


class SessionMiddleware(_Middleware):
    """`SessionMiddleware(application, "sqlite:/var/lib/site/sessions.db")` is the application with sessions.

    store, settings: as of `Sessions`. Raises SessionError. sessions: the `Sessions` that was made.
    """

    def __init__(self, app: WSGIApplication, store: str | Store, **settings: Any) -> None:
        super().__init__(app, Sessions(store, **settings))


def _checked(store: Store) -> Store:
    """Return a store of the site's own. Raises SessionError for what is none, as None of `os.environ.get`."""
    if not callable(getattr(store, "load", None)):
        told = f"the store of sessions is of type {type(store).__name__}"
        raise SessionError(
            f"{told}; expected an address such as {FORMS['sqlite']}, or an object like poorhttp.sessions.Store"
        )
    return store


def _policy(limits: dict[str, Any]) -> Policy:
    known = set(Policy.__slots__) - {"refresh"}
    unknown = sorted(limits.keys() - known)
    if unknown:
        all_of_them = sorted({*known, "secrets", "cookie", "secure", "same_site", "persistent"})
        raise SessionError(f"unknown setting of sessions: {', '.join(unknown)}; there are {', '.join(all_of_them)}")
    return Policy(**limits)
