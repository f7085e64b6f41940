"""The fork of a worker, with its two pipes, and what the worker tells where it cannot begin to serve.

Knows what lies between a worker and its supervisor until the worker serves. Does not know when one is started, nor what
it does then.
Contract: a fault is reported as data, whole or not at all: the supervisor, which never waits for a worker, logs it. A
worker that hangs before it serves ends with its supervisor (`process.fork_hooks`).
"""

from __future__ import annotations

import codecs
import marshal
import sys

from poorhttp.errors import PoorhttpError, shown
from poorhttp.process import fork_hooks
from poorhttp.process.workers import immortal
from poorhttp.stdlib import os, thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from poorhttp.config.model import Config

LONGEST, LONGEST_DETAIL = 2000, 10_000
"""Characters of a line of a fault, and of its detail: an empty pipe takes all of it at once, 64 KiB."""


def prepare(settings: Config) -> str:
    """Do once, before the first fork, what each worker would do for itself, and let the workers share what is loaded.
    Returns what `status` is to tell of that (`immortal.share`).
    """
    if "socket" in sys.modules:
        _load_codec_of_host_names()
    return immortal.share(settings)


def _load_codec_of_host_names() -> None:
    """It takes 1 MiB, and the first name of a host needs it."""
    try:
        codecs.lookup("idna")
    except Exception:
        return  # the application has a module named like one that the codec imports


def fork(pipes: list[int]) -> int:
    """Fork: the pid. Raises OSError.

    pipes: filled with the ends that are open, so that a child forked meanwhile can close them; in the end the control
    pipe and the report pipe. The parent has the write end of the first and the read end of the second, the child (pid
    0) the other ends.
    """
    fork_hooks.forking_own[thread.get_ident()] = os.getpid()
    try:
        pipes += os.pipe()
        pipes += os.pipe()
        pid = os.fork()
    except OSError:
        while pipes:
            os.close(pipes.pop())
        raise
    finally:
        fork_hooks.forking_own.pop(thread.get_ident(), None)
    ours, theirs = (pipes[1:3], pipes[0::3]) if pid else (pipes[0::3], pipes[1:3])
    pipes[:] = ours
    for descriptor in theirs:
        os.close(descriptor)
    if not pid:
        os.set_blocking(pipes[1], False)
    return pid


def tell(report: int, what: bytes) -> None:
    """Tell the supervisor."""
    try:
        os.write(report, what)
    except BrokenPipeError:
        return  # it was killed, and this worker is about to hear of it


def fault(error: PoorhttpError) -> bytes:
    """The bytes by which a worker tells of this error, behind `messages.FAILED`."""
    lines = (each[:LONGEST] for each in (error.message, error.hint))
    return marshal.dumps((error.exit_code, *lines, "\n".join(shown(error.detail))[-LONGEST_DETAIL:]))


def fault_of(what: bytes) -> PoorhttpError:
    """The inverse."""
    try:
        code, message, hint, detail = marshal.loads(what)
    except (EOFError, TypeError, ValueError):
        code, message, hint, detail = 1, "a worker cannot begin to serve, and could not tell why", "", ""
    error = PoorhttpError(message, hint, detail)
    error.exit_code = code
    return error
