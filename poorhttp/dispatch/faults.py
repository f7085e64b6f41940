"""The error for a dispatch table that cannot be used, and the checks and words that all readers of a table share.

Knows neither routes nor requests.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class TableError(ValueError):
    """The dispatch table cannot be used. fault: which entry, and what it is; expected: what belongs there."""

    def __init__(self, fault: str, expected: str) -> None:
        super().__init__(f"{fault}; expected {expected}")
        self.fault = fault
        self.expected = expected


def checked_function(
    function: Any, where: str, expected: str = "a function of one argument, req"
) -> Callable[..., Any]:
    """Return `function`; raises TableError if it cannot be called."""
    if not callable(function):
        raise TableError(f"{where} is {shown(function)}, which cannot be called", expected)
    checked: Callable[..., Any] = function
    return checked


def shown(value: object) -> str:
    """A value as its author wrote it, cut short; the type of one that cannot be shown."""
    try:
        text = repr(value)
    except Exception:  # it is the author's: an int of too many digits, an object that is not ready yet
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= 100 else f"{text[:97]}..."


def name_of(function: object) -> str:
    """The name of a function; of another object that can be called, that of its type."""
    return str(getattr(function, "__name__", type(function).__name__))
