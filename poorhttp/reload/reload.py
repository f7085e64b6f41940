"""A reload: the new code is tried in a child, then this process becomes the new program.

Knows the order of a reload, and where it is reported. Does not know which process serves, nor when old workers leave.
Contract: nothing of the running server changes before a trial has read the configuration, bound what is new and loaded
the application. `execute` keeps the process number, the sockets and the workers; everything else is as after a start, a
newly installed poorhttp included.
"""

from __future__ import annotations

from poorhttp.listen import sockets, unix_sockets
from poorhttp.reload.execution import execute, unreachable
from poorhttp.reload.handover import Handover
from poorhttp.reload.trial import UNASKED, Trial
from poorhttp.status import layout
from poorhttp.stdlib import signal
from poorhttp.system.signals import HANDLED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import NoReturn

    from poorhttp.listen.systemd import Manager
    from poorhttp.logs.log import ErrorLog
    from poorhttp.status.scoreboard import Scoreboard


class Reload:
    """How this server is replaced.

    home: the directory that it was started in, as it was named. shape: in words, with or without a supervisor, which a
    reload does not change. keys: that of each listening socket. handover: what the new program gets. outcome: of a
    trial that fails. asks: whether a trial asks for `check_path`.
    """

    def __init__(
        self,
        handover: Handover,
        home: str,
        shape: str,
        keys: list[str],
        error_log: ErrorLog,
        manager: Manager,
        scoreboard: Scoreboard | None = None,
    ) -> None:
        self.handover = handover
        self.keys = keys
        self.outcome = "the server goes on as it was"
        self.asks = True
        self._home = home
        self._shape = shape
        self._error_log = error_log
        self._manager = manager
        self._scoreboard = scoreboard
        self._trial: Trial | None = None
        self._is_asked_again = self._is_cancelled = False

    def begin(self) -> None:
        """Begin a trial; while one goes on: another one after it."""
        if self._trial is not None:
            self._is_asked_again = True
            return
        if self._is_cancelled:
            return
        passed = (f"passed {descriptor} {name}" for descriptor, name in self.handover.passed)
        facts = [self._shape, *filter(_is_kept, self.keys), *passed, *([] if self.asks else [UNASKED])]
        self._error_log.write("S", "reload: trying the new code and configuration in a child")
        self._manager.reloading()
        self._note(layout.TRYING)
        try:
            self._trial = trial = Trial(facts, self._home)
        except Exception as error:  # out of descriptors, or Python is not where it was
            if isinstance(error, OSError) and error.filename == self._home:
                self._fail(unreachable(self._home, error))
            else:
                self._fail(f"cannot start it: {error}")
            return
        if self._is_cancelled:  # meanwhile
            trial.kill()

    def is_trying(self) -> bool:
        """Whether a trial goes on."""
        return self._trial is not None

    def seconds_left(self) -> float | None:
        """Until the trial that goes on is late; None without one."""
        return None if self._trial is None else self._trial.seconds_left()

    def stood_still(self, seconds: float) -> None:
        """This process did for so long."""
        if self._trial is not None:
            self._trial.stood_still(seconds)

    def succeeded(self) -> bool:
        """Whether a trial has just succeeded; asked at any time. One that failed or is late is logged."""
        if self._trial is None or not self._trial.is_over():
            return False
        why, said = self._trial.end()
        self._trial = None
        if self._is_cancelled:
            self._error_log.write("S", "reload: given up, as the server stops")
            return False
        if why:
            self._fail(why, said)
        elif not self._is_asked_again:
            return True
        if self._is_asked_again:
            self._is_asked_again = False
            self.begin()
        return False

    def wait(self) -> bool:
        """Wait for the end of the trial: whether it succeeded."""
        while self._trial is not None:
            self._trial.wait()
            if self.succeeded():
                return True
        return False

    def cancel(self) -> None:
        """End a trial that goes on: the server stops."""
        self._is_cancelled = True
        trial = self._trial
        if trial is not None:
            trial.kill()

    def keep(self, descriptors: Iterable[int]) -> None:
        """Hand these listening sockets over, in the order of the keys."""
        pairs = zip(self.keys, descriptors, strict=True)
        kept = {key: (each, *unix_sockets.made(_path(key))) for key, each in pairs if _is_kept(key)}
        self.handover.sockets |= kept

    def execute(self) -> NoReturn:
        """Become the new program. Raises OSError where that is impossible; then nothing has changed.

        Signals wait until the new program hears them. Called on any thread.
        """
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
        signal.setitimer(signal.ITIMER_REAL, 0)  # it would go on in the new program, which does not know it
        self._error_log.flush()
        self.handover.streams = self._error_log.streams() or self.handover.streams
        try:
            execute(self.handover, self._home)
        finally:  # it was impossible
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def _note(self, result: str, why: str = "") -> None:
        if self._scoreboard is not None:
            self._scoreboard.note_reload(result, why)

    def _fail(self, why: str, said: Iterable[str] = ()) -> None:
        for line in said:
            self._error_log.write("E", f"| {line}")
        why = f"{self.outcome}: {why}"
        self._note(layout.FAILED, why)  # before it is said: a reader of the log may ask for it
        self._error_log.write("E", f"reload failed, {why}")
        self._manager.reload_failed(why)


def _is_kept(key: str) -> bool:
    """Whether the next program gets the socket of this key, and need not bind it anew."""
    return not key.startswith(sockets.PASSED) and not unix_sockets.is_lost(_path(key))


def _path(key: str) -> str:
    """That of a unix socket."""
    return key.removeprefix(sockets.CONTROL).removeprefix("unix:")
