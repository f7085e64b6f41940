"""The terminal in which the server was started: whether a debugger can use it, and its settings (termios).

Knows standard input and output. Does not know what is asked in the terminal.
"""

from __future__ import annotations

import sys

from poorhttp.stdlib import os, signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def can_ask() -> bool:
    """Whether a prompt can be shown: in the background it cannot."""
    try:
        descriptor = sys.stdin.fileno()
        if not (os.isatty(descriptor) and os.isatty(sys.stdout.fileno())):
            return False
    except (AttributeError, OSError, ValueError):  # none, closed, or replaced by the application
        return False
    try:
        return os.tcgetpgrp(descriptor) == os.getpgrp()
    except OSError:
        return True  # the terminal of another session does not say


def settings() -> Any:
    """The settings of the terminal, for `restore`; None where there is no terminal."""
    try:
        from poorhttp.stdlib import termios

        return termios.tcgetattr(sys.stdin.fileno())
    except (AttributeError, ImportError, OSError, ValueError, termios.error):
        return None


def restore(before: Any) -> None:
    """Set the terminal as it was, also from the background: a debugger that is killed leaves it without echo."""
    if before is not None:
        from poorhttp.stdlib import termios

        mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTTOU])
        try:
            termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, before)
        except (OSError, ValueError, termios.error):
            pass
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
