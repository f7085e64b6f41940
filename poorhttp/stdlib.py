"""The modules of Python that the server uses: as Python has them, and no heavier than need be.

An application may change the standard library (gevent and eventlet put functions of their own into `os`, `time`,
`select` and `threading`, freezegun stops clocks), and its directory may hold modules named like those of Python. The
server takes every module that is not part of the interpreter itself from here, and so gets what Python has.

Contract: `os`, `select`, `thread` (that is `_thread`) and `time` are the server's alone, so nobody changes them.
`public_os` is that of everybody, for who wants to hear of what the application does with it.
`signal` and `socket` are the compiled modules, which have plain int for each number and weigh a tenth. The modules of
`LATE` are imported when they are first asked for; where the application's directories hold a module that is named like
one of Python's, before the application is loaded, which takes 2 MB. For the application each name means what it means
in a process of its own.
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
"""Modules that not every process needs, or only after a mistake."""

UNIMPORTANT = (*sys.builtin_module_names, "__future__", "test")
"""Names that no file of an application can take, or that no other module asks for."""

STANDARD = public_os.path.dirname(public_os.__file__)

CLOCK_REALTIME_COARSE = 5
"""clock_gettime(2): the clock on the wall, a few milliseconds behind."""

_before = frozenset(sys.modules)
"""What was imported before the server."""

held: list[str] = []
"""The directories that go before those of the standard library on `sys.path`, while they are not there."""

_hidden: dict[str, ModuleType] = {}
"""The modules of a program, named like those of Python, while they are not in `sys.modules`."""


def nameless(name: str) -> int:
    """The descriptor of an empty file that no path leads to: in memory, where `name` is shown in /proc, or, where a
    system refuses that, in the directory for temporary files. Raises OSError.
    """
    try:
        return os.memfd_create(name)
    except (AttributeError, OSError):
        from tempfile import TemporaryFile

        with TemporaryFile() as file:
            return os.dup(file.fileno())


def hold_back() -> None:
    """Import from here on nothing from the directories before those of Python: the current one under `python -m`, and
    those of PYTHONPATH. Until `make_way`.
    """
    held[:] = _strangers_places()
    del sys.path[: len(held)]


def undisturbed(do: Callable[[], T]) -> T:
    """Do something of the server's in a program that runs already. Where modules of the program are named like those of
    Python, its directories are held back, and those modules are hidden, until that is done or until `make_way`.
    """
    names = set() if held else _modules_in(_strangers_places())
    if not names:
        return do()
    hold_back()
    _hidden.update(_take_out(names))
    try:
        return do()
    finally:
        make_way()


def make_way(directory: str = "") -> None:
    """The application comes: from now on an import finds what it would if the server had imported nothing. directory:
    of the application, if that is to be the first one on `sys.path`.
    """
    sys.path[:0] = held
    held.clear()
    places = _strangers_places()
    names = _modules_in([directory, *places] if directory else places)
    if names:
        _import_now(names, len(places))
    _forget(names)
    sys.modules.update(_hidden)
    _hidden.clear()


def maker_of_greenlets() -> str:
    """The library that has made greenlets of the application's threads: "gevent" or "eventlet"; "" for none."""
    maker = _top(getattr(sys.modules["_thread"].start_new_thread, "__module__", None) or "")
    return maker if maker in ("gevent", "eventlet") else ""


def tell_of_fork() -> None:
    """Say to gevent, in a child that the server has just forked, what its own `os.fork` would: else its hub waits for
    threads that are the parent's.
    """
    reinit = getattr(sys.modules.get("gevent"), "reinit", None)
    if reinit is not None:
        reinit()


def _import_now(names: set[str], places: int) -> None:
    """Import `LATE` as if there were neither the first directories of `sys.path`, so many, nor what the application has
    imported already of modules with these names.
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
    """Remove the modules of these names that are not Python's from `sys.modules`, and return them."""
    theirs = [each for each in sys.modules if _top(each) in names and not _is_standard(sys.modules[each])]
    return {name: sys.modules.pop(name) for name in theirs}


def _forget(names: set[str]) -> None:
    """Let modules of these names be looked for once more, unless the interpreter had them before the server came."""
    for name in [each for each in sys.modules if each not in _before and _top(each) in names]:
        if _is_standard(sys.modules[name]):
            del sys.modules[name]


def _strangers_places() -> list[str]:
    """The directories that go before those of Python; none where Python's are not on `sys.path` by their name."""
    return sys.path[: sys.path.index(STANDARD)] if STANDARD in sys.path else []


def _modules_in(places: list[str]) -> set[str]:
    """The modules in these directories that have the name of one of the standard library and are found before it."""
    found = set()
    for place in places:
        try:
            files = public_os.listdir(place or ".")
        except OSError:  # not there, or a zip file
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
    """Import one of `LATE`, by its first part."""
    whole = next((each for each in LATE if _top(each) == name), "")
    if not whole:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = globals()[name] = __import__(whole)
    return module


def _compiled(name: str) -> Any:
    """A compiled module of Python, made anew: whatever somebody has done to the one that others use."""
    from _frozen_importlib import BuiltinImporter, module_from_spec
    from _frozen_importlib_external import PathFinder

    spec: Any = BuiltinImporter.find_spec(name) or PathFinder.find_spec(name, sys.path[len(_strangers_places()) :])
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _original_os() -> Any:
    module = type(sys)("os")
    compiled = {name: value for name, value in vars(sys.modules["posix"]).items() if name[0] != "_"}
    module.__dict__.update({**vars(public_os), **compiled, "environ": public_os.environ})
    return module


def _steady_time() -> Any:
    """`time`, whose clocks go on where the application has stopped those of its own: time-machine replaces even the
    code of the compiled functions `time`, `strftime` and (before its release 3) `monotonic`.
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
