"""Which bytecode is believed: none that could be older than its source.

Python compares the time of the last change in whole seconds, and the size: of two edits within a second that leave the
size alone the first one is loaded for ever, and so is a file of the same time and size under another one's name. Here
bytecode counts only where it was written two seconds after everything that can be known of its source; without it the
source is compiled. Contract: what is not the author's is left to Python.
"""

from __future__ import annotations

import sys
from importlib import _bootstrap_external as external

from poorhttp.dev.watch.reports import is_theirs, way
from poorhttp.stdlib import os, time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from poorhttp.dev.ahead.checkpoints import Checkpoints
    from poorhttp.dev.watch.reports import Teller

SETTLED = 2.0
"""Seconds."""


def distrust(teller: Teller, checkpoints: Checkpoints) -> None:
    """From now on; each module that is looked for is arrived at, then told, as its source may not be opened."""
    loader, ordinary = external.SourceFileLoader, external.SourceFileLoader.path_stats

    def path_stats(self: Any, path: str) -> Any:
        path = os.path.abspath(path)
        if is_theirs(path):
            checkpoints.arrive(path)
            teller.read(path)
            if not is_settled(path):
                raise OSError(path)  # by which the loader neither reads nor writes bytecode
        return ordinary(self, path)

    loader.path_stats = path_stats  # type: ignore[method-assign]


def is_settled(path: str) -> bool:
    """Whether there is bytecode to be believed, or none at all where it may be written; what may not is removed."""
    if sys.pycache_prefix:
        return False  # one place for every file that has ever had this name
    cache = external.cache_from_source(path)
    # A link on the way that leads to another release may lead to a file of the same time and size.
    changed = max(os.stat(path).st_mtime, *(os.lstat(each).st_ctime for each in way(path)))
    is_old = changed + SETTLED < time.time()  # once: what is believed below was removed before
    try:
        if changed + SETTLED < os.stat(cache).st_mtime:
            return True
        if is_old:
            os.unlink(cache)
    except FileNotFoundError:
        pass
    return is_old
