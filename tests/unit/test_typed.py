"""The types that users see: two programs of theirs pass strict type checkers, and each public name has a known type."""

import json
import os
import re
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = sorted((ROOT / "tests" / "typed").glob("*.py"))
PUBLIC = ("poorhttp", "poorhttp.http", "poorhttp.dispatch", "poorhttp.sessions", "poorhttp.cache")

NOT_WRITTEN = {
    "poorhttp.Config": "its sixty types are those of the units of the settings, as each type checker finds them",
    "poorhttp.__version__": "a str, as the name says",
}
"""Public names without a written type -> why."""

WRONG = """
from poorhttp.dispatch import Request, Table
from poorhttp.sessions import Sessions

table = Table()

@table.route(7)
def page(req: Request) -> str:
    req.status = "200"
    return req.uri + 1

Sessions("memory:", same_site=7)
"""
"""A program with four mistakes, in these lines."""
LINES = {7, 9, 10, 12}

needs_mypy = pytest.mark.skipif(not find_spec("mypy"), reason="to be installed: pip install -e '.[test]'")
needs_pyright = pytest.mark.skipif(not find_spec("basedpyright"), reason="to be installed: pip install -e '.[test]'")


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    path = tmp_path / "wrong.py"
    path.write_text(WRONG)
    return path


def run(directory: Path, *command: str | Path) -> str:
    """What a type checker prints that runs in this directory; exit code 1 says that it has found mistakes."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=directory, env=environ, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


def pyright(directory: Path, *arguments: str | Path) -> dict[str, Any]:
    command = Path(sys.executable).with_name("basedpyright")
    told: dict[str, Any] = json.loads(
        run(directory, command, "--pythonpath", sys.executable, "--outputjson", *arguments)
    )
    return told


@needs_mypy
@pytest.mark.timeout(120)
def test_mypy_finds_the_mistakes_and_no_others(tmp_path: Path, wrong: Path) -> None:
    options = ("--strict", "--config-file=", "--no-error-summary", f"--cache-dir={tmp_path / 'cache'}")
    page = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
    (of_the_page,) = re.findall(r"```python\n(# typed_table\.py\n.*?)```", page, re.DOTALL)
    (tmp_path / "typed_table.py").write_text(of_the_page)
    programs = [wrong, tmp_path / "typed_table.py", *PROGRAMS]
    told = run(tmp_path, sys.executable, "-m", "mypy", *options, *programs).splitlines()
    assert {line.partition(": error: ")[0] for line in told if ": error: " in line} == {f"wrong.py:{n}" for n in LINES}


@needs_pyright
@pytest.mark.timeout(120)
def test_pyright_finds_the_mistakes_and_no_others(tmp_path: Path, wrong: Path) -> None:
    project = {"typeCheckingMode": "strict", "include": [str(wrong), *map(str, PROGRAMS)]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(project))
    told = pyright(tmp_path, "--project", tmp_path)
    assert told["summary"]["filesAnalyzed"] == 1 + len(PROGRAMS)
    found = {(each["file"], each["range"]["start"]["line"] + 1) for each in told["generalDiagnostics"]}
    assert found == {(str(wrong), line) for line in LINES}


@needs_pyright
@pytest.mark.timeout(120)
def test_each_public_name_has_a_known_type(tmp_path: Path) -> None:
    told = pyright(tmp_path, "--verifytypes", "poorhttp", "--ignoreexternal")["typeCompleteness"]
    assert Path(told["pyTypedPath"]) == ROOT / "poorhttp" / "py.typed"
    known = {each["name"] for each in told["symbols"] if each["isTypeKnown"] and not each["isTypeAmbiguous"]}
    public = {f"{module}.{name}" for module in PUBLIC for name in import_module(module).__all__}
    assert public - known == set(NOT_WRITTEN)
