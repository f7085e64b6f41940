"""Listening sockets: made, told as a URL, closed.

Knows TCP, unix sockets, and how to find out who holds a port. Does not know who accepts, nor how many processes do.
Contract: `listen` gives a socket that is bound, listening and non-blocking, or raises ListenError with a remedy; a
unix socket is removed only by the process that made it, and only while it is still the same file.
"""

from __future__ import annotations

import errno
import os
import stat
import sys

from poorhttp.errors import ListenError
from poorhttp.lean import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from poorhttp.units import Address

LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Every address of this host -> the one to which a browser here can go."""

PRIVILEGED_PORTS = 1024
LISTENING = "0A"
"""State of a socket in /proc/net/tcp (include/net/tcp_states.h)."""

UNSENT = 256 << 10
"""Bytes of an answer that the kernel takes beyond what is on its way."""

COMMAND_LIMIT = 80
"""Characters of a command line that are shown."""

_made: dict[str, tuple[int, int, int]] = {}
"""Path of a unix socket -> process that made it, device and inode."""


def listen(address: Address, backlog: int, mode: int = -1) -> socket.socket:
    """Return a listening, non-blocking socket; backlog: connections that may wait; mode: of a unix socket, -1: by the
    umask. Raises ListenError.
    """
    if address.path:
        return _listen_unix(address.path, backlog, mode)
    family, place = _resolve(address)
    try:
        return _open(family, place, backlog)
    except OSError as error:
        raise _refused(address, family, place, error) from None


def adopt(descriptor: int, device: int = 0, inode: int = 0) -> socket.socket:
    """Return the listening socket that this process has under a number; device and inode are those of a unix socket
    that it made. Raises OSError if it is no socket.
    """
    sock = socket.socket(fileno=descriptor)
    if sock.family == socket.AF_UNIX:
        _made[sock.getsockname()] = os.getpid(), device, inode
    return sock


def made(path: str) -> tuple[int, int]:
    """Device and inode of the unix socket that this process made at a path; 0 where it made none."""
    return _made[path][1:] if path in _made else (0, 0)


def url(sock: socket.socket) -> str:
    """Return where a client on this host finds the socket: `http://127.0.0.1:8080/`, or `unix:/path`."""
    if sock.family == socket.AF_UNIX:
        return f"unix:{sock.getsockname()}"
    host, port = sock.getsockname()[:2]
    host = LOOPBACK.get(host, host)
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


def others(sock: socket.socket) -> str:
    """What `url` leaves out: that this socket listens on more than one address."""
    family = "IPv6" if sock.family == socket.AF_INET6 else "IPv4"
    return f" and every {family} address" if is_public(sock) else ""


def is_public(sock: socket.socket) -> bool:
    """Whether the socket listens on every address of this host."""
    return sock.family != socket.AF_UNIX and sock.getsockname()[0] in LOOPBACK


def close(socks: Iterable[socket.socket]) -> None:
    """Close the sockets (again does no harm), and remove those unix sockets that this process made."""
    for sock in socks:
        path = sock.getsockname() if sock.family == socket.AF_UNIX and sock.fileno() >= 0 else ""
        sock.close()
        if path in _made and _made.pop(path) == _identity(path):
            _remove(path)


def _open(family: int, place: tuple[object, ...] | str, backlog: int) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        if family != socket.AF_UNIX:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # accepted sockets inherit it on Linux
            # A client that does not read must not make the kernel keep megabytes for it: a thousand would fill it.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(place)
        sock.listen(backlog)
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock


def _resolve(address: Address) -> tuple[int, tuple[object, ...]]:
    """Return family and socket address; IPv4 where a name has both. Bytes keep the idna codec from being imported."""
    try:
        found = socket.getaddrinfo(
            address.host.encode("ascii"), address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError as error:
        raise ListenError(f"{address}: no such host ({error.strerror})", "name an address of this machine") from None
    family, _, _, _, place = min(found, key=lambda each: each[0] != socket.AF_INET)
    return family, place


def _refused(address: Address, family: int, place: tuple[object, ...], error: OSError) -> ListenError:
    if error.errno == errno.EADDRINUSE:
        owners = _owners(family, place)
        by = f" by {', '.join(f'pid {pid} ({_command(pid)})' for pid in owners)}" if owners else ""
        stop = f", or stop who has this one: kill {' '.join(map(str, owners))}" if owners else ""
        return ListenError(f"{address} is in use{by}", f"choose another port{stop}")
    if error.errno == errno.EACCES and address.port < PRIVILEGED_PORTS:
        hint = f"a port below {PRIVILEGED_PORTS} needs CAP_NET_BIND_SERVICE; choose a higher one behind a front server"
        return ListenError(f"{address}: no permission for port {address.port}", hint)
    if error.errno == errno.EADDRNOTAVAIL:
        hint = "127.0.0.1 is this machine alone, 0.0.0.0 every IPv4 address of it"
        return ListenError(f"{address} is not an address of this machine", hint)
    return ListenError(f"cannot listen on {address}: {error.strerror}", "choose another address")


# Unix sockets


def _listen_unix(path: str, backlog: int, mode: int) -> socket.socket:
    _make_room(path)
    # Not chmod afterwards: whoever connects in between would be in.
    umask = os.umask(0o777 & ~mode) if mode >= 0 else -1
    try:
        sock = _open(socket.AF_UNIX, path, backlog)
    except OSError as error:
        hint = f"is {os.path.dirname(path)} a directory in which this user may write?"
        raise ListenError(f"cannot listen on unix:{path}: {error.strerror}", hint) from None
    finally:
        if umask >= 0:
            os.umask(umask)
    identity = _identity(path)
    if identity:
        _made[path] = identity
    return sock


def _make_room(path: str) -> None:
    """Remove a socket that a dead process left behind; refuse anything else that is there."""
    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise ListenError(f"{path} exists and is not a socket", "choose another path")
        probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            probe.setblocking(False)
            probe.connect(path)
        finally:
            probe.close()
    except ConnectionRefusedError:
        os.unlink(path)
        return
    except FileNotFoundError:
        return
    except OSError:
        pass  # no permission, or its queue is full: somebody is there
    raise ListenError(f"unix:{path} is in use", "stop the process that listens there, or choose another path")


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        return  # its directory is another user's now; the next start replaces a socket without a listener


def _identity(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return os.getpid(), found.st_dev, found.st_ino


# Who holds a port


def _owners(family: int, place: tuple[object, ...]) -> list[int]:
    """Return the numbers of the processes that listen there, but for those whose parent does too: they end with it.

    Empty where /proc does not tell this user.
    """
    try:
        inodes = set(_inodes(family, str(place[0]).partition("%")[0], int(str(place[1]))))
        pids = sorted(int(each) for each in os.listdir("/proc") if each.isdecimal())
        owners = [pid for pid in pids if inodes & set(_sockets(pid))]
    except (OSError, ValueError, IndexError):
        return []
    return [pid for pid in owners if _parent(pid) not in owners]


def _inodes(family: int, host: str, port: int) -> Iterator[str]:
    """Yield the inodes of the sockets that listen on this port, on this or on every address."""
    wanted = {_hexadecimal(family, host), "0" * 8, "0" * 32}
    for table in "/proc/net/tcp", "/proc/net/tcp6":
        if not os.path.exists(table):
            continue
        with open(table, encoding="ascii") as lines:
            next(lines)
            for fields in map(str.split, lines):
                local, _, number = fields[1].partition(":")
                if fields[3] == LISTENING and int(number, 16) == port and (local in wanted or host in LOOPBACK):
                    yield fields[9]


def _hexadecimal(family: int, host: str) -> str:
    """An address as /proc/net/tcp has it: words of 32 bits, in the byte order of this machine."""
    packed = socket.inet_pton(family, host)
    words = (int.from_bytes(packed[start : start + 4], sys.byteorder) for start in range(0, len(packed), 4))
    return "".join(f"{word:08X}" for word in words)


def _sockets(pid: int) -> Iterator[str]:
    """Yield the inodes of a process's sockets; none where it may not be looked at or is gone."""
    try:
        for descriptor in os.listdir(f"/proc/{pid}/fd"):
            target = os.readlink(f"/proc/{pid}/fd/{descriptor}")
            if target.startswith("socket:["):
                yield target[len("socket:[") : -1]
    except OSError:
        return


def _parent(pid: int) -> int:
    """The number of the parent; 0 where the process is gone."""
    _, _, fields = _told(pid, "stat").rpartition(") ")  # the name before it may hold anything
    return int(fields.split()[1]) if fields else 0


def _command(pid: int) -> str:
    """The program, without its directory, and its first arguments."""
    program, *arguments = _told(pid, "cmdline").rstrip("\0").split("\0")
    if program.startswith("/"):
        program = os.path.basename(program)
    text = " ".join([program, *arguments]) or _told(pid, "comm").strip()
    return text if len(text) <= COMMAND_LIMIT else f"{text[: COMMAND_LIMIT - 3]}..."


def _told(pid: int, what: str) -> str:
    """Return what /proc says of a process, "" where it is gone or may not be looked at."""
    try:
        with open(f"/proc/{pid}/{what}", "rb") as file:
            return file.read(4096).decode("utf-8", "replace")
    except OSError:
        return ""
