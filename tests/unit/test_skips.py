"""A test that is skipped for want of something that can be installed fails where REQUIRE=1 (tests/conftest.py)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
TOY = """
import pytest

@pytest.mark.skipif(True, reason="lighttpd is not installed: apt-get install lighttpd")
def test_program(): pass

@pytest.fixture
def suite(): pytest.skip("no suite gunicorn: no network")
def test_suite(suite): pass

def test_module(): pytest.importorskip("not_there")

@pytest.mark.skipif(True, reason="only root can become somebody else")
def test_rights(): pass

@pytest.mark.xfail(reason="needs what nobody can install")
def test_fails(): assert False
"""
MODULE = "import pytest\npytest.importorskip('not_there')\n"


@pytest.mark.parametrize(
    ("require", "told"), [("1", "1 failed, 1 skipped, 1 xfailed, 3 errors"), ("", "5 skipped, 1 xfailed")]
)
def test_what_can_be_installed_is_required(tmp_path: Path, require: str, told: str) -> None:
    (tmp_path / "test_toy.py").write_text(TOY)
    (tmp_path / "test_whole.py").write_text(MODULE)
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "-p", "no:cacheprovider", "-p", "conftest"]
    done = subprocess.run(
        [*command, "--continue-on-collection-errors", str(tmp_path)],
        env=os.environ | {"REQUIRE": require, "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert re.search(rf"^{told} in ", done.stdout, re.MULTILINE), done.stdout + done.stderr
    assert done.stdout.count("not to be skipped where REQUIRE=1") >= (4 if require else 0)


def test_it_is_so_where_changes_are_taken() -> None:
    assert "export REQUIRE=1\n" in (TESTS.parent / ".ci" / "run").read_text(encoding="utf-8")
