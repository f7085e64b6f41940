"""The number of workers while a server runs, and which worker is replaced because it takes too much memory.

Knows the load that workers report, the memory limit and the signals that change the number. Both policies are modules
of their own (`process.workers.scale`, `process.workers.memory`), imported only where a setting asks for them.
"""

from __future__ import annotations

from poorhttp.process import messages
from poorhttp.stdlib import os, signal, time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from poorhttp.config.model import Config
    from poorhttp.logs.log import ErrorLog
    from poorhttp.process.workers.memory import Budget
    from poorhttp.process.workers.plan import State
    from poorhttp.process.workers.scale import Scale


class Sizing:
    """is_fixed: nothing but signals changes the number. are_away: the workers left because of WINCH."""

    def __init__(self, config: Config, error_log: ErrorLog, is_fixed: bool) -> None:
        self.are_away = False
        self._error_log = error_log
        self._budget = None if is_fixed else _budget(config.memory)
        self._scale = None if is_fixed else _scale(config)

    def adopted(self, state: State, now: float) -> None:
        """Begin with the workers of the program before this one."""
        if self._scale:
            self._scale.step(len(state.serving_pids()) - self._scale.wanted, now)

    def hear(self, pid: int, reports: bytes, now: float) -> None:
        """A worker reports how busy it is."""
        if self._scale is None:
            return
        for byte in reports:
            if byte == messages.OVERLOADED[0]:
                self._scale.overloaded(pid, now)
            elif byte >= messages.LOAD:
                self._scale.busy((byte - messages.LOAD) / 100, now)

    def step(self, signum: int, state: State, now: float) -> None:
        """One worker more (TTIN) or fewer (TTOU); where the load decides, within its bounds."""
        by = 1 if signum == signal.SIGTTIN else -1
        if self._scale and not self.are_away:
            self._scale.step(by, now)
            state.wanted = self._scale.wanted
        elif by > 0 or state.wanted > 1:
            state.wanted += by
        self._error_log.write("S", f"number of workers set to {state.wanted}")

    def send_away(self, state: State) -> None:
        """No workers until a reload, or TTIN (WINCH)."""
        self._error_log.write("S", "SIGWINCH: the workers leave; HUP brings them back, TTIN one")
        self.are_away, state.wanted = True, 0

    def decide(self, state: State, is_trying: bool, now: float) -> None:
        """Change the number by the load, and replace the largest worker where all weigh too much.

        is_trying: new code is tried, which takes memory itself.
        """
        if state.stopping is not None:
            return
        if self._budget is not None and now >= self._budget.next_look:
            is_settled = state.is_settled() and not is_trying
            pid = self._budget.look(os.getpid(), list(state.workers) if is_settled else [], now)
            if self._budget.text:
                self._error_log.write("W", self._budget.text)
            if pid:
                state.retire(pid)
        if self._scale is not None and not self.are_away:
            if self._scale.decide(state.serving_pids(), now):
                more = "more" if self._scale.wanted > state.wanted else "fewer"
                self._error_log.write("I", f"one worker {more}: {self._scale.wanted}")
            state.wanted = self._scale.wanted

    def seconds_left(self, now: float) -> float | None:
        """In how many seconds `decide` is to be called, if for nothing else."""
        by_load = self._scale.wait() if self._scale else None
        by_memory = max(self._budget.next_look - now, 0.0) if self._budget else None
        return min((each for each in (by_load, by_memory) if each is not None), default=None)

    def status(self, state: State) -> str:
        """How many workers serve, in words."""
        if self.are_away and not state.wanted:
            return "no workers (WINCH); TTIN or HUP starts them"
        count = sum(each.is_ready and not each.is_old for each in state.workers.values())
        return f"{count} of {state.wanted} workers serve"


def has_terminal() -> bool:
    """Whether this process may get WINCH because a window has another size now, which is its first meaning."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _budget(memory: int) -> Budget | None:
    if not memory:
        return None
    from poorhttp.process.workers.memory import Budget

    return Budget(memory, time.monotonic())


def _scale(config: Config) -> Scale | None:
    if config.processes.most == config.processes:
        return None
    from poorhttp.process.workers.scale import Scale

    return Scale(int(config.processes), config.processes.most, time.monotonic())
