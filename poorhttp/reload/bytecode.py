"""Bytecode that may be older than its source: it is compiled anew in a trial and in a new program.

Knows the loader of the interpreter. Does not know when code is loaded.
"""

from __future__ import annotations

from poorhttp.stdlib import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MTIME_RESOLUTION = 0.02
"""Seconds: a file system may give files the same time that were written within this time."""


def recompile_edited() -> None:
    """Compile anew what was edited since its bytecode was written, or just before.

    The interpreter compares whole seconds and sizes, so that it would pass over an edit of the same second and size, as
    a script that deploys makes it.
    """
    from importlib import _bootstrap_external as external

    loader, trusting = external.SourceFileLoader, external.SourceFileLoader.path_stats

    def path_stats(self: Any, path: str) -> Any:
        stats = trusting(self, path)
        try:
            written = os.stat(external.cache_from_source(path)).st_mtime
        except (NotImplementedError, OSError):
            return stats
        if stats["mtime"] >= written - MTIME_RESOLUTION:
            # A time that is not the one in the bytecode, whatever that is.
            return {**stats, "mtime": int.from_bytes(os.urandom(4), "big")}
        return stats

    loader.path_stats = path_stats  # type: ignore[method-assign]
