"""A record of the imports and changes of the author's code while it is loaded, by which the next process imports in
advance.

Knows on which changes an import of others' modules may depend. Does not know when a process is started.
"""

from __future__ import annotations

import sys
from json import dumps  # bound here, as an application may replace `json.dumps`

from poorhttp.dev.ahead import monkeypatches, process_state
from poorhttp.dev.watch.paths import is_authors
from poorhttp.stdlib import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import FrameType
    from typing import Any

    from poorhttp.dev.ahead.preload import Preloaded

_NATIVE = (
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
"""Beginnings of variables that compiled code reads, of which Python does not know."""

_MOST = 4000
"""Modules that are imported in advance."""


class Recorder:
    """The record, from the start of the load on. preloaded: the imports before."""

    def __init__(self, preloaded: Preloaded) -> None:
        self._preloaded = preloaded
        self._set: dict[str, str] = {}  # variable -> the author's file that has set it
        self._patchable = process_state.patchable()
        self._known = set(sys.modules)
        self._path = {os.path.abspath(place) for place in sys.path}
        self._order = [place for place in sys.path if not _is_authors_place(place)]
        self._finders = sys.meta_path.copy()
        self._is_over = False
        self.begin()
        sys.addaudithook(self._hear)

    def begin(self) -> None:
        """The state of the process is now as the configuration wants it: later changes are the application's."""
        self._surroundings = process_state.surroundings()

    def outcome(self, environ: Iterable[str]) -> bytes:
        """The record as JSON: modules to import in advance the next time; forbidden: those that are the author's;
        variables that the author sets (environ: by the configuration); why nothing may be imported in advance. After a
        cold start also what was changed: if that is new, another try is worth it.
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
            if any(_is_authors_place(place) for place in places):
                forbidden.append(name)
            elif isinstance(file, str) or file is None:
                modules.append(name)
        why = self._why() or (f"more than {_MOST} modules" if len(modules) > _MOST else "")
        record: dict[str, Any] = {
            "modules": modules[:_MOST],
            "forbidden": forbidden,
            "variables": [*self._set, *environ],
            "why": why,
        }
        if not self._preloaded.modules:
            name = monkeypatches.authors() if modules else ""
            record["why"] = why or (f"{name} was replaced" if name else "")
            record["changed"] = [*self._changes(), monkeypatches.digest()]
        return dumps(record).encode()

    def conflict(self, environ: Iterable[str]) -> str:
        """Why this process should not have imported anything in advance; "" if it may. The author's code may do what it
        did not do before. environ: the variables that the configuration sets.
        """
        preloaded = self._preloaded
        if not preloaded.packages:
            return ""
        self._is_over = True
        why = preloaded.conflict([*self._set, *environ]) or self._why()
        if why:
            return why
        name = preloaded.snapshot.patched() if preloaded.snapshot is not None else ""
        preloaded.snapshot = None  # its memory is not needed any more
        if name:
            return f"{name} was replaced"
        changes = self._changes()
        if changes:
            return f"the application changes {changes[0]}"
        if sys.meta_path[: len(self._finders)] != self._finders:
            return "modules are found in another way"
        for name, module in preloaded.modules.items():
            if sys.modules.get(name) is not module:
                return f"{name} is another module now"
        name = self._hidden()
        return f"{name} is the application's too" if name else ""

    def replaced(self) -> str:
        """The first replaced part of the standard library, as a reason; "" for none."""
        now = process_state.patchable()
        patched = [name for name, what in now.items() if self._patchable.get(name, what) is not what]
        return f"{patched[0]} was replaced" if patched else ""

    def _hidden(self) -> str:
        """A package that was imported in advance, while the author has a module of that name; "" for none."""
        for place in map(os.path.abspath, sys.path):
            if (place in self._path and not _is_authors_place(place)) or not os.path.isdir(place):
                continue
            for name in self._preloaded.packages.intersection(each.partition(".")[0] for each in os.listdir(place)):
                file = getattr(sys.modules.get(name), "__file__", None) or ""
                path = os.path.join(place, name)
                if not file.startswith(path) and (os.path.exists(f"{path}.py") or os.path.isdir(path)):
                    return name
        return ""

    def _why(self) -> str:
        native = [name for name in self._set if name.startswith(_NATIVE)]
        return f"{os.path.basename(self._set[native[0]])} sets {native[0]}" if native else self.replaced()

    def _changes(self) -> list[str]:
        now = process_state.surroundings()
        changes = [name for name, was in self._surroundings.items() if now[name] != was]
        places = [place for place in dict.fromkeys(sys.path) if place in self._order]
        return [*changes, "the order of sys.path"] if places != list(dict.fromkeys(self._order)) else changes

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("os.putenv", "os.unsetenv") and not self._is_over:
            file = author_of(sys._getframe(1))
            if file:
                self._set[os.fsdecode(arguments[0])] = file


def author_of(frame: FrameType | None) -> str:
    """The author's file whose code runs in this frame or above it; "" where the import of another module does."""
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith("<frozen importlib"):
            return ""
        if not file.startswith("<") and is_authors(os.path.abspath(file)):
            return file
        frame = frame.f_back
    return ""


def _is_authors_place(place: str) -> bool:
    return is_authors(os.path.join(os.path.abspath(place), ""))
