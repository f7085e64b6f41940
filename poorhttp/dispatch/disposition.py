"""The field Content-Disposition (RFC 6266) of a file that the client is to save and not to show.

Knows how any text becomes the name of a file in a field. Knows nothing of files and requests. Contract: whatever a name
holds, the field is one that Headers takes, and names no directory.
"""

from __future__ import annotations

from poorhttp.dispatch.percent import encoded

LONGEST = 150
"""Characters of a name at most: file systems take 255 bytes."""

# RFC 8187 section 3.2.1: attr-char.
_ATTRIBUTE = frozenset(b"!#$&+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")


def attachment(name: str) -> str:
    """`größe.txt` -> `attachment; filename="gr__e.txt"; filename*=UTF-8''gr%C3%B6%C3%9Fe.txt`.

    name: any text, also of a client. Directories are left out, characters that are not printable become `_`. The second
    form (RFC 8187) is for names that are not ASCII, and for characters that clients read differently within quotes.
    """
    name = name.replace("\\", "/").rpartition("/")[2]
    name = "".join([char if char.isprintable() else "_" for char in name]).strip(" .") or "download"
    if len(name) > LONGEST:
        name = name[: LONGEST - 50] + name[-50:]  # with the ending
    plain = "".join([char if char.isascii() and char not in '"%' else "_" for char in name])
    field = f'attachment; filename="{plain}"'
    return field if plain == name else f"{field}; filename*=UTF-8''{encoded(name.encode(), _ATTRIBUTE)}"
