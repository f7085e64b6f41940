"""The reload of a server with workers, at its supervisor: how it stands, on the scoreboard and for the service manager.

Knows the trial, and when the reload that began this program is over. Does not know how workers are replaced: that is
the plan's (`process.workers.plan`), for whatever reason one is.
"""

from __future__ import annotations

from poorhttp.process.serving.unsupervised_reload import NO_RELOAD
from poorhttp.status.layout import FAILED, SUCCEEDED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from poorhttp.listen.systemd import Manager
    from poorhttp.logs.log import ErrorLog
    from poorhttp.process.workers.plan import State
    from poorhttp.reload.reload import Reload
    from poorhttp.status.scoreboard import Scoreboard


class SupervisedReload:
    """make_reload: None where this program cannot be replaced. is_rolling: whether the reload that began it goes on."""

    def __init__(
        self,
        make_reload: Callable[[], Reload] | None,
        error_log: ErrorLog,
        manager: Manager,
        scoreboard: Scoreboard | None,
        is_rolling: bool,
    ) -> None:
        self.is_rolling = is_rolling
        self._make_reload = make_reload
        self._error_log = error_log
        self._manager = manager
        self._scoreboard = scoreboard
        self._reload: Reload | None = None

    def begin(self) -> None:
        """A reload is asked for."""
        if self._make_reload is None:
            self._error_log.write("W", NO_RELOAD)
            return
        try:
            self._reload = self._reload or self._make_reload()
        except Exception as error:  # no descriptor left to import it with, or poorhttp is just being installed anew
            self.failed(error)
            return
        self._reload.begin()

    def due(self) -> Reload | None:
        """The reload whose program this process is to become now; None for none."""
        return self._reload if self._reload is not None and self._reload.succeeded() else None

    def is_trying(self) -> bool:
        """Whether a trial goes on."""
        return self._reload is not None and self._reload.is_trying()

    def seconds_left(self) -> float | None:
        """In how many seconds `due` is to be asked, if for nothing else."""
        return None if self._reload is None else self._reload.seconds_left()

    def stood_still(self, seconds: float) -> None:
        """This process stood still for so many seconds."""
        if self._reload is not None:
            self._reload.stood_still(seconds)

    def cancel(self) -> None:
        """The server stops."""
        if self._reload is not None:
            self._reload.cancel()

    def failed(self, error: Exception) -> None:
        """This process could not become the new program, or not even try."""
        why = f"the server goes on as it was: {error}"
        self._error_log.write("E", f"reload failed, {why}")
        if self._scoreboard:
            self._scoreboard.note_reload(FAILED, why)
        self._manager.ready(f"reload failed, serving as before: {error}")

    def has_concluded(self, state: State) -> bool:
        """Whether the reload that began this program is over just now: its workers, and no older ones, accept."""
        if not self.is_rolling or state.stopping is not None or state.is_rolling():
            return False
        self.is_rolling = not (state.serving_pids() or not state.wanted)
        return not self.is_rolling

    def end(self, status: str, why: str = "") -> None:
        """Tell how the reload that began this program ends, unless there is a later one, which tells that of itself."""
        if self._reload is None:
            if self._scoreboard:
                self._scoreboard.end_reload(FAILED if why else SUCCEEDED, why)
            self._manager.ready(f"reload failed: {why}" if why else status)
