"""Secrets that are hidden in an error page and in the log: the values of names that look like those of secrets.

Knows the usual ways to write a name and its value: in text, in source, in URLs and in header fields. Of a text, the
value right behind such a name is hidden; of source, every string of the same statement behind the name and `=` or `:`.
"""

from __future__ import annotations

import re
from functools import lru_cache

_NAMES = r"""(?: pass | pwd | secret | token | key | auth | bearer | jwt | cookie | session | csrf | xsrf | dsn | sign
    | credential | (?<![^\W_]) (?: pin | otp | sid | pw ) (?![^\W\d_]) )"""
SECRET = re.compile(_NAMES, re.IGNORECASE | re.VERBOSE)
HIDDEN = "***"
_QUOTED = r"""(?: \"""[\s\S]*?(?:\"""|\Z) | \'\'\'[\s\S]*?(?:\'\'\'|\Z) | "(?:[^"\\]|\\.)*"? | '(?:[^'\\]|\\.)*'? )"""
_LITERAL = re.compile(_QUOTED, re.VERBOSE)
_NAMED = rf"(?<!\w) (?! \w{{0,80}}(?:Error|Exception|Warning|Interrupt)\b ) \w{{0,60}} {_NAMES} \w{{0,60}}"
_NAME = re.compile(rf"""(?ix) [a-z]{{0,2}} ["']? {_NAMED} ["']? """)
"""The name of a secret in source, with quotes where it is a key."""
_TYPE = r": \s{0,8} [\w.]{1,40} (?: \[ [\w.,| ]{0,60} \] )? \s{0,8}"
_KEY = r"""\s{0,8} [a-z]? ["']\w{1,40}["'] \s{0,8} :"""
_ASSIGNED = re.compile(
    rf"""(?ix) ( {_NAMED} (?: \\?["']? \]? \s{{0,8}} (?: {_TYPE} (?==) | \+ )? [=:]{{1,2}}
    | ["'] \s{{0,8}} , (?: {_KEY} | (?! {_KEY} ) ) ) [\s(]{{0,8}} [a-z]{{0,2}} \\? ) (?: {_QUOTED} | -?[0-9][\w.]* )"""
)
"""A name and its value; also `{"name": "password", "value": "x"}`, where a key stands between."""
_ELSEWHERE = re.compile(
    rf"""(?ix) ( \b[a-z][a-z0-9+.-]{{0,20}} :// [^\s/:@"']{{0,80}} : ) (?!\d+[/?\#]) [^\s"'<>]{{0,1000}} @ (?=[^\s@])
    | ( \b[a-z][a-z0-9+.-]{{0,20}} :// ) [^\s/:@"'<>?\#]{{1,200}} @ (?=[^\s@])
    | ( [?&] (?: {_NAMED} ) = ) [^\s"'&\#<>]+
    | ( authorization : [ ]? [a-z]{{1,20}} [ ] ) [^\s"'=|,;(){{}}\[\]]+
    | ( (?:pass(?:word|wd|phrase)|pwd|secret|credential)s? \s{{1,8}} (?:is\s|was\s)? ) {_QUOTED}
    | ( \b (?:bearer|basic) \s+ ) (?=\S*[\d=]) [\w.~+/=-]{{6,}}"""
)
"""Secrets in a URL, in header fields, and behind words that mean nothing else."""
_WORD = r"""[^\s"'&;,<>(){}\[\]]"""
_UNQUOTED = re.compile(
    rf"""(?imx) ( cookie : [ ]? ) [^\s"'*] [^\r\n"']* | ( {_NAMED} (?: \s? = \s? (?!["'=\s])
    | : [ ]? (?![\s/:=]) (?= {_WORD}{{0,60}} \d | {_WORD}{{1,80}} [ ]{{0,8}} (?: $ | [&;,)}}\]] ) ) ) ) {_WORD}+"""
)
"""Of an unquoted value: behind a colon, words that may begin a sentence are not taken for one."""

MARKS = re.compile(r"(?m)^[ \t]+[~^][ ~^]*\n")
"""The line of marks that Python writes beneath a line of source."""

LONGEST_TEXT, LONGEST = 8000, 400
"""Characters of a text that is searched for secrets, and of one line."""


def cut(text: str, length: int) -> str:
    """The text in at most so many characters."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def is_secret(name: str) -> bool:
    """Whether a name, perhaps percent-encoded, looks like that of a secret."""
    if "%" in name:
        from poorhttp.stdlib import urllib

        name = urllib.parse.unquote(name)
    return SECRET.search(name) is not None


def names_secret(key: object) -> bool:
    """As `is_secret`, for the key of a dict; False for what is neither str nor bytes."""
    return is_secret(key) if type(key) is str else type(key) is bytes and is_secret(key.decode("latin-1"))


def without_secrets(text: str, is_code: bool = False) -> str:
    """The text with the values of secrets hidden. is_code: a line of source, in which an unquoted value is a name."""
    text = _ELSEWHERE.sub(_hide, cut(text, LONGEST_TEXT))
    text = _ASSIGNED.sub(_hide, text)
    if is_code:
        return _LITERAL.sub(lambda literal: _UNQUOTED.sub(_hide, literal[0]), text)
    return _UNQUOTED.sub(_hide, text)


def _hide(found: re.Match[str]) -> str:
    return f"{next(filter(None, found.groups()))}{HIDDEN}{'@' * found[0].endswith('@')}"


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
