"""Where a function of the application is written, for messages and for /debug-info.

Knows what decorators and functools.partial leave of a function. Runs no code of it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_DEEPEST = 100  # wrappers around each other


def unwrapped(function: Any) -> Any:
    """The function within its wrappers."""
    inner = function
    for _ in range(_DEEPEST):
        is_partial = type(inner).__module__ == "functools" and hasattr(inner, "func")
        wrapped = inner.func if is_partial else getattr(inner, "__wrapped__", None)
        if wrapped is None:
            break
        inner = wrapped
    return inner


def place_of(function: Any) -> str:
    """`file:line` of its code; "" for what is not written in Python. Of a function in a wrapper, not the wrapper's."""
    inner = unwrapped(function)
    code: Any = getattr(inner, "__code__", None) or getattr(type(inner).__call__, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if hasattr(code, "co_firstlineno") else ""
