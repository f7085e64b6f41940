"""Which value within a dict or list JSON does not have, for the message about it.

Knows the values that `json.dumps` takes. Imported only after it has refused some.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_DEEPEST = 100
"""Levels of dicts and lists within each other that are searched."""

_PLAIN = (str, int, type(None))
_NAMES = "JSON has str, int, float, bool, None, lists and dicts"


def fault_of(value: Any, place: str, depth: int = 0) -> str:
    """`value['cart'][0] is of type set: ...`; "" if nothing is found. place: how the value itself is called."""
    if depth > _DEEPEST:
        return f"it holds values more than {_DEEPEST} levels deep, or itself"
    if isinstance(value, dict):
        wrong = [type(key).__name__ for key in value if not isinstance(key, (*_PLAIN, float))]
        if wrong:
            return f"{place} has a key of type {wrong[0]}: keys are str"
        inner = ((f"[{key!r:.80}]", each) for key, each in value.items())
    elif isinstance(value, (list, tuple)):
        inner = ((f"[{index}]", each) for index, each in enumerate(value))
    elif isinstance(value, float):
        return "" if -1e400 < value < 1e400 else f"{place} is {value}: JSON has no such number"
    else:
        return "" if isinstance(value, _PLAIN) else f"{place} is of type {type(value).__name__}: {_NAMES}"
    return next(filter(None, (fault_of(each, f"{place}{step}", depth + 1) for step, each in inner)), "")
