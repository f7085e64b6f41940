"""The lines that a start prints: version, application, addresses, shape, and notes about the configuration.

Knows the words. Does not know when they are printed.
"""

from __future__ import annotations

import sys

from poorhttp import __version__
from poorhttp.errors import say
from poorhttp.listen import backlog, sockets
from poorhttp.process.shape import is_supervised, size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from socket import socket

    from poorhttp.config.model import Config

READ_BEFORE, READ_LATER = ("PYTHON", "LD_", "MALLOC_", "GLIBC_"), ("PYTHONPATH", "PYTHONBREAKPOINT")
"""How the names of variables begin that the interpreter and the C library read at their start, but for those that count
later too.
"""


def version() -> str:
    """The first line of a start."""
    return f"poorhttp {__version__}, Python {sys.version.split()[0]}"


def facts(settings: Config, kind: str, title: str, listeners: list[socket]) -> list[str]:
    """The lines about a server that a start prints. kind: the type that was asked for."""
    clients = listeners[: len(listeners) - bool(settings.control_socket)]
    urls = ", ".join(sockets.url(each) + sockets.others(each) for each in clients)
    return [version(), title, urls, f"{kind}, {size(settings)}"]


def say_note(text: str) -> None:
    say(f"note: {text}")


def say_notes(settings: Config, note: Callable[[str], None] = say_note) -> None:
    """Say what the configuration, and the kernel about it, have to say; note: says one."""
    if not (settings.preload or is_supervised(settings)):
        note("preload = no changes nothing where there are no workers; type = forking has them")
    for name in "max_requests", "memory", "child_exit":
        if getattr(settings, name) and not is_supervised(settings):
            note(f"{name} is about workers, and here is none; type = forking has them, with processes = 1 too")
    if settings.status_path and not (settings.forwarded or settings.proxy_protocol):
        note("status_path: a front server on this machine needs forwarded, or its clients see it too")
    late = [name for name in settings.environ if name.startswith(READ_BEFORE) and name not in READ_LATER]
    if late:
        note(f"[environ] sets {', '.join(late)}, which this process has read before: set it where poorhttp is started")
    for each in filter(None, (*settings.notes, backlog.note(settings.backlog))):
        note(each)
    if settings.autoreload:
        note("autoreload is for the command line in the foreground; serving without it")
