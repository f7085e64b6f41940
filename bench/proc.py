"""What /proc tells of a process tree: CPU time, memory, context switches.

Knows the formats of proc(5); knows no server. Times are seconds, sizes bytes. A process that ends while it is read
is left out; its CPU time is by then in its parent's account.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from socket import inet_aton

PROC = Path("/proc")
TICKS = os.sysconf("SC_CLK_TCK")


def tree(root: int) -> list[int]:
    """The process, its descendants, and every process of its session (orphans leave the first set, not the second)."""
    found = {root}
    stats = dict(_all_stats())
    for _ in stats:
        more = {pid for pid, (parent, session, _) in stats.items() if parent in found or session == root} - found
        if not more:
            break
        found |= more
    return sorted(found & stats.keys())


def cpu(root: int) -> float:
    """User and system seconds of the tree since it began, children that ended and were waited for included."""
    stats = dict(_all_stats())
    return sum(stats[pid][2] for pid in tree(root) if pid in stats) / TICKS


def exact_cpu(root: int) -> float:
    """The same to the nanosecond, but only of threads that are still there: for what is short."""
    return sum(int((_read(task, "schedstat") or "0").split()[0]) for task in _tasks(root)) / 1e9


def parse_stat(text: str) -> tuple[int, int, int]:
    """Parent, session, and the ticks of utime + stime + cutime + cstime from /proc/PID/stat.

    The name in parentheses may itself hold spaces and parentheses, so fields count from the last one.
    """
    fields = text[text.rindex(")") + 2 :].split()
    return int(fields[1]), int(fields[3]), sum(int(field) for field in fields[11:15])


def parse_fields(text: str) -> dict[str, int]:
    """`Name: number [kB]` lines as a dict, kB as bytes; lines of another form are left out."""
    fields = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        words = value.split()
        if name.isidentifier() and words and words[0].isdigit():
            fields[name] = int(words[0]) * (1024 if words[-1] == "kB" else 1)
    return fields


def memory(root: int) -> dict[str, int]:
    """`pss`, `dirty` (private and dirty) of the tree, and `alone`: see `parse_smaps`."""
    total = {"pss": 0, "dirty": 0}
    anonymous, files = 0, {}
    for pid in tree(root):
        fields = parse_fields(_read(pid, "smaps_rollup"))
        total["pss"] += fields.get("Pss", 0)
        total["dirty"] += fields.get("Private_Dirty", 0)
        anonymous += fields.get("Pss_Anon", 0)
        for key, size in parse_smaps(_read(pid, "smaps")).items():
            files[key] = max(files.get(key, 0), size)
    return {**total, "alone": anonymous + sum(files.values())}


def parse_smaps(text: str) -> dict[tuple[str, str, str], int]:
    """Resident bytes of each mapped file, without its private copies, by (device, inode, offset).

    The largest of these over a tree, plus the anonymous share, is what the tree would weigh if no other process had
    the same files mapped. PSS reads lower where one has, for instance another Python of the same installation.
    """
    sizes: dict[tuple[str, str, str], int] = {}
    key, resident = None, 0
    for line in text.splitlines():
        words = line.split()
        if "-" in words[0]:
            key = (words[3], words[4], words[2]) if words[4] != "0" else None
        elif words[0] == "Rss:":
            resident = int(words[1]) * 1024
        elif words[0] == "Anonymous:" and key:
            sizes[key] = sizes.get(key, 0) + resident - int(words[1]) * 1024
    return sizes


def strangers(root: int) -> int:
    """How many processes outside the tree run the same executable, and so lower its PSS."""
    inside = set(tree(root))
    program = _program(root)
    return sum(1 for pid in _pids() if pid not in inside and program and _program(pid) == program)


def switches(root: int) -> int:
    """Context switches of all threads of the tree so far, voluntary or not."""
    total = 0
    for task in _tasks(root):
        fields = parse_fields(_read(task, "status"))
        total += fields.get("voluntary_ctxt_switches", 0) + fields.get("nonvoluntary_ctxt_switches", 0)
    return total


def descriptors(root: int) -> int:
    """Open descriptors of all processes of the tree."""
    return sum(len(_list(PROC / str(pid) / "fd")) for pid in tree(root))


def accepted(port: int, peer: str) -> int:
    """Established TCP connections (IPv4) that a server has accepted at this port from this address."""
    return parse_tcp((PROC / "net" / "tcp").read_text(), port, peer)


def parse_tcp(text: str, port: int, peer: str) -> int:
    """How many lines of /proc/net/tcp are established, from `peer` to this local port, and accepted.

    A connection that only the kernel has accepted has no inode.
    """
    local, remote = f":{port:04X} ", f" {int.from_bytes(inet_aton(peer), sys.byteorder):08X}:"
    lines = (line.split() for line in text.splitlines() if local in line[:30] and remote in line[15:40])
    return sum(1 for words in lines if f"{words[1]} ".endswith(local) and words[3] == "01" and words[9] != "0")


def shape(root: int) -> tuple[int, int]:
    """Processes and threads of the tree."""
    return len(tree(root)), len(list(_tasks(root)))


def _tasks(root: int) -> Iterator[str]:
    for pid in tree(root):
        yield from (f"{pid}/task/{task}" for task in _list(PROC / str(pid) / "task"))


def _all_stats() -> Iterable[tuple[int, tuple[int, int, int]]]:
    for pid in _pids():
        if text := _read(pid, "stat"):
            yield pid, parse_stat(text)


def _pids() -> list[int]:
    return [int(name) for name in os.listdir(PROC) if name.isdigit()]


def _program(pid: int) -> str:
    try:
        return os.path.realpath(f"/proc/{pid}/exe", strict=True)
    except OSError:
        return ""


def _list(directory: Path) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _read(process: int | str, name: str) -> str:
    try:
        return (PROC / str(process) / name).read_text(errors="replace")
    except OSError:
        return ""
