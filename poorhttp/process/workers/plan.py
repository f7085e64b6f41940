"""The supervisor's policy: from what is known of the workers, what is to be done now.

Knows how many workers there should be, how long they may take to stop and how a crash loop is slowed down. Does not
know processes, signals or clocks: every time is given to it (seconds of any steady clock), and
what it decides is performed by `poorhttp.process.supervisor`.
Contract: `plan` changes nothing. Events are told to `State` by its methods, performed actions by `performed`;
`wait` says when `plan` may have something new to say although nothing happened.
"""

from __future__ import annotations

from poorhttp.system import timing

KILLED = -9
"""The exit code of a process that SIGKILL ended."""


class Action:
    """One thing to do; equal to another of its kind about the same thing."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(str, vars(self).values()))})"


class Spawn(Action):
    """Start one worker."""


class AboutWorker(Action):
    """One thing to do about a worker."""

    def __init__(self, pid: int) -> None:
        self.pid = pid


class Stop(AboutWorker):
    """Ask the worker to finish what is in flight and leave."""


class Drain(AboutWorker):
    """Ask the worker to send its clients away, and to leave when they are gone: it has a successor."""


class Quit(AboutWorker):
    """Ask the worker to leave at once."""


class Kill(AboutWorker):
    """End the worker without asking."""


class Exit(Action):
    """Leave with this code: every worker is gone."""

    def __init__(self, code: int) -> None:
        self.code = code


class Worker:
    """The facts about one worker.

    is_adopted: the program before this one forked it. is_old: it is to be replaced, as each adopted one is. is_ready:
    it serves. draining, stopping, quitting: since when it was asked to. is_closed: it has closed its listeners. killed:
    it was sent SIGKILL.
    """

    def __init__(self, pid: int, born: float, is_adopted: bool = False) -> None:
        self.pid = pid
        self.born = born
        self.is_adopted = self.is_old = self.is_ready = is_adopted
        self.draining: float | None = None
        self.stopping: float | None = None
        self.quitting: float | None = None
        self.is_closed = self.killed = False


class State:
    """All that the policy looks at.

    wanted: number of workers. may_start: whether there is an application, so that workers can be started.
    graceful_timeout: seconds that a worker may take to finish what is in flight.
    """

    def __init__(self, wanted: int, graceful_timeout: float, may_start: bool = True) -> None:
        self.wanted = wanted
        self.may_start = may_start
        self.graceful_timeout = graceful_timeout
        self.workers: dict[int, Worker] = {}
        self.stopping: float | None = None
        self.quit_at: float | None = None
        self.quitting = False
        self.cut = False  # whether a stop cost anything: a worker that served did not end as it should
        self._back_off = 0.0
        self._failed = self._tried = float("-inf")

    def born(self, pid: int, now: float) -> None:
        """A worker was started."""
        self.workers[pid] = Worker(pid, now)
        self._tried = now

    def adopted(self, pid: int, now: float, is_leaving: bool, is_closed: bool) -> None:
        """A worker of the program before this one is there, which may have been asked to leave, or have begun to."""
        worker = self.workers[pid] = Worker(pid, now, is_adopted=True)
        worker.draining = now if is_leaving else None
        worker.is_closed = is_closed

    def ready(self, pid: int) -> None:
        """A worker serves."""
        self.workers[pid].is_ready = True

    def closed(self, pid: int) -> None:
        """A worker has closed its listeners, to drain or because it stops of itself."""
        self.workers[pid].is_closed = True

    def retire(self, pid: int) -> bool:
        """Replace a worker, as soon as another one serves. Returns whether that is new."""
        worker = self.workers.get(pid)
        is_new = worker is not None and not worker.is_old and worker.draining is None and self.stopping is None
        if worker is not None:
            worker.is_old = True
        return is_new

    def not_born(self, now: float) -> None:
        """A worker could not be started at all: that is slowed down like one that died young."""
        self._back_off = min(2 * self.back_off(now) or timing.FIRST_BACK_OFF, timing.LONGEST_BACK_OFF)
        self._failed = self._tried = now

    def died(self, pid: int, code: int, now: float) -> None:
        """A worker is gone, with this exit code (negative: the signal that killed it)."""
        worker = self.workers.pop(pid)
        if self.stopping is not None:
            self.cut = self.cut or (worker.is_ready and code != 0)
        elif worker.draining is not None or (worker.is_ready and code == KILLED):
            return  # it was asked to, or killed from outside: it had not failed to start
        elif worker.is_ready and now - worker.born >= timing.YOUNG:
            self._back_off = 0.0 if self.is_probe(worker) else self.back_off(now)
        elif self.is_probe(worker):  # the others that were born together with it tell nothing new
            self.not_born(now)

    def stop(self, now: float) -> None:
        """A stop was asked for; asked for again it means: at once."""
        if self.stopping is None:
            self.stopping = now
        elif now - self.stopping >= timing.REPEAT:
            self.quitting = True

    def stop_fast(self, now: float) -> None:
        """A stop that waits for a moment only was asked for."""
        self.stop(now)
        self.quit_at = now + timing.FAST if self.quit_at is None else self.quit_at

    def stop_at_once(self, now: float) -> None:
        """A stop without waiting for what is in flight was asked for."""
        self.stopping = now if self.stopping is None else self.stopping
        self.quitting = True

    def performed(self, action: Action, now: float) -> None:
        """An action about a worker was performed."""
        if isinstance(action, Drain):
            self.workers[action.pid].draining = now
        elif isinstance(action, Stop):
            self.workers[action.pid].stopping = now
        elif isinstance(action, Quit):
            self.workers[action.pid].quitting = now
        elif isinstance(action, Kill):
            self.workers[action.pid].killed = True

    def back_off(self, now: float) -> float:
        """Seconds to leave between two spawns: none once a worker, started after the last failure, has lived."""
        serving = (worker for worker in self.workers.values() if worker.is_ready)
        lived = any(self.is_probe(worker) and now >= worker.born + timing.YOUNG for worker in serving)
        return 0.0 if lived else self._back_off

    def is_probe(self, worker: Worker) -> bool:
        """Whether this worker was started after the last failure, so that its life tells something about the next."""
        return worker.born > self._failed

    def next_spawn(self, now: float) -> float:
        """The time from which on the next worker may be started; in the past if it may be now."""
        return self._tried + max(self.back_off(now), timing.PACE if self.replaces() else 0.0)

    def is_rolling(self) -> bool:
        """Whether a worker of the program before may still accept a connection."""
        return any(worker.is_adopted and not worker.is_closed for worker in self.workers.values())

    def replaces(self) -> bool:
        """Whether a worker that serves is to have a successor."""
        return any(worker.is_old and worker.draining is None for worker in self.workers.values())

    def missing(self, now: float) -> int:
        """How many workers are to be started, now or later. The first one alone: it serves the sooner, unless it hangs.
        In the place of old ones: one after the other, so that there is never more than one too many, beside those
        which drain for longer than `timing.SOON`, and never more than twice as many as are wanted.
        """
        if self.stopping is not None or not self.may_start:
            return 0
        staying = [worker for worker in self.workers.values() if worker.draining is None]
        new = [worker for worker in staying if not worker.is_old]
        missing = self.wanted - len(new)
        replaces = len(new) < len(staying)
        if replaces or not any(worker.is_ready or now >= worker.born + timing.YOUNG for worker in new):
            missing = min(missing, int(all(worker.is_ready for worker in new)))
        if replaces:
            leaving = sum(now < time for time in self.departures())
            missing = min(missing, self.wanted + 1 - len(staying) - leaving, 2 * self.wanted - len(self.workers))
        return max(missing, 0)

    def departures(self) -> list[float]:
        """The times until which workers that drain are taken for such that leave soon."""
        return [worker.draining + timing.SOON for worker in self.workers.values() if worker.draining is not None]

    def serving_pids(self) -> list[int]:
        """The workers that serve and stay."""
        return [worker.pid for worker in self._serving_workers()]

    def _serving_workers(self) -> list[Worker]:
        return [worker for worker in self.workers.values() if worker.is_ready and worker.draining is None]

    def is_settled(self) -> bool:
        """Whether all workers that are wanted serve, and no other one is there."""
        staying = [worker for worker in self.workers.values() if worker.is_ready and not worker.is_old]
        return len(staying) == len(self.workers) == self.wanted

    def surplus(self) -> list[int]:
        """The workers that are to leave because others serve in their place: old ones first, since longest, then the
        youngest.
        """
        serving = self._serving_workers()
        count = max(len(serving) - self.wanted, 0)
        first = sorted(serving, key=lambda worker: (not worker.is_old, worker.born if worker.is_old else -worker.born))
        return [worker.pid for worker in first[:count]]


def plan(state: State, now: float) -> list[Action]:
    """Return what is to be done now, in this order; empty if there is nothing to do."""
    if state.stopping is not None:
        return _end(state, now)
    late = (worker for worker in state.workers.values() if not worker.killed and _is_late(state, worker, now))
    leave: list[Action] = [Kill(worker.pid) for worker in late]
    leave += [Drain(pid) for pid in state.surplus()]
    if leave or not state.missing(now) or now < state.next_spawn(now):
        return leave
    return [Spawn()] * (1 if state.back_off(now) else state.missing(now))


def wait(state: State, now: float) -> float | None:
    """Return in how many seconds `plan` is to be asked again if nothing happens before; None if never."""
    times = [_deadline(state, worker) for worker in state.workers.values() if not worker.killed]
    if not all(worker.killed or worker.quitting is not None for worker in state.workers.values()):
        times.append(state.quit_at)
    if state.missing(now):
        times.append(state.next_spawn(now))
    if state.replaces():
        times += [time for time in state.departures() if now < time]
    if state.missing(float("inf")):  # a worker that lives on ends the back-off, and is no longer waited for
        times += [worker.born + timing.YOUNG for worker in state.workers.values() if now < worker.born + timing.YOUNG]
    soonest = min((time for time in times if time is not None), default=None)
    return None if soonest is None else max(soonest - now, 0.0)


def _end(state: State, now: float) -> list[Action]:
    if not state.workers:
        return [Exit(1 if state.cut else 0)]
    actions = (_end_of(state, worker, now) for worker in state.workers.values())
    return [action for action in actions if action is not None]


def _end_of(state: State, worker: Worker, now: float) -> Action | None:
    if worker.killed:
        return None
    is_quitting = state.quitting or (state.quit_at is not None and now >= state.quit_at)
    if is_quitting and worker.quitting is None:
        return Quit(worker.pid)
    if worker.stopping is None and worker.quitting is None:
        return Stop(worker.pid)
    return Kill(worker.pid) if _is_late(state, worker, now) else None


def _is_late(state: State, worker: Worker, now: float) -> bool:
    deadline = _deadline(state, worker)
    return deadline is not None and now >= deadline


def _deadline(state: State, worker: Worker) -> float | None:
    """The time at which this worker is killed; None if it was not asked to leave."""
    if worker.quitting is not None:
        return worker.quitting + timing.KILL
    if worker.stopping is not None:
        patience = state.graceful_timeout if worker.is_ready else min(state.graceful_timeout, timing.STOP_WHILE_LOADING)
        return worker.stopping + patience + timing.KILL
    if worker.draining is not None:
        return worker.draining + timing.DRAIN + state.graceful_timeout + timing.KILL
    return None
