"""What a page and the log say of a process that failed: plain data for `page.problem`."""

from __future__ import annotations

from poorhttp.dev.page import problem
from poorhttp.stdlib import os
from poorhttp.system.exits import reason

STILL = 5.0
"""Seconds of loading after which clients get a page that says so."""


def died_while_loading(code: int, last_read: str) -> problem.Problem:
    """code: as of `os.waitstatus_to_exitcode`. last_read: the file that was read last, "" for none."""
    return problem.plain(f"the process died while it loaded the application: {reason(code)}{_last(last_read)}")


def died_while_serving(code: int) -> problem.Problem:
    """code: as of `os.waitstatus_to_exitcode`."""
    hint = f"an exit, or a fault in compiled code? A change, or kill -USR2 {os.getpid()}, loads it again"
    return problem.plain(f"the process that served died: {reason(code)}", hint)


def still_loading(last_read: str) -> problem.Problem:
    """last_read: the file that was read last, "" for none."""
    title = f"still importing, for more than {STILL:.0f} seconds{_last(last_read)}"
    return problem.plain(title, "this page tries again by itself; a save starts anew")


def _last(path: str) -> str:
    return f"; the last file it read is {problem.shown(path)}" if path else ""
