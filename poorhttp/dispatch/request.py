"""One request as a handler sees it, in the manner of mod_python's request object.

Knows the WSGI environ; its outgoing half is `Answer`. Knows nothing of the table. Contract: only what every request
needs is made at once; the rest is made when it is asked for, and any attribute may be added or replaced.
"""

from __future__ import annotations

from poorhttp.dispatch import error_log
from poorhttp.dispatch.answer import Answer
from poorhttp.dispatch.constants import (
    HTTP_BAD_REQUEST,
    HTTP_LENGTH_REQUIRED,
    HTTP_OK,
    HTTP_REQUEST_TIME_OUT,
    LOG_DEBUG,
    LOG_NOERRNO,
    LOG_NOTICE,
    OK,
)
from poorhttp.dispatch.faults import shown
from poorhttp.dispatch.headers import RequestHeaders
from poorhttp.dispatch.outcome import SERVER_RETURN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, MutableMapping
    from typing import Any

    from _typeshed.wsgi import WSGIEnvironment

    from poorhttp.dispatch.field import Fields
    from poorhttp.dispatch.routes import Routes

_HOST_CHARS = frozenset("-.:[]_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")


if TYPE_CHECKING:
    from functools import cached_property as made_once
else:

    class made_once:
        """An attribute that is made when it is asked for, then kept; it may be assigned to.

        What functools.cached_property does, whose module costs more than all of this package. A `__getattr__` would
        do too, but a class that has one makes the interpreter look up every attribute the slow way.
        """

        def __init__(self, make):
            self._make = make
            self._name = make.__name__
            self.__doc__ = make.__doc__

        def __get__(self, req, owner):
            if req is None:
                return self
            value = req.__dict__[self._name] = self._make(req)
            return value


class Request(Answer):
    """A request and its answer.

    environ: the WSGI environ (PEP 3333). method: str, `GET`. uri: str, the path below the application's mount point,
    decoded; if files are sent (`document`), bytes that are not UTF-8 are replacement characters in it.
    status: int, 200..599, and content_type: str, of the answer; set them at will until output is sent.
    reason: str, for a function in `errors`: why the request has ended, as `the field 'title' is missing`, with what the
    client sent in it; "" if that is not known.
    """

    reason = ""
    _reason: tuple[object, str] = (None, "")  # with which status or value it was ended, and why
    _was_read = False  # whether some of the body was

    def read(self, length: int = -1) -> bytes:
        """Read at most `length` bytes of the body, -1: all that is left; b"" at its end.

        Raises SERVER_RETURN: 408 if the client stops before the end, 411 if the server leaves a body in the chunked
        coding to the application, 400 if Content-Length is not a number.
        """
        if not self.environ.get("CONTENT_LENGTH") and self.environ.get("wsgi.input_terminated"):
            return self._received(length)  # of a body in the chunked coding
        # Other servers end a body where the client has left, or wait behind it for the client's next request.
        left = self._unread()
        wanted = left if length < 0 else min(length, left)
        data = self._received(wanted)
        while len(data) < wanted:
            more = self._received(wanted - len(data))
            if not more:
                raise SERVER_RETURN(HTTP_REQUEST_TIME_OUT, f"the body ends {left - len(data)} bytes too early")
            data += more
        self._left = left - len(data)
        return data

    def log_error(self, message: object, level: int = LOG_NOTICE, server: object = None) -> None:
        """Write a line to the error log; `level` is one of http.LOG_*, `server` is ignored (mod_python has it). Raises
        ValueError for another level.
        """
        if not isinstance(level, int) or not 0 <= level <= LOG_NOERRNO | LOG_DEBUG:
            raise ValueError(f"the level of a line of the log is http.LOG_ERR or the like, not {shown(level)}")
        error_log.write(self.environ, level, str(message))

    def get_options(self) -> dict[str, str]:
        """The options of the application: section [application] of poorhttp.ini, a copy."""
        return dict(self.environ.get("poorhttp.options") or {})

    def get_remote_host(self) -> str:
        """The name of the client if the server knows it, else its address. Nothing is asked of DNS."""
        return self.remote_host

    def document_root(self) -> str:
        """The directory of the site's files, as the server gave it in DOCUMENT_ROOT; "" if it gave none."""
        return str(self.environ.get("DOCUMENT_ROOT", ""))

    def construct_url(self, uri: str) -> str:
        """`/light` -> `http://localhost:8080/light`, with the host that the client asked for."""
        return f"{self.scheme}://{_authority(self.environ)}{uri}"

    def set_cookie(
        self,
        name: str,
        value: str,
        *,
        max_age: int | None = None,
        path: str = "/",
        domain: str = "",
        secure: bool | None = None,
        http_only: bool = True,
        same_site: str = "Lax",
    ) -> None:
        """Let the client keep a cookie. Redirects and error pages have it too.

        max_age: seconds; None: until the browser is closed. secure: None for https, and for names that demand it.
        Raises ValueError for characters that a cookie cannot hold, and for combinations that browsers refuse.
        """
        from poorhttp.dispatch.cookies import replace, set_cookie_field

        if secure is None:
            secure = self.scheme == "https" or name.lower().startswith(("__host-", "__secure-"))
        field = set_cookie_field(
            name,
            value,
            max_age=max_age,
            path=path,
            domain=domain,
            secure=secure,
            http_only=http_only,
            same_site=same_site,
        )
        replace(self.err_headers_out, field)

    def delete_cookie(self, name: str, *, path: str = "/", domain: str = "") -> None:
        """Let the client forget a cookie, which was set with this path and domain."""
        self.set_cookie(name, "", max_age=0, path=path, domain=domain)

    def set_etag(self, tag: str, *, weak: bool = False) -> None:
        """Name this version of the page, as a hash or a number does. See `meets_conditions`."""
        from poorhttp.dispatch.preconditions import entity_tag

        self.headers_out["ETag"] = entity_tag(tag, weak)

    def set_last_modified(self, seconds: float) -> None:
        """Tell when the page was changed, in seconds since the epoch. See `meets_conditions`."""
        from poorhttp.dispatch.preconditions import last_modified

        self.headers_out["Last-Modified"] = last_modified(int(seconds * 10**9))

    def meets_conditions(self) -> int:
        """Whether the client wants this page: http.OK (0), 304 if it has it already, 412 if it asked for another one.

        Call it behind `set_etag` or `set_last_modified`: `if status := req.meets_conditions(): return status`.
        """
        from poorhttp.dispatch.preconditions import status_for

        etag, modified = (self.headers_out.get(name, "") for name in ("ETag", "Last-Modified"))
        status = status_for(self.environ, etag, modified)
        return OK if status == HTTP_OK else status

    def url_for(
        self, target: str | Callable[..., Any], fields: Mapping[str, Any] | None = None, /, **values: object
    ) -> str:
        """`url_for("user", {"page": 2}, name="a b")` -> `/user/a%20b?page=2`: the path to a function of the table.

        target: the function, or its name. fields: those of the query: str, numbers, and lists of these. values: of the
        parameters in the path. With the application's mount point, so a page can link to it. Raises LookupError if the
        table has no such function, TypeError for missing values and for other values in the query, ValueError for
        values that the pattern would not read back.
        """
        from poorhttp.dispatch.percent import PATH, encoded, query

        mount = self.environ.get("SCRIPT_NAME", "").encode("latin-1")
        routes: Routes = self._routes
        path = encoded(mount, PATH) + routes.build(target, values)
        return f"{path}?{query(fields)}" if fields else path

    @made_once
    def path_args(self) -> dict[str, Any]:
        """The values of the parameters in the path, by name."""
        return {}

    @made_once
    def args(self) -> Fields:
        """The fields of the query string. Raises FormError, which ends the handler with 400."""
        from poorhttp.dispatch.form import query_of

        return query_of(self)

    @made_once
    def form(self) -> Fields:
        """The fields of the body that are texts. Raises FormError, which ends the handler with 400 or 413."""
        from poorhttp.dispatch.form import texts_of

        return texts_of(self)

    @made_once
    def files(self) -> Fields:
        """The files in the body: `req.files["photo"].file`. Raises FormError as `form`."""
        from poorhttp.dispatch.form import uploads_of

        return uploads_of(self)

    @made_once
    def json(self) -> Any:
        """The body as JSON. Ends the handler with 415 for another type, 413 above 1 MiB, 400 for wrong JSON."""
        from poorhttp.dispatch.json_body import json_of

        return json_of(self)

    @made_once
    def cookies(self) -> dict[str, str]:
        """The cookies that the client sent, by name: a client can write anything into them."""
        from poorhttp.dispatch.cookies import cookies_of

        return cookies_of(self.environ.get("HTTP_COOKIE", ""))

    @made_once
    def headers_in(self) -> RequestHeaders:
        """The fields of the request by name, in any case: a mapping of str."""
        return RequestHeaders(self.environ)

    @made_once
    def session(self) -> MutableMapping[str, Any]:
        """What the site remembers of this client, kept by `poorhttp.sessions`. Raises RuntimeError if it keeps none."""
        try:
            session: MutableMapping[str, Any] = self.environ["poorhttp.session"]
        except KeyError:
            hint = 'write into the table: sessions = Sessions("sqlite:/path"), from poorhttp.sessions'
            raise RuntimeError(f"req.session: this site keeps no sessions; {hint}") from None
        return session

    @made_once
    def subprocess_env(self) -> WSGIEnvironment:
        """The environ, by mod_python's name."""
        return self.environ

    @made_once
    def remote_addr(self) -> str:
        """The address of the client (REMOTE_ADDR); "" on a unix socket."""
        return str(self.environ.get("REMOTE_ADDR", ""))

    @made_once
    def remote_host(self) -> str:
        """The name of the client (REMOTE_HOST) if the server knows it, else its address."""
        return str(self.environ.get("REMOTE_HOST") or self.remote_addr)

    @made_once
    def user_agent(self) -> str:
        """The program of the client as it names itself (User-Agent, RFC 9110 section 10.1.5); "" without."""
        return str(self.environ.get("HTTP_USER_AGENT", ""))

    @made_once
    def scheme(self) -> str:
        """`http` or `https`, as the client asked, if the server knows (`wsgi.url_scheme`)."""
        return str(self.environ["wsgi.url_scheme"])

    @made_once
    def hostname(self) -> str:
        """The host that the client asked for, without the port."""
        host = _authority(self.environ)
        end = host.find("]") + 1  # the colons of [::1] are not the port's
        return host[:end] if end else host.partition(":")[0]

    if TYPE_CHECKING:  # any attribute may be added

        def __getattr__(self, name: str) -> Any: ...
        def __setattr__(self, name: str, value: Any) -> None: ...

    def _received(self, length: int) -> bytes:
        try:
            data = bytes(self.environ["wsgi.input"].read(length))
        except OSError as error:  # so says a server that the client has left, or waits for too long
            raise SERVER_RETURN(HTTP_REQUEST_TIME_OUT, f"the body cannot be read: {error}") from error
        if data:
            self._was_read = True
        return data

    def _reason_of_status(self) -> str:
        """The reason with which the request was ended, if it is that of the status which the answer has."""
        code, reason = self._reason
        return reason if isinstance(code, int) and code == self.status else ""

    def _unread(self) -> int:
        left: int | None = self.__dict__.get("_left")
        if left is not None:
            return left
        length = self.environ.get("CONTENT_LENGTH")
        if not length:
            if "HTTP_TRANSFER_ENCODING" in self.environ:
                raise SERVER_RETURN(HTTP_LENGTH_REQUIRED, "this server cannot read a body in the chunked coding")
            return 0
        # int() would take +5, -5, 5_0 and digits of other scripts, and raise for thousands of digits.
        if not (length.isascii() and length.isdecimal() and len(length) < 20):
            raise SERVER_RETURN(HTTP_BAD_REQUEST, f"Content-Length is not a number of bytes: {length[:80]!r}")
        return int(length)


def undecoded(req: Request) -> str:
    """The path of a request with lone surrogates for bytes that are not UTF-8, for which `req.uri` has replacement
    characters. A path that a hook has set stays as it is.
    """
    if "\ufffd" in req.uri:
        path: bytes = req.environ.get("PATH_INFO", "").encode("latin-1")
        if path.decode("utf-8", "replace") == req.uri:
            return path.decode("utf-8", "surrogateescape")
    return req.uri


def _authority(environ: WSGIEnvironment) -> str:
    """Host and port. The Host field is a client's word: used if it looks like a host, so that nothing rides on it."""
    host: str = environ.get("HTTP_HOST", "")
    if host and _HOST_CHARS.issuperset(host):
        return host
    name, port = environ["SERVER_NAME"], environ["SERVER_PORT"]
    default = {"http": "80", "https": "443"}.get(environ["wsgi.url_scheme"])
    host = f"[{name}]" if ":" in name and not name.startswith("[") else name
    return host if port == default or not port else f"{host}:{port}"
