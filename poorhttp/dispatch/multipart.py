"""multipart/form-data, read part by part (RFC 7578, RFC 2046 section 5.1).

Knows the framing of parts and their headers. Knows nothing of requests: it is given a function that reads. Contract:
memory stays bounded whatever the client sends; what is ambiguous is refused with `FormError` (400), what is too large
with 413. Transfer encodings and nested multiparts, which RFC 7578 has abolished, are left as they came.
"""

from __future__ import annotations

from io import BytesIO

from poorhttp.dispatch.constants import HTTP_BAD_REQUEST, HTTP_REQUEST_ENTITY_TOO_LARGE
from poorhttp.dispatch.field import Field, FormError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import IO

CHUNK = 65536
MAX_PART_HEAD = 8192
MAX_FILES = 100  # each may hold a descriptor
SPOOL = 64 * 1024

# RFC 2046 section 5.1.1: bchars, without the space, which nobody sends.
_BOUNDARY_CHARS = frozenset("'()+_,-./:=?0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
_PARAMETER_CHARS = frozenset("-*_0123456789abcdefghijklmnopqrstuvwxyz")


def read_parts(
    read: Callable[[int], bytes],
    content_type: str,
    file_callback: Callable[[str], IO[bytes]] | None,
    max_memory: int,
    decode: Callable[[bytes], str],
) -> Iterator[Field]:
    """Yield the fields of a multipart body in order.

    read: gives at most so many bytes, b"" at the end. max_memory: bytes at most of all parts that are not files; files
    go through memory (SPOOL bytes each) to unnamed temporary files, limited only by the server's limit on bodies.
    decode: makes text of names and values. The number of fields is the caller's to limit.
    """
    stream = _PartStream(read, _boundary(content_type))
    stream.skip_preamble()
    memory, files = max_memory, 0
    while not stream.at_end():
        name, filename, kind = _described(stream.head(), decode)
        if filename is None:
            value = stream.value(memory)
            memory -= len(value)
            yield Field(name, decode(value), type=kind)
            continue
        files += 1
        if files > MAX_FILES:
            raise FormError(HTTP_REQUEST_ENTITY_TOO_LARGE, f"the form has more than {MAX_FILES} files")
        yield Field(name, filename=filename, file=_stored(stream, filename, file_callback), type=kind)


class _PartStream:
    """The body as parts. The buffer never holds more than one chunk and the bytes that one delimiter or head needs."""

    def __init__(self, read: Callable[[int], bytes], boundary: bytes) -> None:
        self._read = read
        self._delimiter = b"\r\n--" + boundary
        # The first delimiter may stand at the very start of the body, where no line end precedes it.
        self._buffer = b"\r\n"
        self._at = 0  # the bytes before this place are consumed

    def skip_preamble(self) -> None:
        if sum(map(len, self.content())) > MAX_PART_HEAD:
            raise FormError(HTTP_BAD_REQUEST, "the multipart body does not begin with its boundary")

    def at_end(self) -> bool:
        """Read the rest of a delimiter line: the last one ends with `--`."""
        self._need(2)
        if self._buffer.startswith(b"--", self._at):
            return True
        line = self._until(b"\r\n", 80)
        if line.strip(b" \t"):
            raise FormError(HTTP_BAD_REQUEST, f"text behind a multipart boundary: {line!r}")
        return False

    def head(self) -> list[bytes]:
        """The header lines of the part that begins here; folded lines are refused."""
        lines = []
        left = MAX_PART_HEAD
        while line := self._until(b"\r\n", left):
            left -= len(line)
            lines.append(line)
        return lines

    def content(self) -> Iterator[bytes]:
        """Blocks up to the next delimiter, which is consumed."""
        keep = len(self._delimiter) - 1
        while True:
            end = self._buffer.find(self._delimiter, self._at)
            start = self._at
            if end >= 0:
                self._at = end + len(self._delimiter)
                yield self._buffer[start:end]
                return
            self._at = max(start, len(self._buffer) - keep)
            yield self._buffer[start : self._at]
            self._fill()

    def value(self, limit: int) -> bytes:
        """The content of a part, at most `limit` bytes."""
        blocks = []
        for block in self.content():
            limit -= len(block)
            if limit < 0:
                raise FormError(HTTP_REQUEST_ENTITY_TOO_LARGE, "the fields of the form are too large")
            blocks.append(block)
        return b"".join(blocks)

    def _until(self, mark: bytes, limit: int) -> bytes:
        """The bytes before `mark`, at most `limit` bytes; consumes both."""
        while (end := self._buffer.find(mark, self._at)) < 0 and len(self._buffer) - self._at <= limit:
            self._fill()
        start = self._at
        if not 0 <= end - start <= limit:
            raise FormError(HTTP_BAD_REQUEST, "the head of a multipart part is too long")
        self._at = end + len(mark)
        return self._buffer[start:end]

    def _need(self, count: int) -> None:
        while len(self._buffer) - self._at < count:
            self._fill()

    def _fill(self) -> None:
        chunk = self._read(CHUNK)
        if not chunk:
            raise FormError(HTTP_BAD_REQUEST, "the multipart body ends before its last boundary")
        self._buffer = self._buffer[self._at :] + chunk
        self._at = 0


def _boundary(content_type: str) -> bytes:
    boundary = _parameters(content_type).get("boundary", "")
    if not 1 <= len(boundary) <= 70 or not _BOUNDARY_CHARS.issuperset(boundary):
        raise FormError(HTTP_BAD_REQUEST, f"multipart/form-data with a wrong boundary: {boundary[:80]!r}")
    return boundary.encode("ascii")


def _described(lines: list[bytes], decode: Callable[[bytes], str]) -> tuple[str, str | None, str]:
    """Name, file name (None if the part is no file) and content type of a part, from its header lines."""
    fields: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(b":")
        key = name.decode("latin-1").lower()
        # A space before the name (folding) or the colon, and half of a line end, are how two readers come to see two
        # different fields.
        if not colon or key != key.strip() or not key or key in fields or b"\n" in line or b"\r" in line:
            raise FormError(HTTP_BAD_REQUEST, f"a wrong header line in a multipart part: {line[:80]!r}")
        fields[key] = value.decode("latin-1").strip(" \t")
    disposition = fields.get("content-disposition", "")
    parameters = _parameters(disposition)
    if disposition.partition(";")[0].strip().lower() != "form-data" or "name" not in parameters:
        raise FormError(HTTP_BAD_REQUEST, f"a multipart part that is no form field: {disposition[:80]!r}")
    filename = parameters.get("filename")
    return (
        _name(parameters["name"], decode),
        None if filename is None else _basename(_name(filename, decode)),
        fields.get("content-type", ""),
    )


def _parameters(value: str) -> dict[str, str]:
    """`x; a=b; c="d e"` -> {"a": "b", "c": "d e"}. Raises FormError for a parameter given twice or not closed."""
    found: dict[str, str] = {}
    rest = value.partition(";")[2]
    while rest.strip():
        name, equals, rest = rest.partition("=")
        key = name.strip().lower()
        text, rest = _quoted(rest) if rest.startswith('"') else _bare(rest)
        if not equals or not _PARAMETER_CHARS.issuperset(key) or not key or key in found:
            raise FormError(HTTP_BAD_REQUEST, f"wrong parameters: {value[:80]!r}")
        found[key] = text
    return found


def _bare(text: str) -> tuple[str, str]:
    value, _, rest = text.partition(";")
    return value.strip(), rest


def _quoted(text: str) -> tuple[str, str]:
    """Split `"a \\" b"; rest`. A backslash counts only before a quote or a backslash: old browsers send C:\\name."""
    value = ""
    at = 1
    while at < len(text) and text[at] != '"':
        at += text[at] == "\\" and text[at + 1 : at + 2] in ('"', "\\")
        value += text[at]
        at += 1
    gap, _, rest = text[at + 1 :].partition(";")
    if at >= len(text) or gap.strip():
        raise FormError(HTTP_BAD_REQUEST, f"a wrong quoted parameter: {text[:80]!r}")
    return value, rest


def _name(text: str, decode: Callable[[bytes], str]) -> str:
    """Browsers percent-encode exactly these three in names (WHATWG HTML, multipart/form-data encoding)."""
    decoded = decode(text.encode("latin-1"))
    return decoded.replace("%22", '"').replace("%0D", "\r").replace("%0A", "\n")


def _basename(filename: str) -> str:
    """The last component, so that nobody opens a path that a client has chosen; "" for what names a directory."""
    last = filename.replace("\\", "/").rpartition("/")[2].replace("\0", "")
    return "" if last in (".", "..") else last


def _stored(stream: _PartStream, filename: str, file_callback: Callable[[str], IO[bytes]] | None) -> IO[bytes]:
    """Write the content of a part to the application's file, or to one of ours, which is then at its start."""
    if file_callback is not None and filename:
        file = file_callback(filename)
        for block in stream.content():
            file.write(block)
        return file
    return _spooled(stream.content())


def _spooled(content: Iterator[bytes]) -> IO[bytes]:
    """Keep up to SPOOL bytes in memory; more goes to a temporary file without a name, closed when nobody has it.

    SpooledTemporaryFile would do the same, but warns when it is not closed by hand even if it is memory only.
    """
    memory = BytesIO()
    for block in content:
        memory.write(block)
        if memory.tell() > SPOOL:
            return _in_a_file(memory.getvalue(), content)
    memory.seek(0)
    return memory


def _in_a_file(start: bytes, rest: Iterator[bytes]) -> IO[bytes]:
    from tempfile import TemporaryFile

    file = TemporaryFile()  # noqa: SIM115
    try:
        file.write(start)
        for block in rest:
            file.write(block)
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file
