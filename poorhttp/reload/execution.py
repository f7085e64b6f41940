"""How this process becomes the new program: the same command line, environment and directory as at its start.

Knows execve(2) and what survives it. Does not know what is handed over.
"""

from __future__ import annotations

import sys

from poorhttp.listen.systemd import PASSED
from poorhttp.reload.handover import HANDOVER
from poorhttp.stdlib import nameless, os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from poorhttp.reload.handover import Handover

_remembered: list[bytes] = []


def execute(handover: Handover, home: str) -> NoReturn:
    """Become the new program. home: the directory of the start. Raises OSError; then nothing has changed."""
    for descriptor in handover.descriptors():
        os.set_inheritable(descriptor, True)
    environ = first_environ()
    file = nameless("handover")  # a variable of the environment holds 128 KiB at most
    here = os.open(".", os.O_PATH)
    try:
        os.set_inheritable(file, True)
        os.pwrite(file, handover.dump(), 0)
        environ[os.fsencode(HANDOVER)] = b"%d" % file
        os.chdir(home)
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environ)
    finally:  # it was impossible
        os.fchdir(here)
        os.close(here)
        os.close(file)
        for descriptor in handover.descriptors():
            os.set_inheritable(descriptor, False)


def remember_environ() -> None:
    """Read the environment of the start now: a process that changes its user may not do so afterwards."""
    try:
        _remembered[:] = _environ()
    except FileNotFoundError:
        return  # without /proc: a reload says so


def first_environ() -> dict[bytes, bytes]:
    """The environment that this process was started with, without what the configuration and the application added: the
    new program reads its own.
    """
    entries = _remembered or _environ()
    pairs = (entry.partition(b"=") for entry in entries if b"=" in entry[1:])
    ours = {os.fsencode(name) for name in (HANDOVER, *PASSED)}
    return {name: value for name, _, value in pairs if name not in ours}


def _environ() -> list[bytes]:
    with open("/proc/self/environ", "rb") as file:
        return file.read().split(b"\0")


def unreachable(home: str, error: OSError) -> str:
    """Say why the working directory cannot be entered again: a symbolic link on the way may lead nowhere now, or the
    user that serves may not go there.
    """
    what = "cannot be entered" if isinstance(error, PermissionError) else "is gone"
    return f"the working directory {what}: {home}: {error.strerror}"
