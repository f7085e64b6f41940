"""Command line, environment, ini file and defaults -> one `Config`.

Knows the precedence: flag, variable, ini file, default. Does not know what a setting is for. Every value that is given
anywhere is checked, also one that another one overrides; the first fault is a ConfigError with its place.
"""

from __future__ import annotations

from poorhttp.config.addresses import Address, split_port
from poorhttp.config.commands import DEFAULTS_OF_DEV, DEV
from poorhttp.config.flags import Flags
from poorhttp.config.given import parse, quoted, unknown
from poorhttp.config.ini import IniFile, free_text, text_of
from poorhttp.config.model import Config
from poorhttp.config.paths import split_application
from poorhttp.config.settings import ENVIRON, IS_TRIAL, MIME_TYPES, OPTIONS, PREFIX, PRESETS, SETTINGS
from poorhttp.config.units import Span
from poorhttp.errors import ConfigError, nearest
from poorhttp.stdlib import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from poorhttp.config.given import Given, Layer

    Chosen = dict[str, tuple[Any, Given]]
    """Each setting that is given somewhere -> its value, and the text that won."""

NO_SETTINGS = ("POORHTTP_RELOAD_GENERATION", IS_TRIAL)
"""Variables with our prefix that the server sets for the application; a child may inherit them."""

USUAL_NAME = "poorhttp.ini"
"""The name of an ini file in the documents, and of the one that `init` writes."""

NEEDED = ("pidfile", "graceful_timeout")
"""The settings that a command about a running server needs."""


def read(flags: Flags, environ: Mapping[str, str], directory: str) -> Config:
    """Return the configuration. directory: the current one, absolute. Raises ConfigError."""
    ini = IniFile(flags.config, directory)
    settings = _merge(ini, choose(ini, flags, environ, directory), DEFAULTS_OF_DEV if flags.is_dev else None)
    if not flags.config:
        settings = settings.replace(notes=(*settings.notes, *_unread(settings, directory)))
    if (flags.live or flags.public) and not flags.is_dev and not settings.autoreload:
        hint = "without them the address decides who can reach the server"
        raise ConfigError("--live and --public are for dev and --reload", hint)
    return settings


def _unread(settings: Config, directory: str) -> list[str]:
    """The note about an ini file beside the application, which a user may expect to be read."""
    place, _ = split_application(settings.application)
    if not os.path.isabs(place):
        place = settings.import_directory
    path = os.path.join(place if os.path.isdir(place) else os.path.dirname(place), USUAL_NAME)
    if not os.path.isfile(path):
        return []
    return [f"{path} is not read; -c {os.path.relpath(path, directory)} reads it"]


def read_roughly(flags: Flags, environ: Mapping[str, str], directory: str) -> Config:
    """Return what can be understood of the configuration, for a command about a server that runs already: a mistake in
    the ini file keeps nobody from stopping it. Raises ConfigError if even a setting of NEEDED is wrong.
    """
    ini = IniFile("", directory)
    if flags.config:
        ini.name, ini.path = flags.config, os.path.join(directory, flags.config)
        ini.directory = os.path.dirname(os.path.normpath(ini.path))
        for line in text_of(ini.path, ini.name).split("\n"):
            key, _, text = line.partition("=" if "=" in line else ":")
            if key.strip().lower() in NEEDED:
                ini.given[key.strip().lower()] = (text.strip(), ini.name, ini.directory)
    for name in NEEDED:
        variable = SETTINGS[name].variable
        if variable in environ:
            ini.given[name] = (environ[variable], variable, directory)
        if name in flags.given:
            ini.given[name] = flags.given[name]
    return _merge(ini, {name: (parse(SETTINGS[name], given), given) for name, given in ini.given.items()})


def from_keywords(settings: Mapping[str, Any], environ: Mapping[str, str], directory: str) -> Config:
    """Return the configuration for `run(app, name=value, ...)`; also `config`, `options` and `environ`. A value is that
    of the setting, or its text as in the ini file. Raises ConfigError.
    """
    flags = Flags()
    for name, value in settings.items():
        if name == "config":
            flags.config = os.fspath(value)
        elif name in SETTINGS:
            flags.given[name] = (_as_text(value), f"run({name}=...)", directory)
        elif name not in ("options", "environ"):
            raise unknown("keyword", name, SETTINGS)
    ini = IniFile(flags.config, directory)
    for section, pairs in (OPTIONS, settings.get("options", {})), (ENVIRON, settings.get("environ", {})):
        for key, text in pairs.items():
            ini.free[section][key] = free_text(section, key, str(text), f"run({section}=...)")
    return _merge(ini, choose(ini, flags, environ, directory))


def choose(ini: IniFile, flags: Flags, environ: Mapping[str, str], directory: str) -> Chosen:
    """Return the settings that are given and win. Raises ConfigError for any value that is wrong."""
    chosen: Chosen = {}
    for layer in ini.given, _from_environment(environ, directory, ini.notes), flags.given:
        _split_address(layer)
        if ("address" in layer or "port" in layer) and not layer.get("bind", ("",))[0]:
            chosen.pop("bind", None)  # else a weaker bind would win over a stronger port
        chosen.update({name: (parse(SETTINGS[name], given), given) for name, given in layer.items()})
    if "application" in chosen:
        text, source, directory = chosen["application"][1]
        given = text, source, import_directory(chosen, directory)
        chosen["application"] = parse(SETTINGS["application"], given), given
    return chosen


def import_directory(chosen: Chosen, otherwise: str) -> str:
    """Return where the application is looked for: `chdir` without symbolic links, which may lead to another release
    later, or another directory if that is not set.
    """
    chdir: str = chosen["chdir"][0] if "chdir" in chosen else ""
    try:
        return os.path.realpath(chdir) if chdir else otherwise
    except OSError:  # a link that this user may not read; the change to that directory fails with a message
        return chdir


def _from_environment(environ: Mapping[str, str], directory: str, notes: list[str]) -> Layer:
    """Return what the variables set. An unknown name that resembles a setting is refused; any other one is noted, as
    Kubernetes makes such variables for a service that is called poorhttp.
    """
    layer: Layer = {}
    variables = {each.variable: name for name, each in SETTINGS.items()}
    for variable, text in environ.items():
        if variable in variables:
            layer[variables[variable]] = (text, variable, directory)
        elif variable.startswith(PREFIX) and variable not in NO_SETTINGS:
            near = nearest(variable.removeprefix(PREFIX).lower(), SETTINGS)
            if near:
                raise ConfigError(f"unknown variable: {quoted(variable)}", f"did you mean {SETTINGS[near].variable}?")
            notes.append(f"the variable {variable} is no setting; not used")
    return layer


def _split_address(layer: Layer) -> None:
    """Take the port of an address such as `host:port` for the setting `port` of the same source."""
    text, source, directory = layer.get("address", ("", "", ""))
    host, port = split_port(text)
    if port is None or host == "unix":  # the unit refuses a unix socket here, with a better message
        return
    if "port" in layer:
        raise ConfigError(f"{source}: address {quoted(text)} has a port, and port is set too", "remove one of the two")
    layer["address"], layer["port"] = (host, source, directory), (port, source, directory)


def _merge(ini: IniFile, chosen: Chosen, defaults: dict[str, Any] | None = None) -> Config:
    """Return the configuration; defaults: those of a command, in place of the usual ones."""
    values = {name: each.default for name, each in SETTINGS.items()} | (defaults or {})
    values["import_directory"] = import_directory(chosen, ini.directory)
    values["application"] = SETTINGS["application"].unit.parse(values["application"], values["import_directory"])
    sources = dict.fromkeys(SETTINGS, "default") | dict.fromkeys(defaults or (), f"default of {DEV}")
    for name, (value, (_, source, directory)) in chosen.items():
        values[name], sources[name] = value, source
        if name == "application":
            values["import_directory"] = directory
    for name, preset in zip(("processes", "threads"), PRESETS[values["type"]], strict=True):
        if not values[name]:
            values[name], sources[name] = preset, f"default of type {values['type']}"
    values["processes"] = Span(values["processes"], getattr(values["processes"], "most", values["processes"]))
    values["addresses"] = values["bind"] or (Address(values["address"], values["port"]),)
    _refuse_contradictions(values)
    if not values["document"]:
        idle = [name for name in ("index", "follow_symlinks") if values[name]]
        idle += [f"section [{MIME_TYPES}]"] if ini.free[MIME_TYPES] else []
        ini.notes += [f"{name} means nothing without document" for name in idle]
    values.update(ini=ini.path if ini.name else "", directory=ini.directory, sources=sources, notes=tuple(ini.notes))
    values.update(options=ini.free[OPTIONS], environ=ini.free[ENVIRON], mime_types=ini.free[MIME_TYPES])
    values["accept_pauses"] = ()
    return Config(values)


def _refuse_contradictions(values: dict[str, Any]) -> None:
    """Raises ConfigError for settings that are right each by itself, but not together."""
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
        hint = "name the proxies in trusted_proxies"
        raise ConfigError("proxy_protocol is set, but trusted_proxies names no proxy", hint)
    if values["health"] and values["health"] == values["status_path"]:
        raise ConfigError(f"health and status_path are the same path: {values['health']}", "choose another one")


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ",".join(map(_as_text, value))
    return str(value)
