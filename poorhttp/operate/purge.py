"""The command `sessions purge`: remove the sessions that have expired from a store which does not do so by itself.

Knows how the command is called. Knows nothing of the kinds of stores (`poorhttp.sessions`). No server needs to run.
"""

from __future__ import annotations

from poorhttp.config.commands import PURGE, STORE_VARIABLE
from poorhttp.errors import ConfigError, PoorhttpError, printable, write
from poorhttp.sessions import SessionError, Store, StoreDown, open_store
from poorhttp.sessions.addresses import path_of
from poorhttp.stdlib import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


HELP = f"""\
usage: poorhttp {" ".join(PURGE)} [ADDRESS]

Removes the sessions that have expired, and prints how many. Run it as the user of the site, once a day. If the site has
had no session yet, and so there is no file, it says so and its exit code is 0.

ADDRESS is that of the store, as the site has it, such as sqlite:/path/of/sessions.db; without it that of the variable
{STORE_VARIABLE}, for an address with a password. Redis, Memcached, MongoDB and cache: do it by themselves.
"""


def run(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Carry out the command; return the exit code. arguments: what follows it. Raises PoorhttpError."""
    if arguments and arguments[0] in ("-h", "--help"):
        return write(HELP)
    address = _address(arguments, environ)
    store = _opened(address)
    path = path_of(address)
    if path and not os.path.exists(path):  # a daily job may come before the first session
        return write(f"no sessions yet: {printable(path)} is not there\n")
    try:
        count = store.purge()
        store.close()
    except StoreDown as error:
        raise PoorhttpError(f"sessions purge: {error}", "start the store, or correct its address") from None
    return write(f"removed {count} expired sessions\n")


def _address(arguments: Sequence[str], environ: Mapping[str, str]) -> str:
    address = arguments[0] if arguments else environ.get(STORE_VARIABLE, "")
    if len(arguments) > 1 or not address or address.startswith("-"):
        hint = f"poorhttp sessions purge sqlite:/path/of/sessions.db, or the address in the variable {STORE_VARIABLE}"
        raise ConfigError("sessions purge takes one argument, the address of a store", hint)
    return address


def _opened(address: str) -> Store:
    try:
        store = open_store(address)
    except SessionError as error:
        raise ConfigError(f"sessions purge: {error}", "docs/sessions.md lists the addresses") from None
    if not store.is_shared:
        raise ConfigError("sessions purge: sessions in memory are those of the serving process", "name another store")
    return store
