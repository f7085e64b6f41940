"""Secrets that are hidden in source: the strings of a statement behind the name of a secret and `=` or `:`.

Knows the tokens of Python; which names are those of secrets is known by `pages.redaction`.
"""

from __future__ import annotations

import re
from functools import lru_cache

from poorhttp.pages.redaction import HIDDEN, NAMED, without_secrets

_NAME = re.compile(rf"""(?ix) [a-z]{{0,2}} ["']? {NAMED} ["']? """)
"""The name of a secret in source, with quotes where it is a key."""
MARKS = re.compile(r"(?m)^[ \t]+[~^][ ~^]*\n")
"""The line of marks that Python writes beneath a line of source."""


def quoted_source(text: str) -> str:
    """As `without_secrets`, for text that quotes source. If something is hidden, the marks beneath go too."""
    shown = without_secrets(text, is_code=True)
    return shown if shown == text else MARKS.sub("", shown)


@lru_cache(32)
def without_values(lines: tuple[str, ...]) -> list[str]:
    """The lines of a file with strings hidden that follow, in one statement, the name of a secret and `=` or `:`."""
    from poorhttp.stdlib import tokenize

    spans = []
    is_named = is_given = False
    try:
        for each in tokenize.generate_tokens(iter(lines).__next__):
            kind = tokenize.tok_name[each.type]
            if kind == "NEWLINE":
                is_named = is_given = False
            elif is_given and kind.endswith(("STRING", "STRING_MIDDLE")):
                spans.append((*each.start, *each.end))
            elif kind in ("NAME", "STRING") and _NAME.fullmatch(each.string):
                is_named = True
            elif each.string in ("=", "+=", ":=", ":"):
                is_given = is_named
    except (tokenize.TokenError, SyntaxError, ValueError):
        pass
    shown = list(lines)
    for row, start, last, end in reversed(spans):
        rest = shown[last - 1][end:]
        shown[row - 1 : last] = [shown[row - 1][:start] + HIDDEN, *[""] * (last - row)]
        shown[last - 1] += rest
    return shown
