"""Units: how a text becomes a value of a setting, and back.

Knows the notations (`1.5`, `2m`, `64k`, `[::1]:8080`, `unix:/path`) and their limits. Knows no setting and no flag.
Contract: `parse(text, directory)` returns the value, or raises ValueError whose text says what was expected;
relative paths are taken from `directory`. `parse(show(value), directory) == value`.
"""

from __future__ import annotations

from poorhttp.stdlib import os

UNIX_PATH_LIMIT = 107
"""Bytes of a unix socket's path: `sun_path` of unix(7) has 108 with the zero at its end."""

YEAR = 365 * 24 * 3600.0
TIMES = {"": 1.0, "s": 1.0, "ms": 0.001, "m": 60.0, "h": 3600.0}
SIZES = {"": 1.0, "k": 1024.0, "m": 1024.0**2, "g": 1024.0**3}
WORDS = {"yes": True, "true": True, "on": True, "1": True, "no": False, "false": False, "off": False, "0": False}


class Seconds:
    """A time: `5`, `1.5`, `250ms`, `2m`, `1h`; a float, from `low` to a year."""

    metavar = "SECONDS"

    def __init__(self, low: float = 0.0) -> None:
        self.low = low

    def parse(self, text: str, directory: str = "") -> float:
        value = _scaled(text, TIMES)
        if value is None or not self.low <= value <= YEAR:
            raise ValueError(f"a time such as 5, 1.5, 250ms or 2m (seconds, at least {self.show(self.low)})")
        return round(value, 6)

    def show(self, value: float) -> str:
        return f"{value:.6f}".rstrip("0").rstrip(".")


class Bytes:
    """A size: `500`, `64k`, `1.5m`, `1g` (powers of 1024); an int, from `low` to `high`."""

    metavar = "BYTES"

    def __init__(self, low: int = 0, high: int = 1 << 40) -> None:
        self.low, self.high = low, high

    def parse(self, text: str, directory: str = "") -> int:
        value = _scaled(text, SIZES)
        if value is None or not value.is_integer() or not self.low <= value <= self.high:
            raise ValueError(f"a size such as 500, 64k or 1m, from {self.show(self.low)} to {self.show(self.high)}")
        return int(value)

    def show(self, value: int) -> str:
        for suffix, size in ("g", 1 << 30), ("m", 1 << 20), ("k", 1 << 10):
            if value and value % size == 0:
                return f"{value // size}{suffix}"
        return str(value)


class Count:
    """A number of things: an int from `low` to `high`."""

    def __init__(self, low: int, high: int, metavar: str = "N") -> None:
        self.low, self.high, self.metavar = low, high, metavar

    def parse(self, text: str, directory: str = "") -> int:
        value = int(text) if _is_digits(text) else -1
        if not self.low <= value <= self.high:
            raise ValueError(f"a whole number from {self.low} to {self.high}")
        return value

    def show(self, value: int) -> str:
        return str(value)


class Span(int):
    """A number from `most` down to what it is as an int; written `2..8`, or `4` where both are the same."""

    most: int

    def __new__(cls, least: int, most: int) -> Span:
        self = super().__new__(cls, least)
        self.most = most
        return self

    def __str__(self) -> str:
        return f"{int(self)}..{self.most}" if self.most > self else int.__repr__(self)


class Counts:
    """A number of things that may be fixed or between two bounds: a `Span` from `low` to `high`."""

    metavar = "N[..M]"

    def __init__(self, low: int, high: int) -> None:
        self.low, self.high = low, high

    def parse(self, text: str, directory: str = "") -> Span:
        least, dots, most = (part.strip() for part in text.partition(".."))
        try:
            low = Count(self.low, self.high).parse(least)
            span = Span(low, Count(max(low, 1), self.high).parse(most) if dots else low)
            if dots and not low:
                raise ValueError
        except ValueError:
            raise ValueError(
                f"a whole number from {self.low} to {self.high}, or the least and the most of them, such as 2..8"
            ) from None
        return span

    def show(self, value: Span) -> str:
        return str(value)


class Switch:
    """Yes or no; a bool."""

    metavar = ""

    def parse(self, text: str, directory: str = "") -> bool:
        if text.lower() not in WORDS:
            raise ValueError("yes or no")
        return WORDS[text.lower()]

    def show(self, value: bool) -> str:
        return "yes" if value else "no"


class Choice:
    """One of `names`; `also` maps other spellings to them."""

    metavar = "NAME"

    def __init__(self, *names: str, also: dict[str, str] | None = None) -> None:
        self.names, self.also = names, also or {}

    def parse(self, text: str, directory: str = "") -> str:
        name = text.lower()
        name = self.also.get(name, name)
        if name not in self.names:
            raise ValueError(f"one of {', '.join(self.names)}")
        return name

    def show(self, value: str) -> str:
        return value


class Networks:
    """Peers: addresses, networks such as `10.0.0.0/8`, `unix` for unix sockets; a tuple of them, `none` is empty."""

    metavar = "NETWORKS"

    def parse(self, text: str, directory: str = "") -> tuple[str, ...]:
        words = text.replace(",", " ").split()
        networks = () if words == ["none"] else tuple(map(_network, words))
        if not words or "" in networks:
            raise ValueError("addresses, networks such as 10.0.0.0/8 or fd00::/8, and unix; or none")
        return networks

    def show(self, value: tuple[str, ...]) -> str:
        return ", ".join(value) or "none"


class Names:
    """`alone`, or any of `names`, separated by commas; a tuple of them, `no` is empty. `also`: a word for several."""

    metavar = "NAMES"

    def __init__(self, alone: str, *names: str, also: dict[str, tuple[str, ...]]) -> None:
        self.alone, self.names, self.also = alone, names, also

    def parse(self, text: str, directory: str = "") -> tuple[str, ...]:
        words = text.lower().replace(",", " ").split()
        found = {name for word in words for name in self.also.get(word, (word,))}
        if words in (["no"], [self.alone]):
            return tuple(words) if words == [self.alone] else ()
        if not found or not found <= set(self.names):
            raise ValueError(f"no, {self.alone}, or some of {', '.join([*self.also, *self.names])}")
        return tuple(name for name in self.names if name in found)

    def show(self, value: tuple[str, ...]) -> str:
        return ", ".join(value) or "no"


class Text:
    """Any text."""

    metavar = "TEXT"

    def parse(self, text: str, directory: str = "") -> str:
        return text

    def show(self, value: str) -> str:
        return value


class Mode:
    """The permissions of a file, three or four octal digits; -1, written as nothing: none are set."""

    metavar = "MODE"

    def parse(self, text: str, directory: str = "") -> int:
        if not text:
            return -1
        if len(text.removeprefix("0o")) not in (3, 4) or not set(text.removeprefix("0o")) <= set("01234567"):
            raise ValueError("three octal digits, such as 660")
        return int(text, 8)

    def show(self, value: int) -> str:
        return "" if value < 0 else f"{value:o}"


class FieldValue(Text):
    """The value of a header field: printable US-ASCII, or empty (RFC 9110 section 5.5 without its obsolete text)."""

    def parse(self, text: str, directory: str = "") -> str:
        if not (text.isascii() and text.isprintable()):
            raise ValueError("printable ASCII text, or empty")
        return text


class Path(Text):
    """A file or a directory: absolute; "-" (a standard stream) where `dash`, "" (none) where `empty`, "|program" where
    `pipe`.
    """

    def __init__(self, metavar: str = "FILE", *, dash: bool = False, empty: bool = False, pipe: bool = False) -> None:
        self.metavar, self.dash, self.empty, self.pipe = metavar, dash, empty, pipe

    def parse(self, text: str, directory: str = "") -> str:
        if text == "-" and self.dash:
            return text
        if text.startswith("|") and self.pipe:
            return _command(text, directory)
        if not text and not self.empty:
            raise ValueError("the name of a file" + (" or -" if self.dash else ""))
        return os.path.join(directory, text) if text else text


class ControlSocket(Text):
    """The path of a unix socket, absolute, or nothing. Not in the user's home, where everything else of his would be
    able to reach it, and which services often may not write.
    """

    metavar = "FILE"

    def parse(self, text: str, directory: str = "") -> str:
        if not text:
            return text
        path = os.path.join(directory, text)
        home = os.path.realpath(os.environ.get("HOME") or "/")
        place = os.path.realpath(os.path.dirname(path))
        if home != "/" and f"{place}/".startswith(f"{home}/"):
            raise ValueError(f"a path outside of the home directory {home}, such as /run/poorhttp/control.sock")
        if os.path.basename(path) in ("", ".", "..") or text.startswith(("@", "unix:")):
            raise ValueError("the path of a unix socket, such as /run/poorhttp/control.sock")
        return _unix_path(path)


class UrlPath(Text):
    """The path of a URL as it is sent, escaped (RFC 3986 section 3.3), or nothing."""

    metavar = "PATH"

    def parse(self, text: str, directory: str = "") -> str:
        allowed = all(char.isalnum() or char in "-._~!$&'()*+,;=:@%/" for char in text)
        if text and not (text[0] == "/" and text.isascii() and allowed):
            raise ValueError("a path such as /status or /health")
        return text


class Question(Text):
    """What new code is asked for: a path, escaped, with or without a query; or a URL, whose scheme and host the
    application sees; or nothing.
    """

    metavar = "PATH"

    def parse(self, text: str, directory: str = "") -> str:
        scheme, host, target = split_url(text)
        try:
            UrlPath().parse(target.replace("?", "/"))
            if text[:1] not in ("", "/"):
                name, port = split_port(host)
                PORT.parse("0" if port is None else port)
                is_bracketed = ":" in Host().parse(name)  # RFC 3986 section 3.2.2
                if scheme not in ("http", "https") or name.startswith("[") != is_bracketed:
                    raise ValueError
        except ValueError:
            urls = "https://www.example.com/ or http://[::1]:8000/"
            raise ValueError(f"a path such as /, or a URL such as {urls}") from None
        return text


class EditorUrl(Text):
    """A URL with `{path}` in it, and `{line}` where the editor takes one; or nothing. None that a browser runs or shows
    by itself.
    """

    metavar = "URL"

    def parse(self, text: str, directory: str = "") -> str:
        scheme, colon, _ = text.partition(":")
        is_scheme = scheme[:1].isalpha() and all(char.isalnum() or char in "+-." for char in scheme)
        is_run = scheme.lower() in ("javascript", "data", "vbscript")
        is_url = text.isascii() and text.isprintable() and " " not in text and colon and is_scheme and not is_run
        if text and not (is_url and "{path}" in text):
            raise ValueError("a URL with {path} in it, such as vscode://file/{path}:{line}")
        return text


class SendfileHeader(Text):
    """The name of a field and, behind a space, the path that stands before each file's; or nothing."""

    metavar = "FIELD"

    def parse(self, text: str, directory: str = "") -> str:
        name, *prefix = text.split() or [""]
        # Nothing that means something else, such as Content-Length, goes through by mistake.
        is_name = name.isascii() and name.replace("-", "").isalnum() and name[:2] in ("X-", "x-")
        # Without a prefix nginx would take the file's path for one of the application, and ask that for it.
        is_lost = name.lower() == "x-accel-redirect" and not "".join(prefix).strip("/")
        if text and (not is_name or len(prefix) > 1 or is_lost):
            raise ValueError("X-Sendfile, or X-Accel-Redirect /prefix")
        return " ".join([name, *(UrlPath().parse(path).rstrip("/") for path in prefix)])


class Application(Text):
    """Where the application is: `module:name` as it is, `file.py[:name]` and a directory absolute.

    A word that names a directory is that directory where it has a dispatch table or is a package. Any other one is left
    to the import, which prefers a module or an installed package of its name, as Python does.
    """

    metavar = "APP"

    def parse(self, text: str, directory: str = "") -> str:
        if not text:
            raise ValueError("module:name, file.py or a directory")
        path, name = split_application(text)
        absolute = os.path.normpath(os.path.join(directory, path))
        marks = ("__init__.py",) if name else ("__init__.py", "dispatch_table.py")
        is_marked = any(os.path.isfile(os.path.join(absolute, each)) for each in marks)
        is_directory = bool(path) and os.path.isdir(absolute) and (is_marked or not path.isidentifier())
        if path.endswith(".py") or "/" in path or path in (".", "..") or is_directory:
            path = absolute
        return f"{path}:{name}" if name else path


class Function(Text):
    """Where a function is: `module:name`, or nothing."""

    metavar = "MODULE:NAME"

    def parse(self, text: str, directory: str = "") -> str:
        module, name = split_application(text)
        if text and not (name and all(each.isidentifier() for each in f"{module}.{name}".split("."))):
            raise ValueError("module:function")
        return text


class Host(Text):
    """A host name, an IPv4 address, or an IPv6 address with or without its brackets; its port is split off before."""

    metavar = "HOST"

    def parse(self, text: str, directory: str = "") -> str:
        host = text[1:-1] if text[:1] == "[" and text[-1:] == "]" else text
        if not _is_host(host):
            raise ValueError("a host name or an IP address (for a unix socket use bind)")
        return host


class Address:
    """Where to listen: `host` and `port`, `path` of a unix socket ("@name": an abstract one), or `fd`, the name or
    number of a socket that is passed; "" for what it is not.
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
            raise ValueError("each address once")
        return addresses

    def show(self, value: tuple[Address, ...]) -> str:
        return ", ".join(map(str, value))


PORT = Count(0, 65535, "PORT")


def split_port(text: str) -> tuple[str, str | None]:
    """Split `host:port` or `[v6]:port`; the port is None where there is none (`::1` without brackets has none)."""
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]") or (":" in host and not host.endswith("]")):
        return text, None
    return host, port


def split_url(text: str) -> tuple[str, str, str]:
    """Split `/path?query` or `https://host:port/path?query` into scheme, host:port ("" for a mere path), and path."""
    scheme, colon, rest = text.partition("://")
    if not colon or text.startswith("/"):
        return "http", "", text
    host, _, path = rest.partition("/")
    return scheme, host, f"/{path}"


def split_application(spec: str) -> tuple[str, str]:
    """Split `module:name` or `file.py:name()`; the name is "" where there is none (a colon may be part of a path)."""
    place, colon, name = spec.rpartition(":")
    if colon and all(part.isidentifier() for part in name.removesuffix("()").split(".")):
        return place, name
    return spec, ""


def _address(text: str, directory: str) -> Address:
    if text.startswith("fd:") and len(text) > len("fd:"):
        return Address(fd=text.removeprefix("fd:"))
    if text.startswith("unix:@") and len(text) > len("unix:@"):
        return Address(path=_unix_path(text.removeprefix("unix:")))
    if text.startswith("unix:") and len(text) > len("unix:"):
        return Address(path=_unix_path(os.path.join(directory, text.removeprefix("unix:"))))
    host, port = split_port(text)
    try:
        if port is None:
            raise ValueError
        return Address(Host().parse(host) if host else "0.0.0.0", PORT.parse(port))
    except ValueError:
        expected = "host:port, :port, [::1]:port, unix:/path, unix:@name or fd:name, separated by commas"
        raise ValueError(expected) from None


def _command(text: str, directory: str) -> str:
    """`|program arguments`: the quotes in it are closed, and a program with a slash is absolute."""
    import shlex

    try:
        words = shlex.split(text[1:])
    except ValueError:
        words = []
    if words:
        is_relative = "/" in words[0] and not os.path.isabs(words[0])
        return "|" + shlex.join([os.path.join(directory, words[0]), *words[1:]]) if is_relative else text
    raise ValueError("a program behind |, its quotes closed")


def _unix_path(path: str) -> str:
    length = len(os.fsencode(path))
    if length > UNIX_PATH_LIMIT:
        raise ValueError(f"the path of a unix socket of at most {UNIX_PATH_LIMIT} bytes (this one has {length})")
    return path


def _network(text: str) -> str:
    """Return an address, or a network with its length; "" for what is neither, or has bits beyond its length."""
    from _socket import AF_INET, AF_INET6, inet_pton

    if text == "unix":
        return text
    address, slash, length = text.partition("/")
    try:
        packed = inet_pton(AF_INET6 if ":" in address else AF_INET, address)
    except (OSError, ValueError):
        return ""
    size = len(packed) * 8
    if slash and not (_is_digits(length) and int(length) <= size):
        return ""
    beyond = size - int(length) if slash else 0
    return "" if int.from_bytes(packed, "big") & ((1 << beyond) - 1) else text


def _is_host(text: str) -> bool:
    return bool(text) and text.isascii() and all(char.isalnum() or char in ".-_:%" for char in text)


def _is_digits(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 16


def _scaled(text: str, scales: dict[str, float]) -> float | None:
    """`12k` is 12 * scales["k"]; None for what is not a plain decimal number with a known suffix."""
    text = text.lower()
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz")
    scale = scales.get(text[len(number) :])
    if scale is None or not _is_digits(number.replace(".", "", 1)):
        return None
    return float(number) * scale
