"""A dispatch table under Apache: what `PythonHandler poorhttp.dispatch.mod_python` calls for each request.

Knows mod_python's request object on Python 3, and makes a WSGI environ and `start_response` of it; the path of the
`<Location>` is the application's mount point. Knows nothing of tables: the module `dispatch_table`, which PythonPath
leads to, is served by `application`. Contract: an answer that cannot be completed is never ended as if it were whole.
"""

from __future__ import annotations

import io
from _thread import allocate_lock
from importlib import import_module

from poorhttp.dispatch import error_log
from poorhttp.dispatch.dispatcher import application
from poorhttp.dispatch.faults import TableError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from _typeshed import OptExcInfo
    from _typeshed.wsgi import WSGIApplication

OK = 0
LENGTH_REQUIRED = 411
INTERNAL_SERVER_ERROR = 500
FILTER_ERROR = -102  # of Apache: the answer is left as it is, without the end of a chunked body
CONNECTION_CLOSE = 1  # mod_python's AP_CONN_CLOSE
LOG_ERROR = 3  # mod_python's APLOG_ERR
NOBODY = "[no address given]"  # what Apache has in place of ServerAdmin

OURS = "poorhttp."
MEDIA_TYPE = "mime-type."
NAMES = ("debug", "document", "follow_symlinks", "index", "log_level", "webmaster")
"""What may follow `poorhttp.` in a PythonOption, beside `mime-type.` and the ending of a name."""

_applications: dict[tuple[tuple[str, str], ...], WSGIApplication] = {}
_making = allocate_lock()


def handler(req: Any) -> int:
    """Answer a request of mod_python. Raises TableError, and what the import of the table raises:
    mod_python logs these and answers 500.
    """
    ours, options = _split(req.get_options())
    serve = _application(ours)
    if "Transfer-Encoding" in req.headers_in:
        return LENGTH_REQUIRED  # mod_python cannot read such a body
    return _Answer(req, environ_of(req, ours, options)).send(serve)


def environ_of(req: Any, ours: Mapping[str, str], options: Mapping[str, str]) -> dict[str, Any]:
    """The environ of a request (PEP 3333). ours: the options of this package, without their prefix."""
    req.add_common_vars()
    environ: dict[str, Any] = {name: _native(req.subprocess_env.get, name) for name in _names(req.subprocess_env)}
    fields = req.headers_in
    if "Authorization" in fields:  # Apache keeps it from programs that other users may see in `ps`
        environ["HTTP_AUTHORIZATION"] = _native(fields.get, "Authorization")
    if "Range" in fields:
        del fields["Range"]  # else Apache cuts a part out of an answer that the application has meant as a whole
    if ours.get("document"):
        environ.pop("DOCUMENT_ROOT", None)  # that of Apache's own files
    if "webmaster" in ours:
        environ["SERVER_ADMIN"] = _native(ours.get, "webmaster")
    elif environ.get("SERVER_ADMIN") == NOBODY:
        del environ["SERVER_ADMIN"]
    # The path that Apache has compared with its sections, decoded once and without `..` and `//`.
    path = _native(getattr, req, "uri")
    mount = _mount(req.hlist, path)
    environ.update(
        {
            "REQUEST_METHOD": req.method,
            "REQUEST_URI": _native(getattr, req, "unparsed_uri"),
            "SCRIPT_NAME": mount,
            "PATH_INFO": path[len(mount) :],
            "QUERY_STRING": _native(getattr, req, "args"),
            "SERVER_PROTOCOL": req.protocol,
            "REMOTE_PORT": str(req.useragent_addr[1]),
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": "https" if req.is_https() else "http",
            "wsgi.input": io.BufferedReader(_Body(req)),
            "wsgi.input_terminated": True,
            "wsgi.errors": _ErrorLog(req),
            "wsgi.multithread": _has_threads(),
            "wsgi.multiprocess": True,
            "wsgi.run_once": False,
            "poorhttp.log_level": ours.get("log_level", "info"),
            "poorhttp.options": options,
        }
    )
    if req.useragent_ip != req.connection.client_ip:  # by mod_remoteip: the client came through another server
        environ["poorhttp.forwarded"] = True
    return environ


def _native(read: Callable[..., str | None], *arguments: Any) -> str:
    """A text of mod_python, which decodes bytes as UTF-8, as WSGI has it, which is bytes as Latin-1; "" for None."""
    try:
        text = read(*arguments) or ""
    except UnicodeDecodeError as error:
        return error.object.decode("latin-1")
    return text if text.isascii() else text.encode().decode("latin-1")


def _names(table: Any) -> Iterable[str]:
    """The names in a table of mod_python. With bytes that are not UTF-8 only keys() and get() are safe: they raise."""
    names: Iterable[str] = table.keys()
    return names


def _mount(handlers: Any, path: str) -> str:
    """The path of the `<Location>` that has PythonHandler; "" where that is a pattern, or a directory of files."""
    if not handlers.is_location:
        return ""
    mount = _native(getattr, handlers, "directory").rstrip("/")
    return mount if f"{path}/".startswith(f"{mount}/") else ""


def _has_threads() -> bool:
    """Whether processes of this Apache have threads: those of the module mpm_prefork have none."""
    apache: Any = import_module("mod_python.apache")  # it is there under Apache only
    return bool(apache.mpm_query(apache.AP_MPMQ_IS_THREADED))


def _split(table: Any) -> tuple[dict[str, str], dict[str, str]]:
    """The options of this package, without their prefix; those of the application, in lower case as in an ini file."""
    ours: dict[str, str] = {}
    others: dict[str, str] = {}
    for name in _names(table):
        if name.startswith(OURS):
            ours[name[len(OURS) :]] = table.get(name)
        elif not name.startswith("mod_python."):
            others[name.lower()] = table.get(name)
    return ours, others


def _application(ours: Mapping[str, str]) -> WSGIApplication:
    """The application for these options; made at the first request, as only that knows them."""
    key = tuple(sorted(ours.items()))
    with _making:
        if key not in _applications:
            _applications[key] = _made(ours)
        return _applications[key]


def _made(ours: Mapping[str, str]) -> WSGIApplication:
    kinds = {name[len(MEDIA_TYPE) :]: kind for name, kind in ours.items() if name.startswith(MEDIA_TYPE)}
    for name in ours:
        if name not in NAMES and not name.startswith(MEDIA_TYPE):
            names = ", ".join(OURS + each for each in (*NAMES, MEDIA_TYPE + "ENDING"))
            raise TableError(f"PythonOption {OURS}{name} is unknown", f"one of {names}")
    return application(
        import_module("dispatch_table"),
        debug=_is_on(ours, "debug"),
        document=ours.get("document", ""),
        index=_is_on(ours, "index"),
        mime_types=kinds,
        follow_symlinks=_is_on(ours, "follow_symlinks"),
    )


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
            self._req.log_error(error_log.printable(line), LOG_ERROR)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Apache's log is not buffered."""
