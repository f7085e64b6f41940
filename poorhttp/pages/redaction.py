"""Secrets that are hidden in pages and in the log: the values of names that look like those of secrets.

Knows the usual ways to write a name and its value: in text, in source, in URLs and in header fields. The value right
behind such a name is hidden.
"""

from __future__ import annotations

import re

_NAMES = r"""(?: pass | pwd | secret | token | key | auth | bearer | jwt | cookie | session | csrf | xsrf | dsn | sign
    | credential | (?<![^\W_]) (?: pin | otp | sid | pw ) (?![^\W\d_]) )"""
SECRET = re.compile(_NAMES, re.IGNORECASE | re.VERBOSE)
HIDDEN = "***"
_ENCODED = re.compile("%([0-9A-Fa-f]{2})")
_QUOTED = r"""(?: \"""[\s\S]*?(?:\"""|\Z) | \'\'\'[\s\S]*?(?:\'\'\'|\Z) | "(?:[^"\\]|\\.)*"? | '(?:[^'\\]|\\.)*'? )"""
_LITERAL = re.compile(_QUOTED, re.VERBOSE)
NAMED = rf"(?<!\w) (?! \w{{0,80}}(?:Error|Exception|Warning|Interrupt)\b ) \w{{0,60}} {_NAMES} \w{{0,60}}"
_TYPE = r": \s{0,8} [\w.]{1,40} (?: \[ [\w.,| ]{0,60} \] )? \s{0,8}"
_KEY = r"""\s{0,8} [a-z]? ["']\w{1,40}["'] \s{0,8} :"""
_ASSIGNED = re.compile(
    rf"""(?ix) ( {NAMED} (?: \\?["']? \]? \s{{0,8}} (?: {_TYPE} (?==) | \+ )? [=:]{{1,2}}
    | ["'] \s{{0,8}} , (?: {_KEY} | (?! {_KEY} ) ) ) [\s(]{{0,8}} [a-z]{{0,2}} \\? ) (?: {_QUOTED} | -?[0-9][\w.]* )"""
)
"""A name and its value; also `{"name": "password", "value": "x"}`, where a key stands between."""
_ELSEWHERE = re.compile(
    rf"""(?ix) ( \b[a-z][a-z0-9+.-]{{0,20}} :// [^\s/:@"']{{0,80}} : ) (?!\d+[/?\#]) [^\s"'<>]{{0,1000}} @ (?=[^\s@])
    | ( \b[a-z][a-z0-9+.-]{{0,20}} :// ) [^\s/:@"'<>?\#]{{1,200}} @ (?=[^\s@])
    | ( [?&] (?: {NAMED} ) = ) [^\s"'&\#<>]+
    | ( authorization : [ ]? [a-z]{{1,20}} [ ] ) [^\s"'=|,;(){{}}\[\]]+
    | ( (?:pass(?:word|wd|phrase)|pwd|secret|credential)s? \s{{1,8}} (?:is\s|was\s)? ) {_QUOTED}
    | ( \b (?:bearer|basic) \s+ ) (?=\S*[\d=]) [\w.~+/=-]{{6,}}"""
)
"""Secrets in a URL, in header fields, and behind words that mean nothing else."""
_WORD = r"""[^\s"'&;,<>(){}\[\]]"""
_UNQUOTED = re.compile(
    rf"""(?imx) ( cookie : [ ]? ) [^\s"'*] [^\r\n"']* | ( {NAMED} (?: \s? = \s? (?!["'=\s])
    | : [ ]? (?![\s/:=]) (?= {_WORD}{{0,60}} \d | {_WORD}{{1,80}} [ ]{{0,8}} (?: $ | [&;,)}}\]] ) ) ) ) {_WORD}+"""
)
"""Of an unquoted value: behind a colon, words that may begin a sentence are not taken for one."""

LONGEST_TEXT, LONGEST = 8000, 400
"""Characters of a text that is searched for secrets, and of one line."""


def cut(text: str, length: int) -> str:
    """The text in at most so many characters."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def is_secret(name: str) -> bool:
    """Whether a name, perhaps percent-encoded, looks like that of a secret."""
    plain = _ENCODED.sub(lambda found: chr(int(found[1], 16)), name)
    return SECRET.search(plain) is not None


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


def target_without_secrets(target: str) -> str:
    """As `without_secrets`, for a path with its query or a URL: the names of its fields may be percent-encoded."""
    path, mark, query = target.partition("?")
    pairs = []
    for pair in query.split("&"):
        name, sign, value = pair.partition("=")
        pairs.append(f"{name}{sign}{HIDDEN if is_secret(name) and value else value}")
    return without_secrets(f"{path}{mark}{'&'.join(pairs)}")
