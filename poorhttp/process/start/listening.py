"""The listening sockets of a start: bound, passed by a service manager, or taken over from the program before.

Knows the settings about sockets, and which sockets are not wanted any more. Does not know how one is bound
(`poorhttp.listen.sockets`).
"""

from __future__ import annotations

from poorhttp.config.addresses import Address
from poorhttp.errors import InUseError
from poorhttp.listen import sockets
from poorhttp.stdlib import os, time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from socket import socket

    from poorhttp.config.model import Config
    from poorhttp.logs.log import ErrorLog

CONTROL_BACKLOG = 16
"""Clients that may wait at `control_socket`: one person, or one program."""


class Listening:
    """Those of this start. listeners: in the order of the configuration, the control socket last; keys: of each.

    inherited: what the program before had, as a `Handover` has it.
    """

    def __init__(self, settings: Config, error_log: ErrorLog, inherited: dict[str, tuple[int, int, int]]) -> None:
        self.listeners: list[socket] = []
        self.keys: list[str] = []
        self._settings = settings
        self._error_log = error_log
        self._inherited = {key: sockets.adopt(*facts) for key, facts in inherited.items()}
        self._bound: list[socket] = []  # which do not listen yet

    def open(self, passed: list[tuple[int, str]]) -> None:
        """Bind, take or adopt all. Raises ConfigError, ListenError."""
        settings = self._settings
        for address, descriptor in sockets.choose(settings.addresses, passed):
            key = f"{sockets.PASSED}{descriptor}" if descriptor >= 0 else str(address)
            if descriptor >= 0:
                self._add(key, sockets.take(descriptor))
            elif key in self._inherited:
                self._add(key, self._inherited.pop(key))
                self._change(self.listeners[-1])
            elif settings.reuse_port and not address.path:
                self._add(key, bind(settings, address))
                self._bound.append(self.listeners[-1])  # the kernel would send it clients of those that serve already
            else:
                self._add(key, listen(settings, address))
        if settings.control_socket:
            key = f"{sockets.CONTROL}{settings.control_socket}"
            sock = self._inherited.pop(key, None) or bind_for_control(settings)
            self._add(key, sock)
            sockets.begin(sock, CONTROL_BACKLOG)

    def begin(self) -> None:
        """Listen where that was put off. Raises ListenError."""
        for each in self._bound:
            sockets.begin(each, self._settings.backlog)
        self._bound.clear()

    def held(self) -> list[socket]:
        """All that are open."""
        return [each for each in (*self.listeners, *self._inherited.values()) if each.fileno() >= 0]

    def connectable(self) -> dict[str, socket]:
        """Those, by their keys, at which clients may wait."""
        pairs = dict(zip(self.keys, self.listeners, strict=True)) | self._inherited
        return {key: each for key, each in pairs.items() if each.fileno() >= 0 and each not in self._bound}

    def drop_unwanted(self, waiting: list[tuple[int, str]]) -> list[tuple[int, int]]:
        """Close and remove the sockets that the configuration does not want any more. Return the connections that wait
        to be served, descriptor and number of the listener; one that came to a dropped socket is the first listener's.

        waiting: connections that the program before accepted, descriptor and key of the listener.
        """
        from poorhttp.process.worker import take_waiting_connections

        for key, sock in self._inherited.items():
            try:
                waiting = waiting + [(each, key) for each in take_waiting_connections(sock)]
            except OSError:
                continue  # no descriptor is left
        sockets.close(self._inherited.values())
        self._inherited.clear()
        connections = []
        for each, key in waiting:
            if key in self.keys:
                connections.append((each, self.keys.index(key)))
            elif key.startswith(sockets.CONTROL):  # a client that asks there does not ask the application
                os.close(each)
            else:
                connections.append((each, 0))
        return connections

    def close(self) -> None:
        """Close all, and remove those unix sockets that this process made."""
        sockets.close(self.held())

    def _add(self, key: str, sock: socket) -> None:
        self.keys.append(key)
        self.listeners.append(sock)

    def _change(self, sock: socket) -> None:
        """Let an adopted socket be as it is to be now. Raises ConfigError."""
        settings = self._settings
        try:
            sockets.change(sock, settings.backlog, settings.socket_mode, _owner(settings))
        except OSError as error:
            what = "socket_mode and socket_owner need a restart, or root"
            self._error_log.write("W", f"{sockets.url(sock)} stays as it is: {error.strerror}; {what}")


def listen(settings: Config, address: Address) -> socket:
    """Bind one address and listen there. Raises ConfigError, ListenError."""
    sock = bind(settings, address)
    sockets.begin(sock, settings.backlog)
    return sock


def bind(settings: Config, address: Address) -> socket:
    """Bind one address, at which nobody listens yet. Raises ConfigError, ListenError."""
    owner = _owner(settings) if address.path else (-1, -1)
    return _bound(settings, lambda: sockets.bind(address, settings.socket_mode, owner, settings.reuse_port))


def bind_for_control(settings: Config) -> socket:
    """Bind `control_socket`, for its user only. Raises ConfigError, ListenError."""
    owner = -1, -1
    if settings.user or settings.group:
        from poorhttp.system import privileges

        owner = privileges.owner("", settings.user, settings.group)
    return _bound(settings, lambda: sockets.bind(Address(path=settings.control_socket), 0o600, owner))


def killed_before(settings: Config) -> int:
    """The number of a server that was killed and has left its pidfile, 0 for none."""
    if not (settings.pidfile and os.path.lexists(settings.pidfile)):
        return 0
    from poorhttp.status import running

    return running.find_ended(settings)


def _bound(settings: Config, bind: Callable[[], socket]) -> socket:
    """Wait for the workers of a server that was killed, if they have the address still."""
    began = time.monotonic()
    while True:
        try:
            return bind()
        except InUseError:
            from poorhttp.status import running

            if time.monotonic() > began + running.ORPHANED or not killed_before(settings):
                raise
        time.sleep(0.05)


def _owner(settings: Config) -> tuple[int, int]:
    if not (settings.socket_owner or settings.user or settings.group):
        return -1, -1
    from poorhttp.system import privileges

    return privileges.owner(settings.socket_owner, settings.user, settings.group)
