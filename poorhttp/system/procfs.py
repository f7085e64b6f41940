"""Processes as /proc tells of them (proc(5)): which live, who started which, how old they are and what they weigh.

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
"""The state of a process, from /proc, that is gone or only waits for its parent to look."""


def lives(pid: int) -> bool:
    """Whether it runs; a zombie does not. Where /proc does not tell, one that is not this process's child is none."""
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
    """Those of all processes; none where that is not told."""
    try:
        return [int(each) for each in os.listdir("/proc") if each.isdecimal()]
    except OSError:
        return []


def children(pid: int) -> Iterator[int]:
    """Its workers, and other children; a trial of a reload is none. None where that is not told."""
    for each in numbers():
        if stat(each)[1:2] == [b"%d" % pid] and b"POORHTTP_TRIAL=" not in read(each, "environ"):
            yield each


def age(pid: int) -> float | None:
    """Seconds since its start; None where it is gone, or that is not told."""
    fields = stat(pid)
    if not fields:
        return None
    with open("/proc/uptime", "rb") as file:
        uptime = float(file.read().split()[0])
    return max(uptime - int(fields[19]) / os.sysconf("SC_CLK_TCK"), 0.0)


def pss(pid: int) -> int:
    """KiB; 0 where this user may not know."""
    for line in read(pid, "smaps_rollup").splitlines():
        if line.startswith(b"Pss:"):
            return int(line.split()[1])
    return 0


def weigh(pid: int) -> int:
    """Bytes of a process: its share of what it shares with others (PSS), or, where this user may not know that, all
    that is resident (RSS), so that what is shared counts many times; 0 where the process is gone.
    """
    for line in read(pid, "smaps_rollup").splitlines():
        if line.startswith(b"Pss:"):
            return int(line.split()[1]) << 10
    resident = read(pid, "statm").split()[1:2]
    return int(resident[0]) * os.sysconf("SC_PAGE_SIZE") if resident else 0


def processes() -> dict[int, tuple[int, int]]:
    """The parent of each process of this moment, and when it was started, in ticks: numbers are used again. None where
    that is not told, or no descriptor is left to ask.
    """
    try:
        names = os.listdir("/proc")
    except OSError:
        return {}
    seen = {}
    for each in names:
        if each.isdecimal():
            fields = read(int(each), "stat").rpartition(b") ")[2].split()
            if fields:
                seen[int(each)] = int(fields[1]), int(fields[19])
    return seen


def below(tops: Iterable[int], seen: dict[int, tuple[int, int]], without: Container[int] = ()) -> set[int]:
    """What these processes have started, and what that has started; without: whom to leave out, with all below."""
    found: set[int] = set()
    level = set(tops)
    while level:
        level = {pid for pid, (parent, _) in seen.items() if parent in level and pid not in without} - found
        found |= level
    return found


def stat(pid: int) -> list[bytes]:
    """The fields from the state on (proc(5)), empty where the process is gone; its name may hold anything."""
    return read(pid, "stat").rpartition(b") ")[2].split()


def read(pid: int, what: str) -> bytes:
    try:
        with open(f"/proc/{pid}/{what}", "rb") as file:
            return file.read(1 << 16)
    except OSError:
        return b""
