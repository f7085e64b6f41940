"""The manual page poorhttp(1), in the macros of man(7).

Knows the macros and how the tables of docs/ are written. Signals, exit codes and examples are those of docs/running.md
and docs/serving.md. The page has no date: the text is to depend on the program alone.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from poorhttp import __version__
from poorhttp.config.commands import PURGE, PURGING, STORE_VARIABLE
from poorhttp.config.printing import HEADINGS, INI_SYNTAX, USAGE
from poorhttp.config.settings import ENVIRON, MIME_TYPES, OPTIONS, PREFIX, SECTION, SETTINGS
from share.command_line import Flag, groups

SUMMARY = "serve a WSGI application, or a directory with a dispatch table"

DESCRIPTION = f"""\
poorhttp serves a WSGI application over HTTP/1.1. APP says where the application is: {SETTINGS["application"].help}.
Without a command, poorhttp serves in the foreground until it is stopped by a signal."""


def text(docs: Path) -> str:
    """Return the page; docs: the folder of the documents."""
    running, serving = ((docs / name).read_text(encoding="utf-8") for name in ("running.md", "serving.md"))
    parts = [
        '.\\" Written by `python -m share` from the settings.',
        f'.TH POORHTTP 1 "" "poorhttp {__version__}"',
        ".nh",
        ".ad l",
        *_section("NAME", [f"poorhttp \\- {SUMMARY}"]),
        *_section("SYNOPSIS", _synopsis()),
        *_section("DESCRIPTION", [_roff(DESCRIPTION)]),
        *_section("COMMANDS", _commands()),
        *_section("OPTIONS", _options()),
        *_section("FILES", _files()),
        *_section("ENVIRONMENT", _variables()),
        *_section("SIGNALS", _rows(running, "Signals")),
        *_section("EXIT STATUS", _rows(running, "Exit codes")),
        *_section("EXAMPLES", _examples(serving)),
    ]
    return "\n".join(parts) + "\n"


def _section(name: str, lines: list[str]) -> list[str]:
    return [f".SH {name}", *lines]


def _synopsis() -> list[str]:
    lines = []
    for form in USAGE:
        lines += [".B poorhttp", re.sub(r"\b([A-Z]+|options)\b", r"\\fI\1\\fR", _roff(form)), ".br"]
    return lines[:-1]


def _commands() -> list[str]:
    lines: list[str] = []
    for when, commands in HEADINGS.items():
        lines += [f".SS {when}"]
        for name, meaning in commands.items():
            lines += _entry(f"\\fB{name}\\fR", meaning)
    meaning = f"{PURGING}; the variable {STORE_VARIABLE} stands for ADDRESS"
    term = f"\\fB{' '.join(PURGE)}\\fR [\\fIADDRESS\\fR]"
    return [*lines, ".SS With a store of sessions", *_entry(term, meaning)]


def _options() -> list[str]:
    lines: list[str] = []
    for group, flags in groups():
        lines += [f".SS {group.capitalize()}"] if group else []
        for flag in flags:
            default = f" [{flag.default}]" if flag.default else ""
            lines += _entry(_written(flag), flag.help + default)
    return lines


def _written(flag: Flag) -> str:
    name = flag.name.replace("--", "--[no-]", 1) if flag.is_switch else flag.name
    short = f"\\fB{_roff('-' + flag.short)}\\fR, " if flag.short else ""
    return f"{short}\\fB{_roff(name)}\\fR" + (f" \\fI{_roff(flag.metavar)}\\fR" if flag.metavar else "")


def _files() -> list[str]:
    """The ini file: its syntax and its sections."""
    sections = {
        SECTION: "the settings: each option above with a value is a key, with _ for -",
        MIME_TYPES: "media types of files in document: ending of the name = type",
        OPTIONS: "any keys; the application gets them from req.get_options()",
        ENVIRON: "variables for os.environ and each WSGI environ",
    }
    lines = [_roff(" ".join(("An ini file is read if -c names it.", *INI_SYNTAX)))]
    for name, meaning in sections.items():
        lines += _entry(f"\\fB[{_roff(name)}]\\fR", meaning)
    return lines


def _variables() -> list[str]:
    name = PREFIX + "NAME"
    meaning = f"each setting, such as {PREFIX}PORT; an option overrides a variable, a variable the ini file"
    return _entry(f"\\fB{name}\\fR", meaning) + _entry(f"\\fB{STORE_VARIABLE}\\fR", f"for {' '.join(PURGE)}")


def _rows(page: str, heading: str) -> list[str]:
    """Return the first table below a heading."""
    table = page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("|")][2:]
    return [line for name, meaning in rows for line in _entry(f"\\fB{_roff(name)}\\fR", _plain(meaning))]


def _examples(page: str) -> list[str]:
    """Return the commands with a comment in the first block of code."""
    found = re.findall(r"^    (poorhttp .*?)  +# (.*)$", page, re.MULTILINE)
    return [line for command, meaning in found for line in _entry(_roff(command), _plain(meaning))]


def _entry(term: str, meaning: str) -> list[str]:
    return [".TP", term, _roff(meaning)]


def _plain(markdown: str) -> str:
    """Return a cell without the marks of code and links."""
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", markdown.replace("`", "")).replace("&#124;", "|")


def _roff(words: str) -> str:
    """Return the words as lines of text: nothing in them is a request or an escape."""
    lines = textwrap.wrap(words, 72, break_long_words=False, break_on_hyphens=False)
    escaped = (line.replace("\\", "\\e").replace("-", "\\-") for line in lines)
    return "\n".join(f"\\&{line}" if line[0] in ".'" else line for line in escaped)
