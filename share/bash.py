"""The completion for bash."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from poorhttp.config.commands import PURGE
from share.command_line import APPLICATION, DIRECTORY, GROUP, INI, PATH, USER, WORDS, flags

FUNCTION = """\
# Completion of poorhttp in bash. Written by `python -m share` from the settings.

_poorhttp() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} flag=${{COMP_WORDS[COMP_CWORD - 1]}} words
    # Readline cuts --type=single into three words.
    if [[ $word == = ]]; then
        word=
    elif [[ $flag == = ]]; then
        flag=${{COMP_WORDS[COMP_CWORD - 2]}}
    fi
    COMPREPLY=()
    case $flag in
{cases}
    esac
    if [[ $word == -* ]]; then
        words='{flags}'
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
    else
        mapfile -t COMPREPLY < <(
            compgen -W '{commands}' -- "$word"
            compgen -f -X '!*.py' -- "$word"
            compgen -d -S / -- "$word"
        )
        if [[ ${{#COMPREPLY[@]}} == 1 && $COMPREPLY == */ ]]; then compopt -o nospace; fi
    fi
}}

complete -F _poorhttp poorhttp
"""

FILENAMES = "compopt -o filenames; "

RETURN = """\
            return
            ;;"""


def text() -> str:
    """Return the file."""
    by_action: dict[str, list[str]] = defaultdict(list)
    names: list[str] = []
    for flag in flags():
        written = [*([f"-{flag.short}"] if flag.short else []), flag.name]
        names += [*written, *([f"--no-{flag.name[2:]}"] if flag.is_switch else [])]
        if flag.metavar:
            by_action[_words(flag.words) if flag.words else OF_KINDS.get(flag.kind, "")] += written
    by_action[_words(PURGE[1:])].append(PURGE[0])
    cases = [
        "\n".join([f"        {' | '.join(written)})", *([f"            {action}"] if action else []), RETURN])
        for action, written in by_action.items()
    ]
    return FUNCTION.format(cases="\n".join(cases), flags=" ".join(names), commands=" ".join(WORDS))


def _reply(*options: str) -> str:
    """Return the command that offers what compgen finds with each of the options."""
    found = "; ".join(f'compgen {each} -- "$word"' for each in options)
    return f"mapfile -t COMPREPLY < <({found})"


def _words(words: Iterable[str]) -> str:
    return _reply(f"-W '{' '.join(words)}'")


OF_KINDS = {
    INI: FILENAMES + _reply("-f -X '!*.ini'", "-d"),
    PATH: FILENAMES + _reply("-f"),
    DIRECTORY: FILENAMES + _reply("-d"),
    APPLICATION: FILENAMES + _reply("-f -X '!*.py'", "-d"),
    USER: _reply("-u"),
    GROUP: _reply("-g"),
}
"""What completes a value of each kind."""
