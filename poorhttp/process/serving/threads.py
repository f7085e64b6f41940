"""The threads of a process that serves, from the start of the first to the return of the last.

Knows how a thread is started, and what to say where the system refuses one. Does not know what it does (the engine).
"""

from __future__ import annotations

from poorhttp.errors import PoorhttpError
from poorhttp.stdlib import signal, thread
from poorhttp.system import timing
from poorhttp.system.signals import HANDLED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _thread import LockType
    from collections.abc import Callable

    from poorhttp._engine import Engine
    from poorhttp.config.model import Config
    from poorhttp.process.serving.leaving import Leaving


def prepare(config: Config) -> int:
    """How many threads a process needs; call it before signals are heard."""
    if config.threads > 1:
        # The handler of a reload needs it too, and would find it half imported.
        from poorhttp.stdlib import threading  # noqa: F401  # only a process with more than one thread pays for it
    # One more where the server answers for itself while all others are in the application.
    return config.threads + (bool(config.health) and config.processes.most == 1)


def run(engine: Engine, calling: int, count: int, ready: Callable[[], None], leaving: Leaving) -> None:
    """Run every slot, the main thread slot 0; return when all are back. Raises what one of them raised, and
    PoorhttpError where not all of them can be started: then nobody is served.

    calling: how many of these threads, the first ones, call the application. ready: called before the first request.
    """
    others: list[LockType] = []
    failures: list[BaseException] = []
    # The others wait until all are there. The main thread, which hears signals, is the last to serve.
    gate, arrived = thread.allocate_lock(), thread.allocate_lock()
    gate.acquire()
    arrived.acquire()
    try:
        for slot in range(1, count):
            others.append(_start(engine, slot, count, (gate, arrived), failures, calls=slot < calling))
        _watch(engine)
        ready()
        gate.release()
        if others:
            arrived.acquire()
        enter(engine)
    except BaseException as failure:
        failures.append(failure)
        engine.stop()
    if gate.locked():  # nobody is behind it, nor will be
        gate.release()
    elif others:
        leaving.expect_end(timing.LATE)  # the engine is finished: a thread still inside the application is late already
    for each in others:
        each.acquire()
    if failures:
        raise failures[0]


def enter(engine: Engine) -> None:
    """Run slot 0. A function of its own: a signal handler knows by it whether the application is running."""
    engine.run(0)


def _start(
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

    failures: its exceptions are added to them. calls: it calls the application, which may ask `threading` what thread
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
        # The thread is there for a moment more: from here on signals are the main thread's, or the next program's.
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


def _watch(engine: Engine) -> None:
    """Start the thread that watches the others. Raises PoorhttpError."""
    try:
        engine.watch()
    except OSError:
        raise _too_many("the thread that watches the others") from None


def _too_many(what: str) -> PoorhttpError:
    why = "the system has neither memory nor a number for it"
    hint = "lower `threads`; or raise ulimit -v and -u, TasksMax= in a unit of systemd, the limits of the container"
    return PoorhttpError(f"cannot start {what}: {why}", hint)
