"""The start and the end of a server that reloads: its sockets, pidfile and logs, and what the terminal says of it.

Knows what belongs to the supervisor for its whole life. Does not know what a reload is.
"""

from __future__ import annotations

from poorhttp.app import places
from poorhttp.dev import settings as dev
from poorhttp.dev.serve.loads import Loads
from poorhttp.dev.serve.supervisor import Supervisor
from poorhttp.dev.watch.inotify import adopt_orphans
from poorhttp.errors import PoorhttpError, say
from poorhttp.listen import sockets, systemd
from poorhttp.process import shape
from poorhttp.process.start import facts, listening, log_files
from poorhttp.status import pidfile
from poorhttp.stdlib import os, socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from poorhttp.config.model import Config

DEFERRED = 3600
"""Seconds for which the kernel keeps a connection on which nothing has come (TCP_DEFER_ACCEPT): the first request of a
connection that a browser opens in advance must meet the newest code."""


def run(settings: Config, directory: str, is_live: bool) -> int:
    """Serve until stopped; return the exit code. Raises PoorhttpError if that cannot begin."""
    if settings.user or settings.group:
        raise PoorhttpError("autoreload serves as the user who starts it", "leave out user and group")
    for path in os.devnull, "/proc/self/status":  # every process below needs them
        os.close(os.open(path, os.O_RDONLY))
    logs = log_files.open_both(settings)
    listeners: list[socket.socket] = []
    written = ""
    streams = loads = None
    adopt_orphans()
    try:
        for address, descriptor in sockets.choose(settings.addresses, systemd.passed(os.environ, say)):
            listeners.append(sockets.take(descriptor) if descriptor >= 0 else listening.listen(settings, address))
        for each in listeners:
            if each.family != socket.AF_UNIX:
                sockets.prefer(each, socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, DEFERRED)
        if settings.pidfile:
            pidfile.write(settings.pidfile)
            written = settings.pidfile
        if is_live:
            from poorhttp.dev.page.live import Streams

            streams = Streams(settings.addresses)
        loads = Loads(settings, directory, listeners, logs, streams)
        supervisor = Supervisor(loads)  # which hears signals from here on
        _say_start(settings, listeners)
        return supervisor.run()
    finally:
        pidfile.remove(written)
        sockets.close(listeners)
        if loads is not None:
            loads.prompts.restore_terminal()


def _say_start(settings: Config, listeners: list[socket.socket]) -> None:
    shown = dev.for_process(settings, ())
    for line in facts.facts(shown, f"autoreload, {shape.kind(shown)}", places.title(shown.application), listeners):
        say(line)
    if not settings.preload and shape.is_supervised(settings):
        say("note: preload = no: with autoreload one process loads the application, and serves it alone")
    for name in filter(settings.__getattribute__, dev.NOT_SERVED):
        say(f"note: {name} is not served with autoreload: each save begins another server")
    for note in shown.notes:
        say(f"note: {note}")
