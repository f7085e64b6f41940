"""Which kind of answer a client asks for: html, JSON or text.

Knows the field Accept (RFC 9110 section 12.5.1).
"""

from __future__ import annotations


def kind_of(accept: str) -> str:
    """`html`, `json` or `text`, by the types that are named. `*/*` means text: curl shows it in a terminal."""
    kinds = []
    for part in accept.lower().split(","):
        kind, _, rest = part.partition(";")
        if rest.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000"):
            kinds.append(kind.strip())
    if "text/html" in kinds:
        return "html"
    is_json = any(kind == "application/json" or kind.endswith("+json") for kind in kinds)
    return "json" if is_json else "text"
