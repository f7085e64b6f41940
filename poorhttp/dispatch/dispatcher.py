"""A dispatch table as a WSGI application: from the environ to the handler and on to the answer.

Knows hooks, routes, the meaning of what a handler returns, and the error pages. Knows nothing of the server: its facts
come in the environ (`SERVER_ADMIN`, `poorhttp.debug`, `poorhttp.options`, `poorhttp.log_level`). Contract: `serve`
raises only when part of an answer has been sent and the rest has failed.
"""

from __future__ import annotations

import sys

from poorhttp.dispatch import error_log
from poorhttp.dispatch.constants import (
    DECLINED,
    DONE,
    HTTP_BAD_REQUEST,
    HTTP_ERROR,
    HTTP_INTERNAL_SERVER_ERROR,
    HTTP_METHOD_NOT_ALLOWED,
    HTTP_NOT_FOUND,
    HTTP_NOT_IMPLEMENTED,
    HTTP_NOT_MODIFIED,
    LOG_DEBUG,
    LOG_ERR,
    LOG_INFO,
    METHOD_BITS,
    OK,
)
from poorhttp.dispatch.faults import TableError, shown
from poorhttp.dispatch.outcome import SERVER_RETURN
from poorhttp.dispatch.request import Request, undecoded
from poorhttp.dispatch.returned import described, misreturn, write_returned
from poorhttp.dispatch.table import allowed, read_errors, read_hook, read_routes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

    from poorhttp.dispatch.routes import Handler, Methods, Routes
    from poorhttp.dispatch.static import StaticFiles

BUFFER_LIMIT = 65536


def application(
    table: object,
    *,
    debug: bool = False,
    webmaster: str = "",
    options: Mapping[str, str] | None = None,
    buffer_limit: int = BUFFER_LIMIT,
    document: str = "",
    index: bool = False,
    mime_types: Mapping[str, str] | None = None,
    follow_symlinks: bool = False,
) -> WSGIApplication:
    """Make a WSGI application of a dispatch table.

    table: a module (or any object) with `handlers`, and perhaps `errors`, `setreq`, `pre_process`, `post_process`,
        `default_handler`, `sessions`; it is read once, now.
    debug, webmaster, options: for servers that do not set `poorhttp.debug`, `SERVER_ADMIN`, `poorhttp.options`.
    buffer_limit: bytes of an answer that are held back before it is sent in parts; of text characters, where another
        server serves.
    document: a directory whose files are sent for paths that are not in the table; "": none. index: whether directories
        in it are listed. mime_types: ending of a name (`html`) -> media type, beside the usual ones. follow_symlinks:
        whether symbolic links may lead out of it.
    Raises TableError.
    """
    routes = read_routes(table)
    files = None
    if document:
        from poorhttp.dispatch.static import static_files  # only then, for the memory

        files = static_files(
            table, routes, document, index=index, mime_types=mime_types, follow_symlinks=follow_symlinks
        )
    serve = Dispatcher(table, routes, debug, webmaster, options, buffer_limit, files).serve
    sessions = getattr(table, "sessions", None)
    if sessions is None:
        return serve
    if not hasattr(sessions, "wrap"):
        hint = "sessions = Sessions('sqlite:/path/of/sessions.db'), from poorhttp.sessions"
        raise TableError(f"'sessions' is {shown(sessions)}", hint)
    with_sessions: WSGIApplication = sessions.wrap(serve)
    return with_sessions


class Dispatcher:
    """The facts that all requests of one application share."""

    def __init__(
        self,
        table: object,
        routes: Routes,
        debug: bool,
        webmaster: str,
        options: Mapping[str, str] | None,
        buffer_limit: int,
        files: StaticFiles | None,
    ) -> None:
        if not isinstance(buffer_limit, int) or not 0 <= buffer_limit <= sys.maxsize:
            raise TableError(f"buffer_limit is {buffer_limit!r}", f"a number from 0 to {sys.maxsize}")
        hooks = [read_hook(table, name) for name in ("setreq", "pre_process")]
        self._routes = routes
        self._exact = routes.exact
        # Every request knows the routes, at no cost for one: as an attribute of its class.
        self._request = type("Request", (Request,), {"__doc__": Request.__doc__, "_routes": routes})
        self._errors = read_errors(table)
        self._before = tuple(hook for hook in hooks if hook is not None)
        self._after = read_hook(table, "post_process")
        self._default = read_hook(table, "default_handler")
        self._debug = debug
        self._webmaster = webmaster
        self._options = options
        self._buffer_limit = buffer_limit
        self._files = files
        self._hinted = False

    def serve(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request: the WSGI callable."""
        req: Request = self._request(environ, start_response, self._buffer_limit)
        handler: Handler | None = None
        try:
            if not req.uri.isascii():
                req.uri = _decoded(req.uri, "strict" if self._files is None else "replace")
            if self._options is not None:
                environ.setdefault("poorhttp.options", self._options)
            if self._files is not None:
                environ.setdefault("DOCUMENT_ROOT", self._files.root)
            for hook in self._before:
                hook(req)
            methods = self._exact.get(req.uri)
            if methods is not None and req.method in methods:
                handler = methods[req.method]
                outcome = handler(req)
            else:
                handler, values = self._unrouted(req, methods)
                outcome = handler(req, *values)
        except SERVER_RETURN as end:
            outcome = self._ended(req, end)
        except Exception as error:
            self._crashed(req, error)
            outcome = DONE
        if outcome is not DONE:
            self._conclude(req, outcome, handler)
        if self._after is not None:
            self._post_process(req, self._after)
        if req.sent_head is not None and req.is_head_stale():
            self._log(
                req, "status or headers were set too late: the head has been sent, with more than 64 KiB or by flush"
            )
        try:
            return req.finish()
        except Exception as error:
            self._crashed(req, error)
            return req.finish(sys.exc_info())

    def _unrouted(self, req: Request, methods: Methods | None) -> tuple[Handler, Sequence[Any]]:
        """The handler of a request for which no path without parameters has one, and the values for it.

        methods: those of its path, if that stands in the table.
        """
        if req.method not in METHOD_BITS:
            raise SERVER_RETURN(HTTP_NOT_IMPLEMENTED)
        values: Sequence[Any] = ()
        if methods is None:
            found = self._routes.find(req.uri if self._files is None else undecoded(req))
            if found is None:
                if self._files is not None:
                    return self._files.answer, ()
                if self._default is None:
                    raise SERVER_RETURN(HTTP_NOT_FOUND)
                return self._default, ()
            pattern, methods, values = found
            req.path_args = dict(zip(pattern.names, values, strict=True))
        if req.method not in methods:
            req.err_headers_out["Allow"] = allowed(methods)
            raise SERVER_RETURN(HTTP_METHOD_NOT_ALLOWED)
        return methods[req.method], values

    def _ended(self, req: Request, end: SERVER_RETURN) -> Any:
        """The outcome of a handler that ended by raising; the details beside the code are for the developer."""
        if end.details:
            level = LOG_INFO if self._debugging(req) else LOG_DEBUG
            req.log_error(f"{req.method} {req.uri}: {end.code}: {' '.join(map(str, end.details))}", level)
        return end.code

    def _conclude(self, req: Request, outcome: Any, handler: Handler | None) -> None:
        """Turn what a handler returned or raised into an answer, unless the handler has written it."""
        if not isinstance(outcome, int):
            self._write_returned(req, outcome, handler)
        elif outcome in (OK, DONE):
            return
        elif outcome == DECLINED:
            self._decline(req, handler)
        elif outcome == HTTP_ERROR:
            self._answer_status(req, HTTP_INTERNAL_SERVER_ERROR)
        elif 200 <= outcome <= 599:
            self._answer_status(req, int(outcome))
        else:
            self._misreturned(req, outcome, handler)

    def _write_returned(self, req: Request, outcome: Any, handler: Handler | None) -> None:
        """Let the return value of a handler be the body, or part of it."""
        try:
            is_written = write_returned(req, outcome)
        except SERVER_RETURN as end:  # of a generator
            self._conclude(req, self._ended(req, end), handler)
        except Exception as error:
            self._crashed(req, error)
        else:
            if not is_written:
                self._misreturned(req, outcome, handler)

    def _answer_status(self, req: Request, status: int) -> None:
        """Answer with the status that a handler gave instead of http.DONE."""
        if req.started():
            if status != req.status:
                self._log(req, f"the status {status} comes too late: part of the answer has been sent")
        elif status < 300:
            req.status = status
        elif status < 400:
            self._redirected(req, status)
        else:
            self._error_page(req, status)

    def _redirected(self, req: Request, status: int) -> None:
        """The status of a redirect belongs to the Location that the handler has set, so the headers stay."""
        req.status = status
        if status in self._errors:
            self._own_page(req, self._errors[status])
        elif req.empty() and status != HTTP_NOT_MODIFIED:
            self._write_page(req)

    def _error_page(self, req: Request, status: int) -> None:
        """The application's page from `errors`, else the default page. The answer must not have been started."""
        _replace(req, status)
        if status in self._errors:
            self._own_page(req, self._errors[status])
        else:
            self._write_page(req)

    def _own_page(self, req: Request, handler: Handler) -> None:
        try:
            outcome = handler(req)
            if not isinstance(outcome, int) and write_returned(req, outcome):
                outcome = DONE
        except SERVER_RETURN as end:
            outcome = self._ended(req, end)
        except Exception as error:
            self._report(req, error)
            outcome = HTTP_INTERNAL_SERVER_ERROR
        if not isinstance(outcome, int) or outcome not in (OK, DONE):
            self._default_page(req, outcome, handler)

    def _default_page(self, req: Request, outcome: Any, handler: Handler) -> None:
        """For an error handler that gave no page of its own: never another handler, so this ends."""
        if req.started():
            self._log(req, f"an error handler returned {described(outcome)} after part of its page had been sent")
        elif isinstance(outcome, int) and 300 <= outcome <= 599:
            _replace(req, int(outcome))
            self._write_page(req)
        else:
            notice = f"error handler for {req.status}: {misreturn(handler, outcome)}"
            self._log(req, notice)
            _replace(req, HTTP_INTERNAL_SERVER_ERROR)
            self._write_cause(req, TypeError(notice))

    def _decline(self, req: Request, handler: Handler | None) -> None:
        """A handler that declines leaves the request to default_handler; one that does so too, to the 404 page."""
        if self._default is None or handler is self._default or req.started():
            self._answer_status(req, HTTP_NOT_FOUND)
            return
        req.discard()
        try:
            outcome = self._default(req)
        except SERVER_RETURN as end:
            outcome = self._ended(req, end)
        except Exception as error:
            self._crashed(req, error)
            return
        self._conclude(req, outcome, self._default)

    def _misreturned(self, req: Request, outcome: Any, handler: Handler | None) -> None:
        notice = misreturn(handler, outcome)
        self._log(req, notice)
        if not req.started():
            self._failed(req, TypeError(notice))

    def _post_process(self, req: Request, hook: Handler) -> None:
        """Run post_process once, also after errors. Its return value does not matter, its exception does."""
        try:
            hook(req)
        except SERVER_RETURN as end:
            self._conclude(req, self._ended(req, end), hook)
        except Exception as error:
            self._crashed(req, error)

    def _crashed(self, req: Request, error: Exception) -> None:
        """Log `error` and make the 500 page. Call it while `error` is handled: an `errors[500]` may look at it."""
        if req.started():
            req.abort(sys.exc_info())  # where something has been sent it raises `error` for the server, which tells it
            self._report(req, error)
            return
        self._report(req, error)
        self._failed(req, error)

    def _failed(self, req: Request, error: Exception) -> None:
        """The 500 page. The answer must not have been started."""
        if HTTP_INTERNAL_SERVER_ERROR in self._errors:
            self._error_page(req, HTTP_INTERNAL_SERVER_ERROR)
        else:
            _replace(req, HTTP_INTERNAL_SERVER_ERROR)
            self._write_cause(req, error)

    def _report(self, req: Request, error: Exception) -> None:
        error_log.write_exception(req.environ, error, _trace(error))
        if not self._hinted and _is_about_other_http(error):
            self._hinted = True
            self._log(req, "this http is the standard library's; write: from poorhttp import http")

    def _log(self, req: Request, text: str) -> None:
        req.log_error(f"{req.method} {req.uri}: {text}", LOG_ERR)

    def _write_page(self, req: Request) -> None:
        from poorhttp.dispatch.pages import page

        req.write(page(req.status, req.method, req.uri, self._webmaster_of(req)))

    def _write_cause(self, req: Request, error: Exception) -> None:
        """The default 500 page, under debug with what went wrong; a server's own page knows who may see that."""
        if not self._debugging(req):
            self._write_page(req)
            return
        page = req.environ.get("poorhttp.error_page")  # of a server that has a better one
        if page is not None:
            fields, body = page(error)
            req.content_type = fields.pop("Content-Type")
            for name, value in fields.items():
                req.headers_out[name] = value
            req.write(body)
            return
        from poorhttp import __version__
        from poorhttp.dispatch.pages import traceback_page

        versions = (f"Poor Http / {__version__}", f"Python / {sys.version.split()[0]}")
        req.write(traceback_page(req.uri, _trace(error), versions, self._webmaster_of(req)))

    def _webmaster_of(self, req: Request) -> str:
        told = str(req.environ.get("SERVER_ADMIN", ""))
        try:
            return told.encode("latin-1").decode() or self._webmaster  # bytes as characters (PEP 3333)
        except UnicodeError:
            return told

    def _debugging(self, req: Request) -> bool:
        """A bool from poorhttp, a text from servers that can set only texts."""
        debug = req.environ.get("poorhttp.debug", self._debug)
        return debug is True or str(debug).lower() in ("yes", "true", "on", "1")


def _decoded(path: str, errors: str) -> str:
    """PATH_INFO holds bytes as Latin-1 (PEP 3333); a path is utf-8. Raises SERVER_RETURN with 400 if it is not, unless
    `errors` allows that: names of files may be any bytes.
    """
    try:
        return path.encode("latin-1").decode("utf-8", errors)
    except UnicodeError:
        raise SERVER_RETURN(HTTP_BAD_REQUEST, "the path is not utf-8") from None


def _is_about_other_http(error: Exception) -> bool:
    """Whether a name was looked for in the http of the standard library, perhaps because `http` was once ours."""
    if isinstance(error, AttributeError):
        return error.obj is not None and error.obj is sys.modules.get("http")
    return isinstance(error, ImportError) and error.name == "http"


def _replace(req: Request, status: int) -> None:
    req.discard()
    req.status = status


def _trace(error: Exception) -> str:
    from traceback import format_exception

    frames = error.__traceback__
    if frames is not None and frames.tb_next is not None:
        frames = frames.tb_next  # the first frame is this file's, which tells the author nothing
    return "".join(format_exception(type(error), error, frames))
