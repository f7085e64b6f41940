"""The shape of a server: how many processes of how many threads, and whether a supervisor stands above them.

Knows the configuration only.
"""

from __future__ import annotations

from poorhttp.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from poorhttp.config.model import Config

SUPERVISED = "a supervisor with workers"
"""The shape of a server that has some."""


def is_supervised(settings: Config) -> bool:
    """Whether there is a process above those that serve."""
    return settings.processes.most > 1 or settings.type == "forking"


def shape(settings: Config) -> str:
    """The part of the configuration that a reload cannot change, in words."""
    return SUPERVISED if is_supervised(settings) else "one process without a supervisor"


def check(settings: Config, running: str) -> None:
    """Whether a reload could go on as the running server, of this shape. Raises ConfigError."""
    if shape(settings) != running:
        text = f"a reload cannot change {running} into {shape(settings)}, as type and processes ask for now"
        raise ConfigError(text, "restart the server")


def kind(settings: Config) -> str:
    """The type that has this number of processes and threads."""
    return "forking" if is_supervised(settings) else "threading" if settings.threads > 1 else "single"


def size(settings: Config) -> str:
    """The number of processes and threads, in words."""
    processes = f"{settings.processes} process{'es' * (settings.processes.most > 1)}"
    return f"{processes} x {counted(settings.threads, 'thread')}"


def counted(number: int, noun: str) -> str:
    """Such as `1 thread`, `2 threads`."""
    return f"{number} {noun}{'s' * (number != 1)}"
