"""The manual page and the completions: they are those of the settings of today, and man and the shells understand them."""

import contextlib
import os
import pty
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from poorhttp.config.commands import ACTIONS, MAKING, dashed
from poorhttp.config.settings import SETTINGS
from share.command_line import flags
from share.files import FILES, ROOT

MAN, BASH, ZSH, FISH = (ROOT / name for name in FILES)
PATIENCE = 30.0


def needs(program: str, package: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(
        shutil.which(program) is None, reason=f"{program} is not installed: apt-get install {package}"
    )


@pytest.mark.parametrize("name", FILES)
def test_the_files_are_those_of_the_settings_of_today(name: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8") == FILES[name](), "run: python -m share"


@pytest.mark.parametrize("path", [BASH, ZSH, FISH], ids=["bash", "zsh", "fish"])
def test_each_flag_and_each_command_is_completed(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for name in [*(dashed(each) for each in SETTINGS), "--config", "--wait", "--no-preload", *ACTIONS, *MAKING]:
        assert (f"-l {name.removeprefix('--')}" if path == FISH and name.startswith("--") else name) in text


# ------------------------------------------------------------------------------------------------------------ man


def complaints(*command: str | Path) -> list[str]:
    """What a program that formats the page, or checks it, has to say."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    return [line for line in (done.stderr + done.stdout).splitlines() if "poorhttp.1:" in line]


@needs("mandoc", "mandoc")
def test_mandoc_finds_nothing_but_that_it_has_no_date() -> None:
    told = complaints("mandoc", "-T", "lint", "-W", "style", MAN)
    assert [line for line in told if "missing date" not in line] == []


@needs("groff", "groff")
def test_groff_finds_nothing() -> None:
    command = ["groff", "-man", "-ww", "-T", "utf8", MAN]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@needs("man", "man-db")
def test_man_shows_each_setting_in_eighty_columns() -> None:
    environ = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "MANWIDTH": "80", "MAN_KEEP_FORMATTING": ""}
    command = ["man", "--warnings", "--local-file", MAN]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False, env=environ)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["POORHTTP(1)", "General", "Commands", "Manual", "POORHTTP(1)"]
    assert max(map(len, lines)) <= 80
    words = " ".join(done.stdout.split())
    for flag in flags():
        assert (f"--[no-]{flag.name[2:]}" if flag.is_switch else flag.name) in words
        assert " ".join(flag.help.split()) in words


# --------------------------------------------------------------------------------------------------------- Shells

COMPLETED = {
    "--ty": "--type",
    "--type thr": "--type threading",
    "--type=thr": "--type=threading",
    "--no-pre": "--no-preload",
    "--accesslog-format j": "--accesslog-format json",
    "-c my": "-c my.ini",
    "--chdir fold": "--chdir folder/",
    "--user roo": "--user root",
    "hel": "hello.py",
    "stat": "status",
    "sessions p": "sessions purge",
}
"""What a user writes after `poorhttp`, and what it becomes with a tab."""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Some files that a value may be, and some that it may not be."""
    for name in "my.ini", "my.py", "hello.py", "hello.txt":
        (tmp_path / name).touch()
    (tmp_path / "folder").mkdir()
    return tmp_path


@contextlib.contextmanager
def terminal(directory: Path, *command: str) -> Iterator[int]:
    """Run a shell in a terminal, in this directory; yields its other end."""
    pid, end = pty.fork()
    if not pid:
        try:
            os.chdir(directory)
            os.execvpe(command[0], command, {"PATH": os.environ["PATH"], "TERM": "dumb", "HOME": str(directory)})
        finally:
            os._exit(127)
    try:
        yield end
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(end)


def answer(end: int, typed: str, start: str, stop: str) -> str:
    """Type something; return what stands between the two words in what the shell prints then."""
    os.write(end, typed.encode())
    got, deadline = b"", time.monotonic() + PATIENCE
    while start.encode() not in got or stop.encode() not in got.rpartition(start.encode())[2]:
        assert select.select([end], [], [], max(deadline - time.monotonic(), 0))[0], got
        got += os.read(end, 4096)
    return got.decode().rpartition(start)[2].partition(stop)[0]


# The words are not in what is typed, so the echo of the terminal is not taken for the answer.
DEFINITION = """poorhttp() { local IFS=' '; printf '%s%s%s\\n' '<''<' "$*" '>''>'; }\n"""
SHELLS = {
    "bash": (("bash", "--norc", "--noprofile", "-i"), f". {BASH}\n"),
    "zsh": (("zsh", "-f", "-i"), f"fpath=({ZSH.parent} $fpath); autoload -Uz compinit; compinit -u -D\n"),
}


@pytest.mark.parametrize("shell", [pytest.param(name, marks=needs(name, name)) for name in SHELLS])
def test_a_shell_completes_what_is_typed(shell: str, directory: Path) -> None:
    command, setup = SHELLS[shell]
    with terminal(directory, *command) as end:
        answer(end, f"{setup}{DEFINITION}poorhttp set up\n", "<<", ">>")
        completed = {typed: answer(end, f"poorhttp {typed}\t\n", "<<", ">>") for typed in COMPLETED}
    # zsh takes away the slash after a directory, and keeps the sign that a value follows.
    assert {typed: text.rstrip("/=") for typed, text in completed.items()} == {
        typed: text.rstrip("/") for typed, text in COMPLETED.items()
    }


@needs("bash", "bash")
def test_bash_knows_which_function_completes() -> None:
    done = subprocess.run(
        ["bash", "-c", f". {BASH}; complete -p poorhttp"], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    assert done.stdout == "complete -F _poorhttp poorhttp\n"


@needs("fish", "fish")
def test_fish_completes_what_is_typed(directory: Path) -> None:
    for typed, completed in COMPLETED.items():
        command = ["fish", "--no-config", "-c", f"source {FISH}; complete --do-complete 'poorhttp {typed}'"]
        environ = {"PATH": os.environ["PATH"], "HOME": str(directory)}
        done = subprocess.run(
            command, cwd=directory, capture_output=True, text=True, timeout=PATIENCE, check=True, env=environ
        )
        found = [line.partition("\t")[0] for line in done.stdout.splitlines()]
        assert completed.rpartition(" ")[2] in found, (typed, found)
        assert done.stderr == ""
