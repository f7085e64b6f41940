"""Another process that holds the locks of a cache, as one does that is stopped in the middle of a change."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator

HOLDER = """
import ctypes, mmap, sys
with open(sys.argv[1], "r+b") as file:
    memory = mmap.mmap(file.fileno(), 8192)
start = ctypes.addressof(ctypes.c_char.from_buffer(memory)) + 4096
libc = ctypes.CDLL(None)
for number in range(int(sys.argv[2])):
    assert libc.pthread_mutex_lock(ctypes.c_void_p(start + 64 * number)) in (0, 130)  # EOWNERDEAD
print("held", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def locked(path: str, shards: int) -> Iterator[None]:
    """Hold the locks of so many shards. They are given back as those of a process that was killed."""
    command = [sys.executable, "-c", HOLDER, path, str(shards)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == b"held\n"
            yield
        finally:
            process.kill()
