"""The threads of a process that serves, but for the main one.

Knows how a thread is started, and what to say where the system refuses one. Does not know what it does (the engine).
Contract: what is refused is told with its number and a remedy.
"""

from __future__ import annotations

from poorhttp.errors import PoorhttpError
from poorhttp.stdlib import signal, thread
from poorhttp.system.signals import HANDLED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _thread import LockType

    from poorhttp._engine import Engine


def start(
    engine: Engine,
    slot: int,
    threads: int,
    locks: tuple[LockType, LockType],
    failures: list[BaseException],
    *,
    calls: bool,
) -> LockType:
    """Start the thread of a slot, one of so many; it serves once the first of the locks is free, unless something has
    failed, and that of slot 1 frees the second one then. Return a lock that can be had once the thread is done.

    failures: what it raises is added to them. calls: it calls the application, which may ask `threading` what thread
    that is. Raises PoorhttpError.
    """
    over = thread.allocate_lock()
    over.acquire()
    gate, arrived = locks

    def run() -> None:
        with gate:
            if slot == 1:
                arrived.release()
        try:
            if not failures:
                engine.run(slot)
        except BaseException as failure:  # a fault of the engine: the whole process ends, with an error
            failures.append(failure)
            engine.stop()
        # The thread is there for a moment more: a signal is the main thread's then, or the next image's.
        signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
        over.release()

    try:
        if calls:
            from poorhttp.stdlib import threading

            threading.Thread(target=run, name=f"poorhttp-{slot}").start()
        else:
            thread.start_new_thread(run, ())
    except (MemoryError, RuntimeError):
        raise _too_many(f"thread {slot + 1} of {threads}") from None
    return over


def watch(engine: Engine) -> None:
    """Start the thread that watches the others. Raises PoorhttpError."""
    try:
        engine.watch()
    except OSError:
        raise _too_many("the thread that watches the others") from None


def _too_many(what: str) -> PoorhttpError:
    why = "the system has neither memory nor a number for it"
    hint = "lower `threads`; or raise ulimit -v and -u, TasksMax= in a unit of systemd, the limits of the container"
    return PoorhttpError(f"cannot start {what}: {why}", hint)
