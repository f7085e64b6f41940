"""The state of this process beyond its modules: what a fork would share with its parent, and what modules may depend
on.

Knows where Python and the kernel keep it. Does not know what a difference means. A look takes some milliseconds and
runs no code of the application.
"""

from __future__ import annotations

import sys
from _contextvars import copy_context
from _locale import LC_ALL, setlocale

from poorhttp.stdlib import os, signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PATCHED = (
    "socket.socket",
    "threading.Thread.start",
    "time.sleep",
    "select.select",
    "ssl.SSLContext",
    "os.fork",
    "logging._loggerClass",
)
"""The parts of the standard library that libraries such as gevent replace."""

_RANDOM = {"random": "getstate", "numpy.random": "get_state"}
"""Modules that are seeded anew in each fork, and their function that gives the state of the generator."""


def open_descriptors() -> set[tuple[str, str]]:
    """The open descriptors, each with the file behind it."""
    found = set()
    for each in os.listdir("/proc/self/fd"):
        try:
            found.add((each, os.readlink(f"/proc/self/fd/{each}")))
        except FileNotFoundError:
            continue
    return found


def has_threads() -> bool:
    return len(os.listdir("/proc/self/task")) > 1


def has_children() -> bool:
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
        return bool(file.read().strip())


def shared_memory() -> set[str]:
    """The memory to which a fork would write too: locks between processes are kept there."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        return {line for line in file if line.split(maxsplit=2)[1] == "rw-s"}


def signal_handlers() -> list[Any]:
    return [signal.getsignal(number) for number in range(1, 32)]


def random_state() -> dict[str, Any]:
    """The state of the generators of random numbers."""
    found = {}
    for name, what in _RANDOM.items():
        state: Any = getattr(sys.modules.get(name), what, tuple)()
        found[name] = [each.tobytes() if hasattr(each, "tobytes") else each for each in state]
    return found


def patchable() -> dict[str, Any]:
    """The objects of the standard library that are often replaced, by name."""
    found = {}
    for name in _PATCHED:
        place, *parts = name.split(".")
        what: Any = sys.modules.get(place)
        for part in parts:
            what = getattr(what, part, None)
        if what is not None:
            found[name] = what
    return found


def surroundings() -> dict[str, Any]:
    """State of the process that modules may read when they are imported, by names for the log."""
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
    filters: list[Any] = getattr(sys.modules.get("warnings"), "filters", [])  # the module may not be loaded
    return filters


def _decimal() -> list[Any]:
    """The decimal context of threads to come, and of this one if it has one; `getcontext` would make one."""
    default: Any = getattr(sys.modules.get("decimal"), "DefaultContext", None)
    if default is None:
        return []
    own = [context for variable, context in copy_context().items() if variable.name == "decimal_context"]
    parts = "prec", "rounding", "Emin", "Emax", "capitals", "clamp", "traps"
    return [repr(getattr(context, part)) for context in (default, *(own or [default])) for part in parts]
