"""The answer as a handler writes it: status, type, fields and body, held back until the handler has returned.

Knows `start_response`, `write()` and `wsgi.file_wrapper` of PEP 3333. Knows nothing of handlers and the table.
`HeldBody` takes what is written.
Contract: nothing reaches the server before the buffer is full, `flush` is called or `finish` returns, so that until
then the whole answer can be discarded for an error page; when all was held back, Content-Length is true.
"""

from __future__ import annotations

import sys

from poorhttp.dispatch.constants import HTTP_PRECONDITION_FAILED
from poorhttp.dispatch.headers import Headers, checked_value
from poorhttp.dispatch.reasons import status_line

TYPE_CHECKING = False

# Not loaded under another server: a process that has the engine is taken for poorhttp's (poorhttp/status/pidfile.py).
if not TYPE_CHECKING and sys.modules.get("poorhttp._engine"):
    from poorhttp._engine import HeldBody
else:
    from poorhttp.dispatch.held_body import HeldBody

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from _typeshed import OptExcInfo
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

    from poorhttp.dispatch.block_stream import BlockStream
    from poorhttp.dispatch.file_slice import FileBody

DEFAULT_TYPE = "text/html; charset=utf-8"

_FULL_TYPES = {DEFAULT_TYPE: DEFAULT_TYPE, "text/html": DEFAULT_TYPE, "text/plain": "text/plain; charset=utf-8"}
WITHOUT_CONTENT = frozenset((204, 205, 304))  # RFC 9110 sections 15.3.5, 15.3.6 and 15.4.5
_RESET = 205  # the one of them that has a Content-Length, 0


class Answer(HeldBody):
    """The half of a request that goes out.

    status: int, 200..599, of the answer; content_type: str. Plain attributes, set them at will until output is sent.
    A status that is no final one is a ValueError when the head is sent, and so the page for 500. sent_head: what
    `flush` or the first block of a generator has sent as the head, for the dispatcher.
    """

    # What each answer needs stands in slots, and what few need in the class: so a request needs no dict of attributes
    # unless the application adds one, and the interpreter finds an attribute at once.
    __slots__ = (
        *("environ", "method", "uri", "status", "content_type", "sent_head", "_start", "_send", "_file", "_raw"),
        *("_headers_out", "_err_headers_out", "_defaults"),
    )
    environ: WSGIEnvironment
    method: str
    uri: str
    status: int
    content_type: str
    sent_head: object  # what was sent as the head before the application was done, to be compared
    _start: StartResponse
    _send: Callable[[bytes], object] | None  # the server's write(), once the head has been sent
    _file: FileBody | BlockStream | None  # follows the text that is held back
    _raw: bool  # whether the body has bytes in it whose charset only the application knows
    _headers_out: Headers | None
    _err_headers_out: Headers | None
    _defaults: Sequence[tuple[str, str]]  # see `set_defaults`
    _swallowed = 0  # bytes that the answer to HEAD leaves out
    _is_endless = False  # whether their number is not known

    def __init__(self, environ: WSGIEnvironment, start_response: StartResponse, limit: int) -> None:
        """limit: bytes of output to hold back before it is sent; of text characters, under another server."""
        self.environ = environ
        self.method = environ["REQUEST_METHOD"]
        # A mount point without a slash leaves an empty path (PEP 3333).
        self.uri = environ.get("PATH_INFO") or "/"
        self.status = 200
        self.content_type = DEFAULT_TYPE
        self._start = start_response
        self.sent_head = self._send = self._file = self._headers_out = self._err_headers_out = None
        self._defaults = ()
        self._raw = False
        self._hold(limit)

    @property
    def headers_out(self) -> Headers:
        """Fields of the answer, as `Headers`; an error page does without them."""
        if self._headers_out is None:
            self._headers_out = Headers()
        return self._headers_out

    @property
    def err_headers_out(self) -> Headers:
        """Fields that are sent with error pages too, as `Headers`."""
        if self._err_headers_out is None:
            self._err_headers_out = Headers()
        return self._err_headers_out

    def flush(self) -> None:
        """Send what has been written; from here on the status and the headers are fixed.

        Raises what the server raises, as when the client has left, and SessionError, since the session is saved first.
        """
        body = self._take()
        if self._send is None and self._leaves_out_body():
            self._swallow(body)
            return
        if self._send is None:
            self._send = self._begin(None)
            self.sent_head = self._head()
        if body:
            self._send(body)
        self._send_file(self._send)

    def sendfile(self, path: str, offset: int = 0, limit: int = -1, *, download: str | None = None) -> int:
        """Add `limit` bytes (-1: to the end) of the file from `offset` to the body; returns how many bytes it will be.

        The application must know whether the client may see `path`. A file at the end of the answer goes through
        `wsgi.file_wrapper`. Without a content type of your own it is that of the name (`mimetypes`), else
        application/octet-stream. A whole file that is all of an answer to GET or HEAD has ETag and Last-Modified,
        unless you set your own, and is answered 304 or 412 where the request asks for that (RFC 9110 section 13).
        download: the name under which a browser is to save the file, perhaps a client's; its ending gives the type. The
        browser does not show the file then, so that a page which somebody has uploaded runs no script
        (Content-Disposition, RFC 6266; X-Content-Type-Options).
        Raises SERVER_RETURN with 404 for what is not a readable regular file, 403 without permission.
        """
        from poorhttp.dispatch.file_slice import open_slice, type_of

        file = open_slice(path, offset, limit)
        if self._file is not None:
            self.flush()
        if self.content_type is DEFAULT_TYPE and self.empty():
            self.content_type = type_of(path if download is None else download)
        if download is not None:
            from poorhttp.dispatch.disposition import attachment

            self.headers_out["Content-Disposition"] = attachment(download)
            self.headers_out["X-Content-Type-Options"] = "nosniff"
        self.attach(file)
        return file.size

    def set_defaults(self, fields: Sequence[tuple[str, str]]) -> None:
        """Let the answer have these fields, unless headers_out or err_headers_out have others of their names.

        They are not checked: names and values must be known to be right. An error page is without them.
        """
        self._defaults = fields

    def attach(self, file: FileBody) -> None:
        """Let a file that is open be the end of the body so far; it is closed with the answer."""
        self._file = file
        self._raw = True
        self._room = -1  # what write() adds next comes behind the file, so the file is sent first

    def stream(self, blocks: Iterator[str | bytes], ended: Callable[[Any], object]) -> Any:
        """Let the rest of the body come from an iterator, as a generator that a handler has returned.

        Each block is sent at once, with no Content-Length; one of the application's own is the server's to check. The
        first block is taken now, so that until then the generator may set headers, raise and return, as the handler
        may. Returns what it has returned without a block, else None. ended: is called behind the last block with what
        the generator has returned.
        """
        from poorhttp.dispatch.block_stream import BlockStream

        if self._file is not None:
            self.flush()
        stream = BlockStream(blocks, self._take, ended)
        if stream.returned is None:
            self._file = stream
            self._room = -1
        return stream.returned

    def started(self) -> bool:
        """Whether part of the answer has been sent, so that it can no longer become another one."""
        return self._send is not None

    def is_head_stale(self) -> bool:
        """Whether status or fields, which have been sent, were changed afterwards."""
        return self.sent_head != self._head()

    def _head(self) -> object:
        outs = [headers.items() if headers else [] for headers in (self._headers_out, self._err_headers_out)]
        return self.status, self.content_type, outs

    def empty(self) -> bool:
        """Whether there is no body yet."""
        return not (self._holds() or self._file or self._send or self._swallowed)

    def discard(self) -> None:
        """Forget body, headers_out and content type; err_headers_out stay. Raises RuntimeError if it is too late."""
        if self._send is not None:
            raise RuntimeError("part of the answer has been sent already, it cannot become another one")
        self._hold(self._limit)
        self._swallowed = 0
        self._raw = False
        self._headers_out = None
        self._defaults = ()
        self.content_type = DEFAULT_TYPE
        if self._file is not None:
            self._file.close()
            self._file = None

    def abort(self, exc_info: OptExcInfo) -> None:
        """Let the server end an answer that cannot be completed: it raises the exception again (PEP 3333).

        A server that has sent nothing yet does not; then a short 500 takes the place of the answer.
        """
        if self._file is not None:
            self._file.close()
            self._file = None
        self._send = self._start(status_line(500), [("Content-Type", "text/plain")], exc_info)
        self._hold(self._limit)
        HeldBody.write(self, "500 - Internal Server Error\n")

    def finish(self, exc_info: OptExcInfo | None = None) -> Iterable[bytes]:
        """Send the head, unless it was sent, and return the rest of the body for the server to iterate.

        exc_info: given when an error page replaces an answer that failed here before.
        """
        body = self._take()
        if self._send is None and self._file is None and self.method != "HEAD" and self.status not in WITHOUT_CONTENT:
            self._begin(len(body), exc_info)
            return [body]
        if self._file is not None and self._file.modified is not None and not body and not self._swallowed:
            self._heed_preconditions(self._file)
        if self._send is None and self._leaves_out_body():
            self._swallow(body)
            # A handler that leaves the work out for HEAD may still announce the length that GET has.
            own_length = self.empty() and "Content-Length" in self.headers_out
            length = None if own_length or self._is_endless else self._swallowed
            self._begin(0 if self.status == _RESET else length, exc_info)
            return []
        file = self._file  # it stays there, to be closed, until nothing can fail any more
        if file is None:
            return [body]
        if self._send is None:
            self._send = self._begin(None if file.size is None else len(body) + file.size, exc_info)
        if body:
            self._send(body)
        if file.size is None:
            self._hold(sys.maxsize)  # text that the generator writes goes out with its next block
            self._send = _send_by_yield
            self.sent_head = self._head()
        wrapped = file.wrapped(self.environ.get("wsgi.file_wrapper"))
        self._file = None
        return wrapped

    def _begin(self, length: int | None, exc_info: OptExcInfo | None = None) -> Callable[[bytes], object]:
        """Send the head; `length` in bytes, None if it is not known."""
        content_type = _FULL_TYPES.get(self.content_type)
        if content_type is None or self._raw:
            content_type = self._full_type()
        if self.status in WITHOUT_CONTENT and self.status != _RESET:
            fields = [*self._defaults]
        elif length is None:
            fields = [("Content-Type", content_type), *self._defaults]
        else:
            fields = [("Content-Type", content_type), ("Content-Length", str(length)), *self._defaults]
        if self._headers_out or self._err_headers_out:
            fields = self._with_own_fields(fields, has_length=length is not None)
        if exc_info is None:  # a server may count the arguments, so the third is not always there
            return self._start(status_line(self.status), fields)
        return self._start(status_line(self.status), fields, exc_info)

    def _full_type(self) -> str:
        """The content type with its charset: a str is sent as utf-8, and a browser would not guess that."""
        content_type = checked_value(self.content_type)
        if not self._raw and content_type.startswith("text/") and "charset" not in content_type.lower():
            return content_type + "; charset=utf-8"
        return content_type

    def _with_own_fields(self, fields: list[tuple[str, str]], has_length: bool) -> list[tuple[str, str]]:
        """These fields, in place of which the application may set its own; but a true length beats the application's.

        err_headers_out add what is not in headers_out.
        """
        own: list[tuple[str, str]] = []
        owned: set[str] = {"content-length"} if has_length else set()
        if self.status in WITHOUT_CONTENT and self.status != _RESET:
            owned = {"content-type", "content-length"}
        for headers in self._headers_out, self._err_headers_out:
            added = [(name, value) for name, value in headers.items() if name.lower() not in owned] if headers else []
            own += added
            owned |= {name.lower() for name, _ in added} - {"set-cookie"}
        names = {name.lower() for name, _ in own}
        return [field for field in fields if field[0].lower() not in names] + own

    def _heed_preconditions(self, file: FileBody | BlockStream) -> None:
        """Let a file that is the whole answer have validators, and not be sent where the client has it."""
        if file.modified is None or self._send is not None or self.status != 200 or self.method not in ("GET", "HEAD"):
            return
        from poorhttp.dispatch.preconditions import last_modified, status_for

        headers = self.headers_out
        if "ETag" not in headers:
            headers["ETag"] = f'"{file.modified:x}-{file.size:x}"'
        if "Last-Modified" not in headers:
            headers["Last-Modified"] = last_modified(file.modified)
        self.status = status_for(self.environ, headers["ETag"], headers["Last-Modified"])
        if self.status == HTTP_PRECONDITION_FAILED:
            file.size, file.to_end = 0, False

    def _leaves_out_body(self) -> bool:
        return self.method == "HEAD" or self.status in WITHOUT_CONTENT

    def _swallow(self, body: bytes) -> None:
        """Count what HEAD, 204, 205 and 304 do not send."""
        self._swallowed += len(body)
        if self._file is not None:
            self._swallowed += self._file.size or 0
            self._is_endless = self._is_endless or self._file.size is None
            self._file.close()
            self._file = None

    def _refuse(self, data: object) -> None:
        """Raise TypeError, but take an object that passes for text, as one that is translated when it is used does."""
        if not isinstance(data, (str, bytes)):
            raise TypeError(f"req.write() takes str or bytes, not {type(data).__name__}")
        self.write(str(data) if isinstance(data, str) else bytes(data))

    def _send_file(self, send: Callable[[bytes], object]) -> None:
        file, self._file = self._file, None
        if file is not None:
            try:
                for block in file:
                    send(block)
            finally:
                file.close()


def _send_by_yield(data: bytes) -> None:
    raise RuntimeError("flush() in a generator has nothing to do: what it yields is sent at once")
