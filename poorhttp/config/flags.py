"""The command line, taken apart: a command, its options, and settings as texts.

Knows the syntax of flags and arguments. Does not know whether a value is right (`reading`).
"""

from __future__ import annotations

from poorhttp.config.commands import (
    ABOUT,
    ACTIONS,
    ALIASES,
    COMMAND_OPTIONS,
    COMMANDS,
    DEV,
    FLAGS,
    MAKING,
    PURGE,
    SHORT,
    SWITCHES,
    SWITCHES_OF_DEV,
    WITH_WAIT,
    dashed,
)
from poorhttp.config.given import quoted, unknown
from poorhttp.config.settings import SETTINGS
from poorhttp.config.units import WORDS, Seconds
from poorhttp.errors import ConfigError, suggestion
from poorhttp.stdlib import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from poorhttp.config.given import Layer


class Flags:
    """What the command line says. command: one of COMMANDS, MAKING or ACTIONS, or "". topic: the action that help is
    asked for. config: the ini file. given: the settings. is_dev: whether `dev` is named, also if it is only to be
    printed or checked. json, watch: for status. wait: seconds, 0 if not given. live, public: for dev and autoreload.
    """

    __slots__ = ("command", "config", "given", "is_dev", "json", "live", "public", "topic", "wait", "watch")

    def __init__(self) -> None:
        self.command = self.topic = ""
        self.config = ""
        self.json = self.watch = self.live = self.public = self.is_dev = False
        self.wait = 0.0
        self.given: Layer = {}


def parse_flags(argv: Sequence[str], directory: str) -> Flags:
    """Take the command line (without the program) apart. directory: the current one. Raises ConfigError."""
    flags, words = Flags(), list(reversed(argv))
    while words:
        word = words.pop()
        if word == "--":
            for each in reversed(words):
                _take_argument(flags, each, directory)
            break
        if word.startswith("-") and word != "-":
            _take_flag(flags, word, words, directory)
        else:
            _take_argument(flags, word, directory)
    command = flags.topic or flags.command
    of_status = flags.json or flags.watch
    if (of_status and command != "status") or (flags.wait and command not in WITH_WAIT):
        raise ConfigError("--json and --watch are for status, --wait for start, restart and reload", "poorhttp --help")
    for name in SWITCHES_OF_DEV if flags.is_dev else ():
        flags.given.setdefault(name, ("yes", f"command {DEV}", directory))
    if command == "init" and (flags.config or flags.given.keys() - {"application"}):
        raise ConfigError("init takes a directory, and no settings", "write settings into its poorhttp.ini afterwards")
    return flags


def _take_argument(flags: Flags, word: str, directory: str) -> None:
    """Read a word that is no flag: a command, or APP."""
    if word in (*ACTIONS, *MAKING) and not flags.command and "application" not in flags.given:
        flags.command, flags.is_dev = word, word == DEV
        return
    if "application" in flags.given:
        if flags.command == "init":
            raise ConfigError(f"init takes one directory, and {word!r} is a second one", "poorhttp init [DIRECTORY]")
        first, source, _ = flags.given["application"]
        commands = (*ACTIONS, *MAKING) if source == "argument" and first.isalpha() else ()
        hint = suggestion(first, commands, "poorhttp serves one: [APP] [options]")
        if first == PURGE[0]:
            hint = f"did you mean poorhttp {' '.join(PURGE)} ADDRESS?"
        raise ConfigError(f"two applications are named, {first!r} and {word!r}", hint)
    if word.endswith(".ini") and os.path.isfile(os.path.join(directory, word)):
        raise ConfigError(f"{quoted(word)} is an ini file, not an application", f"write -c {word}")
    source = f"argument of {flags.command}" if flags.command in (*ACTIONS, *MAKING) else "argument"
    flags.given["application"] = (word, source, directory)


def _take_flag(flags: Flags, word: str, words: list[str], directory: str) -> None:
    """Read one flag; `words` holds the rest of the command line, last word first, for its value."""
    name, value = _split(word)
    if name == "config":
        flags.config = _value(word, value, words, "FILE")
        if not flags.config:  # probably a variable of the shell that is not set; the user would miss the settings
            raise ConfigError("flag --config must be the path of an ini file, not ''", "leave the flag out for no file")
    elif name == "wait":
        text = _value(word, value, words, "SECONDS")
        try:
            flags.wait = Seconds(low=0.1).parse(text)
        except ValueError as expected:
            hint = COMMAND_OPTIONS["wait"][1]
            raise ConfigError(f"flag --wait must be {expected}, not {quoted(text)}", hint) from None
    elif name in SETTINGS:
        setting = SETTINGS[name]
        value = _switch(word, value, words) if name in SWITCHES else _value(word, value, words, setting.unit.metavar)
        if name == "bind" and name in flags.given:
            value = f"{flags.given[name][0]}, {value}"
        flags.given[name] = (value, f"flag {setting.flag}", directory)
    elif value is not None:
        raise ConfigError(f"{word!r}: this flag takes no value", "poorhttp --help lists the flags")
    elif name in COMMAND_OPTIONS:
        setattr(flags, name, True)
    elif name in COMMANDS:
        _take_command(flags, name, word)
    else:
        name = name.removeprefix("no_")
        flags.given[name] = ("no", f"flag --no-{name}", directory)


def _take_command(flags: Flags, name: str, word: str) -> None:
    if name == "help" and flags.command in ACTIONS:
        flags.command, flags.topic = name, flags.command
    elif flags.command in ("", DEV) or name in ABOUT:
        flags.command = name
    elif flags.command not in (name, *ABOUT):
        before = flags.command.replace("_", "-")
        raise ConfigError(f"{word} is a second command, after {before}", "give them one at a time")


def _split(word: str) -> tuple[str, str | None]:
    """Return the name of a known flag and the value written in the same word, None if there is none."""
    if not word.startswith("--"):
        name, value = SHORT.get(word[1], ""), word[2:] or None
    else:
        flag, sign, text = word[2:].partition("=")
        name, value = flag.replace("-", "_"), text if sign else None
    if name not in FLAGS:
        raise unknown("flag", word.partition("=")[0], map(dashed, FLAGS))
    return ALIASES.get(name, name), value


def _value(word: str, value: str | None, words: list[str], metavar: str) -> str:
    if value is not None:
        return value
    if not words or _is_flag(words[-1]):
        raise ConfigError(f"{word} needs a value", f"write {word} {metavar}")
    return words.pop()


def _is_flag(word: str) -> bool:
    """Whether a word is a flag: `-` is a standard stream, and a negative number is a bad value."""
    return word.startswith("-") and word != "-" and word[1] not in "0123456789."


def _switch(word: str, value: str | None, words: list[str]) -> str:
    """Return the value of a flag for yes or no. It stands in the same word, for the next word may be APP."""
    if value is None and words and words[-1].lower() in WORDS:
        hint = f"write {word}, or {dashed(_split(word)[0])}={words[-1]}"
        raise ConfigError(f"{word} takes no value in a word of its own: {words[-1]!r}", hint)
    return "yes" if value is None else value
