"""Changes that two requests made to the same session, put together. Knows dicts, and nothing of sessions."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MISSING = object()


def merge(base: dict[str, Any], mine: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    """Return `theirs` with each change from `base` to `mine`. If both changed the same key, dicts are merged in the
    same way, and of anything else `mine` is taken: the later request wins. A dict that `theirs` has removed or
    replaced by something else does not come back because of a change within it: `del session["user"]` is a logout.
    """
    merged = dict(theirs)
    for key in [*mine, *(key for key in base if key not in mine)]:
        before, after = base.get(key, _MISSING), mine.get(key, _MISSING)
        if is_same(before, after):
            continue
        other = merged.get(key, _MISSING)
        if after is _MISSING:
            merged.pop(key, None)
        elif isinstance(after, dict) and isinstance(other, dict):
            merged[key] = merge(before if isinstance(before, dict) else {}, after, other)
        elif not (isinstance(before, dict) and isinstance(after, dict)):
            merged[key] = after
    return merged


def is_same(one: object, other: object) -> bool:
    """Whether both are the same in JSON: unlike in Python, 1 is not true there, and a tuple is a list."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(is_same, one, other))
    return type(one) is type(other) and one == other
