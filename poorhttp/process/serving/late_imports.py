"""The modules that a worker imports at its first requests, for the debug log: each worker has a copy of its own of what
could have been shared, had it been imported before the fork.

Knows the modules that are there before and after a call. Does not know which application imports them, nor why.
"""

from __future__ import annotations

import sys

from poorhttp.stdlib import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from poorhttp.app.callables import WSGI
    from poorhttp.logs.log import ErrorLog

LOOKS = 4
"""Calls before and after which is looked: the body of an answer may be made after the first call has returned."""

MOST = 60
"""Names in a line."""


class LateImports:
    """The application in a worker, which was forked just now."""

    def __init__(self, app: WSGI, error_log: ErrorLog) -> None:
        self._app, self._error_log = app, error_log
        self._known = set(sys.modules)
        self._left = LOOKS

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Call the application; name what it has imported since the last look."""
        self._look()
        answer = self._app(environ, start_response)
        self._look()
        return answer

    def _look(self) -> None:
        if self._left:
            self._left -= 1
            new = set(sys.modules) - self._known
            self._known |= new
            if new:
                how = "import them with the application, or name its path in warmup, so that workers share them"
                self._error_log.write("D", f"worker {os.getpid()} has imported {_listed(new)}; {how}")


def _listed(names: set[str]) -> str:
    """The names without those of submodules whose package is among them, and without those beyond `MOST`."""
    tops = sorted(each for each in names if each.rpartition(".")[0] not in names)
    more = len(tops) - MOST
    return ", ".join(tops[:MOST]) + (f" and {more} more" if more > 0 else "")
