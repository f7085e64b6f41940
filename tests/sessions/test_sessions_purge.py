"""`poorhttp sessions purge`: the command as a user gives it."""

from __future__ import annotations

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
        (["sqlite:/proc/none.db"], 2, "/proc/none.db is not there"),
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


def test_an_application_may_be_called_sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["sessions", "--check-config"]) == 3
