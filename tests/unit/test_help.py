"""What `help()` shows of the public modules: every name, and of each class every attribute."""

import inspect
import pydoc
import re
import subprocess
import sys
from pathlib import Path

import pytest

import poorhttp.dispatch
import poorhttp.http
import poorhttp.sessions
from poorhttp.dispatch.headers import Headers, RequestHeaders

ROOT = Path(__file__).resolve().parents[2]
MODULES = [poorhttp.dispatch, poorhttp.http, poorhttp.sessions]
PUBLIC = [getattr(module, name) for module in MODULES for name in module.__all__]
CLASSES = [each for each in (*PUBLIC, Headers, RequestHeaders) if inspect.isclass(each)]
PYTHONS = set(dir(Exception)) | {"count", "index"}


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_help_has_every_name_and_each_is_described(module):
    text = pydoc.render_doc(module, renderer=pydoc.plaintext)
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.isclass(value):
            assert f"class {name}(" in text
        elif callable(value):
            assert f"{name}(" in text
        else:
            assert f"{name} = " in text
        assert isinstance(value, (int, dict)) or inspect.getdoc(value), name
    assert set(module.__all__) <= set(dir(module))


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_each_attribute_is_described(kind):
    """By itself, or in the docstring of its class."""
    described = " ".join(inspect.getdoc(each) or "" for each in kind.__mro__ if each.__module__.startswith("poorhttp"))
    assert inspect.getdoc(kind)
    for name in dir(kind):
        value = inspect.getattr_static(kind, name)
        if name[0] == "_" or name in PYTHONS:
            continue
        if value is None or isinstance(value, (int, str)) or inspect.ismemberdescriptor(value):
            assert re.search(rf"\b{name}\b", described), name
        else:
            assert inspect.getdoc(value), name


def test_the_commands_of_the_documents_show_it(tmp_path):
    """`help(poorhttp.http)` does not without an import of that module."""
    pages = [page.read_text(encoding="utf-8") for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))]
    named = set(re.findall(r"python3 -m pydoc ([\w.]+)", "\n".join(pages)))
    assert named >= {"poorhttp.dispatch", "poorhttp.dispatch.Request", "poorhttp.http", "poorhttp.http.FieldStorage"}
    for name in named:
        command = [sys.executable, "-m", "pydoc", name]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0 and done.stdout.startswith("Help on "), done.stdout + done.stderr
    assert not re.search(r"\bhelp\(poorhttp", "\n".join(pages))


def test_every_name_can_be_imported_at_once():
    names = {}
    exec("from poorhttp.http import *", names)
    assert set(poorhttp.http.__all__) <= set(names) and "TYPE_CHECKING" not in names
