"""An exception as plain data: its traceback as Python writes it, the frames with source and variables, and a hint.

Knows exceptions and frames. Does not know how the data is shown. Describing the application's objects runs none of its
code; secrets are hidden (see `pages.redaction`); the result can be sent as JSON.
"""

from __future__ import annotations

import sys
import traceback

from poorhttp.app.failures import suggested
from poorhttp.app.places import NOT_THEIRS, seen
from poorhttp.dev.page.source import quoted_source, without_values
from poorhttp.dev.page.values import described, name_of
from poorhttp.dev.watch.paths import is_authors
from poorhttp.errors import LoadError, PoorhttpError
from poorhttp.pages.redaction import HIDDEN, LONGEST, cut, is_secret, without_secrets
from poorhttp.stdlib import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any

    Problem = dict[str, Any]
    """title, where (path:line or ""), file, hint, trace, and sections: heading, frames, text. A frame has file, line,
    name, theirs (whether the file is the author's), text (as Python shows it), source (number, line) and locals (name,
    value)."""

AROUND = 4
"""Lines of source shown before and after the line that failed."""

MOST_FRAMES, MOST_LOCALS = 60, 30

DEEPEST, WIDEST, MOST_SECTIONS = 10, 15, 100
"""Exceptions that are shown: causes and groups within each other; members of one group; all."""


def of(error: BaseException, skip: str = "") -> Problem:
    """Describe an exception. skip: a file of this server, whose frames at the beginning are left out."""
    try:
        return _account(error, skip)
    except BaseException as fault:  # an exception, or its class, may run code when it is looked at
        what = f"{name_of(type(error))}, which cannot be shown: {name_of(type(fault))}"
    try:
        steps = BaseException.__dict__["__traceback__"].__get__(error)
        return _account(RuntimeError(what).with_traceback(steps), skip)
    except BaseException:  # a frame may run code too: the loader of its module gives the source
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
    exc = traceback.TracebackException.from_exception(error, compact=True)
    sections: list[dict[str, Any]] = []
    frames = _walk(error.__traceback__, skip)
    _add_sections(exc, error, skip, sections, "", 0)
    where, line = _where(error, frames)
    hint = hint or _suggestion(error, frames, exc)
    return {
        "title": cut(_in_one_line(without_secrets(_last(exc))), LONGEST),
        "where": f"{seen(where)}:{line}" if where else "",
        "file": where,
        "hint": hint,
        "trace": _text(sections),
        "sections": sections,
    }


def plain(title: str, hint: str = "", text: str = "") -> Problem:
    """Describe something that is no exception."""
    return {"title": title, "where": "", "file": "", "hint": hint, "trace": text or title, "sections": []}


def bounded(problem: Problem, limit: int) -> Problem:
    """Shorten a problem to about so many characters: the least important parts go first."""
    if len(str(problem)) > limit:
        for section in problem["sections"]:
            for frame in section["frames"]:
                frame["locals"] = []
                frame["source"] = frame["source"] if frame["theirs"] else []
    if len(str(problem)) > limit:
        problem = {**problem, "sections": [], "trace": problem["trace"][-limit // 2 :]}
    return problem


def _walk(trace: TracebackType | None, skip: str) -> list[tuple[Any, int]]:
    """The frame and the line of each step. skip: as in `of`."""
    steps = []
    while trace is not None:
        steps.append((trace.tb_frame, trace.tb_lineno))
        trace = trace.tb_next
    while steps and steps[0][0].f_code.co_filename == skip:
        del steps[0]
    return steps


def _add_sections(
    exc: traceback.TracebackException,
    error: BaseException | None,
    skip: str,
    sections: list[dict[str, Any]],
    heading: str,
    depth: int,
) -> None:
    """Add a section for each exception: causes first, as in Python's traceback, and members of a group last."""
    if depth > DEEPEST:
        return
    if exc.__cause__ is not None:
        _add_sections(exc.__cause__, getattr(error, "__cause__", None), skip, sections, "", depth + 1)
        heading = heading or "The above exception was the direct cause of the following exception:"
    elif exc.__context__ is not None and not exc.__suppress_context__:
        _add_sections(exc.__context__, getattr(error, "__context__", None), skip, sections, "", depth + 1)
        heading = heading or "During handling of the above exception, another exception occurred:"
    steps = _walk(error.__traceback__ if error is not None else None, skip)
    stack = list(exc.stack)[-len(steps) :] if steps else []
    # The text of a syntax error says where it is, and no call of the author's led to it.
    shows_all = not isinstance(error, SyntaxError) and all(each.filename.startswith(NOT_THEIRS) for each in stack)
    frames = [
        _frame(summary, steps[number][0])
        for number, summary in enumerate(stack)
        if shows_all or not summary.filename.startswith(NOT_THEIRS)
    ]
    if len(frames) > MOST_FRAMES:
        gap = f"  [left out: {len(frames) - MOST_FRAMES} calls]\n"
        frames = frames[: MOST_FRAMES // 2] + frames[-MOST_FRAMES // 2 :]
        frames[MOST_FRAMES // 2]["text"] = gap + frames[MOST_FRAMES // 2]["text"]
    text = "".join(exc.format_exception_only())
    text = quoted_source(text) if isinstance(error, SyntaxError) else without_secrets(text)
    sections.append({"heading": heading, "frames": frames, "text": text})
    members = getattr(exc, "exceptions", None) or []
    left_out = len(members)
    for number, each in enumerate(members[:WIDEST], 1):
        if depth >= DEEPEST or len(sections) >= MOST_SECTIONS:
            break
        member = getattr(error, "exceptions", ())[number - 1 : number]
        _add_sections(
            each, next(iter(member), None), skip, sections, f"{name_of(type(error))}, part {number}:", depth + 1
        )
        left_out -= 1
    if left_out:
        heading = f"{name_of(type(error))}, the other parts:"
        sections.append({"heading": heading, "frames": [], "text": f"left out: {left_out} of {len(members)}\n"})


def _frame(summary: traceback.FrameSummary, frame: Any) -> dict[str, Any]:
    theirs = is_authors(os.path.abspath(summary.filename)) and not summary.filename.startswith("<")
    format_one = getattr(traceback.StackSummary, "format_frame_summary", None)
    stack = traceback.StackSummary.from_list([summary])
    text = format_one(stack, summary) if format_one else "".join(stack.format())
    return {
        "file": summary.filename,
        "line": summary.lineno or 0,
        "name": summary.name,
        "theirs": theirs,
        "text": quoted_source(text),
        "source": _source(summary.filename, summary.lineno or 0) if theirs else [],
        "locals": _locals(frame) if theirs else [],
    }


def _source(file: str, line: int) -> list[tuple[int, str]]:
    from poorhttp.stdlib import linecache

    lines = without_values(tuple(linecache.getlines(file)))
    numbers = range(max(line - AROUND, 1), min(line + AROUND, len(lines)) + 1)
    return [(number, cut(without_secrets(lines[number - 1].rstrip("\n"), is_code=True), LONGEST)) for number in numbers]


_FAST_LOCALS = (lambda: type(sys._getframe().f_locals))()
"""Since Python 3.13 `f_locals` of a function is no dict (PEP 667)."""


def _is_plain(known: Any) -> bool:
    return type(known) is dict or type(known) is _FAST_LOCALS


def _locals(frame: Any) -> list[tuple[str, str]]:
    known = frame.f_locals
    if frame.f_code.co_name == "<module>" or not _is_plain(known):
        return []  # in a module: everything defined so far; in a class: the namespace may be the metaclass's own
    found = []
    for name, value in list(known.items())[:MOST_LOCALS]:
        hidden = is_secret(name)
        found.append((name, HIDDEN if hidden else without_secrets(described(value))))
    return found


def _suggestion(error: BaseException, steps: list[tuple[Any, int]], exc: traceback.TracebackException) -> str:
    """As `failures.suggested`, where looking for names runs no code of the author's."""
    frame = steps[-1][0] if steps else None
    is_safe = frame is not None and all(map(_is_plain, (frame.f_locals, frame.f_globals, frame.f_builtins)))
    return suggested(error, _last(exc)) if is_safe else ""


def _where(error: BaseException, steps: list[tuple[Any, int]]) -> tuple[str, int]:
    """The place to show first: that of a syntax error, else that of the author's last frame."""
    if isinstance(error, SyntaxError) and error.filename and not error.filename.startswith("<"):
        return str(error.filename), error.lineno or 0
    files = [(frame.f_code.co_filename, line) for frame, line in steps]
    own = [each for each in files if is_authors(os.path.abspath(each[0])) and not each[0].startswith("<")]
    return own[-1] if own else ("", 0)


def _last(exc: traceback.TracebackException) -> str:
    """Type and message, without the place before them (of a syntax error) and the notes behind."""
    return next((each for each in exc.format_exception_only() if not each.startswith("  ")), "")


def _in_one_line(text: str) -> str:
    return " ".join(filter(None, map(str.strip, text.split("\n"))))


def _text(sections: list[dict[str, Any]]) -> str:
    """The whole traceback as Python writes it."""
    text = ""
    for section in sections:
        text += f"\n{section['heading']}\n\n" if section["heading"] else ""
        if section["frames"]:
            text += "Traceback (most recent call last):\n"
        text += "".join(frame["text"] for frame in section["frames"]) + section["text"]
    return text
