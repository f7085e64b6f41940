"""`python -m poorhttp`, and the command `poorhttp`."""

from __future__ import annotations

from poorhttp import stdlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def entry() -> NoReturn:
    """The console script."""
    stdlib.hold_back()
    from poorhttp import cli

    cli.entry()


if __name__ == "__main__":
    entry()
