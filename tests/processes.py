"""A started `python -m poorhttp` with all processes that come from it: the one way in which tests start a server.

Knows the command line, the scoreboard and /proc. Knows neither applications nor HTTP.
"""

from __future__ import annotations

import contextlib
import glob
import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from poorhttp.status import reader

PATIENCE = 20.0  # seconds that a condition may take on a loaded machine; nothing waits this long on purpose


def lives(process: psutil.Process) -> bool:
    """Whether it runs; not where it only waits for its parent to look."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_for(condition: Callable[[], Any], what: str = "", seconds: float = PATIENCE) -> Any:
    """Wait for `condition` to be true and return its value; fail, saying `what` was awaited, if it is not in time. It is looked
    at less and less often: looking, which may mean reading of /proc, takes time from what is waited for.
    """
    began = time.monotonic()
    while not (value := condition()):
        waited = time.monotonic() - began
        if waited > seconds:
            pytest.fail(f"waited {seconds} s in vain for: {what or condition}")
        time.sleep(min(0.002 + waited / 20, 0.05))
    return value


def delay(pids: Iterable[int]) -> float:
    """Seconds that the threads of these processes, which live, have waited for a core so far, together."""
    waited = 0
    for pid in pids:
        for each in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):  # the thread has ended
                waited += int((each / "schedstat").read_text().split()[1])
    return waited / 1e9


def suspend(*pids: int) -> None:
    """Stop these processes. kill(2) returns earlier: a thread on another core may still answer a client."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    stats = [f"/proc/{pid}/task/*/stat" for pid in pids]
    wait_for(lambda: all(_state(file) == "T" for stat in stats for file in glob.glob(stat)), "the processes to stop")


def _state(stat: str) -> str:
    """The state of a thread; `T` also for one that has ended meanwhile."""
    try:
        return Path(stat).read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "T"


def package_home() -> str:
    """The directory that holds the package which is tested."""
    spec = importlib.util.find_spec("poorhttp")
    assert spec and spec.origin, "poorhttp is not importable: install it, or run `python -m pytest` at the root"
    return str(Path(spec.origin).parents[1])


class Started:
    """A started server: `process`, and the processes that are known to come from it."""

    def __init__(
        self,
        arguments: Sequence[str],
        directory: Path,
        environ: dict[str, str],
        *,
        inside: Sequence[str] = (),
        wrapper: Sequence[str] = (),
        **options: Any,
    ) -> None:
        """Run in `directory` and, where a command is `inside`, by that; `wrapper` is what the interpreter runs before."""
        self.directory = directory
        self._family: set[psutil.Process] = set()
        self.process = subprocess.Popen(
            [*inside, sys.executable, *wrapper, "-m", "poorhttp", *arguments],
            cwd=directory,
            env=environ,
            stdin=subprocess.DEVNULL,
            **options,
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def states(self) -> dict[int, str]:
        """What each of its processes says that it does, by its pid."""
        told = reader.read_server(self.pid) or {"processes": []}
        return {each["pid"]: each["state"] for each in told["processes"]}

    def await_serving(self, count: int) -> None:
        """Wait until so many processes serve: a worker is there, and has a name, before it does."""
        wait_for(lambda: list(self.states().values()) == ["serving"] * count, f"{count} processes that serve")

    def know(self, *, recursive: bool = False) -> list[psutil.Process]:
        """The children that there are now, or all descendants; they are known from now on."""
        children: list[psutil.Process] = []
        if self.process.poll() is None:
            with contextlib.suppress(psutil.NoSuchProcess):
                children = psutil.Process(self.pid).children(recursive=recursive)
        self._family.update(children)
        return children

    def left(self) -> list[psutil.Process]:
        """The known ones that live, though their parent may not."""
        return [each for each in self._family if lives(each)]

    def kill(self) -> None:
        """End all that is left, whatever it does."""
        self.know(recursive=True)
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait(PATIENCE)
        for each in self.left():
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        wait_for(lambda: not self.left(), "the killed processes to be gone")
