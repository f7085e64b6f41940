"""docs/tutorial.md as a program: its steps, and the files and commands in them.

Knows the rule of the page: the first line of a block says which file it is, or that it holds changes in one, or where its
commands are typed. Knows nothing of what the program does. Contract: a block without such a line is typed into the
terminal, and a block that the rule does not cover raises ValueError. `Reader` does what the page says.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import requests
from starter import ROOT, Server, Start

PASSWORD = "correct horse"
"""What the reader types if a password is asked for."""

DEV = "poorhttp dev "

TEXT = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")


class Block(NamedTuple):
    """kind: "file", "changes" or "added" (name: of the file), or "typed" (name: where; "" in the second terminal)."""

    kind: str
    name: str
    text: str


def steps() -> dict[str, list[Block]]:
    """The blocks by the heading (`## 1. A page`, without the number) that they stand under."""
    parts = re.split(r"^## (?:\d+\. )?(.*)\n", TEXT, flags=re.MULTILINE)
    found = {title: _blocks(part) for title, part in zip(parts[1::2], parts[2::2], strict=True)}
    return {title: blocks for title, blocks in found.items() if blocks}


def _blocks(part: str) -> list[Block]:
    return [read_block(language, text) for language, text in re.findall(r"^```(\w+)\n(.*?)^```$", part, re.M | re.S)]


def read_block(language: str, text: str) -> Block:
    first, _, rest = text.partition("\n")
    if language == "sh":
        place = re.fullmatch(r"# (on .*)", first)
        return Block("typed", place[1], rest) if place else Block("typed", "", text)
    named = re.fullmatch(r"(?:# |/\* )(changes in |added to |)([\w./]+)(?: \*/)?", first)
    if named is None:
        raise ValueError(f"a block begins with {first!r}; expected a comment with the name of its file")
    return Block(named[1].partition(" ")[0] or "file", named[2], rest)


def written(block: Block, directory: Path) -> None:
    """Do with the files what a reader does with a block."""
    path = directory / block.name.lstrip("/")
    path.parent.mkdir(parents=True, exist_ok=True)
    text = block.text
    if block.kind == "changes":
        text = changed(path.read_text(encoding="utf-8"), text)
    elif block.kind == "added":
        text = path.read_text(encoding="utf-8") + text
    path.write_text(text, encoding="utf-8")


def changed(old: str, new: str) -> str:
    """A module with the definitions of another text: those that it has are replaced, new ones stand above `handlers`
    or at its end, and imports replace all imports.
    """
    pieces = _pieces(old)
    for name, text in _pieces(new).items():
        if name in pieces or "handlers" not in pieces:
            pieces[name] = text
        else:
            last = pieces.pop("handlers")
            pieces |= {name: text, "handlers": last}
    return _joined(pieces)


def _pieces(text: str) -> dict[str, str]:
    """The statements of a module by what they define; all imports are one piece."""
    lines = text.splitlines()
    pieces: dict[str, str] = {}
    for node in ast.parse(text).body:
        name = _defined(node)
        first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])
        source = "\n".join(lines[first - 1 : node.end_lineno])
        if name == "import" and name in pieces:
            gap = "\n" if lines[first - 2] else "\n\n"  # between groups of imports
            source = f"{pieces[name]}{gap}{source}"
        elif name in pieces:
            raise ValueError(f"{name} is defined twice")
        pieces[name] = source
    return pieces


def _defined(node: ast.stmt) -> str:
    if isinstance(node, ast.Import | ast.ImportFrom):
        return "import"
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return node.name
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return ast.unparse(node).partition("\n")[0]


def _joined(pieces: dict[str, str]) -> str:
    """As the formatter has it: two empty lines around functions and classes, else one."""
    text, is_after_block = "", False
    for source in pieces.values():
        is_block = re.match(r"def |class |@|if ", source) is not None
        text += ("\n\n\n" if is_block or is_after_block else "\n\n") * bool(text) + source
        is_after_block = is_block
    return text + "\n"


class Reader:
    """Somebody with two terminals and a browser."""

    def __init__(self, directory: Path, launch: Start) -> None:
        self.directory = directory
        self.said = ""  # by the last block of commands
        self.browser = requests.Session()
        self._launch = launch
        self.server: Server | None = None
        programs = directory / "programs"
        programs.mkdir()
        for name, words in {"poorhttp": "-m poorhttp", "python3": ""}.items():
            program = programs / name
            program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {words} "$@"\n')
            program.chmod(0o755)
        search = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
        self.environ = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": search}

    def follow(self, blocks: list[Block]) -> None:
        for block in blocks:
            if block.kind == "typed":
                self.type(block.text)
            else:
                written(block, self.directory)

    def type(self, text: str) -> None:
        """Type the lines of a block; a server that runs until Ctrl-C gets the first terminal."""
        served = [line for line in text.splitlines() if line.startswith(DEV)]
        typed = "\n".join(line for line in text.splitlines() if line not in served)
        if self.server is not None:
            typed = typed.replace("127.0.0.1:8080", f"127.0.0.1:{self.server.port}")
        place = self.directory / "place"
        done = subprocess.run(
            ["bash", "-ec", f"{typed}\npwd > {shlex.quote(str(place))}"],
            cwd=self.directory,
            env=self.environ,
            input=PASSWORD + "\n",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            start_new_session=True,  # so that no password is asked for at the terminal of who runs the tests
            check=False,
        )
        assert done.returncode == 0, f"{typed}\n{done.stdout}"
        self.said = done.stdout
        self.directory = Path(place.read_text().strip())
        place.unlink()
        for line in served:
            arguments = shlex.split(line.replace("poorhttp.ini", str(self.directory / "poorhttp.ini")))[1:]
            self.server = self._launch(*arguments, "--port=0")
            self.server.await_address()

    def get(self, path: str = "/") -> str:
        return self.ask(path).text

    def ask(self, path: str, **form: object) -> requests.Response:
        """Load a page, or send a form to it (arguments of `requests.post`), and follow a redirect."""
        assert self.server is not None
        url = f"http://127.0.0.1:{self.server.port}{path}"
        return self.browser.post(url, timeout=20, **form) if form else self.browser.get(url, timeout=20)
