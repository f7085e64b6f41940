"""Which names in a directory matter, by the name alone: Python files and `.env` files do, an editor's own files do
not."""

from __future__ import annotations

from poorhttp.dev.watch.paths import is_authors
from poorhttp.stdlib import os


def listing(directory: str) -> frozenset[str]:
    """The names in a directory, without those that editors make for themselves; none where it cannot be read."""
    try:
        return frozenset(name for name in os.listdir(directory) if is_plain(name) or is_environment(name))
    except OSError:
        return frozenset()


def is_plain(name: str) -> bool:
    """Whether the author may have given this name, rather than an editor or Python."""
    return name[0] not in ".#" and name[-1] not in "~#" and "___jb_" not in name and name != "__pycache__"


def is_environment(name: str) -> bool:
    """Whether it is `.env`, `.env.local`, `my.env` or `.flaskenv`: libraries look whether these exist, for which
    there is no audit event.
    """
    is_named_so = name == ".flaskenv" or name.startswith(".env.") or name.endswith(".env")
    return is_named_so and name[:2] != ".#" and name[-1] != "~" and name[-3:-1] != "sw" and "___jb_" not in name


def may_hold_modules(directory: str) -> bool:
    """Whether the author may keep modules in this directory."""
    return is_plain(os.path.basename(directory)) and is_authors(os.path.join(directory, ""))
