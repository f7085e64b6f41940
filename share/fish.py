"""The completion for fish."""

from __future__ import annotations

from poorhttp.config.commands import ACTIONS, PURGE
from share.command_line import APPLICATION, DIRECTORY, GROUP, INI, PATH, USER, WORDS, Flag, flags

HEAD = """\
# Completion of poorhttp in fish. Written by `python -m share` from the settings.

complete -c poorhttp -f
complete -c poorhttp -n '__fish_is_nth_token 1' -a '(__fish_complete_directories)'
complete -c poorhttp -n 'not __fish_seen_subcommand_from {not_app}' -k -a '(__fish_complete_suffix .py)'
"""

ACTIONS_OF_KINDS = {
    INI: "-k -x -a '(__fish_complete_suffix .ini)'",
    PATH: "-r -F",
    DIRECTORY: "-x -a '(__fish_complete_directories)'",
    APPLICATION: "-k -x -a '(__fish_complete_suffix .py)'",
    USER: "-x -a '(__fish_complete_users)'",
    GROUP: "-x -a '(__fish_complete_groups)'",
}


def text() -> str:
    """Return the file."""
    lines = [HEAD.format(not_app=" ".join([PURGE[0], *ACTIONS]))]
    lines += [
        f"complete -c poorhttp -n '__fish_is_nth_token 1' -a {name} -d {_quoted(meaning)}\n"
        for name, meaning in WORDS.items()
    ]
    lines.append(f"complete -c poorhttp -n '__fish_seen_subcommand_from {PURGE[0]}' -a {PURGE[1]}\n")
    lines += [f"complete -c poorhttp {line}\n" for flag in flags() for line in _options(flag)]
    return "".join(lines)


def _options(flag: Flag) -> list[str]:
    """Return the options of `complete` about one flag."""
    value = ""
    if flag.metavar:
        words = f"-x -a {_quoted(' '.join(flag.words))}" if flag.words else ""
        value = f" {words or ACTIONS_OF_KINDS.get(flag.kind, '-x')}"
    short = f"-s {flag.short} " if flag.short else ""
    found = [f"{short}-l {flag.name[2:]}{value} -d {_quoted(flag.help)}"]
    return [*found, f"-l no-{flag.name[2:]} -d 'not {flag.name}'"] if flag.is_switch else found


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
