"""From the address of a store to the store: `sqlite:/var/lib/site/sessions.db`, `redis://localhost:6379/0`.

Knows which module has which kind of store, and the extra that installs its client library. The module is imported when
an address asks for it.
"""

from __future__ import annotations

from importlib import import_module
from os.path import dirname, exists, isabs, isdir

from poorhttp.sessions.errors import SessionError
from poorhttp.sessions.store import TIMEOUT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from poorhttp.sessions.store import Store

# The scheme of an address -> module, class, and the extra of this package that it needs.
KINDS = {
    "memory": ("memory", "MemoryStore", ""),
    "file": ("single_file", "SingleFileStore", ""),
    "directory": ("directory", "DirectoryStore", ""),
    "sqlite": ("sqlite", "SqliteStore", ""),
    "postgresql": ("postgresql", "PostgresqlStore", "postgresql"),
    "mariadb": ("mariadb", "MariadbStore", "mariadb"),
    "memcached": ("memcached", "MemcachedStore", "memcached"),
    "redis": ("redis", "RedisStore", "redis"),
    "mongodb": ("mongodb", "MongodbStore", "mongodb"),
    "diskcache": ("disk_cache", "DiskCacheStore", "diskcache"),
    "cache": ("shared_cache", "CacheStore", ""),
}
FORMS = {
    "memory": "memory:",
    "file": "file:/path/of/sessions.jsonl",
    "directory": "directory:/path/of/sessions",
    "sqlite": "sqlite:/path/of/sessions.db",
    "postgresql": "postgresql://user@host/database",
    "mariadb": "mariadb://user@host/database",
    "memcached": "memcached://host:11211",
    "redis": "redis://host:6379/0",
    "mongodb": "mongodb://host:27017/database",
    "diskcache": "diskcache:/path/of/sessions",
    "cache": "cache:/path/of/sessions.cache",
}
"""The form of each kind of address. Paths are absolute."""

ALIASES = {
    "postgres": "postgresql",
    "mysql": "mariadb",
    "valkey": "redis",
    "rediss": "redis",
    "unix": "redis",
    "mongodb+srv": "mongodb",
}
"""Other names of kinds."""


def open_store(address: str) -> Store:
    """Return the store that an address names; no connection is opened yet.

    `?timeout=SECONDS` bounds each exchange with it. Raises SessionError.
    """
    scheme, sign, rest = address.partition(":")
    kind = ALIASES.get(scheme, scheme)
    if not sign or kind not in KINDS:
        raise _unknown(scheme)
    module, name, extra = KINDS[kind]
    try:
        maker: Any = getattr(import_module(f"poorhttp.sessions.stores.{module}"), name)
    except ModuleNotFoundError as error:
        fault = f"the store {scheme}: needs the library {error.name}, which is not installed"
        raise SessionError(f"{fault}: in a clone of poorhttp pip install '.[{extra}]' does that") from error
    path, timeout = _parted(rest)
    if "/path/" in FORMS[kind]:
        _check_path(kind, path)
        store: Store = maker(path, timeout=timeout)
    elif FORMS[kind] == f"{kind}:":
        if path:
            raise SessionError(f"{scheme}: takes nothing behind the colon, not {path!r}")
        store = maker()
    else:
        form = FORMS[kind] if scheme != "unix" else "unix:///path/of/socket"
        if not path.startswith("/" if kind == "memcached" else "//"):
            raise SessionError(f"the address {scheme}: has no // behind the colon; expected one such as {form}")
        try:
            store = maker(f"{scheme}:{path}", timeout=timeout)
        except ValueError:  # whose text may have a part of the password in it
            hint = "is the port a number, and is each of / : @ ? # in a password written as %2F %3A %40 %3F %23?"
            raise SessionError(f"the address {scheme}: cannot be read; expected one such as {form}: {hint}") from None
    return store


def path_of(address: str) -> str:
    """Return the path of a store that is a file or a directory; "" for the others."""
    scheme, _, rest = address.partition(":")
    return _parted(rest)[0] if "/path/" in FORMS.get(scheme, "") else ""


def _unknown(scheme: str) -> SessionError:
    """The error for the begin of an address that is no kind of store. scheme: the whole of it if it has no colon."""
    if scheme == "cookie":
        told = "cookie: is no store: sessions lie with the clients, and nothing is there to open"
        return SessionError(f"{told}; in the code of the site it is written Sessions('cookie:', secrets=...)")
    fault = f"the address of a store begins with {scheme[:100]!r}"
    if isabs(scheme):
        return SessionError(f"{fault}; did you mean sqlite:{scheme}?")
    from difflib import get_close_matches

    near = get_close_matches(scheme.strip().lower(), [*KINDS, *ALIASES, "cookie"], 1)
    if near:
        return SessionError(f"{fault}; did you mean {FORMS.get(ALIASES.get(near[0], near[0]), 'cookie:')}?")
    return SessionError(f"{fault}; expected one of {', '.join(FORMS.values())}")


def _check_path(kind: str, path: str) -> None:
    """Raises SessionError for a path where a file or a directory of this kind cannot be."""
    if not isabs(path) or path.startswith("//"):
        fault = f"the store {kind}: is at {path!r}; expected an absolute path that begins with one slash"
        raise SessionError(f"{fault}, as in {FORMS[kind]}")
    if "?" in path:
        fault = f"the store {kind}: has {path.partition('?')[2]!r} behind '?'"
        raise SessionError(f"{fault}; expected timeout=SECONDS")
    if not isdir(dirname(path)):
        fault = f"the store {kind}: is to be in {dirname(path)!r}"
        raise SessionError(f"{fault}; there is no such directory: make it, for the user of the server")
    is_directory = kind in ("directory", "diskcache")
    if exists(path) and isdir(path) != is_directory:
        found, wanted = ("a file", "a directory") if is_directory else ("a directory", "a file")
        raise SessionError(f"the store {kind}: is at {path!r}, which is {found}; expected the path of {wanted}")


def _parted(rest: str) -> tuple[str, float]:
    """Take `timeout` out of the query of an address; return the rest and the timeout."""
    place, _, query = rest.partition("?")
    pairs = query.split("&") if query else []
    texts = [pair.partition("=")[2] for pair in pairs if pair.startswith("timeout=")]
    if not texts:
        return rest, TIMEOUT
    others = "&".join(pair for pair in pairs if not pair.startswith("timeout="))
    try:
        timeout = float(texts[-1])
    except ValueError:
        timeout = 0.0
    if not 0.05 <= timeout <= 60:
        raise SessionError(f"timeout of a store is {texts[-1]!r}; expected seconds from 0.05 to 60")
    return f"{place}?{others}" if others else place, timeout
