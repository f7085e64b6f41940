"""The first process of a container (PID 1): it reaps orphans and passes signals on. The server is its child.

Knows wait(2) and signals. Does not know what its child does.
Contract: the kernel gives PID 1 every process whose parent has ended. The server, one process further down, waits for
its own children only, so that no exit code is taken from an application that waits for it. PID 1 ends after the
server, with its exit code, or 128 + the signal that killed it. It runs this file and nothing else, for the memory.
"""

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import NoReturn
else:
    import _signal as signal  # as poorhttp.stdlib, which is not to be imported here

SI_KERNEL = 0x80
"""The origin of a signal that the kernel sends by itself (sigaction(2)), such as Ctrl-C of a terminal."""

LAST = 5.0
"""Seconds that what the server has left behind gets to end, unless a signal comes; as long as a log program has."""


def step_aside() -> None:
    """Go on in a child of this process, which is PID 1 and does nothing else from then on. Call it before there are
    threads. Where no process can be started this one serves itself, and reaps nobody.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # none is lost meanwhile
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # where it is ignored there is nothing to wait for
    try:
        server = os.fork()
    except OSError as error:
        print(f"note: process 1 cannot start a child ({error.strerror}): orphans stay as zombies", file=sys.stderr)
        server = 0
    if server:
        os.execv(sys.executable, [sys.executable, "-I", "-S", __file__, str(server)])
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def watch(server: int) -> NoReturn:
    """Reap and pass signals on, all of which are blocked, until this child has ended; end then."""
    code = None
    while code is None:
        told = signal.sigwaitinfo(signal.valid_signals())
        if told.si_signo == signal.SIGCHLD:
            code = _reap(server)
        # A terminal sends its signals to the server too, but for the one that tells of its end.
        elif told.si_code != SI_KERNEL or told.si_signo == signal.SIGHUP:
            os.kill(server, told.si_signo)
    # With PID 1 the kernel ends all others, and the program that a log is may not have read the last lines.
    end = time.monotonic() + LAST
    while _is_somebody_left():
        found = signal.sigtimedwait(signal.valid_signals(), max(end - time.monotonic(), 0.0))
        if found is None or found.si_signo != signal.SIGCHLD:
            break
    os._exit(code)


def _reap(server: int) -> int | None:
    """Let go of every child that has ended, of which one signal may tell; return the server's exit code if it has."""
    code, ended = None, -1
    while ended and code is None:
        ended, status = os.waitpid(-1, os.WNOHANG)
        if ended == server:
            told = os.waitstatus_to_exitcode(status)
            code = told if told >= 0 else 128 - told
    return code


def _is_somebody_left() -> bool:
    """Whether there is a child, once those are reaped that have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


if __name__ == "__main__":
    watch(int(sys.argv[1]))
