"""What a process tree takes: CPU time, memory, context switches, descriptors.

psutil reads what it knows. The rest is read from /proc by hand, as proc(5) has it: psutil has no CPU time finer than
10 ms, no context switches but those of the first thread of a process, and of memory neither the dirty part nor the
offsets that tell what two mappings share. A look at five processes, beside a hundred others, takes 1.1 to 1.4 ms of
CPU, but `memory` takes 3.2 ms: what runs while something is measured must ask for it seldom.

Knows no server. Times are seconds, sizes bytes. A process that ends while it is read is left out; its CPU time is by
then in its parent's account.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from socket import AF_INET, AF_NETLINK, IPPROTO_TCP, SOCK_RAW, htons, inet_aton, socket
from typing import TypeVar

try:
    import psutil
except ImportError as error:
    raise SystemExit("error: psutil is not installed: pip install 'poorhttp[bench]'") from error

PROC = Path("/proc")
# linux/sock_diag.h, linux/netlink.h, linux/inet_diag.h, net/tcp_states.h
SOCK_DIAG, BY_FAMILY, REQUEST, DUMP, TCP_INFO, NONE = 4, 20, 0x1, 0x300, 2, b"\xff" * 8
ESTABLISHED, CONNECTING, HALF_CLOSED = 1, 2, 8
LAST_RECEIVED = 52  # bytes into struct tcp_info (linux/tcp.h): milliseconds since data came
Fact = TypeVar("Fact")


def tree(root: int) -> list[int]:
    """The process, its descendants, and every process of its session (orphans leave the first set, not the second)."""
    found: set[int] = set()
    for pid in (root, *(pid for pid in psutil.pids() if pid != root and _session(pid) == root)):
        if pid not in found:
            with contextlib.suppress(psutil.Error):
                process = psutil.Process(pid)
                found |= {pid, *(child.pid for child in process.children(recursive=True))}
    return sorted(found)


def family(root: int) -> list[psutil.Process]:
    """The processes of the tree, to end them later: each knows when it began, and so is not taken for a later one."""
    found = []
    for pid in tree(root):
        with contextlib.suppress(psutil.Error):
            found.append(psutil.Process(pid))
    return found


def end(processes: Iterable[psutil.Process]) -> None:
    """Kill those that are still there."""
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()


def cpu(root: int) -> float:
    """User and system seconds of the tree since it began, children that ended and were waited for included."""
    return sum(cpu_of_each(root).values())


def cpu_of_each(root: int) -> dict[int, float]:
    """User and system seconds of each process of the tree that is there, by its number."""
    return _of_each(root, lambda process: sum(process.cpu_times()[:4]))  # and what its children took


def exact_cpu(root: int) -> float:
    """What `cpu` gives, to the nanosecond, but only of threads that are still there: for what is short."""
    return sum(int((_read(task, "schedstat") or "0").split()[0]) for task in _tasks(root)) / 1e9


def waited(root: int) -> float:
    """Seconds for which the tree's threads were ready to run, but others ran."""
    return sum(int((_read(task, "schedstat") or "0 0").split()[1]) for task in _tasks(root)) / 1e9


def stolen() -> tuple[float, float]:
    """Seconds that other machines of the same host had of this one's processors, and all seconds; since boot."""
    times = psutil.cpu_times()
    return times.steal, sum(times[:8])  # guests are in user time too


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


def pss_of_each(root: int) -> dict[int, int]:
    """The PSS of each process of the tree."""
    return _of_each(root, lambda process: int(process.memory_full_info().pss))


def private_of_each(root: int) -> dict[int, int]:
    """What each process of the tree shares with no other process (USS)."""
    return _of_each(root, lambda process: int(process.memory_full_info().uss))


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


def is_gone(pid: int) -> bool:
    """Whether the process has ended with all its threads, waited for or not; its descriptors are closed then."""
    try:
        process = psutil.Process(pid)
        return process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD) and process.num_threads() <= 1
    except psutil.NoSuchProcess:
        return True


def strangers(root: int) -> int:
    """How many processes outside the tree run the same executable, and so lower its PSS."""
    inside = set(tree(root))
    program = _program(root)
    return sum(1 for pid in psutil.pids() if pid not in inside and program and _program(pid) == program)


def switches(root: int) -> int:
    """Context switches of all threads of the tree so far, voluntary or not."""
    total = 0
    for task in _tasks(root):
        fields = parse_fields(_read(task, "status"))
        total += fields.get("voluntary_ctxt_switches", 0) + fields.get("nonvoluntary_ctxt_switches", 0)
    return total


def descriptors(root: int) -> int:
    """Open descriptors of all processes of the tree."""
    return sum(_of_each(root, psutil.Process.num_fds).values())


def accepted(port: int, peer: str) -> int:
    """Established TCP connections (IPv4) that a server has accepted at this port from this address.

    Asked of the kernel by sock_diag(7), which leaves out what /proc/net/tcp is full of after many connections.
    """
    peers = inet_aton(peer)
    return sum(_ask_of_connections((ESTABLISHED,), 0, port, 0, lambda part: parse_diag(part, peers)))


def silences(port: int) -> list[float]:
    """For how many seconds each client of this port, on this machine (IPv4), has received nothing.

    A client counts from its connection on, or from its last bytes of an answer. One that has no connection yet counts
    for a second for each time that the kernel has asked again, which is less than it has waited.
    """
    states = (ESTABLISHED, CONNECTING, HALF_CLOSED)
    parts = _ask_of_connections(states, 1 << (TCP_INFO - 1), 0, port, parse_silences)
    return [silence for part in parts for silence in part]


def _ask_of_connections(
    states: Iterable[int], more: int, port: int, peer_port: int, parse: Callable[[bytes], tuple[Fact, bool]]
) -> Iterator[Fact]:
    """What `parse` finds in each part of the kernel's answer (sock_diag(7)); it tells which part is the last."""
    wanted = sum(1 << state for state in states)
    asked = struct.pack(
        "=BBBxIHH16s16sI8s", AF_INET, IPPROTO_TCP, more, wanted, htons(port), htons(peer_port), b"", b"", 0, NONE
    )
    with socket(AF_NETLINK, SOCK_RAW, SOCK_DIAG) as kernel:
        kernel.settimeout(5)
        kernel.send(struct.pack("=IHHII", 16 + len(asked), BY_FAMILY, REQUEST | DUMP, 0, 0) + asked)
        done = False
        while not done:
            found, done = parse(kernel.recv(1 << 16))
            yield found


def parse_diag(data: bytes, peer: bytes) -> tuple[int, bool]:
    """How many connections of a part of the kernel's answer are from the peer, and whether that part is the last.

    A connection that only the kernel has accepted has no inode.
    """
    count = at = 0
    while at < len(data):
        length, kind = struct.unpack_from("=IH", data, at)
        if kind != BY_FAMILY:
            return count, True
        count += data[at + 40 : at + 44] == peer and data[at + 84 : at + 88] != bytes(4)
        at += length + 3 & ~3
    return count, False


def parse_silences(data: bytes) -> tuple[list[float], bool]:
    """The silences in a part of the kernel's answer, in seconds, and whether that part is the last."""
    found: list[float] = []
    at = 0
    while at < len(data):
        length, kind = struct.unpack_from("=IH", data, at)
        if kind != BY_FAMILY:
            return found, True
        state, asked_again = data[at + 17], data[at + 19]
        if state == CONNECTING:
            found.append(float(asked_again))
        else:
            attribute = at + 88
            while attribute < at + length:
                size, name = struct.unpack_from("=HH", data, attribute)
                if name == TCP_INFO:
                    found.append(struct.unpack_from("=I", data, attribute + 4 + LAST_RECEIVED)[0] / 1e3)
                attribute += size + 3 & ~3
        at += length + 3 & ~3
    return found, False


def shape(root: int) -> tuple[int, int]:
    """Processes and threads of the tree."""
    threads = _of_each(root, psutil.Process.num_threads)
    return len(threads), sum(threads.values())


def _of_each(root: int, fact: Callable[[psutil.Process], Fact]) -> dict[int, Fact]:
    found = {}
    for pid in tree(root):
        with contextlib.suppress(psutil.NoSuchProcess):  # or a zombie, which has no more of it
            found[pid] = fact(psutil.Process(pid))
    return found


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return 0


def _tasks(root: int) -> Iterator[str]:
    for pid in tree(root):
        yield from (f"{pid}/task/{task}" for task in _list(PROC / str(pid) / "task"))


def _program(pid: int) -> str:
    try:
        return str(psutil.Process(pid).exe())
    except psutil.Error:
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
