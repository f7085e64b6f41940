"""The scoreboard of a server: memory in which its processes show what they do, and which other processes may read.

Knows which process has which row. Does not know what is in a row, which the engine writes, nor how it is shown. The
memory has a fixed size and disappears with the server.
"""

from __future__ import annotations

from poorhttp.status.layout import CELL, COUNTERS, FACTS, HEAD, LAYOUT, MAGIC, NAME, ROW, SPARE, SUMS, WORD, words
from poorhttp.stdlib import binascii, os, time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from poorhttp.config.model import Config


class Row:
    """The row of one process, as the engine takes it."""

    def __init__(self, descriptor: int, offset: int) -> None:
        self.descriptor = descriptor
        self.offset = offset

    def answer(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """A WSGI application that tells a client what this server does."""
        from poorhttp.status import render

        return render.answer(self.descriptor, environ, start_response)


class Scoreboard:
    """The scoreboard of a server with so many processes, each with so many threads. Raises OSError."""

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
        # The engine asks for the seals too. Where that is not allowed, this fails now, while a server can do without.
        fcntl.fcntl(self.descriptor, fcntl.F_GET_SEALS)
        os.pwrite(self.descriptor, MAGIC + words(LAYOUT, self._rows, threads), 0)
        self.tell()

    def row(self, slot: int) -> Row | None:
        """The row in a slot; None for slot -1."""
        return Row(self.descriptor, HEAD + slot * self._size) if 0 <= slot < self._rows else None

    def next_slot(self) -> int:
        """A free slot; -1: there is none, and the next process serves without a row."""
        return next((slot for slot in range(self._rows) if slot not in self._pids), -1)

    def take(self, slot: int, pid: int) -> None:
        """Give a slot to this process."""
        if slot >= 0:
            self._pids[slot] = pid

    def free(self, pid: int) -> bytes:
        """Take the slot back from a process that has ended and add up what it counted. Return its row, or b""."""
        slot = next((slot for slot, owner in self._pids.items() if owner == pid), -1)
        if slot < 0:
            return b""
        del self._pids[slot]
        row = os.pread(self.descriptor, self._size, HEAD + slot * self._size)
        os.pwrite(self.descriptor, bytes(self._size), HEAD + slot * self._size)
        counted = memoryview(row).cast("Q")
        if counted[0] != pid:
            return b""
        for index, name in COUNTERS.items():
            if name in SUMS:
                self._facts[name] = str(int(self._facts.get(name, "0")) + counted[index])
        self.tell()
        return row

    def close(self) -> None:
        """Close it; the application may have done that already."""
        try:
            os.close(self.descriptor)
        except OSError:
            return

    def tell(self, **facts: str) -> None:
        """Write facts about the server as a whole into the head, beside those that are there."""
        for name, value in facts.items():
            self._facts[name] = " ".join(value.split())[:400]
        text = "\n".join(f"{name} {value}" for name, value in self._facts.items()).encode("utf-8", "replace")
        text = text[: HEAD - FACTS - 2 * WORD]
        os.pwrite(self.descriptor, words(len(text), binascii.crc32(text)) + text, FACTS)

    def note_reload(self, result: str, why: str = "") -> None:
        """Note that a reload begins (TRYING), replaces workers (REPLACING), or has ended."""
        self.tell(reload=result, reload_time=f"{time.time():.6f}", reload_why=why)

    def end_reload(self, result: str, why: str = "") -> None:
        """Note how the reload has ended. Its time stays, since it tells one reload from another."""
        self.tell(reload=result, reload_why=why)


def make_scoreboard(processes: int, threads: int) -> Scoreboard | None:
    """A scoreboard; None if the system has no such memory, and the server shows less."""
    try:
        return Scoreboard(processes, threads)
    except (AttributeError, ImportError, OSError):
        return None


def make_server_scoreboard(settings: Config) -> Scoreboard | None:
    """The scoreboard of a server with these settings. With `health` a process has one thread more than `threads`."""
    return make_scoreboard(settings.processes.most, settings.threads + 1)
