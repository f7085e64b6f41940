"""What the configuration means while the program is being written.

Knows what differs from a server in production. Does not know how it is served.
Contract: nothing is changed that the author has set, but for keep-alive: each connection carries one request, so that
the next one meets the new code. Nobody is late unless he says so.
"""

from __future__ import annotations

from ipaddress import ip_address

from poorhttp.app.loader import wsgi_modules
from poorhttp.config.config import Config
from poorhttp.config.settings import SETTINGS
from poorhttp.config.units import Address, Span, split_application
from poorhttp.errors import ConfigError, LoadError
from poorhttp.listen import sockets
from poorhttp.stdlib import os, socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

CANDIDATES = ("app.py", "application.py", "wsgi.py", "main.py", "simple.py")
"""What `poorhttp dev` serves, and `check` loads, where nothing is named and there is no dispatch_table.py: the first
of these, or the wsgi.py of a Django project."""

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
"""What the process above has begun with and keeps to its end; the addresses too."""


NOT_SERVED = {"status_path": "", "control_socket": ""}
"""Settings that would tell of a server which the next save replaces."""


class Settings(Config):
    """A configuration with gates: descriptors; while one of them is readable nobody is to be accepted. One is that of
    the process, the other the queue of inotify: what was saved is in there before the author can ask for it.
    """

    gates: tuple[int, ...]

    __slots__ = ("gates",)

    def __init__(self, values: dict[str, Any], gates: tuple[int, ...]) -> None:
        super().__init__(values)
        object.__setattr__(self, "gates", gates)


def for_process(settings: Config, gates: tuple[int, ...]) -> Settings:
    """The configuration of a process that serves the application."""
    values = {name: getattr(settings, name) for name in Config.__slots__}
    values.update(keepalive_timeout=0.0, **NOT_SERVED)
    for name in "request_timeout", "slow_request":
        if settings.sources[name] == "default":
            values[name] = 0.0  # a debugger is to wait for its user
    if not settings.preload:  # each worker loads the application: here the process that does is the only one
        values.update(type="single", processes=Span(1, 1), preload=True)
    if settings.sources["application"] == "default":
        values["application"] = found(settings.application)
    return Settings(values, gates)


def for_stand_in(settings: Config, gates: tuple[int, ...]) -> Settings:
    """The configuration of a process that serves a page in the place of an application."""
    values = {name: getattr(settings, name) for name in Config.__slots__}
    values.update(keepalive_timeout=0.0, type="single", processes=Span(1, 1), threads=1, health="", max_requests=0)
    values.update(NOT_SERVED)
    values["debug"] = True  # so that it is told of front servers (see `page.may_see`)
    return Settings(values, gates)


def fixed(settings: Config) -> dict[str, str]:
    """What is heeded at the start alone, as text."""
    shown = {name: SETTINGS[name].unit.show(getattr(settings, name)) for name in FIXED}
    return {"address": ", ".join(map(str, settings.addresses)), **shown}


def found(directory: str) -> str:
    """The application in a directory where none was named."""
    for name in (TABLE, *CANDIDATES):
        if os.path.isfile(os.path.join(directory, name)):
            return directory if name == TABLE else os.path.join(directory, name)
    projects = wsgi_modules(directory) if os.path.isfile(os.path.join(directory, "manage.py")) else []
    return os.path.join(directory, projects[0]) if len(projects) == 1 else directory


def roots(application: str, directory: str) -> list[str]:
    """The directory of the author's code; two where one has the name of a module, which may take its place."""
    place, _ = split_application(application)
    if not os.path.isabs(place):
        return [directory]
    if not os.path.isdir(place):
        return [os.path.dirname(place)]
    return [place, os.path.dirname(place)] if place.endswith(".py") else [place]


def refuse_nothing(settings: Config, command: str = "dev") -> None:
    """Raise LoadError where no application is named to this command, and none was found."""
    place = settings.application
    is_named = settings.sources["application"] != "default"
    if not is_named and os.path.isdir(place) and os.access(place, os.R_OK) and TABLE not in os.listdir(place):
        files = [*sorted(each for each in os.listdir(place) if each.endswith(".py")), *wsgi_modules(place)]
        listed = ", ".join(files[:8])
        named = f"there are: {listed}; name one, as in poorhttp {command} {files[0]}; or " if files else ""
        accepted = ", ".join((TABLE, *CANDIDATES))
        raise LoadError(f"nothing to serve in this directory: none of {accepted}", f"{named}poorhttp init writes one")


def refuse_public(addresses: tuple[Address, ...], environ: Mapping[str, str] | None = None) -> None:
    """Raise ConfigError where others than this machine could connect; environ: tells of sockets that were passed."""
    passed: list[tuple[int, str]] = []
    if environ and "LISTEN_FDS" in environ:
        from poorhttp.listen import systemd

        passed = systemd.passed(dict(environ), str)  # who takes them says the rest
    for named, descriptor in sockets.choose(addresses, passed):
        address = named if descriptor < 0 else _address_of(descriptor)
        if address.host and not is_loopback(address.host) and address.host != "localhost":
            hint = "leave it on 127.0.0.1, or say --public: the program runs with the author's rights"
            raise ConfigError(f"{address} can be reached from other machines", hint)


def _address_of(descriptor: int) -> Address:
    """Where a socket is bound that was passed; without a host where it is a unix socket."""
    sock = sockets.take(descriptor)
    try:
        place = sock.getsockname()
        return Address() if sock.family == socket.AF_UNIX else Address(str(place[0]), place[1])
    finally:
        sock.close()


def is_loopback(host: str) -> bool:
    """Whether an address is of this machine alone."""
    try:
        address = ip_address(host)
    except ValueError:
        return False  # a name
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback
