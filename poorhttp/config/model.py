"""The one configuration: `Config`, a frozen object with one attribute for each setting.

Knows which attributes there are. Does not know where the values come from (`reading`).
"""

from __future__ import annotations

from poorhttp.config.settings import SETTINGS, Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, NoReturn

    from poorhttp.config.addresses import Address


class Config(Settings):
    """The settings with their values. Frozen. One attribute for each setting (`processes` and `threads` resolved, paths
    absolute), and:

    addresses: where to listen. accept_pauses: descriptors of a `dev` server; while one of them is readable, the engine
    accepts no connection. options: what `req.get_options()` returns. environ: for os.environ and WSGI. mime_types:
    ending of a file name -> media type. ini: absolute path of the ini file, or "". directory: that of the ini file, or
    the current one. import_directory: where a module of `application` is looked for. sources: setting -> source of its
    value. notes: what to tell the user at the start.
    """

    accept_pauses: tuple[int, ...]
    addresses: tuple[Address, ...]
    options: dict[str, str]
    environ: dict[str, str]
    mime_types: dict[str, str]
    ini: str
    directory: str
    import_directory: str
    sources: dict[str, str]
    notes: tuple[str, ...]

    __slots__ = (
        *SETTINGS,
        "accept_pauses",
        "addresses",
        "directory",
        "environ",
        "import_directory",
        "ini",
        "mime_types",
        "notes",
        "options",
        "sources",
    )

    def __init__(self, values: Mapping[str, Any]) -> None:
        for name in Config.__slots__:
            object.__setattr__(self, name, values[name])

    def replace(self, **values: Any) -> Config:
        """Return a copy with some values replaced."""
        return Config({name: getattr(self, name) for name in Config.__slots__} | values)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"Config is frozen: {name} cannot be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"Config is frozen: {name} cannot be deleted")
