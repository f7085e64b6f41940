"""Unix sockets that listen: made with mode and owner, and removed by the process that made them, while they are the
same files.

Knows which files of unix sockets this process made. Does not know TCP. Nobody can connect before mode and owner are
set.
"""

from __future__ import annotations

import errno
import stat

from poorhttp.errors import InUseError, ListenError
from poorhttp.listen.port_owner import in_use, unix_inodes
from poorhttp.stdlib import os, socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from poorhttp.config.addresses import Address

_made: dict[str, tuple[int, int, int]] = {}
"""Path of a unix socket -> process that made it, device and inode."""


def bind_abstract(address: Address) -> socket.socket:
    """Return a bound socket of the abstract namespace, which has no file. Raises ListenError."""
    try:
        return _bound(b"\0" + os.fsencode(address.path[1:]))
    except OSError as error:
        kind = InUseError if error.errno == errno.EADDRINUSE else ListenError
        raise kind(f"cannot listen on {address}: {error.strerror}", "choose another name") from None


def bind(path: str, mode: int, owner: tuple[int, int]) -> socket.socket:
    """Return a bound socket; mode and owner: -1 for what the system sets. Raises ListenError."""
    _make_room(path)
    # A chmod afterwards would let clients connect before it.
    umask = os.umask(0o777 & ~mode) if mode >= 0 else -1
    try:
        sock = _bound(path, owner)
    except OSError as error:
        hint = f"is {os.path.dirname(path)} a directory in which this user may write?"
        if error.errno == errno.EPERM:
            hint = "socket_owner: only root can set another user, and others only a group of their own"
            os.unlink(path)
        raise ListenError(f"cannot listen on unix:{path}: {error.strerror}", hint) from None
    finally:
        if umask >= 0:
            os.umask(umask)
    identity = _identity(path)
    if identity:
        _made[path] = identity
    return sock


def adopt(sock: socket.socket, device: int, inode: int) -> None:
    """Note that the program before this one, in the same process, made this socket."""
    _made[sock.getsockname()] = os.getpid(), device, inode


def change(sock: socket.socket, mode: int, owner: tuple[int, int]) -> None:
    """Set mode and owner of a socket that this process made; -1: as they are. Raises OSError."""
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


def is_made(sock: socket.socket) -> bool:
    """Whether this process made the file of this socket."""
    return sock.family == socket.AF_UNIX and sock.getsockname() in _made


def made(path: str) -> tuple[int, int]:
    """Return device and inode of the unix socket that this process made at a path; 0, 0 if it made none."""
    return _made[path][1:] if path in _made else (0, 0)


def is_lost(path: str) -> bool:
    """Whether this process made a unix socket at a path, and its file is gone."""
    return path in _made and _made[path] != _identity(path)


def remove(path: str) -> None:
    """Remove the file of a socket that is closed, if this process made it."""
    if path in _made and _made.pop(path) == _identity(path):
        try:
            os.unlink(path)
        except OSError:
            return  # the directory is another user's now; the next start replaces a socket without a listener


def _bound(place: str | bytes, owner: tuple[int, int] = (-1, -1)) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(place)
        # By now somebody may have put something else there.
        if owner != (-1, -1) and isinstance(place, str) and stat.S_ISSOCK(os.lstat(place).st_mode):
            os.chown(place, *owner, follow_symlinks=False)
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock


def _make_room(path: str) -> None:
    """Remove a socket that a dead process left behind. Raises ListenError for anything else that is there."""
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
        pass  # no permission, or a full listen queue: a process listens there
    raise in_use(f"unix:{path}", unix_inodes(path), "choose another path")


def _removed_dead(path: str, found: os.stat_result) -> bool:
    """Remove the socket without a listener that was found at a path; False if there is another one now. Raises
    ListenError.
    """
    try:
        now = os.lstat(path)
        # An inode may be used again, so its time counts too.
        if (now.st_dev, now.st_ino, now.st_ctime_ns) != (found.st_dev, found.st_ino, found.st_ctime_ns):
            return False
        os.unlink(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        hint = "remove it as its owner, or choose another path"
        raise ListenError(f"cannot replace {path}, which a dead process has left: {error.strerror}", hint) from None
    return True


def _identity(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return os.getpid(), found.st_dev, found.st_ino
