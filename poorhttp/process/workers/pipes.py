"""The pipes between a supervisor and its workers, at the supervisor's end: two for each, and one for all.

Knows descriptors. Does not know what is said on them (`process.messages`).
The control pipe is read by the worker: the kernel closes it when the supervisor dies. A signal would not do to stop a
worker: a service manager sends SIGTERM to the workers too, and they could not tell that one and ours from an impatient
second one. On the report pipe the worker tells of itself. The countdown tells workers which of them stops last.
"""

from __future__ import annotations

from poorhttp.stdlib import os, select

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class WorkerPipes:
    """Those of all workers. unborn: control and report pipe of the worker that is being forked."""

    def __init__(self) -> None:
        self.unborn: list[int] = []
        self._controls: dict[int, int] = {}  # pid -> write end
        self._reports: dict[int, int] = {}  # read end -> pid

    def add(self, pid: int, control: int, report: int) -> None:
        """A worker has these; report: -1 where it is closed already."""
        self._controls[pid] = control
        if report >= 0:
            self._reports[report] = pid

    def born(self, pid: int) -> None:
        """The worker that was being forked is there."""
        self.add(pid, *self.unborn)
        self.unborn.clear()

    def reports(self) -> Iterable[int]:
        """The ends that become readable when a worker tells something."""
        return list(self._reports)

    def hear(self, report: int) -> tuple[int, bytes]:
        """Which worker reports what on this pipe; one that has ended is closed."""
        pid, reports = self._reports[report], os.read(report, 1 << 16)
        if not reports:
            del self._reports[report]
            os.close(report)
        return pid, reports

    def left_unread(self, pid: int) -> list[int]:
        """The report pipe of a worker that is gone, where there is still something to read."""
        reports = [each for each, owner in self._reports.items() if owner == pid]
        poll = select.poll()
        for each in reports:
            poll.register(each, select.POLLIN)
        return [each for each in reports if poll.poll(0)]

    def tell(self, pid: int, what: bytes) -> None:
        """Tell a worker something; one that is gone does not hear it."""
        try:
            os.write(self._controls[pid], what)
        except (KeyError, OSError):
            return

    def has(self, pid: int) -> bool:
        """Whether this worker is there."""
        return pid in self._controls

    def cut(self, pid: int) -> None:
        """A worker is gone."""
        control = self._controls.pop(pid, None)
        if control is not None:
            os.close(control)

    def of(self, pid: int) -> tuple[int, int]:
        """Control and report pipe of a worker."""
        return self._controls[pid], next((each for each, owner in self._reports.items() if owner == pid), -1)

    def descriptors(self) -> list[int]:
        """All that are open."""
        return [*self.unborn, *self._controls.values(), *self._reports]


class Countdown:
    """Which of several workers that stop is the last one to accept connections: it alone lets nobody in any more.

    Each worker that stops accepting takes a byte; there is one less than workers once all are to stop, so that the one
    that finds none at the end of the pipe is the last.
    pipe: read and write end; empty for sockets that are not this server's own (is_own), where no worker is the last.
    """

    def __init__(self, is_own: bool) -> None:
        self.pipe: list[int] = list(os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)) if is_own else []

    def reader(self) -> int | None:
        """The end that a worker gets."""
        return self.pipe[0] if self.pipe else None

    def begin(self, staying: int) -> None:
        """All stop now; staying: how many workers accept connections."""
        if self.pipe:
            os.write(self.pipe[1], bytes(max(staying - 1, 0)))
        self.end()

    def forget(self) -> None:
        """In a worker: the other end is the supervisor's alone."""
        if self.pipe:
            os.close(self.pipe.pop())

    def end(self) -> None:
        """Keep neither end."""
        while self.pipe:
            os.close(self.pipe.pop())
