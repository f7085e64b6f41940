"""One field of a form, and the error for a form that cannot be read.

Knows neither requests nor how a form is written.
"""

from __future__ import annotations

from poorhttp.dispatch.outcome import SERVER_RETURN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO, Any


class FormError(SERVER_RETURN):
    """A form that cannot be read: ends the handler with 400, or 413 if it is too large."""


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
        self.name = name
        self.filename = filename
        self.file = file
        self.type = type
        self._text = text

    @property
    def value(self) -> Any:
        """The text; of an upload all of its bytes, read into memory."""
        if self.file is None:
            return self._text
        self.file.seek(0)
        return self.file.read()

    def __repr__(self) -> str:
        return f"Field({self.name!r}, {self._text!r}, filename={self.filename!r})"
