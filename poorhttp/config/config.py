"""argv + environment + ini file + defaults -> one frozen `Config`; and the declarations as help, ini file and table.

Knows the syntax of the command line, of the variables and of the ini file, and their precedence. Does not know what a
setting is for, nor whether a file, an address or an application exists.
Contract: every value that is given anywhere is checked, the first fault is a ConfigError with its place; nothing is
read that was not named; no text with control characters gets through.
"""

from __future__ import annotations

from poorhttp.config.settings import (
    ENVIRON,
    IS_TRIAL,
    OLD_KEYS,
    OPTIONS,
    PREFIX,
    PRESETS,
    SECTION,
    SETTINGS,
    UNUSED_KEYS,
    UNUSED_SECTIONS,
    Settings,
)
from poorhttp.config.units import WORDS, Address, Choice, Seconds, Span, Switch, split_port
from poorhttp.errors import ConfigError, nearest, suggestion
from poorhttp.stdlib import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any, NoReturn, TypeVar

    Self = TypeVar("Self", bound="Config")

    from poorhttp.config.settings import Setting

    Given = tuple[str, str, str]
    """A value as it was written: text, source, directory from which relative paths are taken."""
    Layer = dict[str, Given]
    Chosen = dict[str, tuple[Any, Given]]
    """Of each setting that is given somewhere its value, and the writing that won."""

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
"""What the server puts into each environ (PEP 3333, "environ Variables"); set in [environ], it would be lost."""

COMMANDS = {
    "help": "show this help",
    "version": "show the version",
    "check_config": "check the settings and load APP, then say ok or what is wrong",
    "print_config": "show each setting with its value and where that came from",
    "print_lighttpd": "write a configuration of lighttpd as the proxy in front",
    "print_nginx": "the same of nginx",
    "print_haproxy": "the same of HAProxy",
    "dump_config": "write an ini file with every setting, given or default, to standard output",
}
ABOUT = ("help", "version")
"""Commands that are answered whatever else is asked for."""
ACTIONS = {
    "start": "serve in the background; it is there when this returns",
    "stop": "finish what is in flight, then end",
    "restart": "try to start, and where that can be: stop, then start",
    "reload": "try the new code and configuration, then take them",
    "status": "whether it runs, since when, its workers, what they do and their memory",
    "logrotate": "open the logs anew, after they were renamed",
}
SHORT = {"c": "config", "h": "help", "v": "version"} | {
    each.short: name for name, each in SETTINGS.items() if each.short
}
SWITCHES = [name for name, each in SETTINGS.items() if isinstance(each.unit, Switch)]
DEV = "dev"
MAKING = {
    "init": "write a first dispatch_table.py and poorhttp.ini into a directory",
    DEV: "serve it, on this machine alone, again after each save; pages tell what went wrong",
    "check": "settings, addresses and logs; load APP, ask it for / by the letter of PEP 3333, then say ok",
}
"""Commands while the program is being written."""
OF_DEV = {"request_timeout": 0.0, "slow_request": 0.0, "graceful_timeout": 5.0}
"""What DEV sets where nobody else does; a debugger is to wait for its user as long as he wants."""
MEANT_BY_DEV = ("autoreload", "debug")
"""The switches that DEV sets as their flags would: the ini file for elsewhere serves here too."""
WAITING = ("start", "restart", "reload")
"""Actions that take the time of a load."""
OF_ACTIONS = {
    "json": "status: as JSON",
    "watch": "status: again each second, until q",
    "wait": "start, restart, reload: for so many seconds at most [60]",
    "public": "dev, --reload --debug: also on an address that others can reach",
    "live": "dev, --reload: browsers load html again by themselves, for css its style sheets",
}
ALIASES = {"reload": "autoreload", "no_reload": "no_autoreload"}
FLAGS = ["config", *OF_ACTIONS, *COMMANDS, *SETTINGS, *(f"no_{name}" for name in SWITCHES), *ALIASES]

NOT_OURS = ("POORHTTP_RELOAD_GENERATION", IS_TRIAL)
"""Variables with our prefix that are no settings: set for the application, so they may be inherited."""

NEEDED = ("pidfile", "graceful_timeout")
"""What a command about a running server has to know."""

INI_LIMIT = 1 << 20
"""Bytes. An ini file is written by hand; this bounds what a wrong name (a device, a log) can do."""


class Config(Settings):
    """What the command line, the environment, the ini file and the defaults say together. Frozen.

    One attribute for each setting (`processes` and `threads` resolved, paths absolute), and:
    addresses: where to listen. options: what `req.get_options()` returns. environ: for os.environ and WSGI.
    ini: the file that was read, absolute, or "". directory: of that, or the current one. import_directory: where a
    module of `application` is looked for; that is `chdir` without symbolic links, where it is set.
    sources: setting -> where its value came from. notes: what to tell the user at the start.
    """

    addresses: tuple[Address, ...]
    options: dict[str, str]
    environ: dict[str, str]
    ini: str
    directory: str
    import_directory: str
    sources: dict[str, str]
    notes: tuple[str, ...]

    __slots__ = (
        *SETTINGS,
        "addresses",
        "directory",
        "environ",
        "import_directory",
        "ini",
        "notes",
        "options",
        "sources",
    )

    def __init__(self, values: Mapping[str, Any]) -> None:
        for name in Config.__slots__:
            object.__setattr__(self, name, values[name])

    def but(self: Self, **values: Any) -> Self:
        """The same with other values."""
        other = object.__new__(type(self))
        for name in (*Config.__slots__, *set(type(self).__slots__).difference(Config.__slots__)):
            object.__setattr__(other, name, values.get(name, getattr(self, name)))
        return other

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"Config is frozen: {name} cannot be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"Config is frozen: {name} cannot be deleted")


class Flags:
    """The command line, taken apart: `command` (of COMMANDS, MAKING or ACTIONS, or ""), `config` (the ini file or ""),
    values; `json` and `watch` for status, `wait` for start (seconds, 0: not given), `topic` for help (one of ACTIONS,
    or ""), `live` and `public` for dev and autoreload; `is_dev`: also where `dev` is only to be printed or checked.
    """

    __slots__ = ("command", "config", "given", "is_dev", "json", "live", "public", "topic", "wait", "watch")

    def __init__(self) -> None:
        self.command = self.topic = ""
        self.config = ""
        self.json = self.watch = self.live = self.public = self.is_dev = False
        self.wait = 0.0
        self.given: Layer = {}


def read(flags: Flags, environ: Mapping[str, str], directory: str) -> Config:
    """Return the configuration. directory: the current one, absolute. Raises ConfigError."""
    ini = _Ini(flags.config, directory)
    settings = _merge(ini, _chosen(ini, flags, environ, directory), OF_DEV if flags.is_dev else None)
    if (flags.live or flags.public) and not flags.is_dev and not settings.autoreload:
        raise ConfigError("--live and --public are for dev and --reload", "elsewhere an address alone makes it public")
    return settings


def read_roughly(flags: Flags, environ: Mapping[str, str], directory: str) -> Config:
    """The configuration as far as it can be understood, for a command about a server that runs already: a mistake
    elsewhere does not keep anybody from stopping it. Raises ConfigError where even its pidfile is not to be found.
    """
    ini = _Ini("", directory)
    if flags.config:
        ini.name, ini.path = flags.config, os.path.join(directory, flags.config)
        ini.directory = os.path.dirname(os.path.normpath(ini.path))
        for line in ini.read().split("\n"):
            key, _, text = line.partition("=" if "=" in line else ":")
            if key.strip().lower() in NEEDED:
                ini.given[key.strip().lower()] = (text.strip(), ini.name, ini.directory)
    named = {name: environ[SETTINGS[name].variable] for name in NEEDED if SETTINGS[name].variable in environ}
    ini.given |= {name: (text, SETTINGS[name].variable, directory) for name, text in named.items()}
    ini.given |= {name: given for name, given in flags.given.items() if name in NEEDED}
    chosen = {name: (_parse(SETTINGS[name], given), given) for name, given in ini.given.items()}
    return _merge(ini, chosen)


def from_keywords(settings: Mapping[str, Any], environ: Mapping[str, str], directory: str) -> Config:
    """Return the configuration for `run(app, name=value, ...)`; `config`, `options` and `environ` are allowed too.

    A value is what the setting is, or its text as in the ini file. Raises ConfigError.
    """
    flags, free = Flags(), {OPTIONS: settings.get("options", {}), ENVIRON: settings.get("environ", {})}
    for name, value in settings.items():
        if name == "config":
            flags.config = os.fspath(value)
        elif name in SETTINGS:
            flags.given[name] = (_as_text(value), f"run({name}=...)", directory)
        elif name not in ("options", "environ"):
            raise _unknown("keyword", name, SETTINGS)
    ini = _Ini(flags.config, directory)
    for section, pairs in free.items():
        for key, text in pairs.items():
            ini.free[section][key] = _free(section, key, str(text), f"run({section}=...)")
    return _merge(ini, _chosen(ini, flags, environ, directory))


# Command line


def parse_flags(argv: Sequence[str], directory: str) -> Flags:
    """Take the command line (without the program) apart. Raises ConfigError."""
    flags, words = Flags(), list(reversed(argv))
    while words:
        word = words.pop()
        if word == "--":
            for each in reversed(words):
                _argument(flags, each, directory)
            break
        if word.startswith("-") and word != "-":
            _flag(flags, word, words, directory)
        else:
            _argument(flags, word, directory)
    command = flags.topic or flags.command
    of_status = flags.json or flags.watch
    if (of_status and command != "status") or (flags.wait and command not in WAITING):
        raise ConfigError("--json and --watch are for status, --wait for start, restart and reload", "poorhttp --help")
    for name in MEANT_BY_DEV if flags.is_dev else ():
        flags.given.setdefault(name, ("yes", f"command {DEV}", directory))
    if command == "init" and (flags.config or flags.given.keys() - {"application"}):
        raise ConfigError("init takes a directory, and no settings", "they go into the poorhttp.ini that it writes")
    return flags


def _argument(flags: Flags, word: str, directory: str) -> None:
    if word in (*ACTIONS, *MAKING) and not flags.command and "application" not in flags.given:
        flags.command, flags.is_dev = word, word == DEV
        return
    if "application" in flags.given:
        if flags.command == "init":
            raise ConfigError(f"init takes one directory, and {word!r} is a second one", "poorhttp init [DIRECTORY]")
        first, source, _ = flags.given["application"]
        commands = (*ACTIONS, *MAKING) if source == "argument" and first.isalpha() else ()
        hint = suggestion(first, commands, "poorhttp serves one: [APP] [options]")
        raise ConfigError(f"two applications are named, {first!r} and {word!r}", hint)
    if word.endswith(".ini") and os.path.isfile(os.path.join(directory, word)):
        raise ConfigError(f"{_quoted(word)} is an ini file, not an application", f"write -c {word}")
    source = f"argument of {flags.command}" if flags.command in (*ACTIONS, *MAKING) else "argument"
    flags.given["application"] = (word, source, directory)


def _flag(flags: Flags, word: str, words: list[str], directory: str) -> None:
    """Read one flag; `words` holds the rest of the command line, last word first, for its value."""
    name, value = _split_flag(word)
    if name == "config":
        flags.config = _value(word, value, words, "FILE")
        if not flags.config:  # a variable of the shell that is not set; no file would be read, and nobody told
            raise ConfigError("flag --config must be the path of an ini file, not ''", "without one leave it out")
    elif name == "wait":
        text = _value(word, value, words, "SECONDS")
        try:
            flags.wait = Seconds(low=0.1).parse(text)
        except ValueError as expected:
            raise ConfigError(f"flag --wait must be {expected}, not {_quoted(text)}", OF_ACTIONS["wait"]) from None
    elif name in SETTINGS:
        setting = SETTINGS[name]
        value = _switched(word, value, words) if name in SWITCHES else _value(word, value, words, setting.unit.metavar)
        if name == "bind" and name in flags.given:
            value = f"{flags.given[name][0]}, {value}"
        flags.given[name] = (value, f"flag {setting.flag}", directory)
    elif value is not None:
        raise ConfigError(f"{word!r}: this flag takes no value", "poorhttp --help lists the flags")
    elif name in ("json", "live", "public", "watch"):
        setattr(flags, name, True)
    elif name == "help" and flags.command in ACTIONS:
        flags.command, flags.topic = name, flags.command
    elif name in COMMANDS:
        if flags.command in ("", DEV) or name in ABOUT:
            flags.command = name
        elif flags.command not in (name, *ABOUT):
            before = flags.command.replace("_", "-")
            raise ConfigError(f"{word} is a second command, after {before}", "give them one at a time")
    else:
        name = name.removeprefix("no_")
        flags.given[name] = ("no", f"flag --no-{name}", directory)


def _split_flag(word: str) -> tuple[str, str | None]:
    """Return the name of a known flag and the value written in the same word, None where there is none."""
    if not word.startswith("--"):
        name, value = SHORT.get(word[1], ""), word[2:] or None
    else:
        flag, sign, text = word[2:].partition("=")
        name, value = flag.replace("-", "_"), text if sign else None
    if name not in FLAGS:
        raise _unknown("flag", word.partition("=")[0], map(_dashed, FLAGS))
    return ALIASES.get(name, name), value


def _value(word: str, value: str | None, words: list[str], metavar: str) -> str:
    if value is not None:
        return value
    if not words or _is_flag(words[-1]):
        raise ConfigError(f"{word} needs a value", f"write {word} {metavar}")
    return words.pop()


def _is_flag(word: str) -> bool:
    """Whether this is no value: `-` is a standard stream, and a number below zero is a bad value, not a flag."""
    return word.startswith("-") and word != "-" and word[1] not in "0123456789."


def _switched(word: str, value: str | None, words: list[str]) -> str:
    """The value of a flag for yes or no, which is in the same word or left out; the next one would be taken for APP."""
    if value is None and words and words[-1].lower() in WORDS:
        hint = f"write {word}, or {_dashed(_split_flag(word)[0])}={words[-1]}"
        raise ConfigError(f"{word} takes no value in a word of its own: {words[-1]!r}", hint)
    return "yes" if value is None else value


# Environment


def _from_environment(environ: Mapping[str, str], directory: str, notes: list[str]) -> Layer:
    """Return what the variables set. One that is nearly a setting is refused, another with our prefix is noted only:
    it may be somebody else's, such as those that Kubernetes makes for a service called poorhttp.
    """
    layer: Layer = {}
    variables = {each.variable: name for name, each in SETTINGS.items()}
    for variable, text in environ.items():
        if variable in variables:
            layer[variables[variable]] = (text, variable, directory)
        elif variable.startswith(PREFIX) and variable not in NOT_OURS:
            near = nearest(variable.removeprefix(PREFIX).lower(), SETTINGS)
            if near:
                raise ConfigError(f"unknown variable: {_quoted(variable)}", f"did you mean {SETTINGS[near].variable}?")
            notes.append(f"the variable {variable} is no setting; not used")
    return layer


# Ini file


class _Ini:
    """An ini file, read and sorted; with "" as its name, an empty one."""

    def __init__(self, name: str, directory: str) -> None:
        self.name = name
        self.path = os.path.join(directory, name)
        self.directory = os.path.dirname(os.path.normpath(self.path)) if name else directory
        self.given: Layer = {}
        self.free: dict[str, dict[str, str]] = {OPTIONS: {}, ENVIRON: {}}
        self.notes: list[str] = []
        self._lines: dict[tuple[str, str], str] = {}
        if name:
            for section, key, text, where in self._entries():
                self._enter(section, key, text, where)

    def _entries(self) -> Iterator[tuple[str, str, str, str]]:
        """Yield section, key, text and place of each entry."""
        section = ""
        for number, raw in enumerate(self.read().split("\n"), 1):
            line, where = raw.strip(), f"{self.name}:{number}"
            if not line or line[0] in "#;":
                continue
            if raw[0].isspace():
                raise ConfigError(f"{where}: an indented line", "write one `key = value` on each line, from its margin")
            if line[0] == "[":
                section = self._section(line, where)
                continue
            separator = min((line.find(each) for each in "=:" if each in line), default=0)
            if not section or separator < 1:
                missing = "a section such as [http] before" if not section else "`key = value` instead of"
                key, _, text = line.partition(" ")
                is_meant = section == SECTION and key in SETTINGS and text
                hint = f"write {key} = {text.strip()}" if is_meant else "a comment begins with #"
                raise ConfigError(f"{where}: expected {missing} {_quoted(line)}", hint)
            yield section, line[:separator].strip(), line[separator + 1 :].strip(), where

    def read(self) -> str:
        """The text. Raises ConfigError."""
        try:
            with open(self.path, "rb") as file:
                data = file.read(INI_LIMIT + 1)
        except OSError as error:
            hint = "is the path right, and may this user read it?"
            if isinstance(error, FileNotFoundError):
                hint = "poorhttp --dump-config > poorhttp.ini writes one to start with"
            elif isinstance(error, IsADirectoryError):
                hint = "name the ini file in it"
            raise ConfigError(f"cannot read {self.path}: {error.strerror}", hint) from None
        if len(data) > INI_LIMIT:
            raise ConfigError(f"{self.path} is larger than {INI_LIMIT} bytes", "is it an ini file?")
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            number = data.count(b"\n", 0, error.start) + 1
            raise ConfigError(f"{self.name}:{number}: not UTF-8 text", "save the file as UTF-8") from None

    def _section(self, line: str, where: str) -> str:
        section = line[1:-1].strip()
        old = [each for each, _ in OLD_KEYS if each != SECTION]
        if line[-1] != "]" or section not in (SECTION, OPTIONS, ENVIRON, *old, *UNUSED_SECTIONS):
            raise _unknown(f"{where}: section", line, (f"[{each}]" for each in (SECTION, OPTIONS, ENVIRON)))
        if section in UNUSED_SECTIONS:
            self.notes.append(f"{where}: section [{section}] is not used")
        return section

    def _enter(self, section: str, key: str, text: str, where: str) -> None:
        if section != ENVIRON:
            key = key.lower()
        name = OLD_KEYS.get((section, key), key)
        first = self._lines.setdefault((section if section in self.free else SECTION, name), where)
        if first != where and section not in UNUSED_SECTIONS:
            hint = "write both into one line, separated by a comma" if name == "bind" else "remove one of the two lines"
            raise ConfigError(f"{where}: {key} is set already at {first}", hint)
        if section in self.free:
            self.free[section][key] = _free(section, key, text, where)
        elif section in UNUSED_SECTIONS:
            return
        elif key in UNUSED_KEYS.get(section, ()):
            self.notes.append(f"{where}: {key} is not used")
        elif (section, key) in OLD_KEYS or (section == SECTION and key in SETTINGS):
            if section != SECTION:
                self.notes.append(f"{where}: {key} of [{section}] is an old name; now it is {name} in [{SECTION}]")
            self.given[name] = (text, where, self.directory)
        else:
            raise _unknown(f"{where}: key in [{section}]", key, SETTINGS)


def _free(section: str, key: str, text: str, where: str) -> str:
    _check_characters(key, where)
    _check_characters(text, f"{where}: {key}")
    if section == ENVIRON and (not key or "=" in key or key.startswith(("wsgi.", "poorhttp."))):
        hint = "the names wsgi.* and poorhttp.* belong to the server"
        raise ConfigError(f"{where}: [{ENVIRON}] cannot set {_quoted(key)}", hint)
    if section == ENVIRON and (key in OF_REQUEST or key.startswith("HTTP_")):
        raise ConfigError(f"{where}: [{ENVIRON}] cannot set {key}", "each request has its own")
    return text


# All together


def _chosen(ini: _Ini, flags: Flags, environ: Mapping[str, str], directory: str) -> Chosen:
    """Return what is given and wins. Every value is checked, though another one wins."""
    chosen: Chosen = {}
    for layer in ini.given, _from_environment(environ, directory, ini.notes), flags.given:
        _split_address(layer)
        if ("address" in layer or "port" in layer) and not layer.get("bind", ("",))[0]:
            chosen.pop("bind", None)  # else a weaker bind would win over a stronger port
        chosen.update({name: (_parse(SETTINGS[name], given), given) for name, given in layer.items()})
    if "application" in chosen:
        text, source, directory = chosen["application"][1]
        given = text, source, _place(chosen, directory)
        chosen["application"] = _parse(SETTINGS["application"], given), given
    return chosen


def _place(chosen: Chosen, directory: str) -> str:
    """Where the application is looked for: `chdir`, else a directory. Without symbolic links, one of which may lead to
    another release while the application runs.
    """
    chdir: str = chosen["chdir"][0] if "chdir" in chosen else ""
    try:
        return os.path.realpath(chdir) if chdir else directory
    except OSError:  # a link that this user may not read: going there will say so
        return chdir


def _merge(ini: _Ini, chosen: Chosen, preset: dict[str, Any] | None = None) -> Config:
    """preset: what a command sets in the place of defaults."""
    values = {name: each.default for name, each in SETTINGS.items()} | (preset or {})
    values["import_directory"] = _place(chosen, ini.directory)
    values["application"] = SETTINGS["application"].unit.parse(values["application"], values["import_directory"])
    sources = dict.fromkeys(SETTINGS, "default") | dict.fromkeys(preset or (), f"default of {DEV}")
    for name, (value, (_, source, directory)) in chosen.items():
        values[name], sources[name] = value, source
        if name == "application":
            values["import_directory"] = directory
    _resolve(values, sources)
    values.update(ini=ini.path if ini.name else "", directory=ini.directory, sources=sources, notes=tuple(ini.notes))
    values.update(options=ini.free[OPTIONS], environ=ini.free[ENVIRON])
    return Config(values)


def _split_address(layer: Layer) -> None:
    """An address may carry its port: it then counts as both, of the same source."""
    text, source, directory = layer.get("address", ("", "", ""))
    host, port = split_port(text)
    if port is None or host == "unix":  # a unix socket here is refused by the unit, which says what to do
        return
    if "port" in layer:
        raise ConfigError(f"{source}: address {_quoted(text)} has a port, and port is set too", "remove one of the two")
    layer["address"], layer["port"] = (host, source, directory), (port, source, directory)


def _parse(setting: Setting, given: Given) -> Any:
    text, source, directory = given
    _check_characters(text, f"{source}: {setting.name}")
    try:
        return setting.unit.parse(text, directory)
    except ValueError as expected:
        hint = f"{setting.name}: {setting.help} (default: {setting.shown_default or 'empty'})"
        if " #" in text or " ;" in text:
            hint = "a comment has a line of its own"
        elif isinstance(setting.unit, Choice):
            hint = suggestion(text.lower(), setting.unit.names, hint)
        raise ConfigError(f"{source}: {setting.name} must be {expected}, not {_quoted(text)}", hint) from None


def _resolve(values: dict[str, Any], sources: dict[str, str]) -> None:
    for name, preset in zip(("processes", "threads"), PRESETS[values["type"]], strict=True):
        if not values[name]:
            values[name], sources[name] = preset, f"default of type {values['type']}"
    values["processes"] = Span(values["processes"], getattr(values["processes"], "most", values["processes"]))
    values["addresses"] = values["bind"] or (Address(values["address"], values["port"]),)
    taken = {os.path.normpath(each.path): "bind" for each in values["addresses"] if each.path}
    taken |= {os.path.normpath(values[name]): name for name in ("errorlog", "accesslog") if values[name]}
    for name in "control_socket", "pidfile":  # an empty log would be taken for a stale pidfile
        path = values[name] and os.path.normpath(values[name])
        if path and path in taken:
            raise ConfigError(f"{name} and {taken[path]} are the same path: {path}", f"choose another {name}")
        taken[path] = name
    for name in "errorlog", "accesslog":
        if values[name].endswith((".py", ".ini")) and not values[name].startswith("|"):
            raise ConfigError(f"{name} would be appended to {values[name]}, which is no log", f"choose another {name}")
    if values["proxy_protocol"] and not values["trusted_proxies"]:
        raise ConfigError("proxy_protocol is for peers among trusted_proxies, which has none", "name them there")
    if values["health"] and values["health"] == values["status_path"]:
        raise ConfigError(f"health and status_path are the same path: {values['health']}", "choose another one")


def _check_characters(text: str, where: str) -> None:
    if any(char < " " or "\x7f" <= char <= "\x9f" or char in "\u2028\u2029" for char in text):
        raise ConfigError(f"{where}: control characters in {_quoted(text)}", "remove them")


def _unknown(what: str, word: str, names: Iterable[str]) -> ConfigError:
    """The error for a name that is not among `names`; what: `[place: ]kind of name[ in a section]`."""
    place, colon, kind = what.rpartition(": ")
    hint = suggestion(word, names, "poorhttp --help lists the settings, --dump-config the ini file")
    from poorhttp.config.other_servers import answer

    option = word if word.startswith("--") else word[:2] if word.startswith("-") else word
    written = {name: _dashed(name) if word.startswith("-") else name for name in SETTINGS}
    return ConfigError(f"{place}{colon}unknown {kind}: {_quoted(word)}", answer(option, written) or hint)


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 100 else f"{text[:97]}...")


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ",".join(map(_as_text, value))
    return str(value)


# The declarations as text


def help_text(action: str = "") -> str:
    """Return what `--help` prints; what it prints behind one of ACTIONS."""
    if action:
        return _help_of(action)
    lines = ["usage: poorhttp [-c FILE] [APP] [options]", "       poorhttp init [DIRECTORY]"]
    lines += ["       poorhttp dev|check [-c FILE] [APP] [options]", f"       poorhttp {'|'.join(ACTIONS)} -c FILE", ""]
    lines += [f"APP: {SETTINGS['application'].help}", ""]
    for when, commands in ("While you write it", MAKING), ("With a pidfile", ACTIONS):
        lines += [f"{when}:", *(f"  {name.ljust(12)}{text}" for name, text in commands.items()), ""]
    lines += ["Without one of these words it serves in the foreground.", ""]
    lines.append(_help_line("c", "--config", "FILE", "read this ini file"))
    shorts = {name: short for short, name in SHORT.items()}
    lines += [_help_line(shorts.get(name, ""), _dashed(name), "", text) for name, text in COMMANDS.items()]
    for name, metavar in ("json", ""), ("watch", ""), ("wait", "SECONDS"), ("public", ""), ("live", ""):
        lines.append(_help_line("", _dashed(name), metavar, OF_ACTIONS[name]))
    group = ""
    for setting in SETTINGS.values():
        if setting.group != group:
            group = setting.group
            lines += ["", f"{group}:"]
        default = f" [{setting.shown_default}]" if setting.shown_default else ""
        lines.append(_help_line(setting.short, setting.flag, setting.unit.metavar, setting.help + default))
    lines += [
        "",
        f"Each is a variable ({PREFIX}PORT) and an ini key (port) too; a flag has precedence, then a variable.",
    ]
    return "\n".join(lines) + "\n"


def _help_of(action: str) -> str:
    is_start = action in ("start", "restart")
    lines = [f"usage: poorhttp {action} {'[-c FILE] [APP] [options]' if is_start else '-c FILE'}", ""]
    lines += [
        ACTIONS[action] + ".",
        "",
        _help_line("c", "--config", "FILE", "the ini file, which names the pidfile; or:"),
    ]
    lines.append(_help_line("p", "--pidfile", "FILE", SETTINGS["pidfile"].help))
    if action == "status":
        lines.append(_help_line("", "--json", "", "as JSON"))
        lines.append(_help_line("", "--watch", "", "again each second, until q"))
    if action in WAITING:
        lines.append(_help_line("", "--wait", "SECONDS", "for so many seconds at most [60]"))
    lines += ["", "poorhttp --help lists the other options.", ""]
    return "\n".join(lines)


def _help_line(short: str, flag: str, metavar: str, text: str) -> str:
    left = f"  -{short}, " if short else "      "
    return f"{left}{flag} {metavar} ".ljust(34) + text


def _dashed(name: str) -> str:
    return "--" + name.replace("_", "-")


def ini_text(flags: Flags, environ: Mapping[str, str], directory: str) -> str:
    """Return what `--dump-config` writes: every setting, as it is given or by default. Raises ConfigError.

    What is given is written as it was, for an ini file in the current directory; what came from a file elsewhere, as
    its value.
    """
    ini = _Ini(flags.config, directory)
    chosen = _chosen(ini, flags, environ, directory)
    lines = [
        "# Settings of poorhttp. Written by `poorhttp --dump-config`, read by `poorhttp -c poorhttp.ini`.",
        "# Each value is the default unless its comment names another. Relative paths start from this directory; that",
        "# of the application from chdir, where it is set.",
        "# A comment has a line of its own. Times: seconds, or 250ms, 2m, 1h. Sizes: bytes, or 64k, 1m, 1g.",
        "",
        f"[{SECTION}]",
    ]
    group = ""
    for setting in SETTINGS.values():
        if setting.group != group:
            group = setting.group
            lines += ["", f"# {group.capitalize()}"]
        default, text = "", setting.shown_default
        if setting.name in chosen:
            value, (written, _, place) = chosen[setting.name]
            is_in_chdir = setting.name == "application" and place == _place(chosen, "")  # wherever the ini file is
            text = written if place == directory or is_in_chdir else setting.unit.show(value)
            default = f" (default: {setting.shown_default or 'empty'})" if text != setting.shown_default else ""
        lines += ["", f"# {setting.help}{default}", f"{setting.name} = {text}".rstrip()]
    lines += ["", f"[{OPTIONS}]", "# Any keys: what req.get_options() returns; the keys are in lower case."]
    lines += _pairs(ini.free[OPTIONS])
    lines += ["", f"[{ENVIRON}]", "# Names that no request has: added to os.environ and to each WSGI environ."]
    lines += _pairs(ini.free[ENVIRON])
    return "\n".join(lines) + "\n"


def settings_table() -> str:
    """Return the settings as the table (Markdown) of docs/settings.md."""
    lines = ["| setting | default | meaning |", "|---|---|---|"]
    for setting in SETTINGS.values():
        default = f"`{setting.shown_default}`" if setting.shown_default else ""
        lines.append(f"| `{setting.name}` | {default} | {setting.help} |")
    return "\n".join(lines) + "\n"


def config_text(config: Config) -> str:
    """Return what `--print-config` prints: each value in ini syntax, with its source.

    The values of the free sections are left out: they give passwords to applications, and this is shown to others.
    """
    lines = [f"[{SECTION}]"]
    for name, setting in SETTINGS.items():
        text = f"{name} = {setting.unit.show(getattr(config, name))}"
        lines.append(f"{text:<40}  # {config.sources[name]}")
    lines += ["", f"[{OPTIONS}]", *_pairs(dict.fromkeys(config.options, "***"))]
    lines += ["", f"[{ENVIRON}]", *_pairs(dict.fromkeys(config.environ, "***"))]
    return "\n".join(lines) + "\n"


def _pairs(pairs: Mapping[str, str]) -> list[str]:
    return [f"{key} = {text}".rstrip() for key, text in pairs.items()]
