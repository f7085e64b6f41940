"""`python -m poorhttp`, and the command `poorhttp`."""

from __future__ import annotations

from poorhttp import lean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def entry() -> NoReturn:
    """The console script."""
    lean.hold_back()
    from poorhttp import cli

    cli.entry()


if __name__ == "__main__":
    entry()
