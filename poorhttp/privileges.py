"""From root to the user that serves, for good.

Knows users, groups and system calls. Does not know what was opened before: sockets, logs and the pidfile are the
caller's. Contract: after `drop` no way back to root is left, which is tried; before it nothing of the application runs.
"""

from __future__ import annotations

import os
import stat

from poorhttp.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class lent_to:
    """For a while do everything with the rights of this user only: `with lent_to("www-data", ""): ...`."""

    def __init__(self, user: str, group: str) -> None:
        _, self._uid, self._gid = _find(user, group)

    def __enter__(self) -> None:
        self._groups = os.getgroups()
        os.setgroups([self._gid])
        os.setegid(self._gid)
        os.seteuid(self._uid)

    def __exit__(self, *_: object) -> None:
        os.seteuid(0)
        os.setegid(os.getgid())
        os.setgroups(self._groups)


def drop(user: str, group: str, sockets: Iterable[str] = ()) -> None:
    """Become `user` (a name or a number) in `group` ("": the user's), without any other group but the user's own.

    sockets: paths of unix sockets that are to be his.
    Nothing to do where both are "", or where this process is that user already. Raises ConfigError.
    """
    if not user and not group:
        return
    name, uid, gid = _find(user, group)
    if (os.getuid(), os.geteuid(), os.getgid()) == (uid, uid, gid):
        return
    if os.geteuid() != 0:
        raise ConfigError(f"only root can become {user or group}", "start as root, or leave user and group empty")
    for path in sockets:
        # By now the path may be something else, that somebody put there.
        if stat.S_ISSOCK(os.lstat(path).st_mode):
            os.chown(path, uid, gid, follow_symlinks=False)
    if name:
        os.initgroups(name, gid)
    else:
        os.setgroups([gid])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    if not os.access(os.__file__, os.R_OK):
        hint = "install Python and poorhttp where that user may read them"
        raise ConfigError(f"{user} may not read the interpreter's own {os.__file__}", hint)
    if uid and _can_return():
        raise ConfigError(f"could not give up root for {user}", "this is a fault of the system: start as that user")


def _find(user: str, group: str) -> tuple[str, int, int]:
    """Name ("" for a number without one) and number of the user, and the group; those of this process for ""."""
    name, uid, gid = _find_user(user)
    return name, uid, _find_group(group) if group else gid


def _find_user(user: str) -> tuple[str, int, int]:
    if not user:
        return "", os.geteuid(), os.getegid()
    import pwd

    try:
        found = pwd.getpwuid(int(user)) if user.isdecimal() else pwd.getpwnam(user)
    except (KeyError, OverflowError):
        if not user.isdecimal() or int(user) >= (1 << 32) - 1:
            raise ConfigError(f"there is no user {user!r}", "name one of this machine: getent passwd") from None
        return "", int(user), int(user)
    return found.pw_name, found.pw_uid, found.pw_gid


def _find_group(group: str) -> int:
    import grp

    try:
        return int(group) if group.isdecimal() else grp.getgrnam(group).gr_gid
    except KeyError:
        raise ConfigError(f"there is no group {group!r}", "name one of this machine: getent group") from None


def _can_return() -> bool:
    ways: list[Callable[[], object]] = [
        lambda: os.setresuid(0, 0, 0),
        lambda: os.setresgid(0, 0, 0),
        lambda: os.setgroups([0]),
    ]
    return any(map(_succeeds, ways))


def _succeeds(way: Callable[[], object]) -> bool:
    try:
        way()
    except OSError:
        return False
    return True
