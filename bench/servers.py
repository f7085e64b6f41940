"""The servers that are measured, as `servers.ini` describes them: command line, version, a note on its fairness.

Knows the form of that file; starts nothing.
"""

from __future__ import annotations

import shlex
import string
from dataclasses import dataclass, replace
from pathlib import Path

from bench import ini

FILE = Path(__file__).with_name("servers.ini")
# What begins the name of a section that only `reload`, or only `memory --app`, measures.
RELOAD, WEIGHT = "reload/", "memory/"
FILLED_IN = frozenset(
    ("poorhttp", "python", "port", "socket", "work", "module", "name", "spec", "threads", "pool", "bare", "body",
     "processes", "request_body", "mode", "paths")
)  # fmt: skip


@dataclass(frozen=True)
class Server:
    name: str
    command: tuple[str, ...]
    version: tuple[str, ...]
    note: str  # what a fair reader should know of the command line
    unix: tuple[str, str] | None = None  # what of the command names an address -> what names {socket} instead
    packages: tuple[str, ...] = ()  # what pip installs it from; none if it is not a peer
    groups: tuple[str, ...] = ()

    def is_ours(self) -> bool:
        """Whether it is poorhttp."""
        return any("{poorhttp}" in word for word in self.command)

    def at_socket(self) -> tuple[str, ...] | None:
        """The command that listens at {socket}; None if it has none."""
        return None if self.unix is None else replaced(self.command, *self.unix)


def read(path: Path = FILE) -> tuple[dict[str, Server], dict[str, str]]:
    """The file's servers, and what its groups mean, both by name; raises BadFile."""
    sections = ini.sections(path)
    groups = sections.pop("groups", {})
    return {section: _server(path, section, texts, groups) for section, texts in sections.items()}, groups


def _server(path: Path, section: str, texts: dict[str, str], known: dict[str, str]) -> Server:
    def groups(text: str) -> tuple[str, ...]:
        found = ini.names(text)
        if unknown := [name for name in found if name not in known]:
            raise ValueError(f"groups of the section [groups], {', '.join(known)}, but not {unknown[0]}")
        return found

    kinds = {
        "command": words,
        "packages": ini.names,
        "version": words,
        "note": str,
        "unix": replacement,
        "groups": groups,
    }
    found = ini.values(path, section, texts, kinds, ("command", "note"))
    if ("packages" in found) == ("version" in found):
        raise ini.BadFile(path, section, "version", "expected this key or `packages`, and not both")
    if "packages" in found:
        told = ", ".join(f"{name!r}, version({name!r})" for name in found["packages"])
        found["version"] = ("{python}", "-c", f"from importlib.metadata import version; print({told})")
    server = Server(section.rpartition("/")[2], **found)
    if server.unix is not None and server.at_socket() == server.command:
        raise ini.BadFile(path, section, "unix", f"{server.unix[0]!r} is not in the command")
    return server


def words(text: str) -> tuple[str, ...]:
    """The words of a command, in which no unknown name is to be filled in."""
    try:
        found = shlex.split(text)
        places = {name for word in found for _, name, *_ in string.Formatter().parse(word) if name is not None}
    except ValueError as error:
        raise ValueError(f"words quoted as for a shell, with names in braces: {error}") from error
    if unknown := sorted(places - FILLED_IN):
        raise ValueError(f"{{{unknown[0]}}} to be one of {', '.join(f'{{{name}}}' for name in sorted(FILLED_IN))}")
    return tuple(found)


def replaced(command: tuple[str, ...], part: str, other: str) -> tuple[str, ...]:
    """The command with `other` for `part`, which is in a word or is whole words; unchanged where it is neither."""
    if any(part in word for word in command):
        return tuple(word.replace(part, other) for word in command)
    parts = tuple(part.split())
    for begin in range(len(command)):
        if command[begin : begin + len(parts)] == parts:
            return (*command[:begin], *other.split(), *command[begin + len(parts) :])
    return command


def replacement(text: str) -> tuple[str, str]:
    part, arrow, other = text.partition(" -> ")
    if not arrow or "{socket}" not in other:
        raise ValueError("a part of the command -> what names {socket} in its place")
    return part, other


_ALL, GROUPS = read()
SERVERS = {section: server for section, server in _ALL.items() if "/" not in section}
RELOADING = {server.name: server for section, server in _ALL.items() if section.startswith(RELOAD)}
WEIGHED = {server.name: server for section, server in _ALL.items() if section.startswith(WEIGHT)}
OURS = tuple(name for name, server in SERVERS.items() if server.is_ours())
# Those of another build of poorhttp, whose interpreter --before names.
BEFORE = {f"{name}-before": replace(SERVERS[name], name=f"{name}-before", note="defaults, of the build to compare with")
          for name in OURS}  # fmt: skip
SERVERS |= BEFORE


def members(*names: str) -> tuple[str, ...]:
    """The servers of these groups, and those that are named themselves, each once; raises ValueError."""
    if unknown := [name for name in names if name not in GROUPS and name not in SERVERS]:
        raise ValueError(f"servers and groups of {FILE.name}, but not {unknown[0]}")
    found = (
        server.name
        for name in names
        for server in SERVERS.values()
        if name == server.name or (name in server.groups and server.name not in BEFORE)
    )
    return tuple(dict.fromkeys(found))
