"""Header fields: those of the request, read from the environ, and those of the answer, checked as they are set.

Knows the rules for names and values, nothing of what a field means, except which ones only a server may send.
Contract: what `Headers` holds can be handed to `start_response`: nothing in it can end a line or start another field.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_TOKEN = frozenset("!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")

# PEP 3333: an application must not send what belongs to the connection; `Status` is CGI's, not a field.
_OF_THE_SERVER = frozenset(
    (
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailer",
        "trailers",
        "transfer-encoding",
        "upgrade",
        "status",
    )
)

# Fields of an answer with one value (RFC 9110, RFC 9111, RFC 6266): a second line would contradict the first. All
# others are lists or unknown, and may be repeated (RFC 9110 section 5.3).
_SINGLE = frozenset(
    (
        "age",
        "content-disposition",
        "content-length",
        "content-location",
        "content-range",
        "content-type",
        "date",
        "etag",
        "expires",
        "last-modified",
        "location",
        "retry-after",
        "server",
    )
)

_WITHOUT_PREFIX = ("CONTENT_TYPE", "CONTENT_LENGTH")  # CGI has all other fields as HTTP_... (RFC 3875 section 4.1)


def is_token(text: str) -> bool:
    """Whether a text is a token (RFC 9110 section 5.6.2), as names of fields and cookies are."""
    return bool(text) and _TOKEN.issuperset(text)


def checked_value(value: str) -> str:
    """Return `value` if it can stand in a field as it is (RFC 9110 section 5.5, without tab, which WSGI forbids).

    Raises TypeError for what is not str, ValueError for control characters (CR and LF end a field) and for characters
    that Latin-1, the encoding of WSGI, does not have.
    """
    if not isinstance(value, str):
        raise TypeError(f"a header value is str, not {type(value).__name__}: {value!r}")
    if value.isascii() and value.isprintable():
        return value
    for char in value:
        if char < " " or char == "\x7f":
            raise ValueError(f"control character {char!r} in the header value {value!r}")
        if char > "\xff":
            raise ValueError(f"{char!r} in the header value {value!r} is not Latin-1")
    return value


def checked_name(name: str) -> str:
    """Return `name` if it is a field name that an application may set; raises TypeError or ValueError if not."""
    if not isinstance(name, str):
        raise TypeError(f"a header name is str, not {type(name).__name__}: {name!r}")
    if not is_token(name):
        raise ValueError(f"{name!r} is no header name: letters, digits and - are allowed")
    if name.lower() in _OF_THE_SERVER:
        raise ValueError(f"the header {name} belongs to the server, an application cannot set it")
    return name


class Headers:
    """Fields of an answer in the order in which they were set: `headers["Name"] = "value"`, also get, del, in.

    Names compare without case. Raises TypeError and ValueError for names and values that no field can have (RFC 9110
    section 5), and for fields of the server (PEP 3333, "hop-by-hop").
    """

    __slots__ = ("_fields",)

    def __init__(self) -> None:
        self._fields: list[tuple[str, str]] = []

    def add(self, name: str, value: str) -> None:
        """Add a field beside others of its name, as `add` of mod_python's tables does.

        Raises ValueError for a second Content-Type, Location or another field that has only one value.
        """
        if checked_name(name).lower() in _SINGLE and name in self:
            raise ValueError(f"the header {name} is set already to {self[name]!r}; assign to replace it")
        self._fields.append((name, checked_value(value)))

    def get(self, name: str, default: Any = None) -> Any:
        """The value of the first field with this name, or `default`."""
        wanted = name.lower()
        for known, value in self._fields:
            if known.lower() == wanted:
                return value
        return default

    def items(self) -> list[tuple[str, str]]:
        """Name and value of each field."""
        return list(self._fields)

    def keys(self) -> list[str]:
        """The name of each field; of one that is there twice, twice."""
        return [name for name, _ in self._fields]

    def __getitem__(self, name: str) -> str:
        value: str | None = self.get(name)
        if value is None:
            raise KeyError(name)
        return value

    def __setitem__(self, name: str, value: str) -> None:
        field = (checked_name(name), checked_value(value))
        self._remove(name)
        self._fields.append(field)

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        self._remove(name)

    def __contains__(self, name: str) -> bool:
        return self.get(name) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self._fields)

    def __repr__(self) -> str:
        return f"Headers({self._fields!r})"

    def _remove(self, name: str) -> None:
        wanted = name.lower()
        self._fields = [field for field in self._fields if field[0].lower() != wanted]


class RequestHeaders:
    """Fields of a request: a view of the environ, so it costs nothing until a field is asked for. An empty Content-Type
    or Content-Length is none, for some servers always set these two variables.
    """

    __slots__ = ("_environ",)

    def __init__(self, environ: dict[str, Any]) -> None:
        self._environ = environ

    def get(self, name: str, default: Any = None) -> Any:
        """The value of the field, or `default`. Repeated fields are one value, as the server joined them."""
        key = _key(name)
        value = self._environ.get(key)
        return default if value is None or (not value and key in _WITHOUT_PREFIX) else value

    def items(self) -> list[tuple[str, str]]:
        """Name and value of each field."""
        return [(name, self[name]) for name in self]

    def keys(self) -> list[str]:
        """The name of each field, written as `User-Agent`."""
        return list(self)

    def __getitem__(self, name: str) -> str:
        value: str | None = self.get(name)
        if value is None:
            raise KeyError(name)
        return value

    def __contains__(self, name: str) -> bool:
        return self.get(name) is not None

    def __iter__(self) -> Iterator[str]:
        for key in self._environ:
            name = key.removeprefix("HTTP_").replace("_", "-").title()
            # Not HTTP_CONTENT_TYPE: a client that writes Content_Type makes some servers set it.
            if _key(name) == key and name in self:
                yield name

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"RequestHeaders({self.items()!r})"


def _key(name: str) -> str:
    key = name.upper().replace("-", "_")
    return key if key in _WITHOUT_PREFIX else "HTTP_" + key
