"""What a service manager gives and is told: passed sockets (sd_listen_fds(3)), states and its watchdog (sd_notify(3)).

Knows the variables and datagrams of systemd, which others speak too. Does not know who serves.
Contract: without the variables nothing is done. They are taken out of the environment: no child of the application
shall answer in the place of this process. Telling never fails and never waits.
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
"""Of a number of descriptors."""

SHORTEST, LONGEST = 0.1, 86400.0
"""Seconds of a watchdog that are heeded."""

TRIES = 4
"""How often the server is looked at in the time of the watchdog."""


def passed(environ: MutableMapping[str, str], note: Callable[[str], object]) -> list[tuple[int, str]]:
    """The sockets that were passed to this process: descriptor and name, `unknown` where it has none."""
    pid, count, names, _ = (environ.pop(name, "") for name in PASSED)
    if not count.isdecimal() or not pid.isdecimal():
        return []
    if not _is_this(pid):
        note(f"LISTEN_FDS is for process {pid}, not for this one: its sockets are not used")
        return []
    told = [name if name.isprintable() else "unknown" for name in names.split(":")] if names else []
    number = int(count[:MOST_DIGITS])
    told += ["unknown"] * (number - len(told))
    try:
        for descriptor in range(FIRST, FIRST + number):
            os.set_inheritable(descriptor, False)
    except OSError:
        raise ConfigError(f"LISTEN_FDS is {count[:99]}, but descriptor {descriptor} is not open", "unset it") from None
    return list(enumerate(told[:number], FIRST))


def _is_this(pid: str) -> bool:
    """Whether the variables are for this process; in a container PID 1 got them and has passed them on (`pid1`)."""
    return pid == str(os.getpid()) or (pid == "1" and os.getppid() == 1)


class Manager:
    """The service manager, if there is one.

    address: of its socket, "" for none; `@` stands for the abstract namespace. watchdog: seconds within which it wants
    to hear that this server answers, 0 for never.
    """

    def __init__(self, address: str = "", watchdog: float = 0.0) -> None:
        self.watchdog = watchdog if address else 0.0
        self._address = b"\0" + os.fsencode(address[1:]) if address[:1] == "@" else os.fsencode(address)

    @classmethod
    def of(cls, environ: MutableMapping[str, str]) -> Manager:
        """The one that the environment names."""
        address, microseconds, pid = (environ.pop(name, "") for name in NOTIFIED)
        is_for_us = microseconds.isdecimal() and (not pid or _is_this(pid))
        watchdog = (
            min(max(float(microseconds) / 1e6, SHORTEST), LONGEST) if is_for_us and int(microseconds[:20]) else 0.0
        )
        return cls(address if address[:1] in ("/", "@") else "", watchdog)

    def tell(self, *lines: str) -> None:
        """Send one datagram."""
        if not self._address:
            return
        try:
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        except OSError:
            return  # there is no descriptor left
        try:
            sock.setblocking(False)
            sock.sendto("\n".join(map(printable, lines)).encode("utf-8", "replace"), self._address)
        except OSError:
            return  # it is not there, or has enough to do; what we do does not depend on it
        finally:
            sock.close()

    def ready(self, status: str) -> None:
        """Clients are served, after a start or a reload."""
        self.tell("READY=1", f"MAINPID={os.getpid()}", f"STATUS={status}")

    def reloading(self) -> None:
        """A reload has begun; `ready` ends it, whatever came of it."""
        microseconds = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self.tell("RELOADING=1", f"MONOTONIC_USEC={microseconds}", "STATUS=trying the new code and configuration")

    def reload_failed(self, why: str, is_served: bool = True) -> None:
        """The reload has ended so; is_served: clients are served as before."""
        status = f"reload failed at {time.strftime('%H:%M:%S')}, {why}"
        if is_served:
            self.ready(status)
        else:
            self.status(f"nobody serves: {status}")

    def stopping(self, status: str) -> None:
        """The server stops."""
        self.tell("STOPPING=1", f"STATUS={status}")

    def status(self, status: str) -> None:
        """Something else that is good to know."""
        self.tell(f"STATUS={status}")

    def watch(self, listeners: Iterable[socket.socket], warn: Callable[[str], object]) -> Watch | None:
        """What looks whether the server behind these sockets answers; None where nobody wants to hear of it."""
        return Watch(self, sockets.places(listeners), warn) if self.watchdog else None

    def watch_aside(self, listeners: Iterable[socket.socket], warn: Callable[[str], object]) -> None:
        """The same, done by a thread of its own, for as long as the process lives."""
        watch = self.watch(listeners, warn)
        if watch is not None:
            thread.start_new_thread(watch.run, ())


class Watch:
    """Tells the manager that the server answers, as often as it does.

    It connects as any client does and ends its side at once: the server closes then, without a word in any log, when
    a thread that serves has read that end. Workers that all hang in the application do not, nor does who answers for
    them (`health`). A socket to which this user may not connect is told once and left out.
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
        """Look for so long."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            poll = select.poll()
            if self._probe is not None:
                poll.register(self._probe.fileno(), self.events())
            self.look(bool(poll.poll(1000 * min(self.seconds_left(), left) + 1)))

    def fileno(self) -> int:
        """The descriptor that is waited for, -1 for none."""
        return -1 if self._probe is None else self._probe.fileno()

    def events(self) -> int:
        """And for what."""
        return select.POLLOUT if self._is_connecting else select.POLLIN

    def seconds_left(self) -> float:
        """Until the next look is due."""
        return max(self._next - time.monotonic(), 0.0)

    def look(self, is_ready: bool, is_served: bool = True) -> None:
        """Go on; is_ready: what was waited for has come. is_served: somebody is to answer at all."""
        if is_ready and self._probe is not None:
            self._hear(self._probe)
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + self._manager.watchdog / TRIES
        self.close()
        if not is_served or not self._begin():
            self._manager.tell("WATCHDOG=1")

    def _begin(self) -> bool:
        """Ask at the next place; False where there is none."""
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
        who = "it looks at the others" if self._places else "it hears only that this process lives"
        remedy = "let who serves connect there (socket_owner, socket_mode)"
        self._warn(f"the watchdog of the service manager may not connect to {place!r}: {who}; {remedy}")

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
        """Let go of the descriptor."""
        if self._probe is not None:
            self._probe.close()
            self._probe = None
