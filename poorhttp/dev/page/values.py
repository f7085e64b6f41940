"""Values of the application as short text, without running any of its code.

Knows the types of Python itself. An object of another type is shown by the name of its type alone.
"""

from __future__ import annotations

from reprlib import Repr

from poorhttp.pages.redaction import HIDDEN, LONGEST, cut, names_secret, without_secrets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LONGEST_STRING = 1000
"""Characters of a string that are looked at."""


def described(value: object) -> str:
    """A value as text, with secrets hidden."""
    try:
        return cut(_REPR.repr(value), LONGEST)
    except BaseException as error:
        return f"<{name_of(type(value))}, which cannot be shown: {name_of(type(error))}>"


def name_of(kind: type, attribute: str = "__name__") -> str:
    """The name of a class as `type` itself knows it: a metaclass may run code of the author's. Raises TypeError for a
    `__module__` that is no string.
    """
    return str.__str__(type.__dict__[attribute].__get__(kind))


_HIDDEN = object()
"""Stands for a value that is not to be shown."""

_NAMING = ("name", "key", "field", "header")
"""Keys of a dict that stands for a pair, as in `{"name": "password", "value": "x"}`."""

_PLAIN = (str, bytes, int, float, complex, bool, type(None), list, tuple, set, frozenset)


def _is_pair(value: Any) -> bool:
    return len(value) == 2 and names_secret(value[0])


class _Repr(Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = 200
        self.maxlevel = 3

    def repr1(self, value: Any, level: int) -> str:
        if value is _HIDDEN:
            return HIDDEN
        kind = type(value)
        if any(kind is each for each in _PLAIN):  # a metaclass may have an `__eq__`
            return super().repr1(value, level)
        if kind is dict:
            return self.repr_dict(value, level)
        return f"<{name_of(kind, '__module__')}.{name_of(kind, '__qualname__')}>"

    def repr_str(self, value: str, level: int) -> str:
        return repr(cut(without_secrets(value[:LONGEST_STRING]), self.maxstring))  # a cut within a secret would bare it

    def repr_bytes(self, value: bytes, level: int) -> str:
        return cut(without_secrets(repr(value[:LONGEST_STRING])), self.maxother)

    def repr_tuple(self, value: tuple[Any, ...], level: int) -> str:
        return super().repr_tuple((value[0], _HIDDEN) if _is_pair(value) else value, level)

    def repr_list(self, value: list[Any], level: int) -> str:
        return super().repr_list([value[0], _HIDDEN] if _is_pair(value) else value, level)

    def repr_set(self, value: Any, level: int) -> str:
        return f"{type(value).__name__}({super().repr_list(list(value), level)})"  # that of Python sorts: `__lt__`

    def repr_frozenset(self, value: Any, level: int) -> str:
        return self.repr_set(value, level)

    def repr_dict(self, value: dict[Any, Any], level: int) -> str:
        if level <= 0:
            return "{...}"
        pairs = []
        shown = list(value.items())[:10]
        name = next((each for key, each in shown if type(key) is str and key in _NAMING and names_secret(each)), None)
        for key, each in shown:
            hidden = names_secret(key) or (name is not None and each is not name)
            pairs.append(f"{self.repr1(key, level - 1)}: {HIDDEN if hidden else self.repr1(each, level - 1)}")
        return f"{{{', '.join(pairs)}{', ...' if len(value) > len(pairs) else ''}}}"


_REPR = _Repr()
