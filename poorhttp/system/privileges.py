"""From root to the user that serves, for good.

Knows users, groups and system calls. Does not know what was opened before: sockets, logs and the pidfile are the
caller's. Contract: after `drop` no way back to root is left, which is tried; before it nothing of the application runs.
"""

from __future__ import annotations

from poorhttp.errors import ConfigError
from poorhttp.stdlib import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class lent_to:
    """For a while do everything with the rights of this user only: `with lent_to("www-data", ""): ...`.

    Raises ConfigError where this process may not become him, or he could not even import a module.
    """

    def __init__(self, user: str, group: str) -> None:
        _, self._uid, self._gid = _find(user, group)
        self._user = user or group

    def __enter__(self) -> None:
        self._groups = os.getgroups()
        try:
            os.setgroups([self._gid])
            os.setegid(self._gid)
            os.seteuid(self._uid)
        except OSError as error:
            raise _cannot_become(self._user, error) from None
        try:
            _check_interpreter(self._user)
        except ConfigError:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        os.seteuid(0)
        os.setegid(os.getgid())
        os.setgroups(self._groups)


def settle() -> None:
    """Be for good, in a child, whom its parent was for a while (`lent_to`)."""
    uid, gid, groups = os.geteuid(), os.getegid(), os.getgroups()
    if (os.getuid(), os.getgid()) == (uid, gid):
        return
    os.seteuid(0)
    os.setgroups(groups)
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def drop(user: str, group: str) -> None:
    """Become `user` (a name or a number) in `group` ("": the user's), without any other group but the user's own.

    HOME, USER and LOGNAME become his too. Nothing to do where both are "", or where this process is that user already.
    Raises ConfigError.
    """
    if not user and not group:
        return
    name, uid, gid = _find(user, group)
    if user and name:
        _move_in(name)
    if (os.getuid(), os.geteuid(), os.getgid()) == (uid, uid, gid):
        return
    if os.geteuid() != 0:
        raise ConfigError(f"only root can become {user or group}", "start as root, or leave user and group empty")
    try:
        if name:
            os.initgroups(name, gid)
        else:
            os.setgroups([gid])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    except OSError as error:
        raise _cannot_become(user or group, error) from None
    _check_interpreter(user)
    if uid and _can_return():
        raise ConfigError(f"could not give up root for {user}", "this is a fault of the system: start as that user")


def owner(text: str, user: str, group: str) -> tuple[int, int]:
    """Numbers of the user and the group, -1 for as it is, to whom a unix socket is to belong: `user`, `user:group` or
    `:group`, for "" to those who serve where root starts the server. Raises ConfigError.
    """
    if not text:
        return _find(user, group)[1:] if (user or group) and os.geteuid() == 0 else (-1, -1)
    name, _, its_group = text.partition(":")
    return _find_user(name)[1] if name else -1, _find_group(its_group) if its_group else -1


def can_become(user: str, group: str) -> bool:
    """Whether this process could become them. Raises ConfigError where there are none of these names."""
    _, uid, gid = _find(user, group)
    return os.geteuid() == 0 or (os.geteuid(), os.getegid()) == (uid, gid)


def _cannot_become(whom: str, error: OSError) -> ConfigError:
    """A root who was left without these rights, as in some containers."""
    hint = "root needs CAP_SETUID and CAP_SETGID here; or leave out user and group"
    return ConfigError(f"cannot become {whom}: {error.strerror}", hint)


def _check_interpreter(user: str) -> None:
    for path in os.__file__, __file__:
        if not os.access(path, os.R_OK, effective_ids=True):
            hint = "install Python and poorhttp where that user may read them"
            raise ConfigError(f"{user} may not read {path}", hint)


def _move_in(name: str) -> None:
    import pwd

    os.environ.update(HOME=pwd.getpwnam(name).pw_dir, USER=name, LOGNAME=name)


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
