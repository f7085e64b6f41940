"""Listening sockets: bound, taken over, shown as a URL, closed.

Knows TCP and sockets that others pass to this process; unix sockets are made by `unix_sockets`. Does not know which
processes accept.
"""

from __future__ import annotations

import errno

from poorhttp.config.addresses import Address
from poorhttp.errors import ListenError
from poorhttp.listen import unix_sockets
from poorhttp.listen.port_owner import in_use, socket_inodes, tcp_inodes, unix_inodes
from poorhttp.listen.unix_sockets import is_made
from poorhttp.stdlib import os, socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Every address of this host -> the one with which a browser on it reaches the server."""

PRIVILEGED_PORTS = 1024

UNSENT = 256 << 10
"""Bytes of an answer that the kernel takes beyond those that are on their way."""

PASSED, CONTROL = "fd:", "control:unix:"
"""Prefixes of the keys of passed sockets (the descriptor follows) and of `control_socket` (its path follows). The key
of any other socket is its address as configured."""

_passed: set[int] = set()
"""Inodes of the sockets that were passed; the process that passed them has them open too."""


def bind(
    address: Address, mode: int = -1, owner: tuple[int, int] = (-1, -1), reuse_port: bool = False
) -> socket.socket:
    """Return a bound socket that does not block, to which no client can connect before `begin`. Raises ListenError.
    mode: of a unix socket, -1: by the umask. owner: user and group of it, -1: those of this process. reuse_port:
    whether another server of this user that sets this too may listen on the same port.
    """
    if address.path.startswith("@"):
        return unix_sockets.bind_abstract(address)
    if address.path:
        return unix_sockets.bind(address.path, mode, owner)
    family, place = _resolve(address)
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        prefer(sock, socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if reuse_port:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        _prepare(sock)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(place)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        raise _refused(address, family, place, error) from None
    return sock


def begin(sock: socket.socket, backlog: int) -> None:
    """Listen: from now on clients can connect. Raises ListenError, and closes the socket then."""
    try:
        sock.listen(backlog)
    except OSError as error:  # another process has begun on that port since it was bound
        what = f"cannot listen on {url(sock)}: {error.strerror}"
        close([sock])
        raise ListenError(what, "choose another address") from None


def adopt(descriptor: int, device: int = 0, inode: int = 0) -> socket.socket:
    """Return the listening socket that this process has under a number. device, inode: of the unix socket, if the
    program before this one made its file. Raises OSError.
    """
    sock = socket.socket(fileno=descriptor)
    if sock.family == socket.AF_UNIX and inode:
        unix_sockets.adopt(sock, device, inode)
    return sock


def change(sock: socket.socket, backlog: int, mode: int, owner: tuple[int, int]) -> None:
    """Give a listening socket the settings that a new one would get; -1: as it is. Raises OSError."""
    sock.listen(backlog)
    if is_made(sock):
        unix_sockets.change(sock, mode, owner)


def choose(addresses: Sequence[Address], passed: list[tuple[int, str]]) -> list[tuple[Address, int]]:
    """Return each address to listen on, with the descriptor that was passed for it, or -1 if it is to be bound.

    passed: descriptors and names. They replace all addresses, unless one of these is `fd:NAME` or `fd:NUMBER`, which
    stands for the sockets of that name or number. A listening descriptor that is named by its number is added to
    `passed`. Raises ListenError.
    """
    taken = [(Address(fd=name), descriptor) for descriptor, name in passed if name != str(descriptor)]
    if taken and not any(address.fd for address in addresses):
        return taken
    chosen: list[tuple[Address, int]] = []
    for address in addresses:
        found = [descriptor for descriptor, name in passed if address.fd and address.fd in (name, str(descriptor))]
        if address.fd.isdecimal() and not found and _is_listening(int(address.fd)):
            passed.append((int(address.fd), address.fd))
            found = [int(address.fd)]
        if address.fd and not found:
            names = ", ".join(sorted({name for _, name in passed})) or "none"
            raise ListenError(f"no socket was passed as {address}", f"sockets passed: {names}; see LISTEN_FDNAMES")
        chosen += [(address, descriptor) for descriptor in found or [-1]]
    return chosen


def take(descriptor: int) -> socket.socket:
    """Return a copy of a listening socket that was passed under this number, which stays open. Raises ListenError."""
    if not _is_listening(descriptor):
        hint = "a socket unit of systemd needs ListenStream=, and not Accept=yes"
        raise ListenError(f"descriptor {descriptor} is no listening stream socket", hint)
    sock = socket.socket(fileno=os.dup(descriptor))
    os.set_inheritable(sock.fileno(), False)
    _prepare(sock)
    sock.setblocking(False)
    _passed.add(os.fstat(descriptor).st_ino)
    return sock


def are_own(socks: Iterable[socket.socket]) -> bool:
    """Whether only this server has these sockets: none was passed."""
    return _passed.isdisjoint(os.fstat(sock.fileno()).st_ino for sock in socks)


def places(socks: Iterable[socket.socket]) -> list[tuple[int, Any]]:
    """Return family and address with which a client on this host reaches each socket."""
    found: list[tuple[int, Any]] = []
    for sock in socks:
        place = sock.getsockname()
        if sock.family != socket.AF_UNIX:
            place = (LOOPBACK.get(place[0], place[0]), *place[1:])
        found.append((sock.family, place))
    return found


def url(sock: socket.socket) -> str:
    """Return where a client on this host finds the socket: `http://127.0.0.1:8080/`, or `unix:/path`."""
    if sock.family == socket.AF_UNIX:
        path = sock.getsockname()
        return f"unix:{path}" if isinstance(path, str) else f"unix:@{os.fsdecode(path[1:])}"
    host, port = sock.getsockname()[:2]
    host = LOOPBACK.get(host, host)
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


def others(sock: socket.socket) -> str:
    """Return what `url` leaves out: that this socket listens on every address."""
    family = "IPv6" if sock.family == socket.AF_INET6 else "IPv4"
    return f" and every {family} address" if is_public(sock) else ""


def is_public(sock: socket.socket) -> bool:
    """Whether the socket listens on every address of this host."""
    return sock.family != socket.AF_UNIX and sock.getsockname()[0] in LOOPBACK


def is_held(address: Address, pid: int) -> bool:
    """Whether a process listens on an address, so that no other can bind it; also if that is not known."""
    inodes = socket_inodes(pid)
    if not inodes or address.fd:
        return True
    if address.path:
        return not inodes.isdisjoint(unix_inodes(address.path))
    family, place = _resolve(address)
    return not inodes.isdisjoint(tcp_inodes(family, str(place[0]), address.port, LOOPBACK))


def let_go(socks: Iterable[socket.socket], descriptors: Iterable[int]) -> None:
    """Close sockets and descriptors in a child. Files that the parent made stay."""
    for each in socks:
        try:
            each.close()
        except OSError:
            continue
    for descriptor in descriptors:
        try:
            os.close(descriptor)
        except OSError:
            continue


def close(socks: Iterable[socket.socket]) -> None:
    """Close the sockets, and remove the files of those unix sockets that this process made."""
    for sock in socks:
        try:
            path = sock.getsockname() if sock.family == socket.AF_UNIX and sock.fileno() >= 0 else ""
            sock.close()
        except OSError:
            continue  # the application has closed it
        unix_sockets.remove(path)


def prefer(sock: socket.socket, level: int, option: int, value: int) -> None:
    """Set an option that the server can do without; some kernels do not know it."""
    try:
        sock.setsockopt(level, option, value)
    except OSError:
        return


def _prepare(sock: socket.socket) -> None:
    if sock.family != socket.AF_UNIX:
        prefer(sock, socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # For a client that does not read, the kernel would keep megabytes; a thousand of them would fill its memory.
        prefer(sock, socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT)


def _is_listening(descriptor: int) -> bool:
    try:
        sock = socket.socket(fileno=os.dup(descriptor))
    except OSError:
        return False
    try:
        is_stream = sock.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE) == socket.SOCK_STREAM
        return is_stream and bool(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    finally:
        sock.close()


def _resolve(address: Address) -> tuple[int, tuple[object, ...]]:
    """Return family and socket address; IPv4 if a name has both. Bytes keep the idna codec from being imported."""
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
        inodes = tcp_inodes(family, str(place[0]), int(str(place[1])), LOOPBACK)
        return in_use(str(address), inodes, "choose another port")
    if error.errno == errno.EACCES and address.port < PRIVILEGED_PORTS:
        hint = f"a port below {PRIVILEGED_PORTS} needs CAP_NET_BIND_SERVICE; choose a higher one behind a front server"
        return ListenError(f"{address}: no permission for port {address.port}", hint)
    if error.errno == errno.ENOPROTOOPT:
        hint = "set reuse_port = no if it is set, and choose an IPv4 address"
        return ListenError(f"cannot listen on {address}: this system lacks an option of sockets", hint)
    if error.errno == errno.EADDRNOTAVAIL:
        hint = "127.0.0.1 is this machine alone, 0.0.0.0 every IPv4 address of it"
        return ListenError(f"{address} is not an address of this machine", hint)
    return ListenError(f"cannot listen on {address}: {error.strerror}", "choose another address")
