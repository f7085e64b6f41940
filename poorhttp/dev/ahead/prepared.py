"""The processes that wait for the next save, and who of them goes on then.

Knows what each of them has imported, and whether a plain start would import the same now. Does not know when a load
begins, nor what becomes of it.
Contract: who is sent has come as far as he can, or is new. Nobody is sent who would find anything else now than what he
has found; why not is told.
"""

from __future__ import annotations

import json
import sys

from poorhttp.dev.page import problem
from poorhttp.dev.serve.processes import Process
from poorhttp.dev.watch import reports
from poorhttp.dev.watch.reports import COLD, IMPORTED, LOADING, NEEDY, UNFIT
from poorhttp.stdlib import held, os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from poorhttp.dev.watch.files import Watcher
    from poorhttp.logs.log import ErrorLog
    from poorhttp.stdlib import socket

HOT = 2
"""Modules that were edited last, before each of which a process waits: so many at most."""


class Prepared:
    """Those that wait.

    spare: a process that has come as far as it can without the author's code. zygote: one from which such are forked.
    checkpoints: those that wait in the middle of the import, before a module that was edited lately; only beside a
    zygote, so that what was forked is what goes on in any case.
    """

    def __init__(
        self,
        listeners: list[socket.socket],
        watcher: Watcher,
        live: int,
        error_log: ErrorLog,
        end: Callable[[Process], None],
    ) -> None:
        """live: the port of `live.Streams`, 0 for none. end: is to end those that are wanted no more."""
        self._listeners = listeners
        self._watcher = watcher
        self._live = live
        self._error_log = error_log
        self._end = end
        self._spare: Process | None = None
        self._zygote: Process | None = None
        self._checkpoints: list[Process] = []
        self._hot: list[str] = []  # what was edited lately, the last first
        self._unfit = ""  # why nobody could wait there, or go on from there
        self._order = b""  # what is to be imported in advance
        self._without: set[str] = set()  # modules that need the application before them
        self._never = ""  # why nothing is
        self._refused = b""  # what could not be
        self._installed = _installed()  # when the first of those who wait was begun
        self._may_prepare = True

    def all(self) -> list[Process]:
        """Everybody who waits."""
        return [*(each for each in (self._spare, self._zygote) if each is not None), *self._checkpoints]

    # Who goes

    def heed(self, changed: list[str]) -> None:
        """These files have changed: let nobody wait on who would find anything else now than what he has found."""
        if self._installed != _installed():
            self._without.clear()
            self.drop()
        modules = [path for path in changed if path.endswith(".py")]
        self._hot = [*modules, *(path for path in self._hot if path not in modules)][:HOT]
        is_content = bool(changed) and all(map(os.path.isfile, changed))
        old = []
        for each in self._checkpoints:
            others = [path for path, found in each.read.items() if path in changed or reports.signature(path) != found]
            if not is_content or each.names != self._watcher.names(each.names):
                self._unfit = "files came or went"
            elif others:
                self._unfit = f"{problem.shown(others[0])} goes before {problem.shown(each.waits_at)}"
            elif each.waits_at in self._hot:
                continue
            old.append(each)
        self._drop_checkpoints(old)

    def send(self) -> tuple[Process | None, str]:
        """The process that loads the application now, and for the log how it came by what it needs."""
        origin = self._checkpoint() or self._zygote
        before = self._spare.origin if self._spare is not None else None
        is_behind = before is not origin and (origin is not None or (before is not None and before.waits_at))
        if self._spare is not None and is_behind:
            self._end(self._spare)
            self._spare = None
        if self._spare is not None:
            self._spare.was_spare = True
        process, self._spare = self._spare or self._make_ready(b""), None
        path = " (cold)"
        if process is not None and process.origin in self._checkpoints:
            path = " (checkpoint)"
        elif process is not None and process.is_forked:
            path = f" (zygote: {self._unfit})" if self._unfit else " (zygote)"
        elif self._never:
            path = f" (cold: {self._never})"
        elif process is not None and not process.is_prepared:
            path = " (cold: nothing was ready yet)"
        elif process is not None and process.order:
            path = f" (prepared: {process.why_not_forked})"
        self._unfit = ""
        if process is not None:
            process.go(self._hot if self._zygote is not None else [])
        self._may_prepare = True
        return process, path

    # Who waits

    def wants_spare(self) -> bool:
        """Whether somebody is to be made ready for the next save."""
        return self._spare is None and self._may_prepare

    def prepare(self) -> None:
        """Make him ready."""
        if self._zygote is None:  # else he is forked from one who found what there was when that one was begun
            self._installed = _installed()
        self._spare = self._make_ready(self._order)

    def keep(self, process: Process, paths: list[str], is_late: bool) -> None:
        """Somebody waits now before the first of these; he has looked for modules in the others. process: from whom he
        was forked; is_late: it is old already.
        """
        waiting = self.make()
        waiting.wait_at(paths[0], process)
        now = self._watcher.names(paths[1:])
        waiting.names = {place: now[place] for place in paths[1:]} | waiting.names
        if is_late or self._zygote is None or self._zygote.order != process.order:
            self._end(waiting)
            return
        self._drop_checkpoints([each for each in self._checkpoints if each.waits_at == paths[0]])
        self._checkpoints.append(waiting)

    def hear(self, process: Process, kind: bytes, fields: list[bytes]) -> None:
        """What a process tells of its imports."""
        if kind == UNFIT:
            self._unfit = os.fsdecode(fields[0])
        elif kind == LOADING:
            process.is_prepared, process.why_not_forked = True, os.fsdecode(fields[0])
            if process is self._spare and not process.why_not_forked:
                self._zygote, self._spare = process, None
        elif kind == IMPORTED:
            self._learn(process, fields[0])
        elif kind == NEEDY:
            self._without.update(json.loads(fields[0]))
            self._refused, process.is_refused = process.order, True
            self._order = self._without_needy(json.loads(process.order))
            self.drop()
        elif kind == COLD:
            self._refused, process.is_refused = process.order, True
            self._be_cold(os.fsdecode(fields[0]))

    def gone(self, process: Process, may_again: bool) -> None:
        """A process has ended, or will never be. may_again: if it was the spare, another one may be made ready."""
        if process is self._zygote:
            self._zygote = None
            self._drop_checkpoints()
        elif process is self._spare:
            self._spare, self._may_prepare = None, may_again
        self._checkpoints = [each for each in self._checkpoints if each is not process]

    def drop_checkpoints(self, why: str) -> None:
        """Nobody may go on from there any more."""
        if self._checkpoints:
            self._unfit = why
        self._drop_checkpoints()

    def make(self) -> Process:
        """A process that is none yet."""
        return Process(self._watcher.fileno(), self._live)

    def _make_ready(self, order: bytes) -> Process | None:
        """A process that waits for the word to load: a fork of who has come farthest, or a new one."""
        for origin in self._checkpoint(), self._zygote:
            if origin is not None:
                process = self.make()
                try:
                    process.fork(origin)
                    return process
                except OSError:  # it is gone
                    self._drop_checkpoints()
                    if origin is self._zygote:
                        self._end(origin)
                        self._zygote = None
        process = self.make()
        try:
            process.spawn([each.fileno() for each in self._listeners], order)
        except OSError as error:
            self._error_log.write("E", f"cannot start a process: {error.strerror}; the next save tries again")
            self._may_prepare = False
            return None
        return process

    def _checkpoint(self) -> Process | None:
        """Who waits before the module that was edited last, if anybody does."""
        fit = [each for each in self._checkpoints if self._hot and each.pid and self._hot[0] not in each.read]
        return max(fit, key=lambda each: len(each.read), default=None)

    def _learn(self, process: Process, message: bytes) -> None:
        """A process tells what its application has imported, beyond what it had imported in advance."""
        facts = json.loads(message)
        before = json.loads(process.order) if process.order else {"modules": []}
        order = self._without_needy({**before, **facts, "modules": [*before["modules"], *facts["modules"]]})
        if facts["why"]:
            self._refused = b""  # a cold start tells when that is over
            self._be_cold(facts["why"])
        elif order not in (self._refused, self._order):
            self._order, self._never = order, ""
            self.drop()

    def _without_needy(self, order: dict[str, Any]) -> bytes:
        modules = [name for name in order["modules"] if name not in self._without]
        whole = {**order, "modules": modules, "without": sorted(self._without)}
        return json.dumps(whole, sort_keys=True).encode()

    def _be_cold(self, why: str) -> None:
        if why != self._never:
            self._error_log.write("I", f"nothing is imported in advance: {why}")
        self._order, self._never = b"", why
        self.drop()

    def drop(self) -> None:
        """What was imported in advance is no longer what it ought to be: who is sent next begins anew."""
        for each in self.all():
            self._end(each)
        self._spare, self._zygote, self._checkpoints = None, None, []

    def _drop_checkpoints(self, which: list[Process] | None = None) -> None:
        """End all who wait in the middle of the import, or these."""
        old = self._checkpoints if which is None else which
        for each in old:
            self._end(each)
        self._checkpoints = [each for each in self._checkpoints if each not in old]


def _installed() -> list[reports.Signature | None]:
    """What changes where packages are installed or removed."""
    return [
        reports.signature(path, True)
        for path in (*held, *sys.path)
        if path.endswith(("site-packages", "dist-packages"))
    ]
