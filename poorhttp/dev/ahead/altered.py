"""What the author's code has made another one that others' modules may look at when they are imported: functions and
classes of others, and what belongs to the whole process.

Knows where these are found. Does not know who was imported when, nor what follows.
Contract: a look takes a millisecond or two with the largest applications, runs no code of anybody's, and changes
nothing. What else was changed in others' modules (their constants, what is inside of their objects) is not seen.
"""

from __future__ import annotations

import sys
from _contextvars import copy_context
from _locale import LC_ALL, setlocale
from binascii import crc32
from functools import cache
from operator import is_
from types import BuiltinFunctionType, FunctionType, ModuleType

from poorhttp.dev.watch.reports import is_theirs
from poorhttp.stdlib import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import MappingProxyType
    from typing import Any

    Place = tuple[str, dict[str, Any] | MappingProxyType[str, Any]]

WRAPPED = classmethod, staticmethod
KINDS = {FunctionType, BuiltinFunctionType, property, *WRAPPED}
OWN = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(__file__))), "")


class Names:
    """The functions and classes of others' modules, and of classes of the standard library, as they are now."""

    def __init__(self) -> None:
        self._places = [(name, place, tuple(place), tuple(place.values())) for name, place in _places()]

    def other(self) -> str:
        """One that is another object now, or the author's own where nothing was; "" for none."""
        for place, namespace, names, values in self._places:
            now = tuple(namespace.values())
            if len(now) == len(values) and all(map(is_, now, values)):
                continue
            before = dict(zip(names, values, strict=True))
            for name in {**before, **namespace}:
                was, value = before.get(name), namespace.get(name)
                if value is not was and (_is_authors(value) or (_is_code(was) and not _is_own(value))):
                    return f"{place}.{name}"
        return ""


def authors() -> str:
    """A function or class of the author's that stands in somebody else's place; "" for none."""
    for place, namespace in _places():
        for name, value in namespace.copy().items():
            if _is_authors(value):
                return f"{place}.{name}"
    return ""


def digest() -> int:
    """Another one, most probably, where another function of others' stands in a place."""
    found = 0
    for place, namespace in _places():
        for name, value in namespace.copy().items():
            if type(value) in (FunctionType, BuiltinFunctionType):
                found = crc32(f"{place}.{name} {value.__module__}.{value.__qualname__}".encode(), found)
    return found


def surroundings() -> dict[str, Any]:
    """What belongs to the process, by names for the log."""
    try:
        directory = os.getcwd()
    except OSError:
        directory = ""
    with open("/proc/self/status", "rb") as file:
        umask = next((line for line in file if line.startswith(b"Umask")), b"")
    return {
        "the working directory": directory,
        "the umask": umask,
        "sys.argv": list(sys.argv),
        "the limit of recursion": sys.getrecursionlimit(),
        "the locale": setlocale(LC_ALL, None),
        "which warnings are errors": [each for each in _warning_filters() if each[0] == "error"],
        "the decimal context": _decimal(),
    }


def _warning_filters() -> list[Any]:
    """None where the module is not there, which the interpreter does without."""
    filters: list[Any] = getattr(sys.modules.get("warnings"), "filters", [])
    return filters


def _decimal() -> list[Any]:
    """Of threads to come, and of this one; to ask for it would make one."""
    default: Any = getattr(sys.modules.get("decimal"), "DefaultContext", None)
    if default is None:
        return []
    own = [context for variable, context in copy_context().items() if variable.name == "decimal_context"]
    parts = "prec", "rounding", "Emin", "Emax", "capitals", "clamp", "traps"
    return [repr(getattr(context, part)) for context in (default, *(own or [default])) for part in parts]


def _places() -> Iterator[Place]:
    seen = set()
    for name, module in list(sys.modules.items()):
        if not issubclass(type(module), ModuleType) or name.partition(".")[0] in ("poorhttp", "__main__"):
            continue
        namespace: dict[str, Any] = object.__getattribute__(module, "__dict__")  # one that is lazy stays so
        file = namespace.get("__file__")
        is_standard = name.partition(".")[0] in sys.stdlib_module_names
        if is_standard if file is None else isinstance(file, str) and not is_theirs(os.path.abspath(file)):
            yield name, namespace
        if is_standard:
            for value in namespace.copy().values():
                if type(value) is type and id(value) not in seen:
                    seen.add(id(value))
                    yield f"{value.__module__}.{value.__qualname__}", value.__dict__


def _is_code(value: Any) -> bool:
    return type(value) in KINDS or issubclass(type(value), type)


def _is_own(value: Any) -> bool:
    """Whether this process has put it there to hear of something."""
    return type(value) is FunctionType and value.__code__.co_filename.startswith(OWN)


def _is_authors(value: Any) -> bool:
    if type(value) in WRAPPED:
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
    return not file.startswith("<") and is_theirs(os.path.abspath(file))
