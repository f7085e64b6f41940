"""The settings as text: help, ini file, and what `--print-config` shows.

Knows how these look. Does not know what any setting means: its help stands beside its declaration (`settings`).
"""

from __future__ import annotations

from poorhttp.config.commands import (
    ACTIONS,
    COMMAND_OPTIONS,
    COMMANDS,
    MAKING,
    PURGE,
    PURGING,
    SHORT,
    STORE_VARIABLE,
    dashed,
)
from poorhttp.config.ini import IniFile
from poorhttp.config.reading import choose, import_directory
from poorhttp.config.settings import ENVIRON, GROUPS, MIME_TYPES, OPTIONS, PREFIX, SECTION, SETTINGS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from poorhttp.config.flags import Flags
    from poorhttp.config.model import Config
    from poorhttp.config.settings import Setting

INI_SYNTAX = (
    "A comment has a line of its own.",
    "Relative paths start from the directory of this file;"
    " the path of the application starts from chdir, if that is set.",
    "Times are in seconds, or 250ms, 2m, 1h. Sizes are in bytes, or 64k, 1m, 1g.",
)

INI_HEAD = f"""\
# Settings of poorhttp. Written by `poorhttp --dump-config`, read by `poorhttp -c poorhttp.ini`.
# Each value is the default, unless its comment names another default. {INI_SYNTAX[0]}
# {INI_SYNTAX[1]}
# {INI_SYNTAX[2]}

[{SECTION}]"""


USAGE = (
    "[-c FILE] [APP] [options]",
    "init [DIRECTORY]",
    "dev|check [-c FILE] [APP] [options]",
    f"{'|'.join(ACTIONS)} -c FILE",
    f"{' '.join(PURGE)} [ADDRESS]",
)
"""The forms of the command line, after the name of the program."""

HEADINGS = {"While you write your program": MAKING, "With a pidfile": ACTIONS}
"""When a command is of use -> the commands."""


def help_text(action: str = "") -> str:
    """Return what `--help` prints, or what it prints for one of ACTIONS."""
    if action:
        return _help_of(action)
    lines = [f"{'usage:' if form == USAGE[0] else '      '} poorhttp {form}" for form in USAGE]
    lines += ["", f"APP: {SETTINGS['application'].help}", ""]
    for when, commands in HEADINGS.items():
        lines += [f"{when}:", *(f"  {name.ljust(12)}{text}" for name, text in commands.items()), ""]
    lines += ["With a store of sessions, named by ADDRESS or the variable " + STORE_VARIABLE + ":"]
    lines += [f"  {' '.join(PURGE)}: {PURGING}", ""]
    lines += ["Without one of these words poorhttp serves in the foreground.", ""]
    lines.append(_help_line("c", "--config", "FILE", "read this ini file"))
    shorts = {name: short for short, name in SHORT.items()}
    lines += [_help_line(shorts.get(name, ""), dashed(name), "", text) for name, text in COMMANDS.items()]
    lines += [_help_line("", dashed(name), metavar, text) for name, (metavar, text) in COMMAND_OPTIONS.items()]
    for group, settings in groups():
        lines += ["", f"{group}:"]
        for each in settings:
            default = f" [{each.shown_default}]" if each.shown_default else ""
            lines.append(_help_line(each.short, each.flag, each.unit.metavar, each.help + default))
    lines += [
        "",
        f"Each setting is also a variable ({PREFIX}PORT) and a key of the ini file (port).",
        "A flag overrides a variable, and a variable overrides the ini file.",
    ]
    return "\n".join(lines) + "\n"


def _help_of(action: str) -> str:
    arguments = "[-c FILE] [APP] [options]" if action in ("start", "restart") else "-c FILE"
    lines = [f"usage: poorhttp {action} {arguments}", "", f"{ACTIONS[action]}.", ""]
    lines.append(_help_line("c", "--config", "FILE", "the ini file, which names the pidfile; or:"))
    lines.append(_help_line("p", "--pidfile", "FILE", SETTINGS["pidfile"].help))
    for name, (metavar, text) in COMMAND_OPTIONS.items():
        commands, _, meaning = text.partition(": ")
        if action in commands.split(", "):
            lines.append(_help_line("", dashed(name), metavar, meaning))
    return "\n".join([*lines, "", "poorhttp --help lists the other options.", ""])


def _help_line(short: str, flag: str, metavar: str, text: str) -> str:
    left = f"  -{short}, " if short else "      "
    return f"{left}{flag} {metavar} ".ljust(34) + text


def groups() -> Iterator[tuple[str, list[Setting]]]:
    """Yield each group of settings with its name, in the order of their declaration."""
    settings = list(SETTINGS.values())
    starts = [settings.index(SETTINGS[first]) for first in GROUPS.values()]
    ends = [*starts[1:], len(settings)]
    return ((name, settings[start:end]) for name, start, end in zip(GROUPS, starts, ends, strict=True))


def ini_text(flags: Flags, environ: Mapping[str, str], directory: str) -> str:
    """Return what `--dump-config` prints: an ini file for the current directory. Raises ConfigError. A value is written
    as it was given; one from an ini file in another directory is written with absolute paths.
    """
    ini = IniFile(flags.config, directory)
    chosen = choose(ini, flags, environ, directory)
    lines = [INI_HEAD]
    for group, settings in groups():
        lines += ["", f"# {group.capitalize()}"]
        for each in settings:
            text = each.shown_default
            if each.name in chosen:
                value, (written, _, place) = chosen[each.name]
                is_in_chdir = each.name == "application" and place == import_directory(chosen, "")
                text = written if place == directory or is_in_chdir else each.unit.show(value)
            default = f" (default: {each.shown_default or 'empty'})" if text != each.shown_default else ""
            lines += ["", f"# {each.help}{default}", f"{each.name} = {text}".rstrip()]
    lines += [
        "",
        f"[{MIME_TYPES}]",
        "# Media types of files in document that are not known, such as: blend = application/x-blender",
    ]
    lines += _pairs(ini.free[MIME_TYPES])
    lines += ["", f"[{OPTIONS}]", "# Any keys, in lower case: the application gets them from req.get_options()."]
    lines += _pairs(ini.free[OPTIONS])
    lines += ["", f"[{ENVIRON}]", "# Names that no request has: added to os.environ and to each WSGI environ."]
    lines += _pairs(ini.free[ENVIRON])
    return "\n".join(lines) + "\n"


def config_text(config: Config) -> str:
    """Return what `--print-config` prints: each value in ini syntax, with its source. The values of [application] and
    [environ] are left out: they may be passwords, and users show this output to others.
    """
    lines = [f"[{SECTION}]"]
    for name, setting in SETTINGS.items():
        text = f"{name} = {setting.unit.show(getattr(config, name))}"
        lines.append(f"{text:<40}  # {config.sources[name]}")
    lines += ["", f"[{MIME_TYPES}]", *_pairs(config.mime_types)]
    lines += ["", f"[{OPTIONS}]", *_pairs(dict.fromkeys(config.options, "***"))]
    lines += ["", f"[{ENVIRON}]", *_pairs(dict.fromkeys(config.environ, "***"))]
    return "\n".join(lines) + "\n"


def _pairs(pairs: Mapping[str, str]) -> list[str]:
    return [f"{key} = {text}".rstrip() for key, text in pairs.items()]
