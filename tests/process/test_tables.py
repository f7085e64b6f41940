"""What the start of a server says about a dispatch table: its document, its ini file, and sessions in memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TABLE = """
from poorhttp import http
handlers = {"/": (http.METHOD_GET, lambda req: "page")}
"""
IN_MEMORY = TABLE + "from poorhttp.sessions import Sessions\nsessions = Sessions('memory:')\n"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A directory `hello` with a table and an ini file."""
    (tmp_path / "hello").mkdir()
    (tmp_path / "hello" / "dispatch_table.py").write_text(TABLE)
    (tmp_path / "hello" / "poorhttp.ini").write_text("[http]\napplication = ./\n\ndocument = www\n")
    return tmp_path


def check(directory: Path, *arguments: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "poorhttp", "--check-config", *arguments]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=30, check=False)
    return done.returncode, done.stderr


def test_a_document_that_is_not_there_is_told_with_its_place(site: Path) -> None:
    wanted = "document must be a directory that this user may enter, not"
    code, told = check(site, "-c", "hello/poorhttp.ini")
    assert code == 2
    assert f"error: hello/poorhttp.ini:4: {wanted} '{site}/hello/www': No such file or directory\nhint: make it" in told
    code, told = check(site, "--document", "hello/poorhttp.ini", "hello")
    assert code == 2
    assert f"error: flag --document: {wanted} '{site}/hello/poorhttp.ini': Not a directory\n" in told
    (site / "hello" / "www").mkdir()
    assert check(site, "-c", "hello/poorhttp.ini") == (0, "")


@pytest.mark.parametrize("application", ["hello", "hello/dispatch_table.py"])
def test_an_ini_file_beside_the_application_is_told_not_to_be_read(site: Path, application: str) -> None:
    note = f"note: {site}/hello/poorhttp.ini is not read; -c hello/poorhttp.ini reads it\n"
    assert check(site, application) == (0, note)
    assert check(site / "hello") == (0, note.replace("-c hello/", "-c "))
    (site / "hello" / "poorhttp.ini").unlink()
    assert check(site, application) == (0, "")


def test_sessions_in_memory_are_told_to_be_for_one_process(site: Path) -> None:
    (site / "hello" / "poorhttp.ini").unlink()
    (site / "hello" / "dispatch_table.py").write_text(IN_MEMORY)
    assert (
        check(site, "hello", "--type=threading") == check(site, "hello", "--type=forking", "--processes=1") == (0, "")
    )
    for preload in "yes", "no":
        code, told = check(site, "hello", "--type=forking", f"--preload={preload}")
        assert code == 0 and "note: sessions in memory: work in one process only, and here are several" in told
