"""A limit of memory for a server, set by a control group of the kernel, of either version (cgroups(7)).

Knows neither servers nor loads. The group is made below the one that the bench is in, so all limits of that one stay.
Version 2 lets no group with processes limit the groups below it; then it is made below the next one above that can.
Where none may be written nothing is limited, and `fact` says why.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.client import Failure

MEBIBYTES = 512
MOUNTED = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")
LIMITS = ("memory.limit_in_bytes", "memory.max")  # of the two versions
GONE = 5.0  # seconds within which the kernel lets a group go whose processes have ended
# The shell goes into the group and becomes the server, in the same process.
ENTER = 'echo $$ > "$0/cgroup.procs" && exec "$@"'


@dataclass(frozen=True)
class Group:
    path: Path

    def command(self) -> tuple[str, ...]:
        """What stands before the command of a server that is to be in the group."""
        return ("sh", "-c", ENTER, str(self.path))

    def killed(self) -> int:
        """How many processes the kernel has killed because the memory was not enough."""
        for name in ("memory.events", "memory.oom_control"):
            with contextlib.suppress(OSError):
                words = (self.path / name).read_text().split()
                return int(words[words.index("oom_kill") + 1]) if "oom_kill" in words else 0
        return 0


@contextlib.contextmanager
def limited(mounted: Path = MOUNTED) -> Iterator[Group | None]:
    """A group with the limit until the block ends; None where no group may be written.

    What is left in it then is killed, also what has left the server's session.
    """
    try:
        group = _made(mounted)
    except OSError:
        yield None
        return
    try:
        yield group
    finally:
        _remove(group.path)


def fact(mounted: Path = MOUNTED) -> str:
    """Whether memory is limited here, for the record."""
    try:
        group = _made(mounted)
    except OSError as error:
        return f"not limited: no control group can be written ({error.strerror})"
    _remove(group.path)
    return f"{MEBIBYTES} MiB for each server with all its processes, by a control group"


def ensure_enough(group: Group | None) -> None:
    """Raise Failure if the kernel has killed a process of the group."""
    if group and (count := group.killed()):
        raise Failure(f"the kernel killed {count} of its processes: {MEBIBYTES} MiB were not enough")


def _made(mounted: Path) -> Group:
    root, parent = _own(mounted)
    while True:
        for abandoned in parent.glob("bench-*"):  # by a bench that was killed
            if not (Path("/proc") / abandoned.name.removeprefix("bench-")).exists():
                with contextlib.suppress(OSError):
                    abandoned.rmdir()
        path = parent / f"bench-{os.getpid()}"
        path.mkdir(exist_ok=True)
        try:
            if limits := [path / name for name in LIMITS if (path / name).exists()]:
                limits[0].write_text(str(MEBIBYTES << 20))
                return Group(path)
        except OSError:
            _remove(path)
            raise
        _remove(path)
        if parent == root:
            raise OSError(0, "no group has a limit of memory")
        parent = parent.parent


def _own(mounted: Path) -> tuple[Path, Path]:
    """The directory of the uppermost group, and that of this process's own one, of version 1 or 2."""
    root, own = mounted, "/"
    for line in OWN.read_text().splitlines():
        _, controllers, group = line.split(":", 2)
        if "memory" in controllers.split(","):
            root, own = mounted / "memory", group
            break
        if not controllers:
            own = group
    # In a container, the name may be that which the group has outside, or begin with `..`.
    path = root / own.lstrip("/")
    return root, path if path.is_dir() and ".." not in path.parts else root


def _remove(path: Path) -> None:
    """End the processes of the group, and remove it. Raises OSError if that takes too long."""
    deadline = time.monotonic() + GONE
    while True:
        try:
            path.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            _kill_all(path)
            time.sleep(0.02)
        else:
            return


def _kill_all(path: Path) -> None:
    with contextlib.suppress(OSError):
        for pid in map(int, (path / "cgroup.procs").read_text().split()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
