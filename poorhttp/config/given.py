"""A value as it was written somewhere, the check of it, and the errors about it.

Knows that a text comes with its source and the directory of its relative paths. Does not know which source wins. No
text with control characters gets through; an error quotes at most 100 characters.
"""

from __future__ import annotations

from poorhttp.config.commands import dashed
from poorhttp.config.settings import SETTINGS
from poorhttp.config.units import Choice
from poorhttp.errors import ConfigError, suggestion

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from poorhttp.config.settings import Setting

    Given = tuple[str, str, str]
    """A value as it was written: text, source, directory from which relative paths are taken."""
    Layer = dict[str, Given]
    """The values of one source: setting -> value."""


def parse(setting: Setting, given: Given) -> Any:
    """Return the value of a setting. Raises ConfigError."""
    text, source, directory = given
    check_characters(text, f"{source}: {setting.name}")
    try:
        return setting.unit.parse(text, directory)
    except ValueError as expected:
        hint = f"{setting.name}: {setting.help} (default: {setting.shown_default or 'empty'})"
        if " #" in text or " ;" in text:
            hint = "a comment has a line of its own"
        elif isinstance(setting.unit, Choice):
            from poorhttp.config.other_servers import VALUES

            hint = VALUES.get((setting.name, text)) or suggestion(text.lower(), setting.unit.names, hint)
        raise ConfigError(f"{source}: {setting.name} must be {expected}, not {quoted(text)}", hint) from None


def check_characters(text: str, where: str) -> None:
    """Raises ConfigError if the text has control characters or line separators of Unicode."""
    if any(char < " " or "\x7f" <= char <= "\x9f" or char in "\u2028\u2029" for char in text):
        raise ConfigError(f"{where}: control characters in {quoted(text)}", "remove them")


def unknown(what: str, word: str, names: Iterable[str]) -> ConfigError:
    """Return the error for a name that is not among `names`; what: `[place: ]kind of name[ in a section]`."""
    from poorhttp.config.other_servers import answer

    place, colon, kind = what.rpartition(": ")
    option = word if word.startswith("--") else word[:2] if word.startswith("-") else word
    written = {name: dashed(name) if word.startswith("-") else name for name in SETTINGS}
    hint = answer(option, written) or suggestion(
        word, names, "poorhttp --help lists the settings, poorhttp --dump-config prints them as an ini file"
    )
    return ConfigError(f"{place}{colon}unknown {kind}: {quoted(word)}", hint)


def quoted(text: str) -> str:
    """Return the text in quotes, cut if it is long."""
    return repr(text if len(text) <= 100 else f"{text[:97]}...")
