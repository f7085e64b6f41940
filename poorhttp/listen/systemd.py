"""The service manager: sockets that it passes (sd_listen_fds(3)), states and watchdog (sd_notify(3)).

Knows the variables and datagrams of systemd, which other service managers use too. Does not know which process serves.
The variables are removed from the environment, so that no child of the application reports in the place of this
process. A report never fails and never waits.
"""

from __future__ import annotations

from poorhttp.errors import ConfigError, printable
from poorhttp.listen import sockets
from poorhttp.stdlib import os, select, socket, thread, time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, MutableMapping

FIRST = 3
"""The first descriptor that is passed (SD_LISTEN_FDS_START)."""

PASSED = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PIDFDID")
NOTIFIED = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")

MOST_DIGITS = 6
"""Digits of LISTEN_FDS that are read."""

SHORTEST, LONGEST = 0.1, 86400.0
"""Limits of the time of a watchdog, in seconds."""

TRIES = 4
"""Checks of the server in the time of the watchdog."""


def passed(environ: MutableMapping[str, str], note: Callable[[str], object]) -> list[tuple[int, str]]:
    """Return descriptor and name of each socket that was passed to this process; a socket without a name is `unknown`.
    note: takes a line for the user. Raises ConfigError if a descriptor is not open.
    """
    pid, count, names, _ = (environ.pop(name, "") for name in PASSED)
    if not count.isdecimal() or not pid.isdecimal():
        return []
    if not _is_this(pid):
        note(f"LISTEN_PID is {pid}, this process is {os.getpid()}: the sockets of LISTEN_FDS are not used")
        return []
    listed = [name if name.isprintable() else "unknown" for name in names.split(":")] if names else []
    number = int(count[:MOST_DIGITS])
    listed += ["unknown"] * (number - len(listed))
    try:
        for descriptor in range(FIRST, FIRST + number):
            os.set_inheritable(descriptor, False)
    except OSError:
        what = f"LISTEN_FDS is {count[:99]}, but descriptor {descriptor} is not open"
        raise ConfigError(what, "unset LISTEN_FDS, or pass so many sockets") from None
    return list(enumerate(listed[:number], FIRST))


def _is_this(pid: str) -> bool:
    """Whether the variables are for this process, or for PID 1 of a container, which passes them on to it (`pid1`)."""
    return pid == str(os.getpid()) or (pid == "1" and os.getppid() == 1)


class Manager:
    """The service manager, if there is one. address: that of its socket; `@` means the abstract namespace. watchdog:
    the server has to report within so many seconds that it answers; 0: no reports.
    """

    def __init__(self, address: str = "", watchdog: float = 0.0) -> None:
        self.watchdog = watchdog if address else 0.0
        self._address = b"\0" + os.fsencode(address[1:]) if address[:1] == "@" else os.fsencode(address)

    @classmethod
    def of(cls, environ: MutableMapping[str, str]) -> Manager:
        """Return the manager that the environment names."""
        address, microseconds, pid = (environ.pop(name, "") for name in NOTIFIED)
        is_for_us = microseconds.isdecimal() and (not pid or _is_this(pid))
        watchdog = (
            min(max(float(microseconds) / 1e6, SHORTEST), LONGEST) if is_for_us and int(microseconds[:20]) else 0.0
        )
        return cls(address if address[:1] in ("/", "@") else "", watchdog)

    def tell(self, *lines: str) -> None:
        if not self._address:
            return
        try:
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        except OSError:
            return  # no descriptor is left
        try:
            sock.setblocking(False)
            sock.sendto("\n".join(map(printable, lines)).encode("utf-8", "replace"), self._address)
        except OSError:
            return  # the manager is not there, or busy; the server does not depend on it
        finally:
            sock.close()

    def ready(self, status: str) -> None:
        """Report that clients are served, after a start or a reload."""
        self.tell("READY=1", f"MAINPID={os.getpid()}", f"STATUS={status}")

    def reloading(self) -> None:
        """Report that a reload has begun; `ready` reports its end."""
        microseconds = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self.tell("RELOADING=1", f"MONOTONIC_USEC={microseconds}", "STATUS=trying the new code and configuration")

    def reload_failed(self, why: str, is_served: bool = True) -> None:
        """Report that the reload has failed; is_served: whether clients are served as before."""
        status = f"reload failed at {time.strftime('%H:%M:%S')}, {why}"
        if is_served:
            self.ready(status)
        else:
            self.status(f"no clients are served: {status}")

    def stopping(self, status: str) -> None:
        self.tell("STOPPING=1", f"STATUS={status}")

    def status(self, status: str) -> None:
        self.tell(f"STATUS={status}")

    def watch(self, listeners: Iterable[socket.socket], warn: Callable[[str], object]) -> Watch | None:
        """Return the check whether the server behind these sockets answers; None if the manager has no watchdog."""
        return Watch(self, sockets.places(listeners), warn) if self.watchdog else None

    def watch_aside(self, listeners: Iterable[socket.socket], warn: Callable[[str], object]) -> None:
        """Run that check in a thread of its own until the process ends."""
        watch = self.watch(listeners, warn)
        if watch is not None:
            thread.start_new_thread(watch.run, ())


class Watch:
    """Checks again and again whether the server answers, and reports to the manager that it does.

    A check connects as a client and closes its side at once. The server closes too, without a line in any log, as soon
    as a thread that serves has read that end. A socket to which this user may not connect is logged once and left out.
    """

    def __init__(
        self,
        manager: Manager,
        places: list[tuple[int, str | bytes | tuple[str, int]]],
        warn: Callable[[str], object],
    ) -> None:
        self._manager = manager
        self._places = places
        self._warn = warn
        self._probe: socket.socket | None = None
        self._is_connecting = False
        self._next = time.monotonic()

    def run(self, seconds: float = float("inf")) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            poll = select.poll()
            if self._probe is not None:
                poll.register(self._probe.fileno(), self.events())
            self.look(bool(poll.poll(1000 * min(self.seconds_left(), left) + 1)))

    def fileno(self) -> int:
        return -1 if self._probe is None else self._probe.fileno()

    def events(self) -> int:
        """Return the event of `select.poll` to wait for."""
        return select.POLLOUT if self._is_connecting else select.POLLIN

    def seconds_left(self) -> float:
        """Return the seconds until the next check."""
        return max(self._next - time.monotonic(), 0.0)

    def look(self, is_ready: bool, is_served: bool = True) -> None:
        """Go on. is_ready: whether the event has come. is_served: whether any process is to answer now."""
        if is_ready and self._probe is not None:
            self._hear(self._probe)
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + self._manager.watchdog / TRIES
        self.close()
        if not is_served or not self._begin():
            self._manager.tell("WATCHDOG=1")

    def _begin(self) -> bool:
        """Connect to the next socket; False if there is none."""
        while self._places:
            self._places.append(self._places.pop(0))  # in turns
            family, place = self._places[0]
            try:
                self._probe = socket.socket(family, socket.SOCK_STREAM)
                self._probe.setblocking(False)
                self._is_connecting = True
                self._probe.connect(place)
            except BlockingIOError:
                if family == socket.AF_UNIX:
                    self.close()  # its queue is full
            except PermissionError:
                self.close()
                self._leave_out()
                continue
            except OSError:
                self.close()
            return True
        return False

    def _leave_out(self) -> None:
        _, place = self._places.pop(0)
        rest = "it checks the other sockets" if self._places else "it only checks that this process runs"
        remedy = "allow the user of the server to connect (socket_owner, socket_mode)"
        self._warn(f"the watchdog of the service manager may not connect to {place!r}: {rest}; {remedy}")

    def _hear(self, probe: socket.socket) -> None:
        if self._is_connecting:
            self._is_connecting = False
            try:
                probe.shutdown(socket.SHUT_WR)
            except OSError:
                self.close()  # refused
            return
        self.close()
        self._manager.tell("WATCHDOG=1")

    def close(self) -> None:
        if self._probe is not None:
            self._probe.close()
            self._probe = None
