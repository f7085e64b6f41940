"""The configuration of `poorhttp dev`: what differs from a server in production, and which application is served.

Knows the settings. Does not know how the application is served.
"""

from __future__ import annotations

from poorhttp.app.places import wsgi_modules
from poorhttp.config.addresses import Address
from poorhttp.config.paths import split_application
from poorhttp.config.reading import USUAL_NAME
from poorhttp.config.settings import SETTINGS
from poorhttp.config.units import Span
from poorhttp.errors import ConfigError, LoadError
from poorhttp.listen import sockets, systemd
from poorhttp.pages.audience import is_loopback
from poorhttp.stdlib import os, socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from poorhttp.config.model import Config

CANDIDATES = ("app.py", "application.py", "wsgi.py", "main.py", "simple.py")
"""The files that are looked for, in this order, when no application is named and there is no dispatch_table.py."""

TABLE = "dispatch_table.py"

FIXED = (
    "socket_mode",
    "socket_owner",
    "reuse_port",
    "backlog",
    "autoreload",
    "pidfile",
    "errorlog",
    "graceful_timeout",
)
"""Settings of the supervisor, which are read at the start only, as the addresses are."""

NOT_SERVED = {"status_path": "", "control_socket": ""}
"""Settings that would show a process that the next save replaces."""


def for_process(settings: Config, accept_pauses: tuple[int, ...]) -> Config:
    """The configuration of a process that serves the application. accept_pauses: one belongs to the process, the other
    is the queue of inotify, as a save is in the queue before the author can send a request.
    """
    changes: dict[str, Any] = {"accept_pauses": accept_pauses, "keepalive_timeout": 0.0, **NOT_SERVED}
    for name in "request_timeout", "slow_request":
        if settings.sources[name] == "default":
            changes[name] = 0.0  # a request may wait in a debugger
    if not settings.preload:  # each worker would load the application: here one process loads and serves it
        changes.update(type="single", processes=Span(1, 1), preload=True)
    if settings.sources["application"] == "default":
        changes["application"] = found(settings.application)
    return settings.replace(**changes)


def for_stand_in(settings: Config, accept_pauses: tuple[int, ...]) -> Config:
    """The configuration of a process that serves a page because the application cannot be loaded. With `debug` the
    environ says whether a proxy is between (see `pages.audience`).
    """
    changes: dict[str, Any] = {"type": "single", "processes": Span(1, 1), "threads": 1, "debug": True}
    changes |= {"accept_pauses": accept_pauses, "keepalive_timeout": 0.0, "health": "", "max_requests": 0, **NOT_SERVED}
    return settings.replace(**changes)


def fixed(settings: Config) -> dict[str, str]:
    """The values of `FIXED` and the addresses, as text."""
    shown = {name: SETTINGS[name].unit.show(getattr(settings, name)) for name in FIXED}
    return {"address": ", ".join(map(str, settings.addresses)), **shown}


def found(directory: str) -> str:
    """The application in a directory, when none is named; the directory itself if there is no single one."""
    for name in (TABLE, *CANDIDATES):
        if os.path.isfile(os.path.join(directory, name)):
            return directory if name == TABLE else os.path.join(directory, name)
    projects = wsgi_modules(directory) if os.path.isfile(os.path.join(directory, "manage.py")) else []
    return os.path.join(directory, projects[0]) if len(projects) == 1 else directory


def roots(application: str, directory: str) -> list[str]:
    """The directory of the author's code; also the one above it if it is named like a module, which may replace it."""
    place, _ = split_application(application)
    if not os.path.isabs(place):
        return [directory]
    if not os.path.isdir(place):
        return [os.path.dirname(place)]
    return [place, os.path.dirname(place)] if place.endswith(".py") else [place]


def refuse_nothing(settings: Config, command: str = "dev") -> None:
    """Raise LoadError if no application is named and none is found. command: for the hint."""
    place = settings.application
    is_named = settings.sources["application"] != "default"
    if not is_named and os.path.isdir(place) and os.access(place, os.R_OK) and TABLE not in os.listdir(place):
        files = [*sorted(each for each in os.listdir(place) if each.endswith(".py")), *wsgi_modules(place)]
        listed = ", ".join(files[:8])
        named = f"there are: {listed}; name one, as in poorhttp {command} {files[0]}; or " if files else ""
        accepted = ", ".join((TABLE, *CANDIDATES))
        remedy = "poorhttp init writes one"
        if not settings.ini and os.path.isfile(os.path.join(settings.directory, USUAL_NAME)):
            remedy = f"poorhttp {command} -c {USUAL_NAME} reads the ini file of this directory"
        raise LoadError(f"nothing to serve in this directory: none of {accepted}", f"{named}{remedy}")


def refuse_public(addresses: tuple[Address, ...], environ: Mapping[str, str] | None = None) -> None:
    """Raise ConfigError if other machines could connect. environ: names passed sockets (sd_listen_fds(3))."""
    passed = systemd.passed(dict(environ or {}), str)  # without messages: those come when the sockets are taken
    for named, descriptor in sockets.choose(addresses, passed):
        address = named if descriptor < 0 else _address_of(descriptor)
        if address.host and not is_loopback(address.host) and address.host != "localhost":
            hint = "leave it on 127.0.0.1, or add --public: the program runs with your rights"
            raise ConfigError(f"{address} can be reached from other machines", hint)


def _address_of(descriptor: int) -> Address:
    """The address of a passed socket; without a host if it is a unix socket."""
    sock = sockets.take(descriptor)
    try:
        place = sock.getsockname()
        return Address() if sock.family == socket.AF_UNIX else Address(str(place[0]), place[1])
    finally:
        sock.close()
