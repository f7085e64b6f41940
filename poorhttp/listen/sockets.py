"""Listening sockets: made, told as a URL, closed.

Knows TCP, unix sockets, and how to find out who holds a port. Does not know who accepts, nor how many processes do.
Contract: `bind` gives a socket that is bound and non-blocking, or raises ListenError with a remedy; a
unix socket is removed only by the process that made it, and only while it is still the same file.
"""

from __future__ import annotations

import errno
import stat
import sys

from poorhttp.config.units import Address
from poorhttp.errors import InUseError, ListenError
from poorhttp.stdlib import os, socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Every address of this host -> the one to which a browser here can go."""

PRIVILEGED_PORTS = 1024
LISTENING = "0A"
"""State of a socket in /proc/net/tcp (include/net/tcp_states.h)."""

UNSENT = 256 << 10
"""Bytes of an answer that the kernel takes beyond what is on its way."""

COMMAND_LIMIT = 80
"""Characters of a command line that are shown."""

PASSED, CONTROL = "fd:", "control:unix:"
"""What the keys of sockets begin with that were passed (the descriptor follows), and of `control_socket` (its path);
those of all others are the addresses as configured.
"""

_passed: set[int] = set()
"""Inodes of the sockets that were passed: whoever did that has them still."""

_made: dict[str, tuple[int, int, int]] = {}
"""Path of a unix socket -> process that made it, device and inode."""


def bind(
    address: Address, mode: int = -1, owner: tuple[int, int] = (-1, -1), reuse_port: bool = False
) -> socket.socket:
    """Return a socket that is bound and does not block, to which nobody can connect before `begin`. Raises ListenError.

    mode: of a unix socket, -1: by the umask. owner: user and group of it, -1: as they are. reuse_port: whether another
    server of this user that wants it too may listen on this port.
    """
    if address.path.startswith("@"):
        return _bind_abstract(address)
    if address.path:
        return _bind_unix(address.path, mode, owner)
    family, place = _resolve(address)
    try:
        return _open(family, place, reuse_port)
    except OSError as error:
        raise _refused(address, family, place, error) from None


def begin(sock: socket.socket, backlog: int) -> None:
    """Listen: from here on clients come, of whom so many may wait. Raises ListenError, and closes the socket then."""
    try:
        sock.listen(backlog)
    except OSError as error:  # another has begun on that port since it was bound
        what = f"cannot listen on {url(sock)}: {error.strerror}"
        close([sock])
        raise ListenError(what, "choose another address") from None


def adopt(descriptor: int, device: int = 0, inode: int = 0) -> socket.socket:
    """Return the listening socket that this process has under a number; device and inode are those of a unix socket
    that it made. Raises OSError if it is no socket.
    """
    sock = socket.socket(fileno=descriptor)
    if sock.family == socket.AF_UNIX and inode:
        _made[sock.getsockname()] = os.getpid(), device, inode
    return sock


def change(sock: socket.socket, backlog: int, mode: int, owner: tuple[int, int]) -> None:
    """Let a listening socket have what `listen` would give it now; -1: as it is. Raises OSError."""
    sock.listen(backlog)
    if not is_made(sock):
        return
    path = sock.getsockname()
    file = os.open(path, os.O_PATH | os.O_NOFOLLOW)
    try:
        found = os.fstat(file)
        if (found.st_dev, found.st_ino) != made(path):
            return
        place = f"/proc/self/fd/{file}"  # by now the path may be something else
        if any(wanted not in (-1, its) for wanted, its in zip(owner, (found.st_uid, found.st_gid), strict=True)):
            os.chown(place, *owner)
        if mode not in (-1, stat.S_IMODE(found.st_mode)):
            os.chmod(place, mode)
    finally:
        os.close(file)


def choose(addresses: Sequence[Address], passed: list[tuple[int, str]]) -> list[tuple[Address, int]]:
    """What to listen on: each address, with -1 where a socket is to be bound, else with the descriptor that was passed.

    passed: descriptors and names. They take the place of all addresses, unless some are `fd:NAME` or `fd:NUMBER`: then
    each stands for the sockets of that name, or for that one, which may have been passed without a word; `passed` has
    it afterwards. Raises ListenError.
    """
    told = [(Address(fd=name), descriptor) for descriptor, name in passed if name != str(descriptor)]
    if told and not any(address.fd for address in addresses):
        return told
    chosen: list[tuple[Address, int]] = []
    for address in addresses:
        found = [descriptor for descriptor, name in passed if address.fd and address.fd in (name, str(descriptor))]
        if address.fd.isdecimal() and not found and _is_listening(int(address.fd)):
            passed.append((int(address.fd), address.fd))
            found = [int(address.fd)]
        if address.fd and not found:
            names = ", ".join(sorted({name for _, name in passed})) or "none"
            raise ListenError(f"no socket was passed as {address}", f"what was passed: {names}; see LISTEN_FDNAMES")
        chosen += [(address, descriptor) for descriptor in found or [-1]]
    return chosen


def take(descriptor: int) -> socket.socket:
    """Return a listening socket that was passed under this number, which stays open beside it. Raises ListenError."""
    if not _is_listening(descriptor):
        hint = "a socket unit needs ListenStream= (and not Accept=yes)"
        raise ListenError(f"descriptor {descriptor} is no listening stream socket", hint)
    sock = socket.socket(fileno=os.dup(descriptor))
    os.set_inheritable(sock.fileno(), False)
    _prepare(sock)
    sock.setblocking(False)
    _passed.add(os.fstat(descriptor).st_ino)
    return sock


def are_own(socks: Iterable[socket.socket]) -> bool:
    """Whether nobody but this server has these sockets: none was passed."""
    return _passed.isdisjoint(os.fstat(sock.fileno()).st_ino for sock in socks)


def is_made(sock: socket.socket) -> bool:
    """Whether this process, or the image before it, made this unix socket's file."""
    return sock.family == socket.AF_UNIX and sock.getsockname() in _made


def places(socks: Iterable[socket.socket]) -> list[tuple[int, Any]]:
    """Where a client on this host finds them: family and address of each."""
    found: list[tuple[int, Any]] = []
    for sock in socks:
        place = sock.getsockname()
        if sock.family != socket.AF_UNIX:
            place = (LOOPBACK.get(place[0], place[0]), *place[1:])
        found.append((sock.family, place))
    return found


def made(path: str) -> tuple[int, int]:
    """Device and inode of the unix socket that this process made at a path; 0 where it made none."""
    return _made[path][1:] if path in _made else (0, 0)


def is_lost(path: str) -> bool:
    """Whether this process made a unix socket at a path that is not there any more, so that nobody can connect."""
    return path in _made and _made[path] != _identity(path)


def url(sock: socket.socket) -> str:
    """Return where a client on this host finds the socket: `http://127.0.0.1:8080/`, or `unix:/path`."""
    if sock.family == socket.AF_UNIX:
        path = sock.getsockname()
        return f"unix:{path}" if isinstance(path, str) else f"unix:@{os.fsdecode(path[1:])}"
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


def is_held(address: Address, pid: int) -> bool:
    """Whether this process listens there, so that it cannot be tried before its end; also where that is not known."""
    sockets = set(_sockets(pid))
    if not sockets or address.fd:
        return True
    if address.path:
        return not sockets.isdisjoint(_unix_inodes(address.path))
    family, place = _resolve(address)
    return not sockets.isdisjoint(_inodes(family, str(place[0]).partition("%")[0], address.port))


def let_go(socks: Iterable[socket.socket], descriptors: Iterable[int]) -> None:
    """Close these, whoever may have closed some of them, in a child: what its parent has made stays."""
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
    """Close the sockets (again does no harm), and remove those unix sockets that this process made."""
    for sock in socks:
        try:
            path = sock.getsockname() if sock.family == socket.AF_UNIX and sock.fileno() >= 0 else ""
            sock.close()
        except OSError:
            continue  # the application has closed it
        if path in _made and _made.pop(path) == _identity(path):
            _remove(path)


def _open(
    family: int,
    place: tuple[object, ...] | str | bytes,
    reuse_port: bool = False,
    owner: tuple[int, int] = (-1, -1),
) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        if family != socket.AF_UNIX:
            prefer(sock, socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if reuse_port:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        _prepare(sock)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(place)
        if owner != (-1, -1) and isinstance(place, str):  # before anybody can connect
            _give(place, *owner)
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock


def _prepare(sock: socket.socket) -> None:
    """Set what accepted sockets inherit on Linux."""
    if sock.family != socket.AF_UNIX:
        prefer(sock, socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A client that does not read must not make the kernel keep megabytes for it: a thousand would fill it.
        prefer(sock, socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT)


def prefer(sock: socket.socket, level: int, option: int, value: int) -> None:
    """Set what makes a socket better, but serves without: some kernels do not know it."""
    try:
        sock.setsockopt(level, option, value)
    except OSError:
        return


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
        inodes = _inodes(family, str(place[0]).partition("%")[0], int(str(place[1])))
        return _in_use(str(address), inodes, "choose another port")
    if error.errno == errno.EACCES and address.port < PRIVILEGED_PORTS:
        hint = f"a port below {PRIVILEGED_PORTS} needs CAP_NET_BIND_SERVICE; choose a higher one behind a front server"
        return ListenError(f"{address}: no permission for port {address.port}", hint)
    if error.errno == errno.ENOPROTOOPT:
        hint = "SO_REUSEPORT is not used with reuse_port = no, nor IPV6_V6ONLY with an IPv4 address"
        return ListenError(f"cannot listen on {address}: this system lacks an option of sockets", hint)
    if error.errno == errno.EADDRNOTAVAIL:
        hint = "127.0.0.1 is this machine alone, 0.0.0.0 every IPv4 address of it"
        return ListenError(f"{address} is not an address of this machine", hint)
    return ListenError(f"cannot listen on {address}: {error.strerror}", "choose another address")


def _in_use(what: str, inodes: Iterable[str], hint: str) -> InUseError:
    owners = _owners(inodes)
    by = f" by {', '.join(f'pid {pid} ({_command(pid)})' for pid in owners)}" if owners else ""
    others = [each for each in owners if each != os.getppid()]  # that of a trial is the server
    stop = f", or stop who has this one: kill {' '.join(map(str, others))}" if others else ""
    return InUseError(f"{what} is in use{by}", f"{hint}{stop}")


# Unix sockets


def _bind_abstract(address: Address) -> socket.socket:
    """It has no file, so neither a mode nor an owner, and nobody need remove it."""
    try:
        return _open(socket.AF_UNIX, b"\0" + os.fsencode(address.path[1:]))
    except OSError as error:
        kind = InUseError if error.errno == errno.EADDRINUSE else ListenError
        raise kind(f"cannot listen on {address}: {error.strerror}", "choose another name") from None


def _give(path: str, uid: int, gid: int) -> None:
    # By now the path may be something else, that somebody put there.
    if stat.S_ISSOCK(os.lstat(path).st_mode):
        os.chown(path, uid, gid, follow_symlinks=False)


def _bind_unix(path: str, mode: int, owner: tuple[int, int]) -> socket.socket:
    _make_room(path)
    # Not chmod afterwards: whoever connects in between would be in.
    umask = os.umask(0o777 & ~mode) if mode >= 0 else -1
    try:
        sock = _open(socket.AF_UNIX, path, owner=owner)
    except OSError as error:
        hint = f"is {os.path.dirname(path)} a directory in which this user may write?"
        if error.errno == errno.EPERM:
            hint = "socket_owner: only root gives a socket away, or its owner to a group of his"
            os.unlink(path)
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
        found = os.lstat(path)
        if not stat.S_ISSOCK(found.st_mode):
            raise ListenError(f"{path} exists and is not a socket", "choose another path")
        probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            probe.setblocking(False)
            probe.connect(path)
        finally:
            probe.close()
    except ConnectionRefusedError:
        if _removed_dead(path, found):
            return
    except FileNotFoundError:
        return
    except OSError:
        pass  # no permission, or its queue is full: somebody is there
    raise _in_use(f"unix:{path}", _unix_inodes(path), "choose another path")


def _removed_dead(path: str, found: os.stat_result) -> bool:
    """Whether the socket that was found at a path, without a listener, is there no more. Raises ListenError."""
    try:
        now = os.lstat(path)
        # Else somebody has begun to listen there meanwhile. An inode may be used again, so its time counts too.
        if (now.st_dev, now.st_ino, now.st_ctime_ns) != (found.st_dev, found.st_ino, found.st_ctime_ns):
            return False
        os.unlink(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        hint = "remove it as its owner, or choose another path"
        raise ListenError(f"cannot replace {path}, which a dead process has left: {error.strerror}", hint) from None
    return True


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


def _owners(inodes: Iterable[str]) -> list[int]:
    """Return the numbers of the processes that have these sockets, but those whose parent has them: they end with it.

    Empty where /proc does not tell this user.
    """
    try:
        inodes = set(inodes)
        pids = sorted(int(each) for each in os.listdir("/proc") if each.isdecimal())
        owners = [pid for pid in pids if inodes & set(_sockets(pid))]
    except (OSError, ValueError, IndexError):
        return []
    return [pid for pid in owners if _parent(pid) not in owners]


def _inodes(family: int, host: str, port: int) -> Iterator[str]:
    """Yield the inodes of the sockets that listen on this port, on this or on every address."""
    wanted = {_hexadecimal(family, host), "0" * 8, "0" * 32}
    for table in "/proc/net/tcp", "/proc/net/tcp6":
        for fields in map(str.split, _lines(table)):
            local, _, number = fields[1].partition(":")
            if fields[3] == LISTENING and int(number, 16) == port and (local in wanted or host in LOOPBACK):
                yield fields[9]


def _unix_inodes(path: str) -> Iterator[str]:
    """Yield the inodes of the sockets of this path."""
    return (fields[6] for fields in map(str.split, _lines("/proc/net/unix")) if fields[7:] == [path])


def _lines(table: str) -> list[str]:
    """The lines of a table of the kernel below its head; none where it is not there."""
    try:
        with open(table, encoding="utf-8", errors="surrogateescape") as lines:
            return lines.readlines()[1:]
    except OSError:
        return []


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
