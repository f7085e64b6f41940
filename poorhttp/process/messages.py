"""The messages between a supervisor and its workers: single bytes on the control pipe and on the report pipe.

Knows their meaning only. The engine declares the same bytes; a test compares them.
"""

from __future__ import annotations

# On the control pipe, to a process that serves.

DRAIN = b"\0"
"""A successor serves: send the clients away, then stop."""

STOP = b"\xff"
"""Stop gracefully. A byte of its own: it is not SIGTERM sent twice."""

INTERRUPT = b"\xfe"
"""Stop as after SIGINT, which a terminal sends to all processes."""

# On the report pipe, from a worker.

READY = b"1"
"""It serves."""

FAILED = b"F"
"""It cannot begin to serve; what follows is why (`birth.fault`)."""

STUCK = b"S"
"""A call does not return, even after RequestTimeout."""

SPENT = b"R"
"""It has answered `max_requests`."""

ASKED = b"T"
"""A TERM came to it."""

OVERLOADED = b"P"
"""All its threads are busy, and a client waits."""

CLOSED = b"C"
"""It has closed its listeners."""

LOAD = 128
"""From this number on: how busy its threads were in the last second, in percent."""
