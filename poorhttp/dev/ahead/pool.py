"""The processes that wait for the next save, and the choice of the one that loads the application then.

Knows what each of them has imported, and whether a cold start would import the same now. Does not know when a load
begins, nor how it ends. The process that is sent has come as far as possible, or is new.
"""

from __future__ import annotations

import json
import sys

from poorhttp.app.places import seen
from poorhttp.dev.serve.processes import Process
from poorhttp.dev.watch import reports
from poorhttp.dev.watch.paths import Signature, signature
from poorhttp.stdlib import held, os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from poorhttp.dev.watch.files import Watcher
    from poorhttp.logs.log import ErrorLog
    from poorhttp.stdlib import socket

HOT = 2
"""Modules that were edited last: before each of them a checkpoint waits."""


class Pool:
    """The waiting processes. spare: it has come as far as possible without the author's code. zygote: spares are forked
    from it. checkpoints: only beside a zygote, so that the process that loads is a fork in any case.
    """

    def __init__(
        self,
        listeners: list[socket.socket],
        watcher: Watcher,
        live: int,
        error_log: ErrorLog,
        end: Callable[[Process], None],
    ) -> None:
        """live: the port of `live.Streams`, 0 for none. end: ends a process that is not needed any more."""
        self._listeners = listeners
        self._watcher = watcher
        self._live = live
        self._error_log = error_log
        self._end = end
        self._spare: Process | None = None
        self._zygote: Process | None = None
        self._checkpoints: list[Process] = []
        self._hot: list[str] = []  # paths of the modules that were edited last, the newest first
        self._unfit = ""  # why no checkpoint was made or used
        self._order = b""  # what is to be imported in advance
        self._without: set[str] = set()  # modules that need the application to be imported first
        self._never = ""  # why nothing is imported in advance
        self._refused = b""  # the order that turned out to be wrong
        self._installed = _installed()  # when the first waiting process was started
        self._may_prepare = True

    def all(self) -> list[Process]:
        return [*(each for each in (self._spare, self._zygote) if each is not None), *self._checkpoints]

    # The process that loads

    def drop_outdated(self, changed: list[str]) -> None:
        """End the processes that would find something else than before, now that these files have changed."""
        if self._installed != _installed():
            self._without.clear()
            self.drop()
        modules = [path for path in changed if path.endswith(".py")]
        self._hot = [*modules, *(path for path in self._hot if path not in modules)][:HOT]
        is_content = bool(changed) and all(map(os.path.isfile, changed))
        old = []
        for each in self._checkpoints:
            others = [path for path, found in each.read.items() if path in changed or signature(path) != found]
            if not is_content or each.names != self._watcher.names(each.names):
                self._unfit = "files came or went"
            elif others:
                self._unfit = f"{seen(others[0])} goes before {seen(each.waits_at)}"
            elif each.waits_at in self._hot:
                continue
            old.append(each)
        self._drop_checkpoints(old)

    def send(self) -> tuple[Process | None, str]:
        """Let a process load the application now. Returns it, and for the log what it had imported in advance."""
        origin = self._checkpoint() or self._zygote
        before = self._spare.origin if self._spare is not None else None
        is_behind = before is not origin and (origin is not None or (before is not None and before.waits_at))
        if self._spare is not None and is_behind:
            self._end(self._spare)
            self._spare = None
        if self._spare is not None:
            self._spare.was_spare = True
        process, self._spare = self._spare or self._make_ready(b""), None
        origin_shown = self._origin_shown(process)
        self._unfit = ""
        if process is not None:
            process.go(self._hot if self._zygote is not None else [])
        self._may_prepare = True
        return process, origin_shown

    def _origin_shown(self, process: Process | None) -> str:
        if process is not None and process.origin in self._checkpoints:
            return " (checkpoint)"
        if process is not None and process.is_forked:
            return f" (zygote: {self._unfit})" if self._unfit else " (zygote)"
        if self._never:
            return f" (cold: {self._never})"
        if process is not None and not process.is_prepared:
            return " (cold: nothing was ready yet)"
        if process is not None and process.order:
            return f" (prepared: {process.why_not_forked})"
        return " (cold)"

    # The processes that wait

    def wants_spare(self) -> bool:
        """Whether a process is to be made ready for the next save."""
        return self._spare is None and self._may_prepare

    def prepare(self) -> None:
        """Make a process ready for the next save."""
        if self._zygote is None:  # else the spare has what was installed when the zygote was started
            self._installed = _installed()
        self._spare = self._make_ready(self._order)

    def keep(self, process: Process, paths: list[str], is_late: bool) -> None:
        """A checkpoint waits before the first of these paths; the others are directories in which it has looked for
        modules. process: the one that has forked it; is_late: that is an old one already.
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
        """A process reports what it has imported."""
        if kind == reports.UNFIT:
            self._unfit = os.fsdecode(fields[0])
        elif kind == reports.LOADING:
            process.is_prepared, process.why_not_forked = True, os.fsdecode(fields[0])
            if process is self._spare and not process.why_not_forked:
                self._zygote, self._spare = process, None
        elif kind == reports.IMPORTED:
            self._learn(process, fields[0])
        elif kind == reports.NEEDY:
            self._without.update(json.loads(fields[0]))
            self._refused, process.is_refused = process.order, True
            self._order = self._without_needy(json.loads(process.order))
            self.drop()
        elif kind == reports.COLD:
            self._refused, process.is_refused = process.order, True
            self._be_cold(os.fsdecode(fields[0]))

    def gone(self, process: Process, may_again: bool) -> None:
        """A process has ended, or will never start. may_again: if it was the spare, another one may be made."""
        if process is self._zygote:
            self._zygote = None
            self._drop_checkpoints()
        elif process is self._spare:
            self._spare, self._may_prepare = None, may_again
        self._checkpoints = [each for each in self._checkpoints if each is not process]

    def drop_checkpoints(self, why: str) -> None:
        """End all checkpoints. why: for the log, at the next load."""
        if self._checkpoints:
            self._unfit = why
        self._drop_checkpoints()

    def make(self) -> Process:
        """A process that is not started yet."""
        return Process(self._watcher.fileno(), self._live)

    def _make_ready(self, order: bytes) -> Process | None:
        """A process that waits for the command to load: a fork of the one that has come farthest, or a new one."""
        for origin in self._checkpoint(), self._zygote:
            if origin is not None:
                process = self.make()
                try:
                    process.fork(origin)
                    return process
                except OSError:  # the origin is gone
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
        """The checkpoint that waits before the module that was edited last, if there is one."""
        fit = [each for each in self._checkpoints if self._hot and each.pid and self._hot[0] not in each.read]
        return max(fit, key=lambda each: len(each.read), default=None)

    def _learn(self, process: Process, message: bytes) -> None:
        """A process reports what its application has imported, beyond what was imported in advance."""
        facts = json.loads(message)
        before = json.loads(process.order) if process.order else {"modules": []}
        order = self._without_needy({**before, **facts, "modules": [*before["modules"], *facts["modules"]]})
        if facts["why"]:
            self._refused = b""  # a cold start reports when the reason is gone
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
        """End all waiting processes: what they have imported in advance is out of date."""
        for each in self.all():
            self._end(each)
        self._spare, self._zygote, self._checkpoints = None, None, []

    def _drop_checkpoints(self, which: list[Process] | None = None) -> None:
        """End these checkpoints; None: all."""
        old = self._checkpoints if which is None else which
        for each in old:
            self._end(each)
        self._checkpoints = [each for each in self._checkpoints if each not in old]


def _installed() -> list[Signature | None]:
    """The signatures of the directories in which packages are installed and removed."""
    return [signature(path, True) for path in (*held, *sys.path) if path.endswith(("site-packages", "dist-packages"))]
