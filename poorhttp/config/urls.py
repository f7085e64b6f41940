"""Units that are URLs or parts of them. Knows their syntax (RFC 3986), and asks for none of them."""

from __future__ import annotations

from poorhttp.config.addresses import PORT, Host, split_port
from poorhttp.config.units import Text


class UrlPath(Text):
    """The path of a URL as it is sent, escaped (RFC 3986 section 3.3), or ""."""

    metavar = "PATH"

    def parse(self, text: str, directory: str = "") -> str:
        allowed = all(char.isalnum() or char in "-._~!$&'()*+,;=:@%/" for char in text)
        if text and not (text[0] == "/" and text.isascii() and allowed):
            raise ValueError("a path such as /status or /health")
        return text


class CheckPath(Text):
    """The target of the request that tries new code: a path, escaped, with or without a query; or a URL, if the
    application has to see its scheme and host; or "".
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


class CheckPaths:
    """Any number of targets, each as of `CheckPath`, separated by commas or spaces; a comma in one is written %2C."""

    metavar = "PATHS"

    def parse(self, text: str, directory: str = "") -> tuple[str, ...]:
        return tuple(CheckPath().parse(each) for each in text.replace(",", " ").split())

    def show(self, value: tuple[str, ...]) -> str:
        return ", ".join(value)


class EditorUrl(Text):
    """A URL with `{path}` and perhaps `{line}` in it, or "". Schemes that a browser runs are refused."""

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
    """The name of a header field and, after a space, a prefix for the path of each file; or ""."""

    metavar = "FIELD"

    def parse(self, text: str, directory: str = "") -> str:
        name, *prefix = text.split() or [""]
        # Only X- fields: Content-Length, for example, would break the answer.
        is_name = name.isascii() and name.replace("-", "").isalnum() and name[:2] in ("X-", "x-")
        # Without a prefix nginx would ask the application for the path of the file.
        is_lost = name.lower() == "x-accel-redirect" and not "".join(prefix).strip("/")
        if text and (not is_name or len(prefix) > 1 or is_lost):
            raise ValueError("X-Sendfile, or X-Accel-Redirect /prefix")
        return " ".join([name, *(UrlPath().parse(path).rstrip("/") for path in prefix)])


def split_url(text: str) -> tuple[str, str, str]:
    """Split `/path?query` or `https://host:port/path?query` into scheme, host:port ("" for a path alone), and path."""
    scheme, colon, rest = text.partition("://")
    if not colon or text.startswith("/"):
        return "http", "", text
    host, _, path = rest.partition("/")
    return scheme, host, f"/{path}"


def unescaped(path: str) -> bytes:
    """Return the bytes of a path (RFC 3986 section 2.1); a `%` without two hexadecimal digits behind it stays."""
    first, *rest = path.encode().split(b"%")
    return first + b"".join(map(_unescaped, rest))


def _unescaped(part: bytes) -> bytes:
    digits = part[:2].decode()
    is_byte = len(digits) == 2 and all(digit in "0123456789abcdefABCDEF" for digit in digits)
    return bytes.fromhex(digits) + part[2:] if is_byte else b"%" + part
