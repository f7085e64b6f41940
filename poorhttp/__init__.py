"""poorhttp: a minimal WSGI HTTP server."""

from __future__ import annotations

__version__ = "2.0.0a1"
__all__ = ["Config", "RequestTimeout", "__version__", "run"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from poorhttp._engine import RequestTimeout
    from poorhttp.cli import run
    from poorhttp.config.config import Config

_HOMES = {"Config": "poorhttp.config.config", "RequestTimeout": "poorhttp._engine", "run": "poorhttp.cli"}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used: poorhttp.dispatch must be importable without all that."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    from poorhttp.stdlib import undisturbed

    value: object = getattr(undisturbed(lambda: import_module(_HOMES[name])), name)
    globals()[name] = value
    return value
