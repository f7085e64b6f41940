"""Which bytecode Python may load: none that could be older than its source.

Python compares size and time in whole seconds. After two edits of the same size within one second it would load the
bytecode of the first edit for ever. Here bytecode of the author's counts only if it was written two seconds after the
last change of its source.
"""

from __future__ import annotations

import sys
from importlib import _bootstrap_external as external

from poorhttp.dev.watch.paths import is_authors, links_to
from poorhttp.stdlib import os, time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

SETTLED = 2.0
"""Seconds."""


def check_bytecode(arrive: Callable[[str], None]) -> None:
    """Check bytecode from now on. arrive: called with the path of each module of the author's before it is loaded."""
    loader, ordinary = external.SourceFileLoader, external.SourceFileLoader.path_stats

    def path_stats(self: Any, path: str) -> Any:
        path = os.path.abspath(path)
        if is_authors(path):
            arrive(path)
            if not is_settled(path):
                raise OSError(path)  # the loader then neither reads nor writes bytecode
        return ordinary(self, path)

    loader.path_stats = path_stats  # type: ignore[method-assign]


def is_settled(path: str) -> bool:
    """Whether Python may load or write the bytecode of this source; old bytecode is removed first."""
    if sys.pycache_prefix:
        return False  # one place for every file that has ever had this name
    cache = external.cache_from_source(path)
    # When a link is switched to another release, the file there may have the same time and size.
    changed = max(os.stat(path).st_mtime, *(os.lstat(each).st_ctime for each in links_to(path)))
    is_old = changed + SETTLED < time.time()  # read once: bytecode is believed below only if it was checked here
    try:
        if changed + SETTLED < os.stat(cache).st_mtime:
            return True
        if is_old:
            os.unlink(cache)
    except FileNotFoundError:
        pass
    return is_old
