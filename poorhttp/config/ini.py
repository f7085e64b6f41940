"""The ini file: its lines, its sections, and the names that older versions had.

Knows the syntax `key = value`. Does not know whether a value is right. The first fault is a ConfigError with the name
of the file and the number of the line.
"""

from __future__ import annotations

from poorhttp.config.given import check_characters, quoted, unknown
from poorhttp.config.settings import (
    ENVIRON,
    MIME_TYPES,
    OLD_KEYS,
    OPTIONS,
    SECTION,
    SETTINGS,
    UNUSED_KEYS,
    UNUSED_SECTIONS,
)
from poorhttp.errors import ConfigError
from poorhttp.stdlib import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from poorhttp.config.given import Layer

SIZE_LIMIT = 1 << 20
"""Bytes: a wrong name (a device, a log) is not read beyond this."""

OF_REQUEST = frozenset(
    [
        "REQUEST_METHOD",
        "SCRIPT_NAME",
        "PATH_INFO",
        "QUERY_STRING",
        "REQUEST_URI",
        "CONTENT_TYPE",
        "CONTENT_LENGTH",
        "SERVER_NAME",
        "SERVER_PORT",
        "SERVER_PROTOCOL",
        "SERVER_SOFTWARE",
        "SERVER_ADMIN",
        "REMOTE_ADDR",
        "REMOTE_PORT",
    ]
)
"""Keys that the server sets in the environ of each request (PEP 3333, "environ Variables"), so [environ] may not."""

TOKEN = frozenset("!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
"""Characters of a name in a field (RFC 9110 section 5.6.2)."""


class IniFile:
    """An ini file, read and sorted; empty if its name is "". given: the settings. free: the sections whose keys the
    user chooses, by name. notes: what to tell the user.
    """

    def __init__(self, name: str, directory: str) -> None:
        self.name = name
        self.path = os.path.join(directory, name)
        self.directory = os.path.dirname(os.path.normpath(self.path)) if name else directory
        self.given: Layer = {}
        self.free: dict[str, dict[str, str]] = {OPTIONS: {}, ENVIRON: {}, MIME_TYPES: {}}
        self.notes: list[str] = []
        self._places: dict[tuple[str, str], str] = {}
        if name:
            for section, key, text, where in self._entries():
                self._enter(section, key, text, where)

    def _entries(self) -> Iterator[tuple[str, str, str, str]]:
        """Yield section, key, text and place of each entry."""
        section = ""
        for number, raw in enumerate(text_of(self.path, self.name).split("\n"), 1):
            line, where = raw.strip(), f"{self.name}:{number}"
            if not line or line[0] in "#;":
                continue
            if raw[0].isspace():
                raise ConfigError(f"{where}: an indented line", "begin each line `key = value` at the left margin")
            if line[0] == "[":
                section = self._section(line, where)
                continue
            separator = min((line.find(each) for each in "=:" if each in line), default=0)
            if not section and self.name.endswith(".py"):
                what = f"{self.name} is a file of Python, and poorhttp reads its settings from an ini file"
                hint = "poorhttp --dump-config > poorhttp.ini writes one to start with"
                raise ConfigError(what, hint, self._explained("gunicorn"))
            if not section or separator < 1:
                missing = "a section such as [http] before" if not section else "`key = value` instead of"
                key, _, text = line.partition(" ")
                is_setting = section == SECTION and key in SETTINGS and text
                hint = f"write {key} = {text.strip()}" if is_setting else "a comment begins with #"
                raise ConfigError(f"{where}: expected {missing} {quoted(line)}", hint)
            yield section, line[:separator].strip(), line[separator + 1 :].strip(), where

    def _section(self, line: str, where: str) -> str:
        section = line[1:-1].strip()
        old = [each for each, _ in OLD_KEYS if each != SECTION]
        if line[-1] != "]" or section not in (SECTION, *self.free, *old, *UNUSED_SECTIONS):
            error = unknown(f"{where}: section", line, (f"[{each}]" for each in (SECTION, *self.free)))
            error.detail = self._explained("uWSGI") if section == "uwsgi" else ""
            raise error
        if section in UNUSED_SECTIONS:
            self.notes.append(f"{where}: section [{section}] is not used")
        return section

    def _explained(self, server: str) -> str:
        """Return what the settings in this file of another server are here."""
        from poorhttp.config.other_servers import explained

        return explained(text_of(self.path, self.name), server)

    def _enter(self, section: str, key: str, text: str, where: str) -> None:
        if section in UNUSED_SECTIONS:
            return
        if section != ENVIRON:
            key = key.lower()
        name = OLD_KEYS.get((section, key), key)
        first = self._places.setdefault((section if section in self.free else SECTION, name), where)
        if first != where:
            hint = "write both into one line, separated by a comma" if name == "bind" else "remove one of the two lines"
            raise ConfigError(f"{where}: {key} is set already at {first}", hint)
        if section in self.free:
            self.free[section][key] = free_text(section, key, text, where)
        elif key in UNUSED_KEYS.get(section, ()):
            self.notes.append(f"{where}: {key} is not used")
        elif (section, key) in OLD_KEYS or (section == SECTION and key in SETTINGS):
            if section != SECTION:
                self.notes.append(f"{where}: {key} of [{section}] is an old name; now it is {name} in [{SECTION}]")
            self.given[name] = (text, where, self.directory)
        else:
            raise unknown(f"{where}: key in [{section}]", key, SETTINGS)


def text_of(path: str, name: str) -> str:
    """Return the text of an ini file; name: how the user wrote its path. Raises ConfigError."""
    try:
        with open(path, "rb") as file:
            data = file.read(SIZE_LIMIT + 1)
    except OSError as error:
        hint = "is the path right, and may this user read it?"
        if isinstance(error, FileNotFoundError):
            hint = "poorhttp --dump-config > poorhttp.ini writes one to start with"
        elif isinstance(error, IsADirectoryError):
            hint = "name the ini file in it"
        raise ConfigError(f"cannot read {path}: {error.strerror}", hint) from None
    if len(data) > SIZE_LIMIT:
        raise ConfigError(f"{path} is larger than {SIZE_LIMIT} bytes", "is it an ini file?")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{name}:{number}: not UTF-8 text", "save the file as UTF-8") from None


def free_text(section: str, key: str, text: str, where: str) -> str:
    """Return the text of a key in OPTIONS or ENVIRON, checked. Raises ConfigError."""
    check_characters(key, where)
    check_characters(text, f"{where}: {key}")
    if section == ENVIRON and (not key or "=" in key or key.startswith(("wsgi.", "poorhttp."))):
        hint = "the server sets the names wsgi.* and poorhttp.*"
        raise ConfigError(f"{where}: [{ENVIRON}] cannot set {quoted(key)}", hint)
    if section == ENVIRON and (key in OF_REQUEST or key.startswith("HTTP_")):
        raise ConfigError(f"{where}: [{ENVIRON}] cannot set {key}", "the server sets this name for each request")
    if section == MIME_TYPES:
        _check_type(key, text, where)
    return text


def _check_type(ending: str, kind: str, where: str) -> None:
    """Raises ConfigError for what is no ending of a file name, or no media type (RFC 9110 section 8.3.1)."""
    hint = f"an entry of [{MIME_TYPES}] is such as: txt = text/plain"
    if not ending or not ending.isprintable() or any(char in "./ " for char in ending):
        raise ConfigError(f"{where}: expected the ending of a file name, without a dot, not {quoted(ending)}", hint)
    names = kind.partition(";")[0].strip().split("/")
    if len(names) != 2 or not all(names) or not TOKEN.issuperset("".join(names)) or not kind.isascii():
        raise ConfigError(f"{where}: expected a media type for {ending}, not {quoted(kind)}", hint)
