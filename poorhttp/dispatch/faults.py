"""The error for a dispatch table that cannot be used, and the checks and words that all readers of a table share.

Knows neither routes nor requests.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


_TAKES_ANY = 4  # inspect.CO_VARARGS: the function has *args


class TableError(ValueError):
    """The dispatch table cannot be used. fault: which entry, and what it is; expected: what belongs there."""

    def __init__(self, fault: str, expected: str) -> None:
        super().__init__(f"{fault}; expected {expected}")
        self.fault = fault
        self.expected = expected


def checked_function(
    function: Any,
    where: str,
    expected: str = "a function of one argument, req",
    *,
    arguments: tuple[str, ...] = ("req",),
) -> Callable[..., Any]:
    """Return `function`; raises TableError if it cannot be called with so many arguments, whose names are for the
    message.
    """
    if not callable(function):
        raise TableError(f"{where} is {shown(function)}, which cannot be called", expected)
    if not takes(function, len(arguments)):
        takes_by_keyword = function.__code__.co_kwonlyargcount > len(function.__kwdefaults__ or ())
        wanted = "others by keyword" if takes_by_keyword else str(function.__code__.co_argcount)
        fault = f"{where} calls {name_of(function)} with {len(arguments)} arguments, and it takes {wanted}"
        raise TableError(fault, f"def {name_of(function)}({', '.join(arguments)})")
    checked: Callable[..., Any] = function
    return checked


def takes(function: Any, given: int) -> bool:
    """Whether a function can be called with so many arguments; True for other callable objects, which nobody checks."""
    if type(function).__name__ != "function":
        return True
    code = function.__code__
    least = code.co_argcount - len(function.__defaults__ or ())
    most = given if code.co_flags & _TAKES_ANY else code.co_argcount
    return bool(least <= given <= most and code.co_kwonlyargcount <= len(function.__kwdefaults__ or ()))


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
