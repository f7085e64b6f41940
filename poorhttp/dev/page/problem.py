"""A failure as plain data: Python's own account of it, its frames, and what was known there.

Knows exceptions and what is to be hidden. Does not know how it is shown, nor to whom.
Contract: nothing of the author's is called to describe his objects, every text is bounded; of a variable, an argument
or a key whose name looks like a secret's the value does not get in, of source no string of the same statement behind
such a name with `=` or `:`, of messages, and of the line that failed, not what stands right behind it in one of the
usual ways; what comes out can be sent as JSON.
"""

from __future__ import annotations

import re
import sys
import traceback
from functools import lru_cache
from reprlib import Repr

from poorhttp.app.loader import seen
from poorhttp.dev.watch.reports import is_theirs
from poorhttp.errors import LoadError, PoorhttpError, suggestion
from poorhttp.stdlib import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any

    Problem = dict[str, Any]
    """title, where (path:line or ""), hint, trace, and sections: heading, frames, text. A frame has file, line, name,
    theirs, text (as Python shows it), source (number, line) and locals (name, value)."""

_NAMES = r"""(?: pass | pwd | secret | token | key | auth | bearer | jwt | cookie | session | csrf | xsrf | dsn | sign
    | credential | (?<![^\W_]) (?: pin | otp | sid | pw ) (?![^\W\d_]) )"""
SECRET = re.compile(_NAMES, re.IGNORECASE | re.VERBOSE)
HIDDEN = "***"
_QUOTED = r"""(?: \"""[\s\S]*?(?:\"""|\Z) | \'\'\'[\s\S]*?(?:\'\'\'|\Z) | "(?:[^"\\]|\\.)*"? | '(?:[^'\\]|\\.)*'? )"""
_LITERAL = re.compile(_QUOTED, re.VERBOSE)
_NAMED = rf"(?<!\w) (?! \w{{0,80}}(?:Error|Exception|Warning|Interrupt)\b ) \w{{0,60}} {_NAMES} \w{{0,60}}"
_NAME = re.compile(rf"""(?ix) [a-z]{{0,2}} ["']? {_NAMED} ["']? """)
"""Of a secret, in source: with quotes where it is a key."""
_TYPE = r": \s{0,8} [\w.]{1,40} (?: \[ [\w.,| ]{0,60} \] )? \s{0,8}"
_KEY = r"""\s{0,8} [a-z]? ["']\w{1,40}["'] \s{0,8} :"""
_ASSIGNED = re.compile(
    rf"""(?ix) ( {_NAMED} (?: \\?["']? \]? \s{{0,8}} (?: {_TYPE} (?==) | \+ )? [=:]{{1,2}}
    | ["'] \s{{0,8}} , (?: {_KEY} | (?! {_KEY} ) ) ) [\s(]{{0,8}} [a-z]{{0,2}} \\? ) (?: {_QUOTED} | -?[0-9][\w.]* )"""
)
"""Also as in `{"name": "password", "value": "x"}`, where a key stands between."""
_ELSEWHERE = re.compile(
    rf"""(?ix) ( \b[a-z][a-z0-9+.-]{{0,20}} :// [^\s/:@"']{{0,80}} : ) (?!\d+[/?\#]) [^\s"'<>]{{0,1000}} @ (?=[^\s@])
    | ( \b[a-z][a-z0-9+.-]{{0,20}} :// ) [^\s/:@"'<>?\#]{{1,200}} @ (?=[^\s@])
    | ( [?&] (?: {_NAMED} ) = ) [^\s"'&\#<>]+
    | ( authorization : [ ]? [a-z]{{1,20}} [ ] ) [^\s"'=|,;(){{}}\[\]]+
    | ( (?:pass(?:word|wd|phrase)|pwd|secret|credential)s? \s{{1,8}} (?:is\s|was\s)? ) {_QUOTED}
    | ( \b (?:bearer|basic) \s+ ) (?=\S*[\d=]) [\w.~+/=-]{{6,}}"""
)
"""In an address, in the fields of a request, and behind words that can mean nothing else."""
_WORD = r"""[^\s"'&;,<>(){}\[\]]"""
_UNQUOTED = re.compile(
    rf"""(?imx) ( cookie : [ ]? ) [^\s"'*] [^\r\n"']* | ( {_NAMED} (?: \s? = \s? (?!["'=\s])
    | : [ ]? (?![\s/:=]) (?= {_WORD}{{0,60}} \d | {_WORD}{{1,80}} [ ]{{0,8}} (?: $ | [&;,)}}\]] ) ) ) ) {_WORD}+"""
)
"""Behind a colon not what may be the first word of a sentence."""

_MARKS = re.compile(r"(?m)^[ \t]+[~^][ ~^]*\n")

AROUND = 4
"""Lines of source before and behind the one that failed."""

LONGEST_TEXT, LONGEST_STRING = 8000, 1000
LONGEST, MOST_FRAMES, MOST_LOCALS = 400, 60, 30
DEEPEST, WIDEST, MOST_SECTIONS = 10, 15, 100
"""Of exceptions: causes and groups within each other, members of one group (as many as Python shows), all together."""


def of(error: BaseException, skip: str = "") -> Problem:
    """The account of an exception. skip: a file of ours, whose frames at the beginning say nothing."""
    try:
        return _account(error, skip)
    except BaseException as fault:  # an exception, or its class, may do anything when it is asked
        what = f"{name_of(type(error))}, which cannot be told: {name_of(type(fault))}"
    try:
        steps = BaseException.__dict__["__traceback__"].__get__(error)
        return _account(RuntimeError(what).with_traceback(steps), skip)
    except BaseException:  # nor may be a frame: the loader of a module gives its source
        return plain(what)


def _account(error: BaseException, skip: str) -> Problem:
    hint = ""
    if isinstance(error, PoorhttpError):
        hint = error.hint
        cause = error.__context__
        if not isinstance(error, LoadError) or not error.detail or cause is None:
            return plain(error.message, hint)
        error = cause
        hint = "" if hint.startswith("the traceback above") else hint
    told = traceback.TracebackException.from_exception(error, compact=True)
    sections: list[dict[str, Any]] = []
    frames = _walk(error.__traceback__, skip)
    _tell(told, error, skip, sections, "", 0)
    where, line = _where(error, frames)
    hint = hint or _suggestion(error, frames, told)
    return {
        "title": cut(_in_one_line(without_secrets(_last(told))), LONGEST),
        "where": f"{shown(where)}:{line}" if where else "",
        "file": where,
        "hint": hint,
        "trace": _text(sections),
        "sections": sections,
    }


def plain(title: str, hint: str = "", text: str = "") -> Problem:
    """The account of something that is no exception."""
    return {"title": title, "where": "", "file": "", "hint": hint, "trace": text or title, "sections": []}


def bounded(problem: Problem, limit: int) -> Problem:
    """The same in at most so many characters of text, roughly: what matters least goes first."""
    if len(str(problem)) > limit:
        for section in problem["sections"]:
            for frame in section["frames"]:
                frame["locals"] = []
                frame["source"] = frame["source"] if frame["theirs"] else []
    if len(str(problem)) > limit:
        problem = {**problem, "sections": [], "trace": problem["trace"][-limit // 2 :]}
    return problem


def shown(path: str) -> str:
    """A path as it is seen from the current directory."""
    return seen(path) if os.path.isabs(path) else path


def is_secret(name: str) -> bool:
    """Whether a name, also one of a query, looks like a secret's."""
    if "%" in name:
        from poorhttp.stdlib import urllib

        name = urllib.parse.unquote(name)
    return SECRET.search(name) is not None


def without_secrets(text: str, is_code: bool = False) -> str:
    """A text without what is written as the value of a name that looks like a secret's; in code, where that may be a
    name too, without the literal right behind it only, and without such values within a literal.
    """
    text = _ELSEWHERE.sub(_hide, cut(text, LONGEST_TEXT))
    text = _ASSIGNED.sub(_hide, text)
    if is_code:
        return _LITERAL.sub(lambda literal: _UNQUOTED.sub(_hide, literal[0]), text)
    return _UNQUOTED.sub(_hide, text)


def _hide(found: re.Match[str]) -> str:
    return f"{next(filter(None, found.groups()))}{HIDDEN}{'@' * found[0].endswith('@')}"


def cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def described(value: object) -> str:
    """A value, by types that are Python's own; of others the type alone, as their `__repr__` may do anything."""
    try:
        return cut(_REPR.repr(value), LONGEST)
    except BaseException as error:
        return f"<{name_of(type(value))}, which cannot be told: {name_of(type(error))}>"


def name_of(kind: type, attribute: str = "__name__") -> str:
    """As `type` itself knows it: a metaclass may answer anything, a subclass of `str` in its place may be one of the
    author's. Raises TypeError for a `__module__` that is no string.
    """
    return str.__str__(type.__dict__[attribute].__get__(kind))


_HIDDEN = object()
_NAMING = ("name", "key", "field", "header")
"""Keys of a dict that stands for a pair, as in `{"name": "password", "value": "x"}`."""


def _names_secret(key: object) -> bool:
    return is_secret(key) if type(key) is str else type(key) is bytes and is_secret(key.decode("latin-1"))


def _is_pair(value: Any) -> bool:
    return len(value) == 2 and _names_secret(value[0])


_PLAIN = (str, bytes, int, float, complex, bool, type(None), list, tuple, set, frozenset)


class _Repr(Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = 200
        self.maxlevel = 3

    def repr1(self, value: Any, level: int) -> str:
        if value is _HIDDEN:
            return HIDDEN
        kind = type(value)
        if any(kind is each for each in _PLAIN):  # a metaclass may have an `__eq__`
            return super().repr1(value, level)
        if kind is dict:
            return self.repr_dict(value, level)
        return f"<{name_of(kind, '__module__')}.{name_of(kind, '__qualname__')}>"

    def repr_str(self, value: str, level: int) -> str:
        return repr(cut(without_secrets(value[:LONGEST_STRING]), self.maxstring))  # a cut within a secret would bare it

    def repr_bytes(self, value: bytes, level: int) -> str:
        return cut(without_secrets(repr(value[:LONGEST_STRING])), self.maxother)

    def repr_tuple(self, value: tuple[Any, ...], level: int) -> str:
        return super().repr_tuple((value[0], _HIDDEN) if _is_pair(value) else value, level)

    def repr_list(self, value: list[Any], level: int) -> str:
        return super().repr_list([value[0], _HIDDEN] if _is_pair(value) else value, level)

    def repr_set(self, value: Any, level: int) -> str:
        return f"{type(value).__name__}({super().repr_list(list(value), level)})"  # that of Python sorts: `__lt__`

    def repr_frozenset(self, value: Any, level: int) -> str:
        return self.repr_set(value, level)

    def repr_dict(self, value: dict[Any, Any], level: int) -> str:
        if level <= 0:
            return "{...}"
        pairs = []
        shown = list(value.items())[:10]
        name = next((each for key, each in shown if type(key) is str and key in _NAMING and _names_secret(each)), None)
        for key, each in shown:
            hidden = _names_secret(key) or (name is not None and each is not name)
            pairs.append(f"{self.repr1(key, level - 1)}: {HIDDEN if hidden else self.repr1(each, level - 1)}")
        return f"{{{', '.join(pairs)}{', ...' if len(value) > len(pairs) else ''}}}"


_REPR = _Repr()


def _walk(trace: TracebackType | None, skip: str) -> list[tuple[Any, int]]:
    """Frame and line of each step. skip: a file of ours, where it begins."""
    steps = []
    while trace is not None:
        steps.append((trace.tb_frame, trace.tb_lineno))
        trace = trace.tb_next
    while steps and steps[0][0].f_code.co_filename == skip:
        del steps[0]
    return steps


_NOT_SHOWN = (
    os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(__file__))), ""),
    os.path.join(os.path.dirname(os.__file__), "importlib", ""),
    "<frozen importlib",
)


def _is_ours(file: str) -> bool:
    return file.startswith(_NOT_SHOWN)


def _tell(
    told: traceback.TracebackException,
    error: BaseException | None,
    skip: str,
    sections: list[dict[str, Any]],
    heading: str,
    depth: int,
) -> None:
    """Add a section for each exception: causes first, as Python does, those of a group last."""
    if depth > DEEPEST:
        return
    if told.__cause__ is not None:
        _tell(told.__cause__, getattr(error, "__cause__", None), skip, sections, "", depth + 1)
        heading = heading or "The above exception was the direct cause of the following exception:"
    elif told.__context__ is not None and not told.__suppress_context__:
        _tell(told.__context__, getattr(error, "__context__", None), skip, sections, "", depth + 1)
        heading = heading or "During handling of the above exception, another exception occurred:"
    steps = _walk(error.__traceback__ if error is not None else None, skip)
    stack = list(told.stack)[-len(steps) :] if steps else []
    # The text of a syntax error tells its place; nobody has called anything.
    is_all_ours = not isinstance(error, SyntaxError) and all(_is_ours(each.filename) for each in stack)
    frames = [
        _frame(summary, steps[number][0])
        for number, summary in enumerate(stack)
        if not _is_ours(summary.filename) or is_all_ours
    ]
    if len(frames) > MOST_FRAMES:
        gap = f"  [left out: {len(frames) - MOST_FRAMES} calls]\n"
        frames = frames[: MOST_FRAMES // 2] + frames[-MOST_FRAMES // 2 :]
        frames[MOST_FRAMES // 2]["text"] = gap + frames[MOST_FRAMES // 2]["text"]
    text = "".join(told.format_exception_only())
    text = _quoted(text) if isinstance(error, SyntaxError) else without_secrets(text)
    sections.append({"heading": heading, "frames": frames, "text": text})
    members = getattr(told, "exceptions", None) or []
    left_out = len(members)
    for number, each in enumerate(members[:WIDEST], 1):
        if depth >= DEEPEST or len(sections) >= MOST_SECTIONS:
            break
        member = getattr(error, "exceptions", ())[number - 1 : number]
        _tell(each, next(iter(member), None), skip, sections, f"{name_of(type(error))}, part {number}:", depth + 1)
        left_out -= 1
    if left_out:
        heading = f"{name_of(type(error))}, the other parts:"
        sections.append({"heading": heading, "frames": [], "text": f"left out: {left_out} of {len(members)}\n"})


def _frame(summary: traceback.FrameSummary, frame: Any) -> dict[str, Any]:
    theirs = is_theirs(os.path.abspath(summary.filename)) and not summary.filename.startswith("<")
    format_one = getattr(traceback.StackSummary, "format_frame_summary", None)
    stack = traceback.StackSummary.from_list([summary])
    text = format_one(stack, summary) if format_one else "".join(stack.format())
    return {
        "file": summary.filename,
        "line": summary.lineno or 0,
        "name": summary.name,
        "theirs": theirs,
        "text": _quoted(text),
        "source": _source(summary.filename, summary.lineno or 0) if theirs else [],
        "locals": _locals(frame) if theirs else [],
    }


def _quoted(text: str) -> str:
    """What quotes a line of source: where something in it is hidden, the marks beneath would stand elsewhere."""
    shown = without_secrets(text, is_code=True)
    return shown if shown == text else _MARKS.sub("", shown)


def _source(file: str, line: int) -> list[tuple[int, str]]:
    from poorhttp.stdlib import linecache

    lines = _without_values(tuple(linecache.getlines(file)))
    numbers = range(max(line - AROUND, 1), min(line + AROUND, len(lines)) + 1)
    return [(number, cut(without_secrets(lines[number - 1].rstrip("\n"), is_code=True), LONGEST)) for number in numbers]


@lru_cache(32)
def _without_values(lines: tuple[str, ...]) -> list[str]:
    """Source without the strings that follow the name of a secret and `=` or `:` in the same statement, however that is
    laid out; as far as it is Python.
    """
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


_FAST_LOCALS = (lambda: type(sys._getframe().f_locals))()
"""Of a function: from Python 3.13 on no dict."""


def _is_plain(known: Any) -> bool:
    return type(known) is dict or type(known) is _FAST_LOCALS


def _locals(frame: Any) -> list[tuple[str, str]]:
    known = frame.f_locals
    if frame.f_code.co_name == "<module>" or not _is_plain(known):
        return []  # everything that the module has made so far; or of a class what its metaclass has for a dict
    found = []
    for name, value in list(known.items())[:MOST_LOCALS]:
        hidden = is_secret(name)
        found.append((name, HIDDEN if hidden else without_secrets(described(value))))
    return found


def _suggestion(error: BaseException, steps: list[tuple[Any, int]], told: traceback.TracebackException) -> str:
    """What `traceback` says itself from Python 3.12 on."""
    if not isinstance(error, NameError) or not steps or "Did you mean" in _last(told):
        return ""
    frame = steps[-1][0]
    known = [each for each in (frame.f_locals, frame.f_globals, frame.f_builtins) if _is_plain(each)]
    return suggestion(error.name or "", {name for each in known for name in each})


def _where(error: BaseException, steps: list[tuple[Any, int]]) -> tuple[str, int]:
    """The place that the author wants to see first: of a syntax error that, else the last of his own frames."""
    if isinstance(error, SyntaxError) and error.filename and not error.filename.startswith("<"):
        return str(error.filename), error.lineno or 0
    files = [(frame.f_code.co_filename, line) for frame, line in steps]
    own = [each for each in files if is_theirs(os.path.abspath(each[0])) and not each[0].startswith("<")]
    return own[-1] if own else ("", 0)


def _last(told: traceback.TracebackException) -> str:
    """Type and message, without the place that stands before them where the syntax is wrong, and the notes behind."""
    return next((each for each in told.format_exception_only() if not each.startswith("  ")), "")


def _in_one_line(text: str) -> str:
    return " ".join(filter(None, map(str.strip, text.split("\n"))))


def _text(sections: list[dict[str, Any]]) -> str:
    """All of it as Python writes it."""
    text = ""
    for section in sections:
        text += f"\n{section['heading']}\n\n" if section["heading"] else ""
        if section["frames"]:
            text += "Traceback (most recent call last):\n"
        text += "".join(frame["text"] for frame in section["frames"]) + section["text"]
    return text
