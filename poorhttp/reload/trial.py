"""The trial of a reload: a child with the command line of this server, which loads the new code and does not serve.

Knows what the server and the child tell each other. Does not know what is tried (`process.start.dry_run`).
"""

from __future__ import annotations

import sys

from poorhttp.errors import PoorhttpError
from poorhttp.listen.systemd import NOTIFIED
from poorhttp.reload import bytecode
from poorhttp.reload.execution import first_environ
from poorhttp.reload.handover import FORMAT
from poorhttp.stdlib import nameless, os, time
from poorhttp.system import timing
from poorhttp.system.exits import end_with, reason
from poorhttp.system.program import Program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

TRIAL = "POORHTTP_TRIAL"
"""The variable that tells a trial its server (process number and version of the handover), its shape and its addresses:
a line each."""

SUCCEEDED = b"ok\n"
"""The last line of a trial that succeeds, on the standard output of its start, which the application cannot reach."""

UNASKED = "unasked"
"""The line for a trial whose application is not to be asked for `check_path`."""

END = 1 << 16
"""Bytes of what a trial wrote that are looked at: the last ones."""

LINES = 40
"""Lines of what a failed trial said that are logged: the last ones."""


class Trial:
    """One trial that goes on. facts: shape and sockets of this server, as `tried` returns them. Raises OSError."""

    def __init__(self, facts: Iterable[str], home: str) -> None:
        environ = first_environ()
        for name in NOTIFIED:
            environ.pop(os.fsencode(name), None)  # a trial is not the service
        environ[os.fsencode(TRIAL)] = os.fsencode("\n".join([f"{os.getpid()} {FORMAT}", *facts]))
        self._streams = [nameless("told")]  # standard output and error
        try:
            self._streams.append(nameless("said"))
            self._program = Program(sys.orig_argv[1:], environ, home, *self._streams)
        except OSError:
            self._close()
            raise
        self._began = time.monotonic()

    def seconds_left(self) -> float:
        """Until it is late."""
        return max(self._began + timing.LOADING - time.monotonic(), 0.0)

    def stood_still(self, seconds: float) -> None:
        """This process did for so long: the trial, which perhaps did too, is not late for that."""
        self._began += seconds

    def wait(self) -> None:
        """Return when it has ended or is late."""
        self._program.wait(self.seconds_left())

    def kill(self) -> None:
        """End it at once."""
        self._program.kill()

    def is_over(self) -> bool:
        """Whether it has ended or is late."""
        return self._program.poll() is not None or not self.seconds_left()

    def end(self) -> tuple[str, list[str]]:
        """End a trial that is over: why it has failed ("" where it has not), and the lines that it said."""
        code = self._program.poll()
        self._program.kill()
        told, said = (os.pread(each, END, max(os.fstat(each).st_size - END, 0)) for each in self._streams)
        self._close()
        # The code alone would not do: the new application may end the process itself, and the old one may have reaped
        # it, with a wait for any child.
        if code == 0 and told.endswith(SUCCEEDED):
            return "", []
        lines = said.decode("utf-8", "replace").split("\n")[:-1]
        if len(lines) > LINES:
            lines[:-LINES] = ["[the first lines are left out]"]
        faults = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
        return ": ".join([_why(code), *faults[-1:]]), lines

    def _close(self) -> None:
        for each in self._streams:
            os.close(each)


def _why(code: int | None) -> str:
    if code is None:
        return f"the trial took longer than {timing.LOADING:.0f} s"
    where = "; poorhttp check tells where" if code < 0 else ""
    return reason(code) + (" before the application was loaded" if code == 0 else where)


def tried() -> list[str] | None:
    """Return shape and addresses of the running server, in a trial and only once; None in any other process.

    Raises PoorhttpError where the server is not the parent, or hands over another version.
    """
    text = os.environ.pop(TRIAL, "")
    if not text:
        return None
    server, *facts = text.split("\n")
    end_with(os.getppid())
    pid, _, handed = server.partition(" ")
    if pid != str(os.getppid()) or not facts:
        raise PoorhttpError(f"{TRIAL} is not what a server says that is to be reloaded", "unset it")
    if handed != str(FORMAT):
        what = "the running server is of a version that hands over what this one cannot take"
        raise PoorhttpError(what, "restart it: poorhttp restart")
    bytecode.recompile_edited()
    return facts
