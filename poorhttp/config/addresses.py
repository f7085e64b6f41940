"""Units of the network: hosts, ports, addresses to listen on, and networks of peers.

Knows the notations `[::1]:8080`, `unix:/path`, `fd:name` and `10.0.0.0/8`. Looks no name up and opens no socket.
"""

from __future__ import annotations

from poorhttp.config.units import Count, Text, is_digits
from poorhttp.stdlib import os, socket

UNIX_PATH_LIMIT = 107
"""Bytes of the path of a unix socket: `sun_path` of unix(7) without the zero at its end."""

PORT = Count(0, 65535, "PORT")


class Address:
    """Where to listen: `host` and `port`, or the `path` of a unix socket ("@name" if it is abstract), or `fd`, the name
    or number of a socket that is passed to this process.
    """

    __slots__ = ("fd", "host", "path", "port")

    def __init__(self, host: str = "", port: int = 0, path: str = "", fd: str = "") -> None:
        self.host, self.port, self.path, self.fd = host, port, path, fd

    def __str__(self) -> str:
        if self.fd:
            return f"fd:{self.fd}"
        if self.path:
            return f"unix:{self.path}"
        return f"{self.name}:{self.port}"

    @property
    def name(self) -> str:
        """The host as a URL and SERVER_NAME have it (RFC 3986 3.2.2, RFC 3875 4.1.14)."""
        return f"[{self.host}]" if ":" in self.host else self.host


class Addresses:
    """Any number of addresses, separated by commas or spaces; `:8080` is port 8080 on every IPv4 address."""

    metavar = "ADDRESS"

    def parse(self, text: str, directory: str = "") -> tuple[Address, ...]:
        addresses = tuple(_address(each, directory) for each in text.replace(",", " ").split())
        if len(set(map(str, addresses))) < len(addresses):
            raise ValueError("a list in which each address stands once")
        return addresses

    def show(self, value: tuple[Address, ...]) -> str:
        return ", ".join(map(str, value))


class Host(Text):
    """A host name, an IPv4 address, or an IPv6 address with or without brackets; without a port."""

    metavar = "HOST"

    def parse(self, text: str, directory: str = "") -> str:
        host = text[1:-1] if text[:1] == "[" and text[-1:] == "]" else text
        if not _is_host(host):
            raise ValueError("a host name or an IP address (for a unix socket use bind)")
        return host


class Networks:
    """Addresses, networks such as `10.0.0.0/8`, and `unix` for unix sockets; a tuple, empty for `none`."""

    metavar = "NETWORKS"

    def parse(self, text: str, directory: str = "") -> tuple[str, ...]:
        words = text.replace(",", " ").split()
        networks = () if words == ["none"] else tuple(map(_network, words))
        if not words or "" in networks:
            raise ValueError("addresses, networks such as 10.0.0.0/8 or fd00::/8, and unix; or none")
        return networks

    def show(self, value: tuple[str, ...]) -> str:
        return ", ".join(value) or "none"


def split_port(text: str) -> tuple[str, str | None]:
    """Split `host:port` or `[v6]:port`; the port is None if there is none, as in `::1`."""
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]") or (":" in host and not host.endswith("]")):
        return text, None
    return host, port


def unix_path(path: str) -> str:
    """Return the path if a unix socket can have it. Raises ValueError."""
    length = len(os.fsencode(path))
    if length > UNIX_PATH_LIMIT:
        raise ValueError(f"the path of a unix socket of at most {UNIX_PATH_LIMIT} bytes (this one has {length})")
    return path


def _address(text: str, directory: str) -> Address:
    if text.startswith("fd:") and len(text) > len("fd:"):
        return Address(fd=text.removeprefix("fd:"))
    if text.startswith("unix:@") and len(text) > len("unix:@"):
        return Address(path=unix_path(text.removeprefix("unix:")))
    if text.startswith("unix:") and len(text) > len("unix:"):
        return Address(path=unix_path(os.path.join(directory, text.removeprefix("unix:"))))
    host, port = split_port(text)
    try:
        if port is None:
            raise ValueError
        return Address(Host().parse(host) if host else "0.0.0.0", PORT.parse(port))
    except ValueError:
        expected = "host:port, :port, [::1]:port, unix:/path, unix:@name or fd:name, separated by commas"
        raise ValueError(expected) from None


def _network(text: str) -> str:
    """Return the text of an address or a network; "" if it is neither, or has bits beyond its length."""
    if text == "unix":
        return text
    address, slash, length = text.partition("/")
    try:
        packed = socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)
    except (OSError, ValueError):
        return ""
    size = len(packed) * 8
    if slash and not (is_digits(length) and int(length) <= size):
        return ""
    beyond = size - int(length) if slash else 0
    return "" if int.from_bytes(packed, "big") & ((1 << beyond) - 1) else text


def _is_host(text: str) -> bool:
    return bool(text) and text.isascii() and all(char.isalnum() or char in ".-_:%" for char in text)
