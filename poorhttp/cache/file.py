"""The file that a cache lies in: opened if it fits, made if it is not there, made anew if it does not fit any more.

Knows the head of the file, owners and links. Contract: a file that is no cache is never written; a name is never that
of a half-made file; processes that start at once get the same file. Imports neither hashlib nor secrets, which would
take a MB of each worker.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
import warnings
from contextlib import suppress
from errno import EACCES, EISDIR, ELOOP
from stat import S_IMODE, S_ISREG, S_IWGRP, S_IWOTH

from poorhttp._engine import CacheTable

MAGIC = b"poorhttp.cache\r\n"
MACHINE = 96
HEAD = struct.Struct(f"=16sQQQQ{MACHINE}s")
"""MAGIC, layout, size, two words of the secret, and the machine as it runs now (`machine`)."""

FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK

ATTEMPTS, PAUSE = 200, 0.01
"""How often a name is looked at that other processes change, and seconds in between."""

Secret = tuple[int, int]


def in_memory(size: int) -> tuple[int, Secret]:
    """Make a cache that has no name; return its descriptor and its secret. Raises OSError."""
    descriptor = os.memfd_create("poorhttp.cache", os.MFD_CLOEXEC)
    try:
        return descriptor, _lay_out(descriptor, size)
    except OSError:
        os.close(descriptor)
        raise


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
            raise _not_opened(path, error) from None
        try:
            secret, why = _judged(path, descriptor, size)
            if not why:
                return os.dup(descriptor), secret
            if _removed(path, descriptor):
                text = f"the cache {path} is made anew, and what it held is dropped: {why}"
                warnings.warn(text, RuntimeWarning, stacklevel=3)
            else:
                time.sleep(PAUSE)
        finally:
            os.close(descriptor)
    raise _fault(path, "is removed by others all the time", "open it with one size everywhere")


def machine() -> bytes:
    """What tells this run of the kernel, and this container, from others: MACHINE bytes."""
    # Locks of an earlier run would stay for ever; another container has other numbers of processes, or another clock.
    facts = []
    with suppress(OSError), open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        facts.append(file.read())
    for kind in "pid", "time":
        with suppress(OSError):
            facts.append(os.readlink(f"/proc/self/ns/{kind}"))
    return "\n".join(facts).encode()[:MACHINE].ljust(MACHINE, b"\0")


def _judged(path: str, descriptor: int, size: int) -> tuple[Secret, str]:
    """The secret of a cache, and why it cannot be used here; "" if it can. Raises OSError."""
    facts = os.fstat(descriptor)
    if not S_ISREG(facts.st_mode):
        raise _fault(path, "is no regular file", "name another one")
    if facts.st_uid != os.geteuid():
        raise _of_another_user(path, facts.st_uid)
    if facts.st_mode & (S_IWGRP | S_IWOTH):
        told = f"may be written by others (its mode is {S_IMODE(facts.st_mode):o}), who can put any values there"
        raise _fault(path, told, "remove it, or name another file")
    head = os.pread(descriptor, HEAD.size, 0)
    if len(head) < HEAD.size or not head.startswith(MAGIC):
        raise _fault(path, "is no cache", "name another file, or remove this one")
    _, layout, found, secret, second, run = HEAD.unpack(head)
    length = size + CacheTable.OVERHEAD
    why = ""
    if layout != CacheTable.LAYOUT:
        why = "it was made by another release"
    elif run != machine():
        why = "it was made before this machine was started, or in another container"
    elif found != size:
        why = f"it was made with a size of {found} bytes, and is opened with {size}"
    elif facts.st_size != length:
        why = f"it has {facts.st_size} bytes instead of {length}: something has cut it"
    return (secret, second), why


def _made(path: str, size: int) -> tuple[int, Secret] | None:
    """Make a cache; None if another process was faster. It gets its name when it is whole."""
    if not os.path.isdir(os.path.dirname(path)):
        raise _fault(path, "is to be in a directory that is not there", "make it, for the user of the server")
    draft = f"{path}.{os.urandom(8).hex()}"
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
        error.filename = f"a cache of {size} bytes at {path}"
        raise
    return descriptor, secret


def _lay_out(descriptor: int, size: int) -> Secret:
    os.ftruncate(descriptor, size + CacheTable.OVERHEAD)
    secret: Secret = struct.unpack("=QQ", os.urandom(16))
    os.pwrite(descriptor, HEAD.pack(MAGIC, CacheTable.LAYOUT, size, *secret, machine()), 0)
    # A machine that loses its power may leave a file on a disk with a name and without its bytes. With its head it is
    # known as a cache of an earlier start, and replaced.
    os.fsync(descriptor)
    CacheTable.lay_out(descriptor)
    return secret


def _removed(path: str, descriptor: int) -> bool:
    """Remove a file, unless another process does; return whether it was done."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_same = os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except (BlockingIOError, FileNotFoundError):
        return False
    if is_same:
        os.unlink(path)
    return is_same


def _not_opened(path: str, error: OSError) -> OSError:
    """What to do about an error of opening the file; the error itself where nothing more is known."""
    if error.errno == ELOOP:
        return _fault(path, "is a symbolic link", "name the file itself")
    if error.errno == EISDIR:
        return _fault(path, "is a directory", "name a file in it")
    if error.errno == EACCES:
        with suppress(OSError):
            if (owner := os.stat(path).st_uid) != os.geteuid():
                return _of_another_user(path, owner)
    return error


def _of_another_user(path: str, owner: int) -> OSError:
    told = f"belongs to the user {owner}, and this process runs as {os.geteuid()}"
    return _fault(path, told, "run this as the same user, or name another file")


def _fault(path: str, what: str, hint: str) -> OSError:
    return OSError(f"{path} {what}; expected the file of a cache: {hint}")
