"""What this server does, in memory that whoever may look at this process can read: its head, and who has which row.

Knows where a row lies. Does not know what is in one (the engine writes it, `src/net/report/board.rs`;
`poorhttp.status.calls` reads it), nor how it is shown (`poorhttp.status.reader`).
Contract: the memory is sealed in size, belongs to nobody but these processes and is gone with them. A slot is one
worker's until `free`; what it has counted is not lost then. Nothing here is done for a request.
"""

from __future__ import annotations

from sys import byteorder

from poorhttp.stdlib import binascii, os, time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from poorhttp.config.config import Config

NAME = "poorhttp-board"
MAGIC = b"poorhttp"
LAYOUT = 2
"""Of what comes after the magic; another one is not read."""

HEAD, ROW, CELL, WORD = 4096, 128, 512, 8
"""Bytes: before the first row; of a row before its cells; of each cell, one for each thread; of a number."""

FACTS = 64
"""Where the facts begin in the head: length and checksum of their text, then lines of a name and a value."""

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
"""The words of a row that count; all but the connections, which are open now, are sums."""

SUMS = [name for name in COUNTERS.values() if name != "connections"]

TRYING, REPLACING, SUCCEEDED, FAILED = "trying", "replacing workers", "succeeded", "failed"
"""How a reload stands."""

SPARE = 8
"""Rows beyond two for each worker: while workers are replaced there are more, and TTIN may ask for some."""


class Row:
    """One process's row, as the engine wants it."""

    def __init__(self, descriptor: int, offset: int) -> None:
        self.descriptor = descriptor
        self.offset = offset

    def answer(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Tell a client what this server does: a WSGI application."""
        from poorhttp.status import reader

        return reader.answer(self.descriptor, environ, start_response)


class Board:
    """That of a server of so many processes, each with so many threads that are looked at. Raises OSError."""

    def __init__(self, processes: int, threads: int) -> None:
        from poorhttp.stdlib import fcntl

        self._rows = 2 * processes + SPARE
        self._size = ROW + threads * CELL
        self._pids: dict[int, int] = {}  # slot -> process
        self._facts: dict[str, str] = {"pid": str(os.getpid()), "started": str(int(time.time()))}
        self.descriptor = os.memfd_create(NAME, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.descriptor, HEAD + self._rows * self._size)
        seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
        fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, seals)
        fcntl.fcntl(self.descriptor, fcntl.F_GET_SEALS)  # so does the engine, for which it is too late to do without
        numbers = b"".join(number.to_bytes(WORD, byteorder) for number in (LAYOUT, self._rows, threads))
        os.pwrite(self.descriptor, MAGIC + numbers, 0)
        self.tell()

    def row(self, slot: int) -> Row | None:
        """That of a slot; None for one that is none."""
        return Row(self.descriptor, HEAD + slot * self._size) if 0 <= slot < self._rows else None

    def next_slot(self) -> int:
        """A free one, -1 where there is none: then its process does without."""
        return next((slot for slot in range(self._rows) if slot not in self._pids), -1)

    def take(self, slot: int, pid: int) -> None:
        """A slot is this process's."""
        if slot >= 0:
            self._pids[slot] = pid

    def free(self, pid: int) -> bytes:
        """A process is gone: keep what it counted, let another one have its slot, and return its row as it left it; b""
        where it had none.
        """
        slot = next((slot for slot, owner in self._pids.items() if owner == pid), -1)
        if slot < 0:
            return b""
        del self._pids[slot]
        row = os.pread(self.descriptor, self._size, HEAD + slot * self._size)
        os.pwrite(self.descriptor, bytes(self._size), HEAD + slot * self._size)
        words = memoryview(row).cast("Q")
        if words[0] != pid:
            return b""
        for index, name in COUNTERS.items():
            if name in SUMS:
                self._facts[name] = str(int(self._facts.get(name, "0")) + words[index])
        self.tell()
        return row

    def close(self) -> None:
        """Let go of it, unless the application has."""
        try:
            os.close(self.descriptor)
        except OSError:
            return

    def tell(self, **facts: str) -> None:
        """Write facts about the server as a whole, beside those that are there."""
        for name, value in facts.items():
            self._facts[name] = " ".join(value.split())[:400]
        text = "\n".join(f"{name} {value}" for name, value in self._facts.items()).encode("utf-8", "replace")
        text = text[: HEAD - FACTS - 2 * WORD]
        numbers = len(text).to_bytes(WORD, byteorder) + binascii.crc32(text).to_bytes(WORD, byteorder)
        os.pwrite(self.descriptor, numbers + text, FACTS)

    def note_reload(self, result: str, why: str = "") -> None:
        """A reload begins (TRYING), its workers begin to serve (REPLACING), or it has ended (SUCCEEDED, FAILED)."""
        self.tell(reload=result, reload_time=f"{time.time():.6f}", reload_why=why)

    def end_reload(self, result: str, why: str = "") -> None:
        """The reload that was noted last has ended. Its time stays: by that one is told from another."""
        self.tell(reload=result, reload_why=why)


def make(processes: int, threads: int) -> Board | None:
    """A board; None where the system has no such memory: a server does as well without."""
    try:
        return Board(processes, threads)
    except (AttributeError, ImportError, OSError):
        return None


def of_server(settings: Config) -> Board | None:
    """The board of a server with these settings. With `health` a process has one thread more than `threads`."""
    return make(settings.processes.most, settings.threads + 1)
