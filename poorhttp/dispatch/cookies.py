"""Cookies (RFC 6265): those of a request, and the Set-Cookie field of an answer.

Knows the two fields and their rules. Knows nothing of what a cookie means. Contract: browsers store
the name and value that `set_cookie_field` was given, or it raises ValueError.
"""

from __future__ import annotations

from poorhttp.dispatch.headers import is_token

TYPE_CHECKING = False
if TYPE_CHECKING:
    from poorhttp.dispatch.headers import Headers

# RFC 6265 section 4.1.1: cookie-octet.
_VALUE_CHARS = frozenset(map(chr, range(0x21, 0x7F))) - set('",;\\')
_PATH_CHARS = frozenset(map(chr, range(0x20, 0x7F))) - {";"}
_DOMAIN_CHARS = frozenset("-.0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
MAX_BYTES = 4096  # RFC 6265 section 6.1; browsers ignore a longer one without a word
SAME_SITE = ("Strict", "Lax", "None")


def cookies_of(field: str) -> dict[str, str]:
    """The cookies in a Cookie field by name. Of two with one name the first counts: its path is the longer one
    (section 5.4). A part without = is left out.
    """
    if not field.isascii():
        field = field.encode("latin-1", "replace").decode("utf-8", "replace")
    found: dict[str, str] = {}
    for pair in field.split(";"):
        name, equals, value = pair.strip(" \t").partition("=")
        if equals and name:
            is_quoted = len(value) > 1 and value[0] == value[-1] == '"'
            found.setdefault(name, value[1:-1] if is_quoted else value)
    return found


def set_cookie_field(
    name: str, value: str, *, max_age: int | None, path: str, domain: str, secure: bool, http_only: bool, same_site: str
) -> str:
    """The value of a Set-Cookie field; for the arguments see `Request.set_cookie`. Raises ValueError, TypeError."""
    _check_pair(name, value)
    _check_scope(path, domain)
    if same_site not in SAME_SITE:
        raise ValueError(f"same_site is one of {', '.join(SAME_SITE)}, not {same_site!r}")
    if same_site == "None" and not secure:
        raise ValueError(f"the cookie {name} with same_site='None' must be secure, else browsers refuse it")
    prefix = name.lower()
    if prefix.startswith(("__host-", "__secure-")) and not secure:
        raise ValueError(f"the cookie {name} must be secure, as its name says")
    if prefix.startswith("__host-") and (path != "/" or domain):
        raise ValueError(f"the cookie {name} must have path='/' and no domain, as its name says")
    parts = [f"{name}={value}", f"Path={path}"]
    if domain:
        parts.append(f"Domain={domain}")
    if max_age is not None:
        parts.append(f"Max-Age={int(max_age)}")
    if secure:
        parts.append("Secure")
    if http_only:
        parts.append("HttpOnly")
    parts.append(f"SameSite={same_site}")
    return "; ".join(parts)


def replace(headers: Headers, field: str) -> None:
    """Add a Set-Cookie field, in place of one for a cookie of this name, path and domain (section 4.1.1)."""
    own = _identity(field)
    others = [value for name, value in headers.items() if name.lower() == "set-cookie" and _identity(value) != own]
    if "Set-Cookie" in headers:
        del headers["Set-Cookie"]
    for value in (*others, field):
        headers.add("Set-Cookie", value)


def _identity(field: str) -> tuple[str, ...]:
    pair, *attributes = field.split("; ")
    scope = [attribute for attribute in attributes if attribute.startswith(("Path=", "Domain="))]
    return (pair.partition("=")[0], *scope)


def _check_pair(name: str, value: str) -> None:
    for text in (name, value):
        if not isinstance(text, str):
            raise TypeError(f"the name and the value of a cookie are str, not {type(text).__name__}")
    if not is_token(name):
        raise ValueError(f"{name!r} is no name of a cookie: letters, digits and - are allowed")
    wrong = [char for char in value if char not in _VALUE_CHARS]
    if wrong:
        hint = "encode it, by urllib.parse.quote for example"
        raise ValueError(f"the value of the cookie {name} has {wrong[0]!r} in it, which no cookie can hold: {hint}")
    if len(name) + len(value) > MAX_BYTES:
        raise ValueError(f"the cookie {name} has {len(name) + len(value)} bytes; browsers take at most {MAX_BYTES}")


def _check_scope(path: str, domain: str) -> None:
    if not path.startswith("/") or not _PATH_CHARS.issuperset(path):
        raise ValueError(f"the path of a cookie begins with / and has no semicolon, not {path!r}")
    if not _DOMAIN_CHARS.issuperset(domain):
        raise ValueError(f"the domain of a cookie is a host name, not {domain!r}")
