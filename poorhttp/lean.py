"""`signal` and `socket` without enum.

The modules of these names wrap the compiled ones only to give their numbers names; the enum module and what it makes
weigh more than all of this package. Contract: numbers are plain int, and a socket is no context manager.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    import socket
else:
    import _signal as signal
    import _socket as socket

__all__ = ["signal", "socket"]
