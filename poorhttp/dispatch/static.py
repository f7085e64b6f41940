"""Files of a directory as answers: what is sent for a path that is not in the table.

Knows the order file, index.html, listing; which names are hidden; the fields of an answer with a file. `contained`
knows how files are opened, `ranges` which parts of them are sent. Imported only where a document root is set.
"""

from __future__ import annotations

import os
from stat import S_ISDIR, S_ISREG

from poorhttp.dispatch.constants import (
    DECLINED,
    DONE,
    HTTP_BAD_REQUEST,
    HTTP_FORBIDDEN,
    HTTP_METHOD_NOT_ALLOWED,
    HTTP_NO_CONTENT,
    HTTP_NOT_MODIFIED,
    HTTP_OK,
    HTTP_PARTIAL_CONTENT,
    HTTP_RANGE_NOT_SATISFIABLE,
)
from poorhttp.dispatch.contained import Root
from poorhttp.dispatch.faults import TableError
from poorhttp.dispatch.file_slice import MISSING
from poorhttp.dispatch.media_types import UNKNOWN, by_ending
from poorhttp.dispatch.outcome import SERVER_RETURN
from poorhttp.dispatch.percent import NAME, URI, encoded, raw
from poorhttp.dispatch.preconditions import last_modified, status_for
from poorhttp.dispatch.request import undecoded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from poorhttp._engine import OpenFile as EngineFile
    from poorhttp.dispatch.contained import OpenFile
    from poorhttp.dispatch.request import Request
    from poorhttp.dispatch.routes import Routes

    Fields = tuple[tuple[str, str], ...]

INDEX = b"index.html"

_WELL_KNOWN = b"/.well-known/"  # RFC 8615: made for the public, as by programs that renew certificates
_KNOWN = 1000  # paths
_CONDITIONS = ("HTTP_IF_NONE_MATCH", "HTTP_IF_MODIFIED_SINCE", "HTTP_IF_MATCH", "HTTP_IF_UNMODIFIED_SINCE")


def static_files(
    table: object,
    routes: Routes,
    directory: str,
    *,
    index: bool,
    mime_types: Mapping[str, str] | None,
    follow_symlinks: bool,
) -> StaticFiles:
    """The files of a directory, for `application`. Raises TableError if there is no such directory, or if it holds the
    code of the table or of its functions, which is no client's business.
    """
    try:
        root = Root(directory, follows_links=follow_symlinks)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise TableError(f"document is {directory!r}: {why}", "a directory that this user may enter") from None
    for file in _code_files(table, routes):
        if os.fsencode(os.path.realpath(file)).startswith(root.path.rstrip(b"/") + b"/"):
            raise TableError(
                f"document is {directory!r}, which holds {os.path.basename(file)}: clients could read the application",
                "a directory with nothing but files for clients, such as www",
            )
    return StaticFiles(root, index, by_ending(mime_types))


class _Path:
    """What is known of a path that led to a file.

    names: those between its slashes. kind, is_compressible: see `type_of`. last: time of change and size of the file as
    it was sent last, and the fields of that answer, which are right while the file has this time and this size.
    """

    __slots__ = ("is_compressible", "kind", "last", "names")

    def __init__(self, names: list[bytes], kind: str, is_compressible: bool) -> None:
        self.names, self.kind, self.is_compressible = names, kind, is_compressible
        self.last: tuple[int, int, Fields] = (-1, -1, ())  # one value, for threads


class StaticFiles:
    """The files below a root. `answer` is a handler. root: its path for the environ, bytes as Latin-1 (PEP 3333).
    is_listed: whether clients get listings of directories.
    """

    def __init__(self, root: Root, is_listed: bool, types: dict[str, tuple[str, bool]]) -> None:
        self._root = root
        self.root = root.path.decode("latin-1")
        self.is_listed = is_listed
        self._types = types
        self._known: dict[str, _Path] = {}

    def answer(self, req: Request) -> int:
        """Answer with what is there for the path of the request; DECLINED if there is nothing for clients."""
        path = self._known.get(req.uri) or self._path(undecoded(req))
        if path is None:
            return _nothing(req)
        try:
            opened = self._root.open(path.names)
        except (OSError, ValueError) as error:
            _raise_unless_missing(error)
            return self._list(req, path.names[:-1]) if req.uri[-1] == "/" else _nothing(req)
        try:
            if S_ISREG(opened.mode):
                return self._send(req, path, opened)
            if req.uri[-1] == "/":
                return self._list(req, path.names[:-1])
            return _add_slash(req) if S_ISDIR(opened.mode) else _nothing(req)
        finally:
            opened.close()

    def type_of(self, name: str) -> tuple[str, bool]:
        """The media type of a file, and whether somebody may have compressed it in advance."""
        _, dot, ending = name.rpartition(".")
        return self._types.get(ending.lower() if dot else "", (UNKNOWN, False))

    def _path(self, uri: str) -> _Path | None:
        """The path of a file, or of the index of a directory; None for a hidden one."""
        path = raw(uri)
        if is_hidden(path):
            return None
        if path.endswith(b"/"):
            path += INDEX
            uri += INDEX.decode()
        return _Path(path[1:].split(b"/"), *self.type_of(uri))

    def _send(self, req: Request, path: _Path, opened: OpenFile | EngineFile) -> int:
        if req.method not in ("GET", "HEAD"):
            return _other_method(req)
        coding = _choose_coding(req, opened) if path.is_compressible else ""
        if coding:
            fields = _fields(path, opened, coding)
        else:
            modified_ns, size, fields = path.last
            if modified_ns != opened.modified_ns or size != opened.file_size:
                fields = _fields(path, opened, "")
                path.last = opened.modified_ns, opened.file_size, fields
                if len(self._known) < _KNOWN and "\ufffd" not in req.uri:  # with that it may stand for several paths
                    self._known[req.uri] = path
        environ = req.environ
        if not environ.keys().isdisjoint(_CONDITIONS):
            verdict = status_for(environ, fields[0][1], fields[1][1])
            if verdict == HTTP_NOT_MODIFIED:
                req.status = verdict
                req.set_defaults(fields)
                return DONE
            if verdict != HTTP_OK:
                raise SERVER_RETURN(verdict)
        if "HTTP_RANGE" in environ and req.method == "GET":  # it means nothing for HEAD (RFC 9110 section 14.2)
            parts = _parts(req, opened, fields)
            if parts:
                return _send_parts(req, opened, path.kind, fields, parts)
        req.content_type = path.kind
        req.set_defaults(fields)
        req.attach(opened.body(0, opened.file_size))
        return DONE

    def _list(self, req: Request, names: list[bytes]) -> int:
        """Answer with the listing of a directory, if there are to be listings."""
        if not self.is_listed:
            return _nothing(req)
        try:
            descriptor = self._root.scan(names)
        except (OSError, ValueError) as error:
            _raise_unless_missing(error)
            return _nothing(req)
        try:
            if req.method not in ("GET", "HEAD"):
                return _other_method(req)
            from poorhttp.dispatch.listing import Listing
            from poorhttp.pages.document import POLICY

            listing = Listing(descriptor, self.type_of, lambda name: self._root.is_inside([*names, name]))
        finally:
            os.close(descriptor)
        req.set_defaults([("X-Content-Type-Options", "nosniff"), ("Content-Security-Policy", POLICY)])
        mount = req.environ.get("SCRIPT_NAME", "").encode("latin-1").decode("utf-8", "surrogateescape")
        req.write(listing.page(mount + req.uri, req.environ.get("QUERY_STRING", ""), has_parent=bool(names)))
        return DONE


def is_hidden(path: bytes) -> bool:
    """Whether a path has a name that no client gets: one that begins with a dot, a backup (`~`), or none at all."""
    if path[:1] != b"/":
        return True
    if path.startswith(_WELL_KNOWN):
        path = path[len(_WELL_KNOWN) - 1 :]
    return b"/." in path or b"//" in path or b"~/" in path or path[-1:] == b"~"


def _code_files(table: object, routes: Routes) -> list[str]:
    """The files that hold the code of a table: its module, and the modules of its functions."""
    files = {getattr(table, "__file__", None)}
    for _, methods in routes.patterns:
        for function in methods.values():
            each: Any = function
            while each is not None:  # also what a decorator has wrapped
                code = getattr(each, "__code__", None)
                if code is not None and not str(each.__module__).startswith("poorhttp."):
                    files.add(code.co_filename)
                each = getattr(each, "__wrapped__", None)
    # Code that was made from text has no file: its name is such as <string>.
    return sorted(file for file in files if file and not file.startswith("<"))


def _nothing(req: Request) -> int:
    if not req.uri.isascii() and any("\udc80" <= char <= "\udcff" for char in undecoded(req)):
        raise SERVER_RETURN(HTTP_BAD_REQUEST, "the path is not utf-8, and no file has this name")
    return DECLINED


def _raise_unless_missing(error: OSError | ValueError) -> None:
    """Raise SERVER_RETURN with 403 for what may not be opened, and `error` itself if it is a fault of this machine, as
    too many open files.
    """
    if isinstance(error, PermissionError):
        raise SERVER_RETURN(HTTP_FORBIDDEN, "no permission to read") from error
    if isinstance(error, OSError) and error.errno not in MISSING:
        raise error


def _other_method(req: Request) -> int:
    """What a file says to methods other than GET and HEAD."""
    if req.method == "OPTIONS":
        req.status = HTTP_NO_CONTENT
        req.headers_out["Allow"] = "HEAD, GET, OPTIONS"
        return DONE
    req.err_headers_out["Allow"] = "HEAD, GET, OPTIONS"
    raise SERVER_RETURN(HTTP_METHOD_NOT_ALLOWED)


def _add_slash(req: Request) -> int:
    """Send the client to the path of a directory with its slash, from where relative links work. A path with `//`,
    which could name another host, is hidden, and so does not come here.
    """
    from poorhttp.dispatch.redirect import redirect

    if req.method not in ("GET", "HEAD"):
        return _other_method(req)
    prefix = req.environ.get("SCRIPT_NAME", "").rstrip("/").encode("latin-1")
    query = encoded(req.environ.get("QUERY_STRING", "").encode("latin-1"), URI)
    path = encoded(prefix + raw(undecoded(req)), NAME)
    return redirect(req, f"{path}/?{query}" if query else f"{path}/", permanent=1)


def _fields(path: _Path, opened: OpenFile | EngineFile, coding: str) -> Fields:
    """The fields of an answer with this file, of the coding that is given: ETag, Last-Modified, and the others."""
    # Strong, since a weak tag would forbid parts (RFC 9110 section 13.1.5): with its nanoseconds, the time differs for
    # two contents unless both were written within one tick of the kernel's clock, with as many bytes.
    etag = f'"{opened.modified_ns:x}-{opened.file_size:x}{"-" if coding else ""}{coding}"'
    fields = [
        ("ETag", etag),
        ("Last-Modified", last_modified(opened.modified_ns)),
        ("Accept-Ranges", "bytes"),
        ("X-Content-Type-Options", "nosniff"),
    ]
    if path.is_compressible:
        fields.append(("Vary", "Accept-Encoding"))
    if coding:
        fields.append(("Content-Encoding", coding))
    return tuple(fields)


def _choose_coding(req: Request, opened: OpenFile | EngineFile) -> str:
    """Let the open file become the one that was compressed in advance, if the client takes it; returns its coding."""
    field = req.environ.get("HTTP_ACCEPT_ENCODING")
    if field:
        from poorhttp.dispatch.codings import SUFFIXES, accepted

        for coding in accepted(field):
            if opened.replace_by(SUFFIXES[coding]):
                return coding
    return ""


def _parts(req: Request, opened: OpenFile | EngineFile, fields: Fields) -> list[tuple[int, int]] | None:
    """The parts of the file that are to be sent; None for all of it. Raises SERVER_RETURN with 416."""
    from poorhttp.dispatch import ranges

    etag, modified = fields[0][1], fields[1][1]
    if not ranges.applies(req.environ.get("HTTP_IF_RANGE"), etag, modified, opened.modified_ns / 1e9):
        return None
    parts = ranges.asked(req.environ["HTTP_RANGE"], opened.file_size)
    if parts == []:
        req.err_headers_out["Content-Range"] = f"bytes */{opened.file_size}"
        raise SERVER_RETURN(HTTP_RANGE_NOT_SATISFIABLE)
    return parts


def _send_parts(
    req: Request, opened: OpenFile | EngineFile, kind: str, fields: Fields, parts: list[tuple[int, int]]
) -> int:
    from poorhttp.dispatch import ranges

    req.status = HTTP_PARTIAL_CONTENT
    if len(parts) == 1:
        req.content_type = kind
        req.set_defaults([*fields, ("Content-Range", ranges.content_range(parts[0], opened.file_size))])
        req.attach(opened.body(*parts[0]))
    else:
        several = ranges.Multipart(opened.take(), kind, opened.file_size, parts)
        req.content_type = several.kind
        req.set_defaults(fields)
        req.attach(several)
    return DONE
