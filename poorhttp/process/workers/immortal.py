"""The application made immortal before workers are forked (PEP 683), so that they share more of its memory.

Knows which types of objects may be immortal, and where that can be had. Does not know how an object is marked
(`poorhttp._engine.make_immortal`), nor when workers are forked.
A worker that uses an object counts a reference to it, which is written into the object, and each page that a worker
writes to becomes its own. To an immortal object no references are counted. It is never freed, so no callback of a weak
reference to it is ever called. Objects that hold more than memory are left out: those of types in C (files, sockets,
locks, connections), whatever is being executed (frames, generators, coroutines), and those with `__del__`.
"""

from __future__ import annotations

import gc
import sys

from poorhttp import _engine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from poorhttp.config.model import Config


def share(settings: Config) -> str:
    """Let the workers that are forked from now on share what is loaded. Returns as `make`."""
    gc.collect()
    told = make(settings)
    gc.freeze()  # no collection writes to what is loaded now
    _engine.give_back_memory()
    return told


def make(settings: Config) -> str:
    """Make the objects that are there immortal. Returns what `status` is to tell: "yes", or "no" and why."""
    for name in "preload", "immortal":
        if not getattr(settings, name):
            return f"no, {name} = no"
    gc.unfreeze()  # the application may have frozen its objects, and then they are not found
    try:
        count = _engine.make_immortal(_kinds(), _Python)
    except Exception as error:  # of an audit hook that lets nobody look at the objects; some may be immortal already
        return f"no, {type(error).__name__}: {error}"
    return "no, it needs CPython 3.12 or 3.13 with the GIL" if count is None else "yes"


class _Python:
    """A class in Python, as an example."""

    def method(self) -> None:
        """A method, as an example."""


def _kinds() -> list[type]:
    """The types that may be immortal, but for classes in Python."""

    def function() -> Callable[[], object]:
        return lambda: function

    values = type, str, bytes, int, float, complex, tuple, frozenset, list, dict, set, slice, range
    (cell,) = function().__closure__ or ()
    code = (function, function.__code__, cell, _Python().method, len, sys)
    of_classes = (str.join, str.__len__, vars(dict)["fromkeys"], vars(type)["__base__"], vars(type)["__name__"])
    annotations = (list[int], int | str)
    return [
        *(object, property, classmethod, staticmethod, *values),
        *map(type, (*code, *of_classes, *annotations, vars(type))),
    ]
