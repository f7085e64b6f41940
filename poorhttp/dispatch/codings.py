"""Content codings: which file that was compressed in advance a client takes (RFC 9110 section 12.5.3).

Knows the field Accept-Encoding. Knows nothing of files.
"""

from __future__ import annotations

SUFFIXES = {"br": b".br", "zstd": b".zst", "gzip": b".gz"}
"""Coding -> what is added to the name of the file. Of codings that a client likes equally the first one is taken."""

_MOST = 20  # elements of the field that are read: browsers send four


def accepted(field: str) -> list[str]:
    """The codings of SUFFIXES that a client takes, the one that it likes most first."""
    weights: dict[str, float] = {}
    for element in field.lower().split(",", _MOST)[:_MOST]:
        coding, *parameters = element.split(";")
        weights.setdefault(coding.strip(), _weight(parameters))
    others = weights.get("*", 0.0)
    told = {coding: weights.get(coding, weights.get(f"x-{coding}", others)) for coding in SUFFIXES}
    return sorted((coding for coding, weight in told.items() if weight > 0), key=lambda coding: -told[coding])


def _weight(parameters: list[str]) -> float:
    """The weight, from 0 to 1 (RFC 9110 section 12.4.2); 0 for what is not understood."""
    for parameter in parameters:
        name, _, value = parameter.strip().partition("=")
        if name.strip() == "q":
            digits = value.strip()
            return min(float(digits), 1.0) if digits.isascii() and digits.replace(".", "", 1).isdecimal() else 0.0
    return 1.0
