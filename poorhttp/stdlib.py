"""The modules of Python that the server uses, unchanged by the application, and light.

An application may change the standard library: gevent and eventlet replace functions of `os`, `time`, `select` and
`threading`, freezegun stops clocks. A directory of the application may also hold modules that are named like those of
Python. So the server takes every module that is not part of the interpreter itself from here.

`os`, `select`, `thread` (`_thread`) and `time` are copies that only the server has; `public_os` is the application's.
`signal` and `socket` are the compiled modules, which take a tenth of the memory. The modules of `LATE` are imported at
their first use; but if a directory of the application holds a module named like one of Python's, they are imported
before the application is loaded, which takes 2 MB. For the application each name means what it means without the
server.
"""

from __future__ import annotations

import os as public_os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _thread as thread
    import binascii
    import ctypes
    import difflib
    import fcntl
    import glob
    import json
    import linecache
    import os
    import pkgutil
    import select
    import signal
    import socket
    import termios
    import threading
    import time
    import tokenize
    import traceback
    import urllib.parse
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any, TypeVar

    T = TypeVar("T")

__all__ = [
    "binascii",
    "ctypes",
    "difflib",
    "fcntl",
    "glob",
    "json",
    "linecache",
    "nameless",
    "os",
    "pkgutil",
    "public_os",
    "select",
    "signal",
    "socket",
    "termios",
    "thread",
    "threading",
    "time",
    "tokenize",
    "traceback",
    "urllib",
]

LATE = (
    "binascii",
    "ctypes",
    "difflib",
    "fcntl",
    "glob",
    "json",
    "linecache",
    "pkgutil",
    "termios",
    "threading",
    "tokenize",
    "traceback",
    "urllib.parse",
)
"""Modules that only some processes need, or that are needed only after a mistake."""

UNIMPORTANT = (*sys.builtin_module_names, "__future__", "test")
"""Names that a file of the application cannot take, and one that no module imports."""

STANDARD = public_os.path.dirname(public_os.__file__)

CLOCK_REALTIME_COARSE = 5
"""clock_gettime(2): the time of day, a few milliseconds late."""

_before = frozenset(sys.modules)
"""Modules that were imported before the server."""

held: list[str] = []
"""The directories before those of the standard library, while they are taken out of `sys.path`."""

_hidden: dict[str, ModuleType] = {}
"""The modules of the calling program with names of Python's modules, while they are taken out of `sys.modules`."""


def nameless(name: str) -> int:
    """Return the descriptor of an empty file without a path, in memory (/proc shows `name`), or if the system refuses
    that, in the directory for temporary files. Raises OSError.
    """
    try:
        return os.memfd_create(name)
    except (AttributeError, OSError):
        from tempfile import TemporaryFile

        with TemporaryFile() as file:
            return os.dup(file.fileno())


def hold_back() -> None:
    """Take the directories before those of Python out of `sys.path` until `make_way`."""
    held[:] = _places_before_python()
    del sys.path[: len(held)]


def undisturbed(do: Callable[[], T]) -> T:
    """Call a function of the server in a program that runs already. If modules of the program are named like those of
    Python, its directories and these modules are hidden during the call, or until `make_way`.
    """
    names = set() if held else _modules_in(_places_before_python())
    if not names:
        return do()
    hold_back()
    _hidden.update(_take_out(names))
    try:
        return do()
    finally:
        make_way()


def make_way(directory: str = "") -> None:
    """Prepare for the application: from now on an import finds what it would find without the server. directory: that
    of the application, if it is to be the first one on `sys.path`.
    """
    sys.path[:0] = held
    held.clear()
    places = _places_before_python()
    names = _modules_in([directory, *places] if directory else places)
    if names:
        _import_now(names, len(places))
    _forget(names)
    sys.modules.update(_hidden)
    _hidden.clear()


def maker_of_greenlets() -> str:
    """Return the library that has replaced threads by greenlets: "gevent", "eventlet" or ""."""
    maker = _top(getattr(sys.modules["_thread"].start_new_thread, "__module__", None) or "")
    return maker if maker in ("gevent", "eventlet") else ""


def tell_of_fork() -> None:
    """Reset gevent in a child that the server has just forked, as gevent's own `os.fork` does."""
    reinit = getattr(sys.modules.get("gevent"), "reinit", None)
    if reinit is not None:
        reinit()


def _import_now(names: set[str], places: int) -> None:
    """Import the modules of `LATE` without the first `places` directories of `sys.path`, and as if the application had
    imported no modules with these names.
    """
    hidden = _take_out(names)
    path = sys.path[:]
    del sys.path[:places]
    try:
        for name in LATE:
            if _top(name) not in globals():
                __getattr__(_top(name))
    finally:
        sys.path[:] = path
        _forget(names)
        sys.modules.update(hidden)


def _take_out(names: set[str]) -> dict[str, ModuleType]:
    """Take the modules with these names that are not Python's out of `sys.modules`, and return them."""
    theirs = [each for each in sys.modules if _top(each) in names and not _is_standard(sys.modules[each])]
    return {name: sys.modules.pop(name) for name in theirs}


def _forget(names: set[str]) -> None:
    """Let Python's modules with these names be imported again, except those that were there before the server."""
    for name in [each for each in sys.modules if each not in _before and _top(each) in names]:
        if _is_standard(sys.modules[name]):
            del sys.modules[name]


def _places_before_python() -> list[str]:
    """Return the directories before those of Python on `sys.path`; none if Python's are not there by their name."""
    return sys.path[: sys.path.index(STANDARD)] if STANDARD in sys.path else []


def _modules_in(places: list[str]) -> set[str]:
    """Return the modules in these directories that hide one of the standard library."""
    found = set()
    for place in places:
        try:
            files = public_os.listdir(place or ".")
        except OSError:  # it does not exist, or is a zip file
            continue
        for file in files:
            if _top(file) in sys.stdlib_module_names and (
                file.endswith((".py", ".so")) or public_os.path.exists(public_os.path.join(place, file, "__init__.py"))
            ):
                found.add(_top(file))
    return found.difference(UNIMPORTANT)


def _top(name: str) -> str:
    return name.partition(".")[0]


def _is_standard(module: ModuleType) -> bool:
    origin = getattr(getattr(module, "__spec__", None), "origin", None) or ""
    return origin in ("built-in", "frozen") or (origin.startswith(f"{STANDARD}/") and "-packages/" not in origin)


def __getattr__(name: str) -> Any:
    """Import a module of `LATE`, by the first part of its name."""
    whole = next((each for each in LATE if _top(each) == name), "")
    if not whole:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = globals()[name] = __import__(whole)
    return module


def _compiled(name: str) -> Any:
    """Return a new copy of a compiled module of Python, without the changes that others made to theirs."""
    from _frozen_importlib import BuiltinImporter, module_from_spec
    from _frozen_importlib_external import PathFinder

    spec: Any = BuiltinImporter.find_spec(name) or PathFinder.find_spec(name, sys.path[len(_places_before_python()) :])
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _original_os() -> Any:
    module = type(sys)("os")
    compiled = {name: value for name, value in vars(sys.modules["posix"]).items() if name[0] != "_"}
    module.__dict__.update({**vars(public_os), **compiled, "environ": public_os.environ})
    return module


def _steady_time() -> Any:
    """Return `time` with clocks that an application cannot stop: time-machine replaces even the code of the compiled
    functions `time`, `strftime` and `monotonic`.
    """
    module = _compiled("time")
    strftime, localtime, clock_gettime = module.strftime, module.localtime, module.clock_gettime

    def now() -> float:
        seconds: float = clock_gettime(CLOCK_REALTIME_COARSE)
        return seconds

    module.time = now
    module.strftime = lambda form, moment=None: strftime(form, moment or localtime(now()))
    module.monotonic = module.perf_counter  # the same clock of the kernel
    return module


if not TYPE_CHECKING:
    import _signal as signal

    os, select, thread, time = _original_os(), _compiled("select"), _compiled("_thread"), _steady_time()
    socket = _compiled("_socket")
