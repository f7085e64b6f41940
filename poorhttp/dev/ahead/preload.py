"""Modules of others that are imported before the author's code: the import, and whether it is as good as a later one.

Knows what an import may depend on (environment variables, other modules), and what makes a process unfit to be forked.
Does not know when a process is started, nor what the application does later (see `recorder`).
"""

from __future__ import annotations

import codecs
import gc
import sys
from contextlib import contextmanager

from poorhttp.app.places import PYTHON
from poorhttp.dev.ahead import monkeypatches, process_state
from poorhttp.dev.watch.paths import is_authors
from poorhttp.stdlib import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import FrameType
    from typing import Any

_FOR_CHILDREN = tuple(
    os.path.join(PYTHON, *each.split("/"))
    for each in ("ctypes/util.py", "multiprocessing/", "platform.py", "subprocess.py", "uuid.py")
)
"""Code that reads the environment to pass it to a child process."""

_EVERY = ""
"""Stands in `Preloaded.variables` if all variables were read."""

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


class Preloaded:
    """The imports in advance of a process. packages: the top names of the modules. variables: those of the environment
    that were read meanwhile. modules: `sys.modules` afterwards, and None for each name that was asked for in vain.
    snapshot: the functions and classes there. refused: why a cold start is needed. unfit: why this process must not be
    forked. failed: modules that need the author's code first; a process that has met one is not used, because others
    may ask for that module later.
    """

    def __init__(self) -> None:
        self.packages: set[str] = set()
        self.variables: set[str] = set()
        self.modules: dict[str, Any] = {}
        self.snapshot: monkeypatches.Snapshot | None = None
        self.refused = self.unfit = ""
        self.failed: list[str] = []

    def conflict(self, names: Iterable[str]) -> str:
        """The reason, if one of these variables, which the application sets, was read; else ""."""
        common = [*names] if _EVERY in self.variables else self.variables.intersection(names)
        return f"the application sets {min(common)}, which others read when they are imported" if common else ""


def import_all(order: dict[str, Any]) -> Preloaded:
    """Import modules in advance. order: modules; forbidden: those that are the author's; without: those that failed
    before; variables: those that the author sets.
    """
    done, seen = Preloaded(), _Seen()
    patchable, handlers = process_state.patchable(), process_state.signal_handlers()
    shared, descriptors = process_state.shared_memory(), process_state.open_descriptors()
    name = ""
    try:
        with _noted(done.variables):
            for name in order["modules"]:
                if name not in sys.modules:
                    done.packages.add(name.partition(".")[0])
                    is_done = _import(name, seen, done.failed)
                    if is_done and not done.unfit:
                        done.unfit = _unfit(name, descriptors, seen.written)
    except BaseException as error:
        done.refused, done.failed = f"{name}: {type(error).__name__}", []
        return done
    finally:
        seen.is_over = True
    done.modules.update(dict.fromkeys(seen.asked) | sys.modules)
    done.refused = _needy(order, seen.asked) or done.conflict(order["variables"]) or _authors(order, seen.asked)
    if not done.refused and process_state.patchable() != {**process_state.patchable(), **patchable}:
        done.refused = "the standard library was changed"
    if not done.refused and process_state.signal_handlers() != handlers:
        done.refused = "signal handlers were changed"
    if not done.unfit and process_state.has_children():
        done.unfit = "it has started other processes"
    if not done.unfit and not shared.issuperset(process_state.shared_memory()):
        done.unfit = "it has mapped memory"
    if "socket" in sys.modules:
        codecs.lookup("idna")  # else the first request loads it, for the name of its host
    done.snapshot = monkeypatches.Snapshot()
    gc.collect()
    gc.freeze()
    return done


def begin_anew() -> None:
    """In a fork: renew what a new process would have of its own, beyond what Python does itself."""
    from importlib import invalidate_caches

    invalidate_caches()
    random: Any = sys.modules.get("numpy.random")
    if random is not None:
        random.seed()


class _Seen:
    """A record of imports: the modules they ask for, and the files of the author's that they write."""

    def __init__(self) -> None:
        self.asked: set[Any] = set()
        self.written: list[str] = []
        self.is_over = False
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.is_over:
            return
        if event == "import":
            self.asked.add(arguments[0])
        elif event == "os.mkdir" or (event == "open" and arguments[2] & _WRITING):
            path = arguments[0]
            if type(path) is str and is_authors(os.path.join(os.path.abspath(path), "")):  # bytecode is not
                self.written.append(path)


@contextmanager
def _noted(variables: set[str]) -> Iterator[None]:
    """Note which variables of the environment are read."""
    environ_type: Any = type(os.environ)
    ordinary, iterating = environ_type.__getitem__, environ_type.__iter__
    between = os.getenv.__code__.co_filename, environ_type.get.__code__.co_filename

    def note(name: str) -> None:
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and frame.f_code.co_filename in between:
            frame = frame.f_back
        if frame is not None and not frame.f_code.co_filename.startswith(_FOR_CHILDREN):
            variables.add(name)

    def noting(self: Any, name: Any) -> Any:
        if type(name) in (str, bytes):
            note(os.fsdecode(name))
        return ordinary(self, name)

    def noting_all(self: Any) -> Any:
        note(_EVERY)
        return iterating(self)

    environ_type.__getitem__, environ_type.__iter__ = noting, noting_all
    try:
        yield
    finally:
        environ_type.__getitem__, environ_type.__iter__ = ordinary, iterating


def _import(name: str, seen: _Seen, failed: list[str]) -> bool:
    try:
        __import__(name)
    except ImportError:
        seen.asked.discard(name)  # a part of a module that is made while another one is imported
    except Exception:
        failed.append(name)
    else:
        return True
    return False


def _unfit(name: str, descriptors: set[tuple[str, str]], written: list[str]) -> str:
    """Why the process must not be forked after the import of this module; "" if it may."""
    if process_state.has_threads():
        return f"{name} starts threads"
    if not descriptors.issuperset(process_state.open_descriptors()):
        return f"{name} keeps descriptors"
    if written:
        return f"{name} writes files"  # perhaps a directory of its own, which the first process to end removes
    return ""


def _needy(order: dict[str, Any], asked: set[Any]) -> str:
    needy = asked.intersection(order["without"])
    return f"others ask for {min(needy)}, which needs the application" if needy else ""


def _authors(order: dict[str, Any], asked: set[Any]) -> str:
    """The reason, if a module of the author's was imported or asked for; else ""."""
    forbidden = asked.intersection(order["forbidden"])
    if forbidden:
        return f"{min(forbidden)} is the application's"
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        is_file = isinstance(file, str) and name.partition(".")[0] != "poorhttp"
        if name in order["forbidden"] or (is_file and is_authors(os.path.abspath(str(file)))):
            return f"{name} is the application's"
    return ""
