"""`signal` and `socket` without enum, and a file without a name.

The modules of these names wrap the compiled ones only to give their numbers names; the enum module and what it makes
weigh more than all of this package. Contract: numbers are plain int, and a socket is no context manager.
"""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    import socket
else:
    import _signal as signal
    import _socket as socket

__all__ = ["nameless", "signal", "socket"]


def nameless(name: str) -> int:
    """The descriptor of an empty file that no path leads to: in memory, where `name` is shown in /proc, or, where a
    system refuses that, in the directory for temporary files. Raises OSError.
    """
    try:
        return os.memfd_create(name)
    except (AttributeError, OSError):
        from tempfile import TemporaryFile

        with TemporaryFile() as file:
            return os.dup(file.fileno())
