"""`poorhttp sessions purge`: the command as a user gives it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from poorhttp import cli
from poorhttp.sessions import open_store


def test_expired_sessions_are_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    address = f"sqlite:{tmp_path}/sessions.db"
    store = open_store(address)
    for key, ttl in ("a", 0.1), ("b", 0.1), ("c", 60):
        store.save(key * 64, b"", ttl, None)
    time.sleep(0.2)
    assert cli.main(["sessions", "purge", address]) == 0
    assert capsys.readouterr().out == "removed 2 expired sessions\n"
    assert store.load("c" * 64) is not None
    store.close()


def test_the_address_may_be_a_variable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SESSION_STORE", f"directory:{tmp_path}/sessions")
    (tmp_path / "sessions").mkdir()
    assert cli.main(["sessions", "purge"]) == 0
    assert capsys.readouterr().out == "removed 0 expired sessions\n"


@pytest.mark.parametrize("kind", ["sqlite", "file", "directory"])
def test_before_the_first_session_a_daily_job_succeeds(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["sessions", "purge", f"{kind}:{tmp_path}/sessions"]) == 0
    assert capsys.readouterr().out == f"no sessions yet: {tmp_path}/sessions is not there\n"
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        ([], 2, "takes one argument, the address of a store"),
        (["memory:", "more"], 2, "takes one argument"),
        (["--all"], 2, "takes one argument"),
        (["memory:"], 2, "those of the serving process"),
        (["cookie:"], 2, "is no store: sessions lie with the clients"),
        (["sqlite:relative"], 2, "expected an absolute path"),
        (["sqlite:/proc/none/sessions.db"], 2, "is to be in '/proc/none'; there is no such directory"),
        (["sqllite:/proc/none.db"], 2, "begins with 'sqllite'; did you mean sqlite:/path/of/sessions.db?"),
        (["sqlite:/proc/none.db?timeut=3"], 2, "has 'timeut=3' behind '?'; expected timeout=SECONDS"),
    ],
)
def test_what_is_wrong_is_told(
    arguments: list[str], code: int, told: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SESSION_STORE", raising=False)
    assert cli.main(["sessions", "purge", *arguments]) == code
    error = capsys.readouterr().err
    assert told in error and "hint: " in error


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["purge", "--help"], ["purge", "-h"]])
def test_help(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["sessions", *arguments]) == 0
    assert capsys.readouterr().out.startswith("usage: poorhttp sessions purge [ADDRESS]\n")


@pytest.mark.parametrize("arguments", [[], ["prune"], ["sqlite:/proc/none.db"]])
def test_a_missing_word_is_told(arguments: list[str], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "poorhttp", "sessions", *arguments]
    environ = {**os.environ, "POORHTTP_PORT": "0"}  # the one of a server that others run may be taken
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode in (2, 3)
    assert "hint: did you mean poorhttp sessions purge ADDRESS?" in done.stderr


def test_purging_makes_no_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty.db").touch()
    assert cli.main(["sessions", "purge", f"sqlite:{tmp_path}/empty.db"]) == 1
    assert "no such table: poorhttp_sessions" in capsys.readouterr().err
    assert (tmp_path / "empty.db").stat().st_size == 0


def test_an_application_may_be_called_sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["sessions", "--check-config"]) == 3
