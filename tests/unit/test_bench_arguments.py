"""The bench's command line: its help, and what it says of arguments that do not fit."""

import argparse
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench import __main__, arguments, launch, suites
from bench.servers import SERVERS, members

README = Path(launch.HERE) / "README.md"


@pytest.fixture(autouse=True)
def python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The interpreter of the bench, with a poorhttp beside it."""
    (tmp_path / "poorhttp").touch()
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    return tmp_path / "python"


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What is printed for words that are wrong."""
    with pytest.raises(SystemExit) as ended:
        arguments.parse(words)
    assert ended.value.code == 2
    return capsys.readouterr().err


def test_the_help_says_what_each_command_measures_and_the_manual_names_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        arguments.parse(["--help"])
    shown = " ".join(capsys.readouterr().out.split())
    manual = README.read_text(encoding="utf-8")
    for name, (_, about) in arguments.ABOUT.items():
        assert f"{name} {about}" in shown and f"python -m bench {name} " in manual
    assert arguments.ABOUT.keys() | {"front", "memory-workers"} | set(suites.SUITES) == __main__.COMMANDS.keys()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["start", "--rounds", "0"], "bench start: error: --rounds 0: must be at least 1"),
        (["cost", "--seconds", "0"], "bench cost: error: --seconds 0: must be more than 0"),
        (["memory", "--only", "tornado"], "invalid choice: 'tornado'"),
        (["cost", "--resume", "x", "--quick"], "bench cost: error: --resume goes on with a record"),
        (["cost", "--before", "/nowhere/python"], "--before /nowhere/python: no poorhttp is beside it"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_what_is_wrong_is_told_with_the_usage_of_its_command(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = refused(capsys, *words)
    assert told in text and f"usage: python -m bench {words[0]} " in text


@pytest.mark.parametrize("command", ["cost", "memory", "start", "sweep"])
def test_only_takes_the_servers_of_the_command(command: str) -> None:
    names = arguments.parse([command, "--only", "single"]).only
    assert names == ["single"]
    taken, _ = arguments._names(command)
    assert set(members("start")) & set(taken) and set(taken) < SERVERS.keys()


def test_a_server_without_a_row_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    asked = argparse.Namespace(command="cost", only=["single", "threading"])
    __main__.tell_absent(asked, [("hello", "single")])
    assert capsys.readouterr().err == "without a row here: threading; workloads.ini says which have one\n"
    __main__.tell_absent(asked, [("hello", "single"), ("threads", "threading")])
    assert capsys.readouterr().err == ""
