"""Processes that wait, and those forked from them: before the author's code is imported, or in the middle of that,
right before a module that he is editing.

Knows the word, and what must hold where a process may wait. Does not know which modules are edited: the supervisor says
so with the word; nor whether the files are still what they were: he looks.
Contract: who goes on from such a place is, but for its number, the time and chance, what a cold start would be there:
the same code has run in the same order, once. Where that code has left anything in the kernel that processes would
share, or has done anything that a cold start would do again for others to see, nobody waits.
"""

from __future__ import annotations

import errno
import struct
import sys
from json import loads

from poorhttp.dev.ahead import preload
from poorhttp.dev.ahead.copying import copy_memory
from poorhttp.dev.watch.reports import CHECKPOINT, FORKED, UNFIT, Teller, is_theirs
from poorhttp.stdlib import os, public_os, select, socket, time
from poorhttp.system.exits import end_with

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

GO = b"g"
INT = struct.Struct("i")
LARGEST_WORD = 1 << 16

_STARTS, _TALKS = "it has started other processes", "it has connected to others"
_WRITES = "files were written already"
OUTSIDE = {
    "os.fork": _STARTS,
    "os.forkpty": _STARTS,
    "os.posix_spawn": _STARTS,
    "os.spawn": _STARTS,
    "os.system": _STARTS,
    "subprocess.Popen": _STARTS,
    "socket.bind": _TALKS,
    "socket.connect": _TALKS,
}
"""Events of Python after which nobody waits; of what was written, made and removed `Teller` knows."""

CHANCE = {"random": "getstate", "numpy.random": "get_state"}
"""Modules that are seeded anew in each fork, and what tells whether anybody has drawn or seeded before."""


class Word:
    """What came with it: descriptors of who loads the application now, and which modules are edited."""

    __slots__ = ("gate", "hot", "lifeline", "link")

    def __init__(self, link: int, lifeline: int, gate: int) -> None:
        self.link, self.lifeline, self.gate = link, lifeline, gate
        self.hot: list[str] = loads(os.read(link, LARGEST_WORD))


def wait_for_word(parent: int, link: int, lifeline: int, gate: int) -> Word:
    """Return where this process is the one that is to load: itself, or a fork of it, with descriptors of its own."""
    sock = socket.socket(fileno=link)
    poll = select.poll()
    poll.register(link, select.POLLIN)
    poll.register(lifeline, select.POLLIN)
    while True:
        ready = {descriptor for descriptor, _ in poll.poll()}
        if lifeline in ready:
            return _word(sock.detach(), lifeline, gate)
        data, ancillary, _, _ = sock.recvmsg(64, socket.CMSG_SPACE(3 * INT.size), socket.MSG_CMSG_CLOEXEC)
        if not data:
            os._exit(0)
        own = [number for _, _, raw in ancillary for (number,) in INT.iter_unpack(raw)]
        if len(own) == 3 and _fork(parent):
            for each in (sock.detach(), lifeline, gate):
                if each >= 0:
                    os.close(each)
            Teller(own[0]).tell(FORKED, b"%d" % os.getpid())
            copy_memory(own[1])
            return _word(own[0], own[1], own[2])
        for descriptor in own:
            os.close(descriptor)


def _word(link: int, lifeline: int, gate: int) -> Word:
    if os.read(lifeline, 1) != GO:
        os._exit(0)
    return Word(link, lifeline, gate)


def _fork(parent: int) -> bool:
    """Fork a child of the supervisor's, which then is told its number; whether this is it. Raises OSError."""
    middle = os.fork()
    if middle:
        if os.waitpid(middle, 0)[1]:
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return False
    try:
        before = os.getpid()
        if os.fork():
            os._exit(0)
        while os.getppid() == before:
            time.sleep(0.0001)
        end_with(parent)
        preload.begin_anew()
        return True
    except BaseException:
        os._exit(1)  # else there would be two who go on with what the caller was doing


class Checkpoints:
    """Where the import may be gone on from: before each of the modules that are edited. Only while the application is
    loaded: a context manager.
    """

    def __init__(self, parent: int, teller: Teller, word: Word, sockets: list[int], recorder: preload.Recorder) -> None:
        """sockets: those that nobody keeps whom the author's code forks."""
        self._parent, self._teller, self._sockets, self._recorder = parent, teller, sockets, recorder
        self._own = word.link, word.lifeline, word.gate
        self._hot = set(word.hot)
        self._is_first = True
        self._is_ours = False  # what happens now
        self._done = ""  # what the author's code did that others see
        self._register: Any = public_os.register_at_fork
        self._handlers = preload.handlers_now()
        self._begin()

    def _begin(self) -> None:
        self._process, self._writes = os.getpid(), self._teller.writes
        self._descriptors, self._memory, self._chance = _descriptors(), preload.shared_memory(), _chance()

    def __enter__(self) -> Checkpoints:
        if self._hot:
            sys.addaudithook(self._hear)
            public_os.register_at_fork = self._registers  # there is no event for it
        return self

    def __exit__(self, *_: object) -> None:
        self._hot.clear()
        public_os.register_at_fork = self._register

    def arrive(self, path: str) -> None:
        """This module of the author's is imported next, and nothing of it is read yet."""
        is_first, self._is_first = self._is_first, False
        if path not in self._hot or os.getpid() != self._process:
            return
        self._hot.discard(path)
        if is_first:
            return  # there the zygote waits
        self._is_ours = True
        try:
            why = self._unfit()
            if not why:
                self._wait_here(path)
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
        finally:
            self._is_ours = False
        if why:
            self._teller.tell(UNFIT, why.encode("utf-8", "replace"))

    def _wait_here(self, path: str) -> None:
        """Fork one that waits; return in this process, and in each of those that are forked from that one."""
        for stream in sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__:
            if stream is not None:
                stream.flush()
        descriptors: list[int] = []
        kept, self._sockets[:] = list(self._sockets), []
        is_fork = False
        try:
            descriptors += (each.detach() for each in socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            descriptors += os.pipe()
            link, theirs, lifeline, other_end = descriptors
            places = [place for place in map(os.path.abspath, sys.path) if is_theirs(os.path.join(place, ""))]
            self._teller.pass_on(CHECKPOINT, [path, *places], theirs, other_end)
            is_fork = _fork(self._parent)
        finally:
            if not is_fork:
                self._sockets[:] = kept
                for each in descriptors:
                    os.close(each)
        if not is_fork:
            return
        try:
            os.close(theirs)
            os.close(other_end)
            Teller(link).tell(FORKED, b"%d" % os.getpid())
            word = wait_for_word(self._parent, link, lifeline, -1)
            for new, old in zip((word.link, word.lifeline, word.gate), self._own, strict=True):
                os.dup2(new, old, inheritable=False)
                os.close(new)
            self._sockets[:] = kept
            self._hot = set(word.hot) - {path}
            self._teller.repeat()
            self._begin()
        except BaseException:
            os._exit(1)  # see `_fork`

    def _unfit(self) -> str:
        """Why nobody may wait here, "" where he may."""
        if len(os.listdir("/proc/self/task")) > 1:
            return "threads run already"
        if self._done:
            return self._done
        if self._teller.writes > self._writes:
            return _WRITES
        if not self._descriptors.issuperset(_descriptors()):
            return "descriptors are open already"
        if not self._memory.issuperset(preload.shared_memory()):
            return "it has mapped memory"
        if preload.has_children():
            return _STARTS
        if preload.handlers_now() != self._handlers:
            return "signal handlers were changed"
        if _chance() != self._chance:
            return "random numbers were drawn or seeded already"
        return self._recorder.replaced()

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._done or self._is_ours or not self._hot:
            return
        if event in OUTSIDE:
            self._done = OUTSIDE[event]

    def _registers(self, **functions: Any) -> None:
        if preload.author(sys._getframe(1)):
            self._done = self._done or "something is to be done at forks"
        self._register(**functions)


def _descriptors() -> set[tuple[str, str]]:
    """Those that are open, and what is behind them; without the one by which they are listed."""
    found = set()
    for each in os.listdir("/proc/self/fd"):
        try:
            found.add((each, os.readlink(f"/proc/self/fd/{each}")))
        except FileNotFoundError:
            continue
    return found


def _chance() -> dict[str, Any]:
    found = {}
    for name, what in CHANCE.items():
        state: Any = getattr(sys.modules.get(name), what, tuple)()
        found[name] = [each.tobytes() if hasattr(each, "tobytes") else each for each in state]
    return found
