"""Names of a table that are probably misspelt: what they hold would be ignored without a word.

Knows which values belong to the names of a table. Contract: a helper of the application that only has a similar name is
left alone, unless it could be meant.
"""

from __future__ import annotations

from poorhttp.dispatch.faults import TableError, takes
from poorhttp.dispatch.site import HOOKS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_OF_OTHERS = {"beforerequest": "pre_process", "afterrequest": "post_process", "errorhandlers": "errors"}
"""Names that other frameworks have for the same thing, without underscores."""


def refuse_misspelt(table: object) -> None:
    """Raise TableError for a name that is close to one which the table lacks, if it holds what belongs to that one."""
    held = dict(getattr(table, "__dict__", {}))
    for name, value in held.items():
        if not isinstance(name, str) or name.startswith("_"):
            continue
        for known, belongs in _BELONGS.items():
            if _is_close(name, known) and getattr(table, known, None) is None and belongs(value, held):
                fault = f"there is {name!r} and no {known!r}: did you mean {known!r}?"
                raise TableError(fault, f"{known!r}, or for something else a name that is not so close to it")


def _is_close(name: str, known: str) -> bool:
    """Whether they begin alike, and differ in one letter, two swapped ones, case or underscores, or mean the same."""
    one, other = (each.replace("_", "").lower() for each in (name, known))
    if _OF_OTHERS.get(one) == known:
        return True
    if one[:1] != other[:1]:
        return False
    while one and other and one[0] == other[0]:
        one, other = one[1:], other[1:]
    while one and other and one[-1] == other[-1]:
        one, other = one[:-1], other[:-1]
    return max(len(one), len(other)) < 2 or (len(one) == 2 and one == other[::-1])


def _may_be_handlers(value: Any, held: dict[str, Any]) -> bool:
    return _is_dict(value) and all(isinstance(path, str) and path.startswith("/") for path in value)


def _may_be_errors(value: Any, held: dict[str, Any]) -> bool:
    return _is_dict(value) and all(isinstance(status, int) for status in value)


def _may_be_converters(value: Any, held: dict[str, Any]) -> bool:
    return _is_dict(value) and all(isinstance(entry, (tuple, list)) and len(entry) == 2 for entry in value.values())


def _may_be_sessions(value: Any, held: dict[str, Any]) -> bool:
    return hasattr(type(value), "wrap")


def _may_be_hook(value: Any, held: dict[str, Any]) -> bool:
    """Whether it is a function of one argument that a module itself defines, and that its table does not use."""
    if type(value).__name__ != "function" or not takes(value, 1):
        return False
    is_own = held.get("__name__", value.__module__) == value.__module__
    return is_own and not any(_holds(held.get(name), value) for name in _BELONGS)


def _is_dict(value: Any) -> bool:
    return issubclass(type(value), dict) and bool(value)  # type(): an object may run code when its class is asked for


def _holds(value: Any, function: object, depth: int = 3) -> bool:
    """Whether it is the function, or an entry for it: `handlers` are a dict of lists of pairs at most."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return depth > 0 and any(_holds(each, function, depth - 1) for each in value)
    return value is function


_BELONGS: dict[str, Callable[[Any, dict[str, Any]], bool]] = {
    "handlers": _may_be_handlers,
    "errors": _may_be_errors,
    "converters": _may_be_converters,
    "sessions": _may_be_sessions,
    **dict.fromkeys(HOOKS, _may_be_hook),
}
