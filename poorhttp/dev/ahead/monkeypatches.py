"""Monkey patches: functions and classes in modules of others that the author's code has replaced or added.

Knows where functions and classes are found. Does not know what follows from a patch. A look takes a millisecond or two
with the largest applications and runs no code of theirs. Changes of constants, or inside of objects, are not seen.
"""

from __future__ import annotations

import sys
from binascii import crc32
from functools import cache
from operator import is_
from types import BuiltinFunctionType, FunctionType, ModuleType

from poorhttp.app.places import SERVER
from poorhttp.dev.watch.paths import is_authors
from poorhttp.stdlib import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import MappingProxyType
    from typing import Any

    Place = tuple[str, dict[str, Any] | MappingProxyType[str, Any]]

_WRAPPED = classmethod, staticmethod
_KINDS = {FunctionType, BuiltinFunctionType, property, *_WRAPPED}


class Snapshot:
    """The functions and classes in modules of others, and in classes of the standard library, as they are now."""

    def __init__(self) -> None:
        self._places = [(name, place, tuple(place), tuple(place.values())) for name, place in _places()]

    def patched(self) -> str:
        """The name of one that was replaced since, or of one of the author's that was added; "" for none."""
        for place, namespace, names, values in self._places:
            now = tuple(namespace.values())
            if len(now) == len(values) and all(map(is_, now, values)):
                continue
            before = dict(zip(names, values, strict=True))
            for name in {**before, **namespace}:
                was, value = before.get(name), namespace.get(name)
                if value is not was and (_is_authors(value) or (_is_code(was) and not _is_servers(value))):
                    return f"{place}.{name}"
        return ""


def authors() -> str:
    """The name of a function or class of the author's in a module of others; "" for none."""
    for place, namespace in _places():
        for name, value in namespace.copy().items():
            if _is_authors(value):
                return f"{place}.{name}"
    return ""


def digest() -> int:
    """A checksum of the names of all functions in modules of others."""
    found = 0
    for place, namespace in _places():
        for name, value in namespace.copy().items():
            if type(value) in (FunctionType, BuiltinFunctionType):
                found = crc32(f"{place}.{name} {value.__module__}.{value.__qualname__}".encode(), found)
    return found


def _places() -> Iterator[Place]:
    seen = set()
    for name, module in list(sys.modules.items()):
        if not issubclass(type(module), ModuleType) or name.partition(".")[0] in ("poorhttp", "__main__"):
            continue
        namespace: dict[str, Any] = object.__getattribute__(
            module, "__dict__"
        )  # not by attribute: a lazy module would load itself
        file = namespace.get("__file__")
        is_standard = name.partition(".")[0] in sys.stdlib_module_names
        if is_standard if file is None else isinstance(file, str) and not is_authors(os.path.abspath(file)):
            yield name, namespace
        if is_standard:
            for value in namespace.copy().values():
                if type(value) is type and id(value) not in seen:
                    seen.add(id(value))
                    yield f"{value.__module__}.{value.__qualname__}", value.__dict__


def _is_code(value: Any) -> bool:
    return type(value) in _KINDS or issubclass(type(value), type)


def _is_servers(value: Any) -> bool:
    """Whether this server has put it there, to learn of a call."""
    return type(value) is FunctionType and value.__code__.co_filename.startswith(SERVER)


def _is_authors(value: Any) -> bool:
    if type(value) in _WRAPPED:
        value = value.__func__
    if type(value) is FunctionType:
        return _is_authors_file(value.__code__.co_filename)
    if not issubclass(type(value), type):
        return False
    module = sys.modules.get(str(type.__getattribute__(value, "__dict__").get("__module__")))
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and _is_authors_file(file)


@cache
def _is_authors_file(file: str) -> bool:
    return not file.startswith("<") and is_authors(os.path.abspath(file))
