"""How processes end: the reason in words, and a child that ends with its parent."""

from __future__ import annotations

from poorhttp._engine import on_parent_death
from poorhttp.stdlib import os, signal


def reason(code: int, killed: bool = False) -> str:
    """Say why a process ended; code as of `os.waitstatus_to_exitcode`; killed: by this supervisor, or by itself."""
    if code >= 0:
        return f"exit code {code}"
    return f"killed by {name_of(-code)}{' (perhaps out of memory)' if -code == signal.SIGKILL and not killed else ''}"


def end_with(parent: int | None) -> None:
    """Let the kernel kill this process when its parent ends, whatever it is doing then; at once where that is gone.
    None: no more.
    """
    on_parent_death(parent is not None)
    if parent not in (None, os.getppid()):
        os._exit(1)


def name_of(signum: int) -> str:
    """The name of a signal, such as SIGKILL."""
    names = [name for name, number in vars(signal).items() if name[:3] == "SIG" and name[3] != "_" and number == signum]
    return min(names, default=f"signal {signum}")
