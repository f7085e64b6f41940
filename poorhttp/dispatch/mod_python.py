"""A dispatch table under Apache: what `PythonHandler poorhttp.dispatch.mod_python` calls for each request.

Knows mod_python's request object on Python 3, and makes a WSGI environ and `start_response` of it. Knows nothing of
tables: the module `dispatch_table`, which PythonPath leads to, is served by `application`. Contract: an answer that
cannot be completed is never ended as if it were whole.
"""

from __future__ import annotations

import io
from importlib import import_module

from poorhttp.dispatch import error_log
from poorhttp.dispatch.dispatcher import application
from poorhttp.dispatch.faults import TableError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from _typeshed import OptExcInfo
    from _typeshed.wsgi import WSGIApplication

OK = 0
LENGTH_REQUIRED = 411
BAD_REQUEST = 400
INTERNAL_SERVER_ERROR = 500
FILTER_ERROR = -3  # of Apache: the answer is left as it is, without the end of a chunked body
CONNECTION_CLOSE = 1  # mod_python's AP_CONN_CLOSE
LOG_ERROR = 3  # mod_python's APLOG_ERR

OURS = "poorhttp."
MEDIA_TYPE = "mime-type."
NAMES = ("debug", "document", "follow_symlinks", "index", "log_level", "webmaster")
"""What may follow `poorhttp.` in a PythonOption, beside `mime-type.` and the ending of a name."""

_applications: dict[tuple[tuple[str, str], ...], WSGIApplication] = {}


def handler(req: Any) -> int:
    """Answer a request of mod_python. Raises TableError, and what the import of the table raises:
    mod_python logs these and answers 500.
    """
    ours, options = _split(req.get_options())
    serve = _application(ours)
    if "Transfer-Encoding" in req.headers_in:
        return LENGTH_REQUIRED  # mod_python cannot read such a body
    try:
        environ = environ_of(req, ours, options)
    except UnicodeDecodeError:
        return BAD_REQUEST  # mod_python gives a field that is not UTF-8 in no form
    return _Answer(req, environ).send(serve)


def environ_of(req: Any, ours: Mapping[str, str], options: Mapping[str, str]) -> dict[str, Any]:
    """The environ of a request (PEP 3333): mod_python decodes all texts as UTF-8, WSGI has bytes as Latin-1.

    ours: the options of this package, without their prefix. Raises UnicodeDecodeError for a field that is not UTF-8.
    """
    req.add_common_vars()
    environ: dict[str, Any] = {}
    # A table of mod_python is read by keys() and get() alone, which raise where [] is not safe.
    for name in req.subprocess_env.keys():  # noqa: SIM118
        value = req.subprocess_env.get(name)
        if value is not None:
            environ[name] = _native(value)
    if "Authorization" in req.headers_in:  # Apache keeps it from programs that other users may see in `ps`
        environ["HTTP_AUTHORIZATION"] = _native(req.headers_in.get("Authorization"))
    if ours.get("document"):
        environ.pop("DOCUMENT_ROOT", None)  # that of Apache's own files
    if "webmaster" in ours:
        environ["SERVER_ADMIN"] = _native(ours["webmaster"])
    environ.update(
        {
            "REQUEST_METHOD": req.method,
            "REQUEST_URI": _native(req.unparsed_uri),
            "SCRIPT_NAME": "",
            "PATH_INFO": _path(req),
            "QUERY_STRING": _native(req.args or ""),
            "SERVER_PROTOCOL": req.protocol,
            "REMOTE_PORT": str(req.useragent_addr[1]),
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": "https" if req.is_https() else "http",
            "wsgi.input": io.BufferedReader(_Body(req)),
            "wsgi.input_terminated": True,
            "wsgi.errors": _ErrorLog(req),
            "wsgi.multithread": True,  # by the module of Apache that is in use
            "wsgi.multiprocess": True,
            "wsgi.run_once": False,
            "poorhttp.debug": ours.get("debug", "no"),
            "poorhttp.log_level": ours.get("log_level", "info"),
            "poorhttp.options": options,
        }
    )
    if req.useragent_ip != req.connection.client_ip:  # by mod_remoteip: the client came through another server
        environ["poorhttp.forwarded"] = True
    return environ


def _native(text: str) -> str:
    return text if text.isascii() else text.encode().decode("latin-1")


def _path(req: Any) -> str:
    """The path that Apache has compared with its sections, decoded once and without `..` and `//`."""
    try:
        return _native(req.uri)
    except UnicodeDecodeError:
        from urllib.parse import unquote_to_bytes  # a path that is not UTF-8; the dispatcher knows what to do with it

        return unquote_to_bytes(req.unparsed_uri.partition("?")[0]).decode("latin-1")


def _split(table: Any) -> tuple[dict[str, str], dict[str, str]]:
    """The options of this package, without their prefix, and those of the application."""
    ours: dict[str, str] = {}
    others: dict[str, str] = {}
    for name in table.keys():  # noqa: SIM118
        if name.startswith(OURS):
            ours[name[len(OURS) :]] = table.get(name)
        elif not name.startswith("mod_python."):
            others[name] = table.get(name)
    return ours, others


def _application(ours: Mapping[str, str]) -> WSGIApplication:
    """The application for these options; made at the first request, as only that knows them."""
    key = tuple(sorted(ours.items()))
    made = _applications.get(key)
    if made is None:
        kinds = {name[len(MEDIA_TYPE) :]: kind for name, kind in ours.items() if name.startswith(MEDIA_TYPE)}
        for name in ours:
            if name not in NAMES and not name.startswith(MEDIA_TYPE):
                names = ", ".join(OURS + each for each in (*NAMES, MEDIA_TYPE + "ENDING"))
                raise TableError(f"PythonOption {OURS}{name} is unknown", f"one of {names}")
        made = _applications[key] = application(
            import_module("dispatch_table"),
            document=ours.get("document", ""),
            index=_is_on(ours, "index"),
            mime_types=kinds,
            follow_symlinks=_is_on(ours, "follow_symlinks"),
        )
    return made


def _is_on(ours: Mapping[str, str], name: str) -> bool:
    value = ours.get(name, "no").lower()
    if value in ("yes", "true", "on", "1"):
        return True
    if value in ("no", "false", "off", "0"):
        return False
    raise TableError(f"PythonOption {OURS}{name} is {value!r}", "yes or no")


class _Answer:
    """One answer: `start_response` and `write` of PEP 3333 on mod_python's request."""

    def __init__(self, req: Any, environ: dict[str, Any]) -> None:
        self._req = req
        self._environ = environ
        self._head: tuple[str, list[tuple[str, str]]] | None = None
        self._is_sent = False
        self._left: int | None = None  # bytes that Content-Length announces and that are not written yet

    def send(self, serve: WSGIApplication) -> int:
        """Answer; returns what mod_python gives to Apache."""
        body: Iterable[bytes] = ()
        try:
            try:
                body = serve(self._environ, self._start)
                is_whole = isinstance(body, list)
                for block in body:
                    self._write(block, 0 if is_whole else 1)
                self._write(b"", 0)
            finally:
                close = getattr(body, "close", None)
                if close is not None:
                    close()
            if self._left and self._req.method != "HEAD":
                raise OSError(f"the body lacks {self._left} bytes of its Content-Length")
        except Exception as error:
            if self._req.connection.aborted:
                return FILTER_ERROR  # a client that has left is no error
            self._log(error)
            if not self._is_sent:
                return INTERNAL_SERVER_ERROR
            # mod_python would let the page for 500 follow, and end the body as if it were whole.
            self._req.flush()
            self._req.connection.keepalive = CONNECTION_CLOSE
            return FILTER_ERROR
        return OK

    def _start(self, status: str, fields: list[tuple[str, str]], exc_info: OptExcInfo | None = None) -> Any:
        if exc_info is not None:
            error = exc_info[1]
            if self._is_sent and error is not None:
                raise error
        self._head = status, fields
        return self._write

    def _write(self, data: bytes, flush: int = 1) -> None:
        """flush: 1: to the client now; 0: when Apache has enough for a packet."""
        if not self._is_sent:
            self._set_head()
        if data:
            if self._left is not None:
                self._left -= len(data)
            self._req.write(data, flush)

    def _set_head(self) -> None:
        """Apache sends it with the first byte of the body, or at the end of the request."""
        assert self._head is not None, "start_response was not called"
        self._is_sent = True
        status, fields = self._head
        req = self._req
        req.status = int(status[:3])
        req.status_line = status  # Apache replaces a status that it does not know by 500 unless this is set
        for name, value in fields:
            if name.lower() == "content-type":
                req.content_type = value  # Apache puts that in place of the field
                continue
            if name.lower() == "content-length":
                self._left = int(value)
            req.headers_out.add(name, value)

    def _log(self, error: Exception) -> None:
        from traceback import format_exception

        error_log.write_exception(self._environ, error, "".join(format_exception(error)))


class _Body(io.RawIOBase):
    """The body of a request; mod_python gives b"" behind its end."""

    def __init__(self, req: Any) -> None:
        self._req = req

    def readable(self) -> bool:
        return True

    def readinto(self, room: Any) -> int:
        data = self._req.read(len(room))
        room[: len(data)] = data
        return len(data)


class _ErrorLog:
    """`wsgi.errors`: the error log of the virtual host, one of Apache's lines for each line."""

    def __init__(self, req: Any) -> None:
        self._req = req

    def write(self, text: str) -> None:
        for line in text.splitlines():
            self._req.log_error(line, LOG_ERROR)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Apache's log is not buffered."""
