"""A part of a regular file as a body: its size is known, its content is read while it is sent.

Knows files, nothing of requests. Contract: `size` bytes at most are given, also when the file grows meanwhile; the
file is closed by `close()`, which a WSGI server calls.
"""

from __future__ import annotations

import os
import stat
import sys
from errno import EISDIR, ELOOP, ENAMETOOLONG, ENODEV, ENOENT, ENOTDIR, ENXIO
from io import FileIO

from poorhttp.dispatch.constants import HTTP_FORBIDDEN, HTTP_NOT_FOUND
from poorhttp.dispatch.outcome import SERVER_RETURN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, Protocol

    class FileBody(Protocol):
        """What can be the end of a body. size: its bytes. modified: see FileSlice. to_end: whether nothing of the file
        follows.
        """

        size: int
        to_end: bool

        @property
        def modified(self) -> int | None: ...
        def wrapped(self, file_wrapper: Callable[[Any, int], Iterable[bytes]] | None) -> Iterable[bytes]: ...
        def __iter__(self) -> Iterator[bytes]: ...
        def close(self) -> None: ...


FILE_TYPE = "application/octet-stream"

BLOCK = 65536

# poorhttp sends a plain file with sendfile(2), and never more than Content-Length (poorhttp/dispatch/answer.py).
_IS_POORHTTP = bool(sys.modules.get("poorhttp._engine"))
# uWSGI sends a file from its first byte to its last, whatever its position and Content-Length are.
_IS_UWSGI = bool(sys.modules.get("uwsgi"))
MISSING = frozenset((ENOENT, ENOTDIR, EISDIR, ELOOP, ENAMETOOLONG, ENODEV, ENXIO))
"""The errors of the kernel for a path at which no user could read a file."""


def open_slice(path: str, offset: int, limit: int) -> FileSlice:
    """Open `limit` bytes (-1: to the end) from `offset` of the file at `path`, both in bytes.

    Raises SERVER_RETURN: 404 if there is no regular file, 403 if it may not be read; ValueError if `offset` < 0.
    """
    if offset < 0:
        raise ValueError(f"the offset of a file is 0 or more, not {offset}")
    descriptor = _opened(path)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise SERVER_RETURN(HTTP_NOT_FOUND, f"{path} is not a regular file")
        rest = max(0, status.st_size - offset)
        os.lseek(descriptor, offset, os.SEEK_SET)
    except BaseException:
        os.close(descriptor)
        raise
    slice_ = FileSlice(descriptor, rest if limit < 0 else min(rest, limit), to_end=limit < 0 or limit >= rest)
    if not offset and slice_.to_end:
        slice_.modified = status.st_mtime_ns
    return slice_


def type_of(path: str) -> str:
    """The media type that the ending of a name stands for; that of mere bytes for an unknown or a compressed file."""
    from mimetypes import guess_type  # 1 MiB

    kind, encoding = guess_type(f"/{os.path.basename(path)}")  # it takes a URL, and that is one of a path alone
    return FILE_TYPE if kind is None or encoding is not None else kind


def _opened(path: str) -> int:
    # O_NONBLOCK: to open a pipe that nobody writes to would wait for ever.
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except PermissionError as error:
        raise SERVER_RETURN(HTTP_FORBIDDEN, f"no permission to read {path}") from error
    except (OSError, ValueError) as error:
        # ValueError: a NUL or a lone surrogate, of which no file name consists.
        if isinstance(error, OSError) and error.errno not in MISSING:
            raise
        raise SERVER_RETURN(HTTP_NOT_FOUND, f"no such file: {path!r}") from error


class FileSlice:
    """An iterable of blocks of a file, from its present position on.

    size: bytes that are left. to_end: whether it ends with the file. modified: when the file was changed, in ns since
    the epoch, if this is the whole of it; else None.
    """

    modified: int | None = None

    def __init__(self, descriptor: int, size: int, *, to_end: bool) -> None:
        self.size = size
        self.to_end = to_end
        # Unbuffered, so that the position of the descriptor is where a server that uses sendfile(2) has to begin.
        self._file = FileIO(descriptor, "rb")

    def wrapped(self, file_wrapper: Callable[[Any, int], Iterable[bytes]] | None) -> Iterable[bytes]:
        """The body for the server, through its `wsgi.file_wrapper`, if the slice goes to the end of the file."""
        if file_wrapper is not None and self.to_end and not _IS_UWSGI:
            return file_wrapper(self._file if _IS_POORHTTP else self, BLOCK)
        return self

    def read(self, size: int = -1) -> bytes:
        """The next bytes, `size` at most, -1: all that are left; b"" at the end.

        To another server the slice is a file by this, `fileno` and `tell`: of the file itself it would read more than
        Content-Length, if that grows.
        """
        block = self._file.read(self.size if size < 0 else min(size, self.size))
        self.size -= len(block)
        return block

    def fileno(self) -> int:
        return self._file.fileno()

    def tell(self) -> int:
        return self._file.tell()

    def __iter__(self) -> Iterator[bytes]:
        while block := self.read(BLOCK):
            yield block

    def close(self) -> None:
        self._file.close()
