"""The file that a cache lies in: opened if it fits, made if it is not there, made anew if it does not fit any more.

Knows the head of the file, owners and links; the rest of the file is the engine's. Contract: a file that is no cache is
never written; a name is never that of a half-made file; of several processes that start at once all get the same file.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
import warnings
from contextlib import suppress
from errno import ELOOP, ENOENT
from hashlib import blake2b
from secrets import randbits, token_hex
from stat import S_ISREG

from poorhttp._engine import CacheTable

MAGIC = b"poorhttp.cache\r\n"
HEAD = struct.Struct("=16sQQQQ32s")
"""MAGIC, layout, size, two words of the secret, and the machine as it runs now (`machine`)."""

FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY

ATTEMPTS, PAUSE = 200, 0.01
"""How often a name is looked at that other processes are changing, and the seconds in between."""

Secret = tuple[int, int]


def in_memory(size: int) -> tuple[int, Secret]:
    """Make a cache that has no name; return its descriptor and its secret. Raises OSError."""
    descriptor = os.memfd_create("poorhttp.cache", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        secret = _lay_out(descriptor, size)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, secret


def opened(path: str, size: int) -> tuple[int, Secret]:
    """Open the cache at an absolute path, or make it; return its descriptor and its secret. Raises OSError."""
    for _ in range(ATTEMPTS):
        try:
            descriptor = os.open(path, FLAGS)
        except FileNotFoundError:
            made = _made(path, size)
            if made is None:
                continue
            return made
        except OSError as error:
            if error.errno == ELOOP:
                raise _fault(path, "is a symbolic link", "name the file itself") from None
            raise
        try:
            head = _read(path, descriptor)
            unfit = _unfit(head, os.fstat(descriptor).st_size, size)
            if not unfit:
                return os.dup(descriptor), (head[3], head[4])
            if _removed(path, descriptor):
                text = f"the cache {path} is made anew, and what it held is dropped: {unfit}"
                warnings.warn(text, RuntimeWarning, stacklevel=3)
            else:
                time.sleep(PAUSE)
        finally:
            os.close(descriptor)
    raise _fault(path, "is made and removed by other processes all the time", "open it with the same size everywhere")


def machine() -> bytes:
    """What tells this run of the kernel from others: 32 bytes.

    Locks of processes of an earlier run would stay for ever. Processes of another container (a namespace of process
    numbers, or of the clock) would take each other's locks and times for their own.
    """
    facts = []
    with suppress(OSError), open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        facts.append(file.read())
    for kind in "pid", "time":
        with suppress(OSError):
            facts.append(os.readlink(f"/proc/self/ns/{kind}"))
    return blake2b("\n".join(facts).encode(), digest_size=32).digest()


def _read(path: str, descriptor: int) -> tuple[bytes, int, int, int, int, bytes]:
    """The head of a file. Raises OSError if it is no cache of this user."""
    facts = os.fstat(descriptor)
    if not S_ISREG(facts.st_mode):
        raise _fault(path, "is no regular file", "name another one")
    if facts.st_uid != os.geteuid():
        owner = f"belongs to the user {facts.st_uid}, and this process runs as {os.geteuid()}"
        raise _fault(path, owner, "run this as the same user, or name another file")
    found = os.pread(descriptor, HEAD.size, 0)
    if len(found) < HEAD.size or not found.startswith(MAGIC):
        raise _fault(path, "is no cache", "name another file, or remove this one")
    head: tuple[bytes, int, int, int, int, bytes] = HEAD.unpack(found)
    return head


def _unfit(head: tuple[bytes, int, int, int, int, bytes], length: int, size: int) -> str:
    """Why a cache cannot be used here; "" if it can."""
    _, layout, found, _, _, run = head
    if layout != CacheTable.LAYOUT:
        return "it was made by another release, or for another kind of processor"
    if run != machine():
        return "it was made before this machine was started, or in another container"
    if found != size:
        return f"it was made with a size of {found} bytes, and is opened with {size}"
    if length != size + CacheTable.OVERHEAD:
        return f"it has {length} bytes instead of {size + CacheTable.OVERHEAD}: something has cut it"
    return ""


def _made(path: str, size: int) -> tuple[int, Secret] | None:
    """Make a cache; None if another process was faster. It gets its name when it is whole."""
    directory = os.path.dirname(path)
    if not os.path.isdir(directory):
        told = "there is no such directory for the file of a cache: make it, for the user of the server"
        raise FileNotFoundError(ENOENT, told, directory)
    draft = f"{path}.{token_hex(8)}"
    descriptor = os.open(draft, FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        try:
            secret = _lay_out(descriptor, size)
            os.link(draft, path)
        finally:
            os.unlink(draft)
    except FileExistsError:
        os.close(descriptor)
        return None
    except OSError as error:
        os.close(descriptor)
        told = f"a cache of {size} bytes cannot be made here ({error.strerror})"
        raise OSError(error.errno, told, path) from error
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, secret


def _lay_out(descriptor: int, size: int) -> Secret:
    os.ftruncate(descriptor, size + CacheTable.OVERHEAD)
    CacheTable.lay_out(descriptor)
    secret = randbits(64), randbits(64)
    os.pwrite(descriptor, HEAD.pack(MAGIC, CacheTable.LAYOUT, size, *secret, machine()), 0)
    return secret


def _removed(path: str, descriptor: int) -> bool:
    """Remove a file, if the name is still its and no other process is about to do that; return whether it was done."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_same = os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except (BlockingIOError, FileNotFoundError):
        return False
    if is_same:
        os.unlink(path)
    return is_same


def _fault(path: str, what: str, hint: str) -> OSError:
    return OSError(f"{path} {what}; expected the file of a cache: {hint}")
