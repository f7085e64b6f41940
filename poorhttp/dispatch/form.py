"""Fields of a form: from the query string, and from a body that is urlencoded or multipart/form-data.

Knows the urlencoded form (WHATWG URL standard, section 5); multipart is `multipart`'s. Knows nothing of handlers.
Contract: text is utf-8; a body that breaks the rules or passes a limit raises `FormError`, in itself an answer.
"""

from __future__ import annotations

from binascii import Error as HexError
from binascii import unhexlify

from poorhttp.dispatch.constants import HTTP_BAD_REQUEST, HTTP_REQUEST_ENTITY_TOO_LARGE
from poorhttp.dispatch.field import Field, Fields, FormError, MissingField
from poorhttp.dispatch.outcome import SERVER_RETURN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import IO, Any

    from poorhttp.dispatch.request import Request

__all__ = ["Field", "FieldStorage", "Fields", "FormError", "MissingField"]

_URLENCODED, _MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"

MAX_FIELDS = 1000
MAX_MEMORY = 1024 * 1024


def query_of(req: Request) -> Fields:
    """The fields of the query string. Raises FormError."""
    return Fields(_Reader().query(req, 0))


def texts_of(req: Request) -> Fields:
    """The fields of the body that are no uploads. Raises FormError."""
    fields = _Reader().body(req)
    files = {field.name: f"it is a file: req.files[{field.name[:80]!r}]" for field in fields if field.file is not None}
    return Fields([field for field in fields if field.file is None], files)


def uploads_of(req: Request) -> Fields:
    """The files in the body, without fields for which the user has chosen none (HTML 4.10.22.4). Raises FormError."""
    fields = _Reader().body(req)
    texts = {field.name: f"it is a text: req.form[{field.name[:80]!r}]" for field in fields if field.file is None}
    files = [field for field in fields if field.file is not None and field.filename]
    if _type_of_body(req) == _URLENCODED:
        return Fields(files, otherwise='the form was sent without files: write <form enctype="multipart/form-data">')
    return Fields(files, texts)


class FieldStorage(Fields):
    """The fields of a request: those of the body, then those of the query string.

    keep_blank_values: keep fields without a value. strict_parsing: refuse fields without `=`, wrong percent escapes
    and text that is not utf-8, all of which are else taken as well as possible.
    file_callback: called with the name of each uploaded file; returns the binary file object to write it to.
    max_fields: fields at most; max_memory: bytes at most of all fields that are not files.
    Raises FormError. The body is read only once: what reads it first, this or `req.form`, decides by these settings.
    """

    def __init__(
        self,
        req: Request,
        keep_blank_values: int = 0,
        strict_parsing: int = 0,
        file_callback: Callable[[str], IO[bytes]] | None = None,
        *,
        max_fields: int = MAX_FIELDS,
        max_memory: int = MAX_MEMORY,
    ) -> None:
        reader = _Reader(bool(keep_blank_values), bool(strict_parsing), max_fields, max_memory, file_callback)
        fields = reader.body(req)
        super().__init__([*fields, *reader.query(req, len(fields))])

    def __getitem__(self, name: str) -> Any:
        """The `Field` with this name, a list of them if there are several. Raises KeyError."""
        found = [field for field in self.list if field.name == name]
        if not found:
            raise KeyError(name)
        return found[0] if len(found) == 1 else found


class _Reader:
    """Reads fields by the settings of `FieldStorage`."""

    def __init__(
        self,
        keeps_blank: bool = False,
        is_strict: bool = False,
        max_fields: int = MAX_FIELDS,
        max_memory: int = MAX_MEMORY,
        file_callback: Callable[[str], IO[bytes]] | None = None,
    ) -> None:
        self._keeps_blank = keeps_blank
        self._is_strict = is_strict
        self._max_fields = max_fields
        self._max_memory = max_memory
        self._file_callback = file_callback

    def query(self, req: Request, before: int) -> list[Field]:
        """before: how many fields there are already."""
        return self._urlencoded(req.environ.get("QUERY_STRING", "").encode("latin-1"), before)

    def body(self, req: Request) -> list[Field]:
        """The fields of the body. They stay with the request, and so does the reason for which a form was refused."""
        refusal: tuple[Any, ...] | None = req.__dict__.get("_form_refusal")
        if refusal is not None:
            raise FormError(*refusal)
        found: list[Field] | None = req.__dict__.get("_form_fields")
        if found is None:
            try:
                found = req._form_fields = self._read(req)
            except SERVER_RETURN as error:
                # The error itself would hold this frame, and the request, until the garbage collector runs.
                req._form_refusal = (error.code, *error.details)
                raise
        return found

    def _read(self, req: Request) -> list[Field]:
        kind = _type_of_body(req)
        if kind in (_URLENCODED, _MULTIPART) and req._was_read:
            raise RuntimeError("the form is gone: req.read() or other code has read its body before; use one of them")
        if kind == _URLENCODED:
            body = req.read(self._max_memory + 1)
            if len(body) > self._max_memory:
                raise FormError(HTTP_REQUEST_ENTITY_TOO_LARGE, f"the form is larger than {self._max_memory} bytes")
            return self._urlencoded(body, 0)
        if kind == _MULTIPART:
            parts = self._parts(req, req.environ["CONTENT_TYPE"])
            return [field for field in parts if self._keeps_blank or field.file is not None or field.value]
        return []

    def _parts(self, req: Request, content_type: str) -> list[Field]:
        """All fields of a multipart body. Of one that is refused no file stays open, but the application's own."""
        from poorhttp.dispatch.multipart import read_parts

        fields: list[Field] = []
        try:
            for field in read_parts(req.read, content_type, self._file_callback, self._max_memory, self._text):
                fields.append(field)
                self._check_count(len(fields) - 1)
        except BaseException:
            for field in fields:
                if field.file is not None and self._file_callback is None:
                    field.file.close()
            raise
        return fields

    def _urlencoded(self, text: bytes, before: int) -> list[Field]:
        # Counted before anything is made of it: a megabyte of & costs nothing.
        self._check_count(text.count(b"&") + before)
        fields = []
        for pair in text.split(b"&"):
            name, equals, value = pair.partition(b"=")
            if pair and self._is_strict and not equals:
                raise FormError(HTTP_BAD_REQUEST, f"a form field without =: {pair[:80]!r}")
            if value or (pair and self._keeps_blank):
                fields.append(Field(self._unquoted(name), self._unquoted(value)))
        return fields

    def _check_count(self, before: int) -> None:
        if before >= self._max_fields:
            raise FormError(HTTP_REQUEST_ENTITY_TOO_LARGE, f"the form has more than {self._max_fields} fields")

    def _unquoted(self, text: bytes) -> str:
        text = text.replace(b"+", b" ")
        return self._text(self._percent_decoded(text) if b"%" in text else text)

    def _percent_decoded(self, text: bytes) -> bytes:
        first, *rest = text.split(b"%")
        done = [first]
        for piece in rest:
            try:
                byte = unhexlify(piece[:2])
            except HexError:
                byte = b""
            if not byte and self._is_strict:
                raise FormError(HTTP_BAD_REQUEST, f"a wrong percent escape in the form field {text[:80]!r}")
            done.append(byte + piece[2:] if byte else b"%" + piece)
        return b"".join(done)

    def _text(self, value: bytes) -> str:
        try:
            return value.decode("utf-8", "strict" if self._is_strict else "replace")
        except UnicodeDecodeError:
            raise FormError(HTTP_BAD_REQUEST, f"a form field is not utf-8: {value[:80]!r}") from None


def _type_of_body(req: Request) -> str:
    content_type: str = req.environ.get("CONTENT_TYPE", "")
    return content_type.partition(";")[0].strip().lower()
