"""Which server runs already: found by its pidfile, or by the ini file that it was started with.

Knows pidfiles, scoreboards and /proc. Does not know what is done with the server then.
"""

from __future__ import annotations

from poorhttp.errors import ConfigError
from poorhttp.status import pidfile, reader
from poorhttp.status.pidfile import is_server, wrote
from poorhttp.stdlib import os
from poorhttp.system import procfs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from poorhttp.config.model import Config

ORPHANED = 5.0
"""Seconds after which the workers of a killed server have ended and its addresses are free."""


def find(settings: Config) -> int:
    """The process number of the running server; 0 without a pidfile, -1 if a dead server has left it or it names
    another program. Raises ConfigError if no pidfile is set, or it cannot be read or trusted.
    """
    pid, is_its = read_pidfile(settings)
    return pid if pid <= 0 or (is_its and is_server(pid)) else -1


def find_ended(settings: Config) -> int:
    """The process number of a server that has ended and left its pidfile; 0 without one. Raises what `find` does."""
    pid, is_its = read_pidfile(settings)
    return 0 if is_its else max(pid, 0)


def describe_other_program(settings: Config) -> str:
    """Words about the living process of another program in the pidfile; "" for none. Raises what `find` does."""
    pid, is_its = read_pidfile(settings)
    is_other = pid > 0 and is_its and not is_server(pid)
    return f"{settings.pidfile} names process {pid}, which is alive and no poorhttp" if is_other else ""


def read_pidfile(settings: Config) -> tuple[int, bool]:
    """The number in the pidfile (0 without one, -1 in an empty one), and whether that process lives and wrote it."""
    path = settings.pidfile
    if not path:
        raise ConfigError("no pidfile is set", "name one: pidfile = FILE in the ini file (-c FILE), or --pidfile FILE")
    try:
        descriptor = pidfile.open_(path)
        if descriptor < 0:
            return 0, False
        try:
            pid = pidfile.number(path, descriptor)
            return pid, pid > 0 and wrote(pid, descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        hint = "ask its owner" if isinstance(error, PermissionError) else pidfile.ANOTHER
        raise ConfigError(f"cannot read the pidfile {path}: {error.strerror}", hint) from None


def serves(settings: Config, pid: int) -> bool:
    """Whether a process of this server is ready to serve clients; also if this user may not know. While a new program
    loads, the workers of the one before serve. `dev` has no scoreboard.
    """
    try:
        return is_dev(settings, pid) or any(reader.serves(each) for each in (pid, *procfs.children(pid)))
    except PermissionError:
        return True


def is_dev(settings: Config, pid: int) -> bool:
    words = procfs.read(pid, "cmdline").split(b"\0")
    return settings.autoreload or not {b"dev", b"--reload", b"--autoreload"}.isdisjoint(words)


def describe_server_of_ini(settings: Config) -> str:
    """Words about a running server of the same ini file in which the pidfile was changed since; "" for none."""
    path, name = os.path.realpath(settings.ini), os.fsencode(os.path.basename(settings.ini))
    for pid in procfs.numbers() if settings.ini else ():
        try:
            begun = reader.read_start(pid) if name in procfs.read(pid, "cmdline") else {}
        except PermissionError:
            continue
        if begun.get("ini") and os.path.realpath(begun["ini"]) == path:
            where = f"with --pidfile {begun['pidfile']} until a reload" if begun["pidfile"] else "without a pidfile"
            return f"pid {pid} runs by this ini file, {where}"
    return ""
