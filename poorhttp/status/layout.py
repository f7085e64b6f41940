"""Where each number and text of a scoreboard lies: its head, one row for each process, one cell for each thread.

Knows offsets and sizes. The supervisor writes the head (`scoreboard`), the engine the rows (`src/net/report`), and
commands about the server read both (`reader`).
"""

from __future__ import annotations

from sys import byteorder

NAME = "poorhttp-board"
"""The name of the memory (memfd_create(2)), by which a reader finds it among the descriptors of a process."""

MAGIC = b"poorhttp"
LAYOUT = 2
"""The version of what follows the magic. A reader ignores a scoreboard of another version."""

HEAD, ROW, CELL, WORD = 4096, 128, 512, 8
"""Bytes of the head, of a row without its cells, of a cell, and of a number."""

FACTS = 64
"""The offset in the head at which its text begins: length, checksum, then lines of a name and a value."""

COUNTERS = {
    4: "connections",
    5: "accepted",
    6: "requests",
    7: "refused",
    8: "cut",
    9: "1xx",
    10: "3xx",
    11: "4xx",
    12: "5xx",
    13: "dropped",
}
"""The words of a row that count: connections that are open now, and sums since the start."""

SUMS = [name for name in COUNTERS.values() if name != "connections"]

TRYING, REPLACING, SUCCEEDED, FAILED = "trying", "replacing workers", "succeeded", "failed"
"""The states of a reload."""

SPARE = 8
"""Rows beyond two for each worker: during a replacement there are more workers, and TTIN may ask for some."""


def numbers(data: bytes) -> tuple[int, ...]:
    """The words in these bytes."""
    return tuple(int.from_bytes(data[start : start + WORD], byteorder) for start in range(0, len(data), WORD))


def words(*values: int) -> bytes:
    """The bytes of these numbers, a word each."""
    return b"".join(value.to_bytes(WORD, byteorder) for value in values)
