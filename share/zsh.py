"""The completion for zsh."""

from __future__ import annotations

from poorhttp.config.commands import PURGE, PURGING
from share.command_line import APPLICATION, DIRECTORY, GROUP, INI, PATH, USER, WORDS, Flag, flags

HEAD = """\
#compdef poorhttp
# Completion of poorhttp in zsh. Written by `python -m share` from the settings.

_poorhttp_first() {{
    local -a commands
    commands=(
{commands}
    )
    _describe -t commands command commands
    _files -g '*.py'
}}

_poorhttp_more() {{
    if [[ ${{words[(r){purge[0]}]}} == {purge[0]} ]]; then
        _values command '{purge[1]}[{purging}]'
    else
        _files -g '*.py'
    fi
}}

_arguments -s -S \\
{flags} \\
    '1:command or APP:_poorhttp_first' \\
    '*:APP:_poorhttp_more'
"""

ACTIONS_OF_KINDS = {
    INI: '_files -g "*.ini"',
    PATH: "_files",
    DIRECTORY: "_files -/",
    APPLICATION: '_files -g "*.py"',
    USER: "_users",
    GROUP: "_groups",
}


def text() -> str:
    """Return the file."""
    described = [f"        {_quoted(f'{name}:{meaning}')}" for name, meaning in WORDS.items()]
    lines = [f"    {line}" for flag in flags() for line in _specifications(flag)]
    return HEAD.format(commands="\n".join(described), flags=" \\\n".join(lines), purge=PURGE, purging=PURGING)


def _specifications(flag: Flag) -> list[str]:
    """Return the arguments of `_arguments` about one flag."""
    value = ""
    if flag.metavar:
        action = f"({' '.join(flag.words)})" if flag.words else ACTIONS_OF_KINDS.get(flag.kind, " ")
        value = f":{flag.metavar.replace(':', '.')}:{action}"
    meaning = "[" + "".join(f"\\{char}" if char in "[]\\" else char for char in flag.help) + "]"
    long = flag.name + ("=" if flag.metavar else "")
    # -b may be written once more for each address.
    again = "*" if flag.name == "--bind" else ""
    if flag.short:
        short = f"-{flag.short}" + ("+" if flag.metavar else "")
        both = again or f"(-{flag.short} {flag.name})"
        return [_quoted(f"{both}{each}{meaning}{value}") for each in (short, long)]
    found = [_quoted(f"{long}{meaning}{value}")]
    return [*found, _quoted(f"--no-{flag.name[2:]}[not {flag.name}]")] if flag.is_switch else found


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
