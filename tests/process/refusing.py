"""Execute a program to which the kernel refuses system calls, as an old or a small kernel does, or a sandbox.

    python refusing.py sendfile:ENOSYS setsockopt:ENOPROTOOPT:1=6:2=25 -- COMMAND ARGUMENT...

Each word names a call, the error that it gets and, by their places from 0 on, what its arguments must be for that.
Knows seccomp(2), which needs no privilege, and the numbers of system calls on two kinds of machines.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys

NUMBERS = {
    "x86_64": {
        "accept": 43,
        "accept4": 288,
        "epoll_pwait2": 441,
        "fcntl": 72,
        "ioctl": 16,
        "madvise": 28,
        "memfd_create": 319,
        "prctl": 157,
        "sendfile": 40,
        "setsockopt": 54,
        "socket": 41,
    },
    "aarch64": {
        "accept": 202,
        "accept4": 242,
        "epoll_pwait2": 441,
        "fcntl": 25,
        "ioctl": 29,
        "madvise": 233,
        "memfd_create": 279,
        "prctl": 167,
        "sendfile": 71,
        "setsockopt": 208,
        "socket": 198,
    },
}
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""AUDIT_ARCH_* of linux/audit.h."""

PR_GET_SECCOMP, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, MODE_FILTER = 21, 22, 38, 2
LOAD, SKIP_UNLESS_EQUAL, RETURN = 0x20, 0x15, 0x06
"""Of linux/bpf_common.h: 32 bits at an offset, a comparison with them, the verdict."""

NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16
"""Offsets in struct seccomp_data, of a machine that is little-endian."""

ALLOW, FAIL = 0x7FFF0000, 0x00050000

_LIBC = ctypes.CDLL(None, use_errno=True)


def can_refuse() -> bool:
    """Whether this kernel has seccomp, and the machine is known here."""
    return platform.machine() in NUMBERS and _LIBC.prctl(PR_GET_SECCOMP, 0, 0, 0, 0) >= 0


def refuse(word: str) -> None:
    """Let the calls that a word names fail in this process and its children, for good. Raises OSError."""
    call, error, *arguments = word.split(":")
    machine = platform.machine()
    wanted = [(ARCHITECTURE, ARCHITECTURES[machine]), (NUMBER, NUMBERS[machine][call])]
    for place, _, value in (each.partition("=") for each in arguments):
        wanted.append((ARGUMENTS + 8 * int(place), int(value, 0)))
    steps = []
    for number, (offset, value) in enumerate(wanted):
        to_the_last = 2 * (len(wanted) - number - 1) + 1
        steps += [(LOAD, 0, 0, offset), (SKIP_UNLESS_EQUAL, 0, to_the_last, value)]
    steps += [(RETURN, 0, 0, FAIL | getattr(errno, error)), (RETURN, 0, 0, ALLOW)]
    code = b"".join(struct.pack("HBBI", *step) for step in steps)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(buffer))
    if _LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or _LIBC.prctl(PR_SET_SECCOMP, MODE_FILTER, program, 0, 0):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def main(arguments: list[str]) -> None:
    end = arguments.index("--")
    command = arguments[end + 1 :]
    # One that refuses prctl is the last that can be given.
    for word in sorted(arguments[:end], key=lambda word: word.startswith("prctl")):
        refuse(word)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
