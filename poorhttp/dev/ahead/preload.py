"""Modules that are not the author's, imported in advance: when that is as good as importing them in their turn.

Knows what a loaded application tells of that, and how the import of others' modules may depend on the author's code.
Does not know when a process is started, nor where it is found what was changed (`altered`). Contract: none of the
author's code is run in advance; where the outcome could be another one than after a cold start, nothing is imported in
advance, and it is said why.
"""

from __future__ import annotations

import codecs
import gc
import sys
from json import dumps  # whoever replaces json.dumps does not replace this one

from poorhttp.dev.ahead import altered
from poorhttp.dev.watch.reports import is_theirs
from poorhttp.stdlib import os, signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import FrameType
    from typing import Any

NATIVE = (
    "OPENBLAS_",
    "OMP_",
    "MKL_",
    "BLIS_",
    "VECLIB_",
    "NUMEXPR_",
    "KMP_",
    "CUDA_",
    "TF_",
    "MALLOC_",
    "LD_",
    "PYTHON",
)
"""How the names of variables begin that compiled code reads, which nobody hears of."""

PATCHED = (
    "socket.socket",
    "threading.Thread.start",
    "time.sleep",
    "select.select",
    "ssl.SSLContext",
    "os.fork",
    "logging._loggerClass",
)
"""What is replaced by those who make the standard library another one."""

CHILDREN = tuple(
    os.path.join(os.path.dirname(os.__file__), *each.split("/"))
    for each in ("ctypes/util.py", "multiprocessing/", "platform.py", "subprocess.py", "uuid.py")
)
"""Who looks at the environment for the sake of a child process."""

EVERY = ""
"""In `_read`: somebody has copied all of them."""

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC

MOST = 4000

_advance: set[str] = set()
"""The modules, without their parts, that this process has imported in advance."""

_read: set[str] = set()
"""The variables that were looked at meanwhile."""

_names: list[altered.Names] = []
"""What was there of functions and classes after that."""

_found: dict[str, Any] = {}
"""The modules that were there then, and None for each that was asked for in vain."""


class Recorder:
    """From the word to load on: what was imported, and what the author's code did to what others' modules look at."""

    def __init__(self) -> None:
        self._set: dict[str, str] = {}  # variable -> file that set it
        self._patchable = _patchable()
        self._known = set(sys.modules)
        self._path = {os.path.abspath(place) for place in sys.path}
        self._order = [place for place in sys.path if not is_theirs(os.path.join(os.path.abspath(place), ""))]
        self._finders = sys.meta_path.copy()
        self._is_over = False
        self.begin()
        sys.addaudithook(self._hear)

    def begin(self) -> None:
        """What belongs to the process is, for now, as the configuration wants it."""
        self._surroundings = altered.surroundings()

    def outcome(self, environ: Iterable[str]) -> bytes:
        """What is to be imported in advance too the next time, which modules must not be among it, which variables the
        author sets (environ: by the configuration), and why nothing may be imported in advance, "" where it may. After
        a cold start also what has changed, by whomever: another order than before is worth another try.
        """
        self._is_over = True
        modules, forbidden = [], []
        for name in [each for each in sys.modules if each not in self._known]:
            module = sys.modules[name]
            file, spec = getattr(module, "__file__", None), getattr(module, "__spec__", None)
            if spec is None or name.partition(".")[0] in ("poorhttp", "__main__"):
                continue
            # A directory without __init__.py has no file.
            places = [file] if isinstance(file, str) else getattr(spec, "submodule_search_locations", None) or ()
            if any(is_theirs(os.path.join(os.path.abspath(place), "")) for place in places):
                forbidden.append(name)
            elif isinstance(file, str) or file is None:
                modules.append(name)
        why = self._why() or (f"more than {MOST} modules" if len(modules) > MOST else "")
        told: dict[str, Any] = {
            "modules": modules[:MOST],
            "forbidden": forbidden,
            "variables": [*self._set, *environ],
            "why": why,
        }
        if not _found:
            name = altered.authors() if modules else ""
            told["why"] = why or (f"{name} was replaced" if name else "")
            told["changed"] = [*self._changes(), altered.digest()]
        return dumps(told).encode()

    def conflict(self, environ: Iterable[str]) -> str:
        """Why this process should not have imported anything in advance, "" where it may or has not. The
        author's code may do now what it did not do before; or have a module of the same name in a directory that goes
        before. environ: variables that the configuration sets.
        """
        if not _advance:
            return ""
        self._is_over = True
        why = _common([*self._set, *environ]) or self._why()
        if why:
            return why
        name = next((each.other() for each in _names), "")
        _names.clear()  # what it holds may go
        if name:
            return f"{name} was replaced"
        changes = self._changes()
        if changes:
            return f"the application changes {changes[0]}"
        if sys.meta_path[: len(self._finders)] != self._finders:
            return "modules are found in another way"
        for name, module in _found.items():
            if sys.modules.get(name) is not module:
                return f"{name} is another module now"
        for place in map(os.path.abspath, sys.path):
            if (place in self._path and not is_theirs(os.path.join(place, ""))) or not os.path.isdir(place):
                continue
            for name in _advance.intersection(each.partition(".")[0] for each in os.listdir(place)):
                file = getattr(sys.modules.get(name), "__file__", None) or ""
                path = os.path.join(place, name)
                if not file.startswith(path) and (os.path.exists(f"{path}.py") or os.path.isdir(path)):
                    return f"{name} is the application's too"
        return ""

    def replaced(self) -> str:
        """What of the standard library was replaced, as a reason; "" where nothing was."""
        patched = [name for name, what in _patchable().items() if self._patchable.get(name, what) is not what]
        return f"{patched[0]} was replaced" if patched else ""

    def _why(self) -> str:
        native = [name for name in self._set if name.startswith(NATIVE)]
        return f"{os.path.basename(self._set[native[0]])} sets {native[0]}" if native else self.replaced()

    def _changes(self) -> list[str]:
        now = altered.surroundings()
        changes = [name for name, was in self._surroundings.items() if now[name] != was]
        places = [place for place in dict.fromkeys(sys.path) if place in self._order]
        return [*changes, "the order of sys.path"] if places != list(dict.fromkeys(self._order)) else changes

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("os.putenv", "os.unsetenv") and not self._is_over:
            file = author(sys._getframe(1))
            if file:
                self._set[os.fsdecode(arguments[0])] = file


def import_all(order: dict[str, Any]) -> tuple[str, str, list[str]]:
    """Import in advance: why that is not as good as importing in turn, "" where it is; why a process that has done so
    had better not be forked; and which modules failed, as they need what the author's code does before. Where there are
    any, this process is not to be used: another one does without them, so that nobody may ask for them there.
    """
    environ_type: Any = type(os.environ)
    ordinary, iterating = environ_type.__getitem__, environ_type.__iter__
    between = os.getenv.__code__.co_filename, environ_type.get.__code__.co_filename

    def note(name: str) -> None:
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and frame.f_code.co_filename in between:
            frame = frame.f_back
        if frame is not None and not frame.f_code.co_filename.startswith(CHILDREN):
            _read.add(name)

    def noting(self: Any, name: Any) -> Any:
        if type(name) in (str, bytes):
            note(os.fsdecode(name))
        return ordinary(self, name)

    def noting_all(self: Any) -> Any:
        note(EVERY)
        return iterating(self)

    patchable, handlers, shared = _patchable(), handlers_now(), shared_memory()
    descriptors, why = _open_descriptors(), ""
    failed: list[str] = []
    asked: set[Any] = set()
    written: list[str] = []
    is_over = False

    def hear(event: str, arguments: tuple[Any, ...]) -> None:
        if is_over:
            return
        if event == "import":
            asked.add(arguments[0])
        elif event == "os.mkdir" or (event == "open" and arguments[2] & WRITING):
            path = arguments[0]
            if type(path) is str and is_theirs(os.path.join(os.path.abspath(path), "")):  # not bytecode
                written.append(path)

    sys.addaudithook(hear)
    environ_type.__getitem__, environ_type.__iter__ = noting, noting_all
    try:
        for name in order["modules"]:
            if name not in sys.modules:
                _advance.add(name.partition(".")[0])
                try:
                    __import__(name)
                except ImportError:
                    asked.discard(name)  # a part of a module that is made while another one is imported
                    continue
                except Exception:
                    failed.append(name)
                    continue
                if not why and len(os.listdir("/proc/self/task")) > 1:
                    why = f"{name} starts threads"
                if not why and not descriptors.issuperset(_open_descriptors()):
                    why = f"{name} keeps descriptors"
                if not why and written:
                    why = f"{name} writes files"  # a directory of its own, perhaps, which the first to end removes
    except BaseException as error:
        return f"{name}: {type(error).__name__}", "", []
    finally:
        is_over = True
        environ_type.__getitem__, environ_type.__iter__ = ordinary, iterating
    _found.update(dict.fromkeys(asked) | sys.modules)
    needy = asked.intersection(order["without"])
    refused = f"others ask for {min(needy)}, which needs the application" if needy else _refused(order, asked)
    if not refused and _patchable() != {**_patchable(), **patchable}:
        refused = "the standard library was changed"
    if not refused and handlers_now() != handlers:
        refused = "signal handlers were changed"
    if not why and has_children():
        why = "it has started other processes"
    if not why and not shared.issuperset(shared_memory()):
        why = "it has mapped memory"
    if "socket" in sys.modules:
        codecs.lookup("idna")  # else the first request loads it, for the name of its host
    _names[:] = [altered.Names()]
    gc.collect()
    gc.freeze()
    return refused, why, failed


def begin_anew() -> None:
    """In a fork: what a new process would have of its own, beyond what Python sees to."""
    from importlib import invalidate_caches

    invalidate_caches()
    random: Any = sys.modules.get("numpy.random")
    if random is not None:
        random.seed()


def _refused(order: dict[str, Any], asked: set[Any]) -> str:
    common = _common(order["variables"])
    if common:
        return common
    theirs = asked.intersection(order["forbidden"])
    if theirs:
        return f"{min(theirs)} is the application's"
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        is_file = isinstance(file, str) and name.partition(".")[0] != "poorhttp"
        if name in order["forbidden"] or (is_file and is_theirs(os.path.abspath(str(file)))):
            return f"{name} is the application's"
    return ""


def _common(names: list[str]) -> str:
    """Why these variables stand against it, "" where they do not."""
    common = names if EVERY in _read else _read.intersection(names)
    return f"the application sets {min(common)}, which others read when they are imported" if common else ""


def _open_descriptors() -> set[str]:
    """Without the one by which they are listed."""
    return {each for each in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{each}")}


def has_children() -> bool:
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
        return bool(file.read().strip())


def shared_memory() -> set[str]:
    """What a fork would write to as well: locks between processes are there."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        return {line for line in file if line.split(maxsplit=2)[1] == "rw-s"}


def handlers_now() -> list[Any]:
    return [signal.getsignal(number) for number in range(1, 32)]


def _patchable() -> dict[str, Any]:
    found = {}
    for name in PATCHED:
        place, *parts = name.split(".")
        what: Any = sys.modules.get(place)
        for part in parts:
            what = getattr(what, part, None)
        if what is not None:
            found[name] = what
    return found


def author(frame: FrameType | None) -> str:
    """The author's file that does this, "" where it is done by the import of somebody else's module."""
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith("<frozen importlib"):
            return ""
        if not file.startswith("<") and is_theirs(os.path.abspath(file)):
            return file
        frame = frame.f_back
    return ""
