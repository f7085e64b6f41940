"""Where a server comes from: a fresh start, or the program before it in this process, which handed it over.

Knows in what the two differ; the steps of a start are the same for both (`process.server`).
"""

from __future__ import annotations

from poorhttp.errors import say
from poorhttp.listen import sockets
from poorhttp.process import shape
from poorhttp.process.start import facts
from poorhttp.process.start.listening import killed_before
from poorhttp.status import layout, pidfile
from poorhttp.stdlib import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from socket import socket

    from poorhttp.config.model import Config
    from poorhttp.listen.systemd import Manager
    from poorhttp.logs.log import ErrorLog
    from poorhttp.process.start.listening import Listening
    from poorhttp.reload.handover import Handover
    from poorhttp.status.scoreboard import Scoreboard


class FreshStart:
    """Nothing was there, but what a service manager may have passed.

    passed: sockets of the service manager, descriptor and name. inherited: sockets of the program before, as a
    `Handover` has them.
    """

    def __init__(self) -> None:
        self.handover: Handover | None = None
        self.passed, self.manager = _from_manager()
        self.inherited: dict[str, tuple[int, int, int]] = {}

    def descriptors(self) -> list[int]:
        """The descriptors that must not stay open in children of the application."""
        return [descriptor for descriptor, _ in self.passed]

    def begin(self, settings: Config, error_log: ErrorLog) -> None:
        """Say what there is to be said before sockets are bound. Raises ConfigError."""

    def write_pidfile(self, settings: Config, error_log: ErrorLog) -> int:
        """Say the notes and write the pidfile, if there is one: the descriptor that locks it, -1 for none."""
        facts.say_notes(settings)
        if not settings.pidfile:
            return -1
        left = killed_before(settings)
        lock = pidfile.write(settings.pidfile, -1)
        if left and settings.errorlog != "-":  # there the note about it is enough
            how = "it was killed, or could not remove it at its stop"
            error_log.write("W", f"the server before this one, pid {left}, has left its pidfile: {how}")
        return lock

    def are_waiting(self) -> bool:
        """Whether clients wait for this start beyond those in the queues of the sockets."""
        return False

    def answers_waiting(self) -> bool:
        """Whether this process is to answer the clients that wait at a stop."""
        return True

    def hear(self) -> int:
        """The pipe of signals that came before this program, -1 for none."""
        return -1

    def connections(self, listening: Listening) -> list[tuple[int, int]]:
        """Let go of sockets that are not wanted; the connections that wait to be served."""
        return []

    def announce(self, lines: list[str], settings: Config, error_log: ErrorLog, scoreboard: Scoreboard | None) -> None:
        """Say that the server is about to serve; lines: facts about it."""
        for line in lines:
            say(line)
        if settings.errorlog != "-":
            error_log.write("S", f"started: {', '.join(lines)}")


class AfterReload(FreshStart):
    """The program before this one has left a handover, and perhaps workers that serve meanwhile."""

    handover: Handover
    manager: Manager

    def __init__(self, handover: Handover) -> None:
        from poorhttp.listen.systemd import Manager

        self.handover = handover
        self.passed = handover.passed
        self.manager = Manager.of(os.environ)
        self.inherited = handover.sockets

    def descriptors(self) -> list[int]:
        handover = self.handover
        connections = [connection for connection, _ in handover.connections]
        return [*super().descriptors(), *handover.pipes(), *handover.countdown, *connections]

    def begin(self, settings: Config, error_log: ErrorLog) -> None:
        if settings.errorlog != "-":
            for descriptor in self.handover.streams:
                os.dup2(error_log.fileno(), descriptor)
        if self.handover.workers:
            shape.check(settings, shape.SUPERVISED)  # as it is read now, perhaps another time than by the trial

    def write_pidfile(self, settings: Config, error_log: ErrorLog) -> int:
        """That of the program before is removed, unless it is the same."""
        before = self.handover
        lock = pidfile.write(settings.pidfile, before.lock) if settings.pidfile else -1
        if before.pidfile != settings.pidfile:
            pidfile.remove(before.pidfile)
        if before.lock not in (-1, lock):
            os.close(before.lock)
        before.pidfile, before.lock = settings.pidfile, lock
        return lock

    def are_waiting(self) -> bool:
        return bool(self.handover.connections)

    def answers_waiting(self) -> bool:
        """Old workers do, but for clients that were handed over."""
        return not self.handover.workers or bool(self.handover.connections)

    def hear(self) -> int:
        pipe, self.handover.signals = self.handover.signals, -1
        return pipe

    def connections(self, listening: Listening) -> list[tuple[int, int]]:
        waiting, self.handover.connections = self.handover.connections, []
        return listening.drop_unwanted(waiting)

    def announce(self, lines: list[str], settings: Config, error_log: ErrorLog, scoreboard: Scoreboard | None) -> None:
        error_log.write("S", f"reloaded: {', '.join(lines)}")
        facts.say_notes(settings, lambda text: error_log.write("N", text))
        if scoreboard is not None:
            scoreboard.note_reload(layout.REPLACING if shape.is_supervised(settings) else layout.SUCCEEDED)


def adopted(handover: Handover) -> dict[str, socket]:
    """All sockets that were handed over, by their keys."""
    return {key: sockets.adopt(*found) for key, found in handover.sockets.items()}


def _from_manager() -> tuple[list[tuple[int, str]], Manager | None]:
    """The sockets that a service manager passed, and how it is reached; without one nothing is imported for it."""
    if "LISTEN_FDS" not in os.environ and "NOTIFY_SOCKET" not in os.environ:
        return [], None
    from poorhttp.listen import systemd

    return systemd.passed(os.environ, facts.say_note), systemd.Manager.of(os.environ)
