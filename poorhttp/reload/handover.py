"""The handover: descriptors that one program of this process leaves to the next, and their meaning.

Knows its form, and how a new program gets it. Does not know which process serves, nor how the new program is executed.
"""

from __future__ import annotations

import marshal

from poorhttp.errors import say
from poorhttp.reload import bytecode
from poorhttp.stdlib import os
from poorhttp.system import procfs

HANDOVER = "POORHTTP_HANDOVER"
"""The variable that tells a new program the descriptor of the file with its handover."""

FORMAT = 4
"""The version of the handover. A trial whose program reads another version fails, since descriptors would be lost."""


class Handover:
    """Descriptors and facts that a new program gets from the one before, which had the same process number.

    sockets: key (see `poorhttp.listen.sockets`) -> descriptor, and device and inode of a unix socket. workers: process
    number -> write end of its control pipe, read end of its report pipe (-1 where that has ended), whether it was asked
    to leave, and whether it has closed its listeners. wanted: the number of workers, which TTIN and TTOU change;
    configured: `processes` at that time. countdown: read and write end of the workers' countdown pipe. passed: sockets
    of the service manager, descriptor and name. connections: those of which nothing was read, descriptor and key of the
    listener. signals: a pipe with the signals that came meanwhile, -1 for none. pidfile: its path, "" for none. lock:
    the descriptor that locks the pidfile, -1 for none. streams: standard output and error, if they go to the error log.
    pause: seconds until code that cannot be loaded is tried again, 0 before the first try.
    """

    def __init__(self) -> None:
        self.sockets: dict[str, tuple[int, int, int]] = {}
        self.workers: dict[int, tuple[int, int, bool, bool]] = {}
        self.countdown: list[int] = []
        self.wanted, self.configured = 0, ""
        self.passed: list[tuple[int, str]] = []
        self.connections: list[tuple[int, str]] = []
        self.signals = -1
        self.pidfile, self.lock = "", -1
        self.streams: list[int] = []
        self.pause = 0.0

    def dump(self) -> bytes:
        """All of it as bytes, for this process only."""
        return marshal.dumps((os.getpid(), vars(self)), 2)  # of that version every Python can read it

    @classmethod
    def parse(cls, data: bytes) -> Handover:
        """The inverse. Raises EOFError, TypeError or ValueError, also where it is another process's."""
        self = cls()
        pid, facts = marshal.loads(data)
        if pid != os.getpid() or set(facts) != set(vars(self)):
            raise ValueError(pid)
        vars(self).update(facts)
        return self

    def pipes(self) -> list[int]:
        """The control and report pipes of the workers."""
        return [each for facts in self.workers.values() for each in facts[:2] if each >= 0]

    def descriptors(self) -> list[int]:
        """All descriptors that must stay open."""
        others = [each for each, _ in (*self.passed, *self.connections)]
        single = [each for each in (self.signals, self.lock) if each >= 0]
        return [facts[0] for facts in self.sockets.values()] + self.pipes() + self.countdown + others + single


def received() -> Handover | None:
    """The handover from the program before this one, once; None after an ordinary start."""
    named = os.environ.pop(HANDOVER, "")
    if not named:
        return None
    try:
        file = int(named)
        handover = Handover.parse(os.pread(file, os.fstat(file).st_size, 0))
        for descriptor in handover.descriptors():
            os.set_inheritable(descriptor, False)
        os.close(file)
    except (AttributeError, EOFError, OSError, OverflowError, TypeError, ValueError):
        say(f"note: {HANDOVER} is ignored: it is not what a reload of this process hands over; unset it")
        return None
    children = set(procfs.children(os.getpid()))
    for pid in set(handover.workers) - children:
        say(f"note: worker {pid} of {HANDOVER} is ignored: it is no child of this process")
        del handover.workers[pid]
    for pid in children.difference(handover.workers):
        os.waitpid(pid, os.WNOHANG)  # a child of the program before, which cannot wait for it any more
    bytecode.recompile_edited()
    return handover
