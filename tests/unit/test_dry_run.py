"""What a child that tries an application is waited for, and which words meet the one that does not end."""

import signal
from pathlib import Path

import pytest

from poorhttp.config import reading
from poorhttp.config.flags import parse_flags
from poorhttp.config.model import Config
from poorhttp.errors import LoadError
from poorhttp.process.start import dry_run_child
from poorhttp.system import timing


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    monkeypatch.setattr(timing, "CALLING", 0.2)
    (tmp_path / "app.py").write_text("def application(environ, start_response): ...\n")
    return reading.read(parse_flags(["app.py", "--request-timeout=0.3"], str(tmp_path)), {}, str(tmp_path))


def test_a_use_that_does_not_end_is_not_taken_for_loading(settings: Config) -> None:
    with pytest.raises(LoadError, match=r"app\.py was called and did not return in 0\.5 s"):
        dry_run_child.run(settings, use=lambda app: signal.pause())


def test_loading_that_does_not_end_is(settings: Config, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("import signal\nsignal.pause()\n")
    with pytest.raises(LoadError, match=r"app\.py could not be loaded in 0\.2 s"):
        dry_run_child.run(settings, patience=0.2)


@pytest.mark.parametrize("is_restart", [False, True])
def test_one_that_is_late_is_told_with_its_place(settings: Config, tmp_path: Path, is_restart: bool) -> None:
    (tmp_path / "app.py").write_text("\nimport signal\nsignal.pause()\n")
    with pytest.raises(LoadError, match=r"app\.py:3: .*app\.py could not be loaded in 1 s") as caught:
        dry_run_child.run(settings, 1.0, more="; one more word" if is_restart else "")
    assert caught.value.hint.endswith("; one more word" if is_restart else "must come to an end")
