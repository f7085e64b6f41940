"""Fields of a form or a query, how they are asked for, and the errors for those that are not as they must be.

Knows neither requests nor how a form is written.
"""

from __future__ import annotations

from poorhttp.dispatch.constants import HTTP_BAD_REQUEST
from poorhttp.dispatch.outcome import SERVER_RETURN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from os import PathLike
    from typing import IO, Any


class FormError(SERVER_RETURN, ValueError):
    """A form that cannot be read, or a value of the wrong kind: ends the handler with 400, a large form with 413."""


class MissingField(SERVER_RETURN, KeyError):
    """A field without which a handler can do nothing, and which is not there: ends the handler with 400."""


class Field:
    """One field of a form.

    name: str. filename: the client's name of an uploaded file without directories, None for other fields. type: the
    content type that the client claims, "" without. file: the uploaded content, binary, at its start (or what
    file_callback returned, as it left it), None for other fields.
    """

    __slots__ = ("_text", "file", "filename", "name", "type")

    def __init__(
        self, name: str, text: str = "", *, filename: str | None = None, file: IO[bytes] | None = None, type: str = ""
    ) -> None:
        self.name: str = name
        self.filename: str | None = filename
        self.file: IO[bytes] | None = file
        self.type: str = type
        self._text = text

    def save(self, path: str | PathLike[str]) -> None:
        """Write an uploaded file to `path`, which is absolute, and is replaced if it is there: whole or not at all.

        `filename` is the client's choice: make the path of a name of your own. Raises ValueError for a relative path,
        as a client's name would be, and for a field that is no upload; OSError if the file cannot be written.
        """
        from poorhttp.dispatch.whole_file import write

        if self.file is None:
            raise ValueError(f"the field {self.name!r} is no uploaded file, and has nothing to save")
        path = str(path)
        if not path.startswith("/"):
            raise ValueError(f"save() takes an absolute path, not {path!r}; a name that a client has chosen is no path")
        write(path, self.file)

    @property
    def value(self) -> Any:
        """The text; of an upload all of its bytes, read into memory."""
        if self.file is None:
            return self._text
        self.file.seek(0)
        return self.file.read()

    def __repr__(self) -> str:
        return f"Field({self.name!r}, {self._text!r}, filename={self.filename!r})"


class Fields:
    """Fields in the order in which the client sent them. list: list of `Field`."""

    def __init__(self, fields: list[Field], elsewhere: Mapping[str, str] | None = None, otherwise: str = "") -> None:
        """elsewhere: names that are not here -> what to say about them. otherwise: what to say about all others."""
        self.list = fields
        self._elsewhere = elsewhere or {}
        self._otherwise = otherwise

    def get(self, name: str, default: Any = None) -> Any:
        """The first value of `name`, of an upload the `Field`; `default` if there is none."""
        for field in self.list:
            if field.name == name:
                return field.value if field.file is None else field
        return default

    def getfirst(
        self, name: str, default: Any = None, convert: Callable[[Any], Any] | None = None, *, fce: Any = None
    ) -> Any:
        """The first value of `name`, passed through `convert` if given; `default`, as it is, if there is none.

        Raises FormError, which ends the handler with 400 and is a ValueError, if `convert` raises ValueError or
        ArithmeticError, as Decimal does.
        fce: another name of `convert`.
        """
        for field in self.list:
            if field.name == name:
                return _converted(field, convert or fce)
        return default

    def getlist(self, name: str, convert: Callable[[Any], Any] | None = None, *, fce: Any = None) -> list[Any]:
        """All values of `name`, each passed through `convert` if given. Raises FormError as `getfirst`."""
        return [_converted(field, convert or fce) for field in self.list if field.name == name]

    def getvalue(self, name: str, default: Any = None) -> Any:
        """The value of `name`, a list of them if there are several, `default` if there is none."""
        values = self.getlist(name)
        return default if not values else values[0] if len(values) == 1 else values

    def keys(self) -> list[str]:
        """The names, each once, in the order in which the client sent them."""
        return list(dict.fromkeys(field.name for field in self.list))

    def __getitem__(self, name: str) -> Any:
        """The first value of `name`: of an upload the `Field`. Raises MissingField, which ends the handler with 400."""
        if name not in self:
            hint = self._elsewhere.get(name, self._otherwise)
            raise MissingField(HTTP_BAD_REQUEST, f"the field {name!r} is missing{hint and ': '}{hint}")
        return self.get(name)

    def __contains__(self, name: str) -> bool:
        return any(field.name == name for field in self.list)

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self.keys())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.list!r})"


def _converted(field: Field, convert: Callable[[Any], Any] | None) -> Any:
    if convert is None:
        return field.value
    try:
        return convert(field.value)
    except (ValueError, ArithmeticError) as error:
        why = str(error)[:200]  # it may have the value in it
        raise FormError(HTTP_BAD_REQUEST, f"the field {field.name[:80]!r} has a wrong value: {why}") from error
