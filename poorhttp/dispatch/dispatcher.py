"""A dispatch table as a WSGI application: from the environ to the handler and on to the answer.

Knows hooks, routes, the meaning of what a handler returns, and the error pages. Knows nothing of the server: its facts
come in the environ (`SERVER_ADMIN`, `poorhttp.debug`, `poorhttp.options`, `poorhttp.log_level`). Contract: `serve`
raises only if part of an answer has been sent and the rest fails, or if the page for a failure fails too.
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
    HTTP_SERVICE_UNAVAILABLE,
    LOG_DEBUG,
    LOG_ERR,
    LOG_INFO,
    METHOD_BITS,
    OK,
)
from poorhttp.dispatch.faults import TableError, shown
from poorhttp.dispatch.misspelt import refuse_misspelt
from poorhttp.dispatch.outcome import SERVER_RETURN
from poorhttp.dispatch.request import Request, undecoded
from poorhttp.dispatch.returned import described, hook_misreturn, is_done, misreturn, named, write_returned
from poorhttp.dispatch.site import Site
from poorhttp.dispatch.table import allowed, read_routes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

    from poorhttp.dispatch.routes import Handler, Methods

BUFFER_LIMIT = 65536
DEBUG_INFO = "/debug-info"


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
        `default_handler`, `converters`, `sessions`; it is read once, now. docs/dispatch.md has their shapes.
    debug, webmaster, options: for servers that do not set `poorhttp.debug`, `SERVER_ADMIN`, `poorhttp.options`.
    buffer_limit: bytes of an answer that are held back before it is sent in parts; under another server than poorhttp
        characters count for text.
    document: a directory whose files are sent for paths that are not in the table; "": none. index: whether directories
        in it are listed. mime_types: ending of a name (`html`) -> media type, beside the usual ones. follow_symlinks:
        whether symbolic links may lead out of it.
    Raises TableError.
    """
    refuse_misspelt(table)
    routes = read_routes(table)
    files = None
    if document:
        from poorhttp.dispatch.static import static_files  # only then, for the memory

        files = static_files(
            table, routes, document, index=index, mime_types=mime_types, follow_symlinks=follow_symlinks
        )
    site = Site(table, routes, files, debug=debug, webmaster=webmaster, options=options, buffer_limit=buffer_limit)
    serve = Dispatcher(site).serve
    if site.sessions is None:
        return serve
    if not hasattr(site.sessions, "wrap"):
        hint = "sessions = Sessions('sqlite:/path/of/sessions.db'), from poorhttp.sessions"
        raise TableError(f"'sessions' is {shown(site.sessions)}", hint)
    with_sessions: WSGIApplication = site.sessions.wrap(serve, makes_pages=True)
    return with_sessions


class Dispatcher:
    """The facts that all requests of one application share."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._routes = site.routes
        self._exact = site.routes.exact
        # Every request knows the routes, at no cost for one: as an attribute of its class.
        self._request = type("Request", (Request,), {"__doc__": Request.__doc__, "_routes": site.routes})
        self._errors = site.errors
        self._before = tuple(site.hooks[name] for name in ("setreq", "pre_process") if name in site.hooks)
        self._after = site.hooks.get("post_process")
        self._default = site.hooks.get("default_handler")
        self._options = site.options
        self._buffer_limit = site.buffer_limit
        self._files = site.files
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
                returned = hook(req)
                if returned is not None and not is_done(returned):  # else a forbidden request would go on
                    raise TypeError(hook_misreturn(hook, returned))
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
            self._log(req, "status or headers were set too late: flush(), or a full buffer, had sent the head")
        try:
            return req.finish()
        except Exception as error:  # also of the session, which is saved when the head is sent
            self._crashed(req, error, f", answer of{named(handler)}" if handler else "")
            return req.finish(sys.exc_info())

    def _unrouted(self, req: Request, methods: Methods | None) -> tuple[Handler, Sequence[Any]]:
        """The handler of a request, and the values of the parameters in its path, if no entry without parameters has
        both its path and its method.

        methods: those of the entry without parameters that has the path, if there is one.
        """
        if req.method not in METHOD_BITS:
            raise SERVER_RETURN(HTTP_NOT_IMPLEMENTED)
        values: Sequence[Any] = ()
        if methods is None:
            found = self._routes.find(req.uri if self._files is None else undecoded(req))
            if found is None:
                if req.uri == DEBUG_INFO and self._may_see_debug_info(req):
                    return self._debug_info, ()
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
        """The outcome of a handler that ended by raising; its details are for the author of the application."""
        if end.details:
            level = LOG_INFO if self._site.is_debugging(req.environ) else LOG_DEBUG
            req._reason = end.code, end.reason()
            req.log_error(f"{req.method} {req.uri}: {end.code}: {end.reason()}", level)
        return end.code

    def _may_see_debug_info(self, req: Request) -> bool:
        """Whether there is such a page for this client. For all others the path is one that does not exist."""
        if req.method not in ("GET", "HEAD") or not self._site.is_debugging(req.environ):
            return False
        from poorhttp.pages.audience import may_see  # only then, for the memory

        return may_see(req.environ)

    def _debug_info(self, req: Request) -> int:
        from poorhttp.dispatch.debug_info import write  # only then, for the memory

        write(req, self._site)
        return DONE

    def _conclude(self, req: Request, outcome: Any, handler: Handler | None) -> None:
        """Turn what a handler returned or raised into an answer, unless the handler has written it."""
        if not isinstance(outcome, int):
            self._write_returned(req, outcome, handler)
        elif isinstance(outcome, bool):
            self._misreturned(req, outcome, handler)
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
            left = write_returned(req, outcome, handler)
        except SERVER_RETURN as end:  # of a generator
            self._conclude(req, self._ended(req, end), handler)
        except Exception as error:
            self._crashed(req, error)
        else:
            if left is not DONE:
                conclude = self._conclude if isinstance(left, int) else self._misreturned
                conclude(req, left, handler)

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
        req.reason = req._reason_of_status()
        try:
            outcome = handler(req)
            if not isinstance(outcome, int):
                outcome = write_returned(req, outcome, handler)
        except SERVER_RETURN as end:
            outcome = self._ended(req, end)
        except Exception as error:
            outcome = self._report(req, error)
            if not req.started():
                _replace(req, outcome)
                self._write_cause(req, error)
                return
        if not is_done(outcome):
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

    def _crashed(self, req: Request, error: Exception, where: str = "") -> None:
        """Log `error` and make the page for it. Call it while `error` is handled: an `errors[500]` may look at it."""
        if req.started():
            req.abort(sys.exc_info())  # if bytes have been sent, this raises `error` again: the server logs it
            self._report(req, error)
            return
        self._failed(req, error, self._report(req, error, where))

    def _failed(self, req: Request, error: Exception, status: int = HTTP_INTERNAL_SERVER_ERROR) -> None:
        """The page for `error`. The answer must not have been started."""
        if status in self._errors and not (status == HTTP_INTERNAL_SERVER_ERROR and self._may_see_details(req)):
            self._error_page(req, status)
        else:
            _replace(req, status)
            self._write_cause(req, error)

    def _may_see_details(self, req: Request) -> bool:
        if not self._site.is_debugging(req.environ):
            return False
        from poorhttp.dispatch.pages import may_see_details  # only then, for the memory

        return may_see_details(req, self._site)

    def _report(self, req: Request, error: Exception, where: str = "") -> int:
        """Log `error`; returns the status of its page. A store of sessions that is down has 503, and no line here, for
        the sessions log it themselves. where: what the traceback does not tell.
        """
        if error is getattr(req.environ.get("poorhttp.session"), "failure", None):
            return HTTP_SERVICE_UNAVAILABLE
        error_log.write_exception(req.environ, error, error_log.trace_of(error), where)
        if not self._hinted and _is_about_other_http(error):
            self._hinted = True
            self._log(req, "this http is the standard library's; write: from poorhttp import http")
        return HTTP_INTERNAL_SERVER_ERROR

    def _log(self, req: Request, text: str) -> None:
        req.log_error(f"{req.method} {req.uri}: {text}", LOG_ERR)

    def _write_page(self, req: Request) -> None:
        from poorhttp.dispatch.pages import write_page  # only then, for the memory

        write_page(req, self._site)

    def _write_cause(self, req: Request, error: Exception) -> None:
        from poorhttp.dispatch.pages import write_cause  # only then, for the memory

        write_cause(req, self._site, error)


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
