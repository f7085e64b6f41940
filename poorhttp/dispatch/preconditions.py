"""Conditional requests: whether a client has the answer already (RFC 9110 section 13).

Knows validators, and the fields of a request that ask by them. Knows nothing of files and answers. Imported only where
there are validators.
"""

from __future__ import annotations

import time

from poorhttp.dispatch.constants import HTTP_NOT_MODIFIED, HTTP_PRECONDITION_FAILED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def last_modified(nanoseconds: int) -> str:
    """A time since the epoch as `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110 section 5.6.7), in any locale; of one that is
    still to come the present (section 8.8.2.1).
    """
    seconds = min(nanoseconds // 10**9, time.time())
    year, month, day, hour, minute, second, weekday, *_ = time.gmtime(seconds)
    return f"{_DAYS[weekday]}, {day:02} {_MONTHS[month - 1]} {year:04} {hour:02}:{minute:02}:{second:02} GMT"


def status_for(environ: WSGIEnvironment, etag: str, modified: str) -> int:
    """The status of an answer with these values of ETag and Last-Modified ("" for none), by the order of RFC 9110
    section 13.2.2: 304 where the client has it already, 412 where it asked for another one, else 200.
    """
    asked = environ.get
    is_reading = environ["REQUEST_METHOD"] in ("GET", "HEAD")
    if "HTTP_IF_MATCH" in environ:
        if not _names(environ["HTTP_IF_MATCH"], etag, is_strong=True):
            return HTTP_PRECONDITION_FAILED
    elif _is_newer(modified, asked("HTTP_IF_UNMODIFIED_SINCE")):
        return HTTP_PRECONDITION_FAILED
    if "HTTP_IF_NONE_MATCH" in environ:
        if not _names(environ["HTTP_IF_NONE_MATCH"], etag, is_strong=False):
            return 200
        return HTTP_NOT_MODIFIED if is_reading else HTTP_PRECONDITION_FAILED
    is_old = is_reading and _is_newer(modified, asked("HTTP_IF_MODIFIED_SINCE")) is False
    return HTTP_NOT_MODIFIED if is_old else 200


def entity_tag(tag: str, is_weak: bool) -> str:
    """`abc` -> `"abc"`, a value of ETag (RFC 9110 section 8.8.3). Raises ValueError for a wrong character."""
    if not tag or any(not "!" <= char <= "~" or char == '"' for char in tag):
        raise ValueError(f"an entity tag is of printable ASCII without spaces and quotes, not {tag!r}")
    return f'W/"{tag}"' if is_weak else f'"{tag}"'


def _names(field: str, etag: str, is_strong: bool) -> bool:
    """Whether a list of entity tags names this one, by the strong or the weak comparison (RFC 9110 section 8.8.3.2)."""
    if field.strip() == "*":
        return True
    if not etag or (is_strong and etag.startswith("W/")):
        return False
    own = etag.removeprefix("W/").strip('"')
    parts = field.split('"')  # a tag holds no quotes, but perhaps commas
    tags = zip(parts[::2], parts[1::2], strict=False)
    return any(tag == own and not (is_strong and before.endswith("W/")) for before, tag in tags)


def _is_newer(date: str, other: str | None) -> bool | None:
    """Whether one date is later than another; None where one of them is no date."""
    if not other:
        return None
    one, two = _seconds(date), _seconds(other)
    return None if one is None or two is None else one > two


def _seconds(date: str) -> int | None:
    """A date in any format of RFC 9110 section 5.6.7 as seconds since the epoch; None for anything else."""
    from email.utils import mktime_tz, parsedate_tz  # 1 MiB, so only for who asks by dates

    try:
        parts = parsedate_tz(date)
        return None if parts is None else mktime_tz(parts)
    except (IndexError, OverflowError, TypeError, ValueError):
        return None
