"""The cookie of a session: its name and attributes, how it is read from a request and written into an answer.

Knows RFC 6265bis (draft-ietf-httpbis-rfc6265bis) and the WSGI environ. Knows nothing of what the value means.

One rule decides whether the cookie is Secure: it is, unless the request came by plain http from this machine to
localhost, and no front server says that it has passed the request on. There the name has no `__Host-`, for browsers
refuse that without Secure. `secure=False` is for a site that is served by plain http on purpose.
"""

from __future__ import annotations

from poorhttp.sessions.errors import SessionError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

LIMIT = 4096
"""Bytes of name and value that every browser keeps (RFC 6265 section 6.1)."""

SAME_SITE = ("Lax", "Strict", "None")
_TOKEN = frozenset("!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
_THIS_MACHINE = ("127.0.0.1", "::1")
_PASSED_ON = (
    *("HTTP_FORWARDED", "HTTP_X_FORWARDED_FOR", "HTTP_X_FORWARDED_PROTO", "HTTP_X_FORWARDED_HOST"),
    *("HTTP_VIA", "HTTP_X_REAL_IP"),
)
"""Fields that only front servers send."""


class Cookie:
    """name: without `__Host-`. secure: None for the rule above, else always or never. is_persistent: whether browsers
    keep it when they are closed.
    """

    __slots__ = ("_plain_name", "_same_site", "_secure", "_secure_name", "is_persistent")

    def __init__(self, name: str, secure: bool | None, same_site: str, is_persistent: bool) -> None:
        """Raises SessionError."""
        if not name or not _TOKEN.issuperset(name) or name.startswith("__"):
            raise SessionError(f"cookie is {name!r}; expected a name of letters, digits, - and _, without a prefix")
        if same_site not in SAME_SITE:
            raise SessionError(f"same_site is {same_site!r}; expected one of {', '.join(SAME_SITE)}")
        if same_site == "None" and secure is False:
            raise SessionError("same_site is 'None' with secure=False: browsers refuse such a cookie")
        self._plain_name, self._secure_name = name, f"__Host-{name}"
        self._secure = secure
        self._same_site = same_site
        self.is_persistent: bool = is_persistent

    @property
    def is_by_rule(self) -> bool:
        """Whether the rule above decides, and the site has not."""
        return self._secure is None

    def is_secure(self, environ: WSGIEnvironment) -> bool:
        if self._secure is not None:
            return self._secure
        return environ["wsgi.url_scheme"] == "https" or not is_local(environ)

    def read(self, environ: WSGIEnvironment) -> str:
        """Return the value that the client sent, "" if it sent none. Of several the first is taken (RFC 6265 5.4)."""
        header: str = environ.get("HTTP_COOKIE", "")
        if not header:
            return ""
        name = self._secure_name if self.is_secure(environ) else self._plain_name
        for pair in header.split(";"):
            key, sign, value = pair.partition("=")
            if sign and key.strip(" \t") == name:
                return value.strip(' \t"')
        return ""

    def field(self, environ: WSGIEnvironment, value: str, max_age: float) -> tuple[str, str]:
        """Return the field that sets the cookie; max_age in seconds, for one that is persistent."""
        age = f"; Max-Age={int(max_age)}" if self.is_persistent else ""
        return "Set-Cookie", self._pair(environ, value) + age

    def removal(self, environ: WSGIEnvironment) -> tuple[str, str]:
        """Return the field that removes the cookie."""
        return "Set-Cookie", self._pair(environ, "") + "; Max-Age=0"

    def room(self) -> int:
        """Bytes that a value may have."""
        return LIMIT - len(self._secure_name)

    def _pair(self, environ: WSGIEnvironment, value: str) -> str:
        attributes = f"Path=/; HttpOnly; SameSite={self._same_site}"
        if self.is_secure(environ):
            return f"{self._secure_name}={value}; {attributes}; Secure"
        return f"{self._plain_name}={value}; {attributes}"


def is_local(environ: WSGIEnvironment) -> bool:
    """Whether the client runs on this machine and asked for localhost. A front server on this machine that sends
    neither the Host of its client nor any field of its own cannot be told from a client.
    """
    host = environ.get("HTTP_HOST") or environ.get("SERVER_NAME", "")
    end = host.find("]") + 1  # the colons of [::1] are not the port's
    name = (host[:end] if end else host.partition(":")[0]).lower()
    is_localhost = name in ("localhost", "127.0.0.1", "[::1]") or name.endswith(".localhost")
    if not is_localhost or environ.get("REMOTE_ADDR") not in _THIS_MACHINE:
        return False
    return not any(name in environ for name in _PASSED_ON)
