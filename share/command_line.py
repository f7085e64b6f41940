"""The command line as data: each flag with its value and its help. Each file of this folder is written from it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from poorhttp.config import printing
from poorhttp.config.commands import ACTIONS, COMMAND_OPTIONS, COMMANDS, MAKING, PURGE, PURGING, SHORT, dashed
from poorhttp.config.settings import Setting
from poorhttp.config.units import Choice, Names, Switch

INI, PATH, DIRECTORY, APPLICATION, USER, GROUP = "ini", "path", "directory", "application", "user", "group"
"""What a value is, where a shell can complete it."""

KINDS = {"FILE": PATH, "DIRECTORY": DIRECTORY, "APP": APPLICATION}
OF_SYSTEM = {"user": USER, "group": GROUP}

WORDS = MAKING | ACTIONS | {PURGE[0]: f"{PURGE[1]}: {PURGING}"}
"""What may be the first word of a command line instead of APP, and what it does."""

LETTERS = {name: letter for letter, name in SHORT.items()}


class Flag(NamedTuple):
    """A flag of the command line. short: its letter, or "". metavar: placeholder of the value, "" if there is none.
    default: as a user writes it, or "". kind: what the value is, or "". words: the values, if there are only these.
    is_switch: whether --no-NAME is a flag too.
    """

    name: str
    short: str
    metavar: str
    help: str
    default: str = ""
    kind: str = ""
    words: tuple[str, ...] = ()
    is_switch: bool = False


def groups() -> Iterator[tuple[str, list[Flag]]]:
    """Yield each group of flags with its name, in the order of `--help`."""
    first = [Flag("--config", LETTERS["config"], "FILE", "read this ini file", kind=INI)]
    first += [Flag(dashed(name), LETTERS.get(name, ""), "", text) for name, text in COMMANDS.items()]
    first += [Flag(dashed(name), "", metavar, text) for name, (metavar, text) in COMMAND_OPTIONS.items()]
    yield "", first
    for group, settings in printing.groups():
        yield group, list(map(_flag, settings))


def _flag(setting: Setting) -> Flag:
    unit = setting.unit
    words: tuple[str, ...] = ()
    if isinstance(unit, Choice):
        words = unit.names
    elif isinstance(unit, Names):
        words = (*unit.also, unit.alone, *unit.names)
    kind = OF_SYSTEM.get(setting.name) or KINDS.get(unit.metavar, "")
    is_switch = isinstance(unit, Switch)
    return Flag(setting.flag, setting.short, unit.metavar, setting.help, setting.shown_default, kind, words, is_switch)


def flags() -> list[Flag]:
    """Return all flags, in the order of `--help`."""
    return [flag for _, group in groups() for flag in group]
