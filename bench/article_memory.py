"""The memory of servers: by ps, as the article of 2010 measured it, and by psutil, which sees what processes share.

Knows processes by their numbers only.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Sequence

import psutil

from bench import proc
from bench.client import Failure, Missing


def weigh(servers: Sequence[int], front: int, multiplied: int) -> dict[str, float]:
    """The numbers of a row. servers: the first process of each server; front: lighttpd's, or 0 where there is none.

    By ps, in KiB: `size` and `vsize` of the largest worker and of lighttpd; `4 x size`, the size of `multiplied`
    workers, of their parent and of lighttpd; `N x size`, the sizes of all processes. `N` is the number of workers.
    `pss` and `uss` of all processes are bytes. A first process with children is a parent, and no worker. Raises Failure
    where a first process has ended.
    """
    told = ps()
    if ended := [pid for pid in (*servers, *([front] if front else [])) if pid not in told]:
        raise Failure(f"process {ended[0]} has ended")
    # Apache starts and ends children meanwhile.
    trees = [[pid for pid in proc.tree(root) if pid in told] for root in servers]
    workers = [[pid for pid in tree if pid != root] or [root] for root, tree in zip(servers, trees, strict=True)]
    largest = max((told[pid] for pids in workers for pid in pids), default=(0, 0))
    of_front = told[front] if front else (0, 0)
    parents = sum(told[root][0] for root, pids in zip(servers, workers, strict=True) if root not in pids)
    everyone = [pid for tree in ([front] if front else [], *trees) for pid in tree]
    pss, uss = shared(everyone)
    return {
        "size": largest[0] + of_front[0],
        "vsize": largest[1] + of_front[1],
        "4 x size": multiplied * largest[0] + of_front[0] + (parents if multiplied > 1 else 0),
        "N": sum(map(len, workers)) or 1,
        "N x size": sum(told[pid][0] for pid in everyone),
        "pss": pss,
        "uss": uss,
    }


def ps() -> dict[int, tuple[int, int]]:
    """`size` and `vsize` (KiB) of each process by its number. The command is the article's, but asks for the number."""
    command = ["ps", "axo", "pid,ppid,size,vsize,cmd"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except FileNotFoundError as error:
        raise Missing("ps", "apt-get install procps") from error
    except subprocess.SubprocessError as error:
        raise Failure(f"`{' '.join(command)}` failed: {error}") from error
    return parse_ps(done.stdout)


def parse_ps(text: str) -> dict[int, tuple[int, int]]:
    """`size` and `vsize` of each line but the first, which has the headings."""
    lines = (line.split(None, 4) for line in text.splitlines()[1:])
    return {int(pid): (int(size), int(vsize)) for pid, _, size, vsize, *_ in lines}


def shared(processes: Iterable[int]) -> tuple[int, int]:
    """PSS and USS of the processes together, in bytes; one that has ended counts nothing."""
    pss = uss = 0
    for pid in processes:
        try:
            sizes = psutil.Process(pid).memory_full_info()
        except psutil.NoSuchProcess:
            continue
        except psutil.AccessDenied as error:
            raise Failure(f"the memory of process {pid} may not be read") from error
        pss += sizes.pss
        uss += sizes.uss
    return pss, uss
