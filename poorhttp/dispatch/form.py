"""Fields of a form: from the query string, and from a body that is urlencoded or multipart/form-data.

Knows the urlencoded form (WHATWG URL standard, section 5); multipart is `multipart`'s. Knows nothing of handlers.
Contract: text is utf-8; a body that breaks the rules or passes a limit raises `FormError`, in itself an answer.
"""

from __future__ import annotations

from binascii import Error as HexError
from binascii import unhexlify

from poorhttp.dispatch.constants import HTTP_BAD_REQUEST, HTTP_REQUEST_ENTITY_TOO_LARGE
from poorhttp.dispatch.field import Field, FormError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import IO, Any

    from poorhttp.dispatch.request import Request

MAX_FIELDS = 1000
MAX_MEMORY = 1024 * 1024


class FieldStorage:
    """The fields of a request: those of the body, then those of the query string.

    keep_blank_values: keep fields without a value. strict_parsing: refuse fields without `=`, wrong percent escapes
    and text that is not utf-8, all of which are else taken as well as possible.
    file_callback: called with the name of each uploaded file; returns the binary file object to write it to.
    max_fields: fields at most; max_memory: bytes at most of all fields that are not files.
    Raises FormError. The body can be read only once, so make one of these for a request.
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
        self.list: list[Field] = []
        self._keep_blank = bool(keep_blank_values)
        self._strict = bool(strict_parsing)
        self._max_fields = max_fields
        self._add_body(req, file_callback, max_memory)
        self._add_urlencoded(req.environ.get("QUERY_STRING", "").encode("latin-1"))

    def getfirst(self, name: str, default: Any = None, fce: Callable[[Any], Any] | None = None) -> Any:
        """The first value of `name`, passed through `fce` if given; `default`, as it is, if there is none."""
        for field in self.list:
            if field.name == name:
                return field.value if fce is None else fce(field.value)
        return default

    def getlist(self, name: str, fce: Callable[[Any], Any] | None = None) -> list[Any]:
        """All values of `name`, each passed through `fce` if given."""
        values = [field.value for field in self.list if field.name == name]
        return values if fce is None else [fce(value) for value in values]

    def getvalue(self, name: str, default: Any = None) -> Any:
        """The value of `name`, a list of them if there are several, `default` if there is none."""
        values = self.getlist(name)
        return default if not values else values[0] if len(values) == 1 else values

    def keys(self) -> list[str]:
        return list(dict.fromkeys(field.name for field in self.list))

    def __getitem__(self, name: str) -> Any:
        """The `Field` with this name, a list of them if there are several. Raises KeyError."""
        found = [field for field in self.list if field.name == name]
        if not found:
            raise KeyError(name)
        return found[0] if len(found) == 1 else found

    def __contains__(self, name: str) -> bool:
        return any(field.name == name for field in self.list)

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self.keys())

    def _add_body(self, req: Request, file_callback: Callable[[str], IO[bytes]] | None, max_memory: int) -> None:
        content_type = req.environ.get("CONTENT_TYPE", "")
        kind = content_type.partition(";")[0].strip().lower()
        if kind == "application/x-www-form-urlencoded":
            body = req.read(max_memory + 1)
            if len(body) > max_memory:
                raise FormError(HTTP_REQUEST_ENTITY_TOO_LARGE, f"the form is larger than {max_memory} bytes")
            self._add_urlencoded(body)
        elif kind == "multipart/form-data":
            from poorhttp.dispatch.multipart import read_parts

            for count, field in enumerate(read_parts(req.read, content_type, file_callback, max_memory, self._text)):
                self._check_count(count)
                if self._keep_blank or field.file is not None or field.value:
                    self.list.append(field)

    def _add_urlencoded(self, text: bytes) -> None:
        # Counted before anything is made of it: a megabyte of & costs nothing.
        self._check_count(text.count(b"&") + len(self.list))
        for pair in text.split(b"&"):
            name, equals, value = pair.partition(b"=")
            if pair and self._strict and not equals:
                raise FormError(HTTP_BAD_REQUEST, f"a form field without =: {pair!r}")
            if value or (pair and self._keep_blank):
                self.list.append(Field(self._unquoted(name), self._unquoted(value)))

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
            if not byte and self._strict:
                raise FormError(HTTP_BAD_REQUEST, f"a wrong percent escape in the form field {text!r}")
            done.append(byte + piece[2:] if byte else b"%" + piece)
        return b"".join(done)

    def _text(self, value: bytes) -> str:
        try:
            return value.decode("utf-8", "strict" if self._strict else "replace")
        except UnicodeDecodeError:
            raise FormError(HTTP_BAD_REQUEST, f"a form field is not utf-8: {value[:80]!r}") from None
