"""What a table and its settings say, read and checked once, when the application is made.

Knows the names that a table may have. The dispatcher knows what a request gets of it; /debug-info shows it.
"""

from __future__ import annotations

import sys

from poorhttp.dispatch.faults import TableError
from poorhttp.dispatch.table import read_errors, read_hook

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from poorhttp.dispatch.routes import Handler, Routes
    from poorhttp.dispatch.static import StaticFiles

HOOKS = ("setreq", "pre_process", "post_process", "default_handler")


class Site:
    """routes, errors: which function is for which path, and for which status. hooks: those that the table has, by name.
    files: None without a document root. sessions: what the table has under this name. options: None if the server alone
    knows them.
    """

    def __init__(
        self,
        table: object,
        routes: Routes,
        files: StaticFiles | None,
        *,
        debug: bool,
        webmaster: str,
        options: Mapping[str, str] | None,
        buffer_limit: int,
    ) -> None:
        """Raises TableError."""
        if not isinstance(buffer_limit, int) or not 0 <= buffer_limit <= sys.maxsize:
            raise TableError(f"buffer_limit is {buffer_limit!r}", f"a number from 0 to {sys.maxsize}")
        self.routes = routes
        self.errors = read_errors(table)
        self.hooks: dict[str, Handler] = {}
        for name in HOOKS:
            hook = read_hook(table, name)
            if hook is not None:
                self.hooks[name] = hook
        self.converters: Mapping[str, tuple[str, Any]] = getattr(table, "converters", {})
        self.sessions: Any = getattr(table, "sessions", None)
        self.files = files
        self.options = options
        self.buffer_limit = buffer_limit
        self._debug = debug
        self._webmaster = webmaster

    def is_debugging(self, environ: Mapping[str, Any]) -> bool:
        """Whether `debug` is on: as the server says, by a bool or by a text such as `yes`, else as the application was
        made.
        """
        debug = environ.get("poorhttp.debug", self._debug)
        return debug is True or str(debug).lower() in ("yes", "true", "on", "1")

    def webmaster_of(self, environ: Mapping[str, Any]) -> str:
        """The name on error pages of the person to ask: as the server says, else as the application was made."""
        told = str(environ.get("SERVER_ADMIN", ""))
        try:
            return told.encode("latin-1").decode() or self._webmaster  # bytes as characters (PEP 3333)
        except UnicodeError:
            return told
