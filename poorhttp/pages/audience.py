"""Which clients may see what is for the author of the application: those on this machine that asked for it by name.

Knows the environ of a request (PEP 3333), and the fields by which proxies give themselves away.
"""

from __future__ import annotations

import re
from ipaddress import ip_address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FORWARDED = "poorhttp.forwarded"
"""The key in an environ by which a server says that the address of the client is not that of its connection, or that it
left a field of a proxy out.
"""

_FRONTS = re.compile(
    rf"{re.escape(FORWARDED)}|HTTP_(CF|CDN|X_ORIGINAL)_.+|HTTP_(.+_)?(VIA|FORWARDED.*|(CLIENT)?IP|ADDR(ESS)?)(_.*)?"
)
"""Names in the environ of a request that a proxy has passed on."""


def may_see(environ: dict[str, Any]) -> bool:
    """Whether this client may see details: it is on this machine, not behind a proxy here, and asked for this machine
    by name, as another site cannot make a browser do. A proxy on a unix socket may add no field.
    """
    if any(_FRONTS.fullmatch(name) for name in environ):
        return False
    if not is_loopback(environ.get("REMOTE_ADDR", "")):
        return False
    host = environ.get("HTTP_HOST", "").lower()
    name, colon, port = host.rpartition(":")
    if colon and port.isdigit():
        host = name
    host = host.rstrip(".")
    return host in ("localhost", "127.0.0.1", "[::1]") or (host.endswith(".localhost") and host != ".localhost")


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine only; False for a name."""
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback
