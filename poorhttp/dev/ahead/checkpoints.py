"""Checkpoints: processes that wait in the middle of loading the application, right before a module that is being
edited.

Knows what must hold where a process may wait. Does not know which modules are edited, nor whether files have changed
meanwhile (the supervisor does). What goes on from a checkpoint is, but for its number, the time and random numbers,
what a cold start would be at this place; so no process waits if the author's code keeps anything in the kernel that
forks would share, or has done anything outside that a cold start would do again.
"""

from __future__ import annotations

import sys

from poorhttp.dev.ahead import process_state
from poorhttp.dev.ahead.recorder import Recorder, author_of
from poorhttp.dev.ahead.zygote import Channels, await_command, fork
from poorhttp.dev.watch.paths import is_authors
from poorhttp.dev.watch.reports import CHECKPOINT, FORKED, UNFIT, Reporter
from poorhttp.stdlib import os, public_os, socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

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
"""Audit events after which no process waits. The reporter counts written and removed files."""


class Checkpoints:
    """The places where a process may wait. A context manager around the load of the application."""

    def __init__(
        self, supervisor: int, reporter: Reporter, channels: Channels, sockets: list[int], recorder: Recorder
    ) -> None:
        """sockets: the list of listening sockets that children of the application must close."""
        self._supervisor, self._reporter, self._sockets, self._recorder = supervisor, reporter, sockets, recorder
        self._own = channels.descriptors()
        self._hot = set(channels.hot)
        self._is_first = True
        self._is_ours = False  # whether this class causes the present events
        self._done = ""  # what the author's code has done outside of this process
        self._register: Any = public_os.register_at_fork
        self._handlers = process_state.signal_handlers()
        self._begin()

    def _begin(self) -> None:
        self._process, self._writes = os.getpid(), self._reporter.writes
        self._descriptors, self._memory = process_state.open_descriptors(), process_state.shared_memory()
        self._random = process_state.random_state()

    def __enter__(self) -> Checkpoints:
        if self._hot:
            sys.addaudithook(self._hear)
            public_os.register_at_fork = self._registers  # which raises no audit event
        return self

    def __exit__(self, *_: object) -> None:
        self._hot.clear()
        public_os.register_at_fork = self._register

    def arrive(self, path: str) -> None:
        """The module of the author's at this path is imported next; nothing of it was read yet."""
        is_first, self._is_first = self._is_first, False
        if path not in self._hot or os.getpid() != self._process:
            return
        self._hot.discard(path)
        if is_first:
            return  # the zygote waits there already
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
            self._reporter.tell(UNFIT, why.encode("utf-8", "replace"))

    def _wait_here(self, path: str) -> None:
        """Fork a process that waits. Returns in this process, and in each fork of the waiting one."""
        for stream in sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__:
            if stream is not None:
                stream.flush()
        descriptors: list[int] = []
        kept, self._sockets[:] = list(self._sockets), []
        is_fork = False
        try:
            descriptors += (each.detach() for each in socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            descriptors += os.pipe()
            link, other_link, control, other_control = descriptors
            places = [place for place in map(os.path.abspath, sys.path) if is_authors(os.path.join(place, ""))]
            self._reporter.pass_descriptors(CHECKPOINT, [path, *places], other_link, other_control)
            is_fork = fork(self._supervisor)
        finally:
            if not is_fork:
                self._sockets[:] = kept
                for each in descriptors:
                    os.close(each)
        if not is_fork:
            return
        try:
            os.close(other_link)
            os.close(other_control)
            Reporter(link).tell(FORKED, b"%d" % os.getpid())
            channels = await_command(self._supervisor, link, control, -1)
            for new, old in zip(channels.descriptors(), self._own, strict=True):
                os.dup2(new, old, inheritable=False)
                os.close(new)
            self._sockets[:] = kept
            self._hot = set(channels.hot) - {path}
            self._reporter.repeat()
            self._begin()
        except BaseException:
            os._exit(1)  # see `zygote.fork`

    def _unfit(self) -> str:
        """Why no process may wait here; "" if one may."""
        if process_state.has_threads():
            return "threads run already"
        if self._done:
            return self._done
        if self._reporter.writes > self._writes:
            return _WRITES
        if not self._descriptors.issuperset(process_state.open_descriptors()):
            return "descriptors are open already"
        if not self._memory.issuperset(process_state.shared_memory()):
            return "it has mapped memory"
        if process_state.has_children():
            return _STARTS
        if process_state.signal_handlers() != self._handlers:
            return "signal handlers were changed"
        if process_state.random_state() != self._random:
            return "random numbers were drawn or seeded already"
        return self._recorder.replaced()

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._done or self._is_ours or not self._hot:
            return
        if event in OUTSIDE:
            self._done = OUTSIDE[event]

    def _registers(self, **functions: Any) -> None:
        if author_of(sys._getframe(1)):
            self._done = self._done or "something is to be done at forks"
        self._register(**functions)
