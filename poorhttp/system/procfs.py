"""Processes as /proc tells of them (proc(5)): which live, their parents, their age, their memory.

Knows numbers of processes. Does not know which of them is a server. Where /proc is not mounted, or hides a process from
this user, each function says so in its result and raises nothing.
"""

from __future__ import annotations

from poorhttp.stdlib import os, time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

HIDDEN = "/proc is not there, or does not show it to this user"

ENDED: tuple[list[bytes], ...] = ([], [b"Z"], [b"X"])
"""The states of a process that is gone, or that only waits for its parent to reap it."""


def lives(pid: int) -> bool:
    """Whether it runs. A zombie does not. Without /proc only a child of this process is seen to be a zombie."""
    fields = stat(pid)
    if fields:
        return fields[:1] not in ENDED
    try:
        os.kill(pid, 0)
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except ProcessLookupError:
        return False
    except (ChildProcessError, PermissionError):
        return True


def wait_for_end(pid: int, seconds: float) -> bool:
    """Whether the process ends in this time."""
    end = time.monotonic() + seconds
    while lives(pid):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def numbers() -> list[int]:
    """The numbers of all processes; none without /proc."""
    try:
        return [int(each) for each in os.listdir("/proc") if each.isdecimal()]
    except OSError:
        return []


def children(pid: int) -> Iterator[int]:
    """The children of a process, but not the trial of a reload; none without /proc."""
    for each in numbers():
        if stat(each)[1:2] == [b"%d" % pid] and b"POORHTTP_TRIAL=" not in read(each, "environ"):
            yield each


def age(pid: int) -> float | None:
    """Seconds since its start; None where the process is gone, and without /proc."""
    fields = stat(pid)
    if not fields:
        return None
    with open("/proc/uptime", "rb") as file:
        uptime = float(file.read().split()[0])
    return max(uptime - int(fields[19]) / os.sysconf("SC_CLK_TCK"), 0.0)


def pss(pid: int) -> int:
    """Bytes of a process, of shared memory its share (PSS); 0 where this user may not know."""
    for line in read(pid, "smaps_rollup").splitlines():
        if line.startswith(b"Pss:"):
            return int(line.split()[1]) << 10
    return 0


def weigh(pid: int) -> int:
    """Bytes of a process: its PSS, or its RSS, which counts shared memory in full, where this user may not know the
    PSS; 0 where the process is gone.
    """
    resident = read(pid, "statm").split()[1:2]
    return pss(pid) or (int(resident[0]) * os.sysconf("SC_PAGE_SIZE") if resident else 0)


def processes() -> dict[int, tuple[int, int]]:
    """The parent of each process, and the time of its start in ticks, which tells it from a later process of the same
    number; none without /proc.
    """
    told = {each: stat(each) for each in numbers()}
    return {each: (int(fields[1]), int(fields[19])) for each, fields in told.items() if fields}


def below(tops: Iterable[int], seen: dict[int, tuple[int, int]], without: Container[int] = ()) -> set[int]:
    """The children of these processes, their children, and so on; without: processes left out with all below them."""
    found: set[int] = set()
    level = set(tops)
    while level:
        level = {pid for pid, (parent, _) in seen.items() if parent in level and pid not in without} - found
        found |= level
    return found


def stat(pid: int) -> list[bytes]:
    """The fields of `stat` behind the name, which may hold anything; none where the process is gone."""
    return read(pid, "stat").rpartition(b") ")[2].split()


def read(pid: int, what: str) -> bytes:
    """The first 64 KiB of a file about a process; nothing where it cannot be read."""
    try:
        with open(f"/proc/{pid}/{what}", "rb") as file:
            return file.read(1 << 16)
    except OSError:
        return b""
