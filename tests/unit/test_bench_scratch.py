"""The bench's temporary directories: gone at the end, and removed by the next run if theirs was killed."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench import caches, launch, scratch

RUN = """
import tempfile, time
from bench import scratch
with scratch.directory() as path:
    open(tempfile.mkdtemp() + "/data", "w").close()
    in_memory = scratch.Scratch(scratch.MEMORY)
    print(path, in_memory.path, flush=True)
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files are made, and where those in memory are."""
    (tmp_path / "memory").mkdir()
    monkeypatch.setattr(scratch, "MEMORY", tmp_path / "memory")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_directory_takes_all_temporary_files_and_is_gone_at_the_end(place: Path) -> None:
    with scratch.directory() as path:
        assert path.parent == place
        inner = Path(tempfile.mkdtemp())
        (inner / "data").touch()
        assert inner.parent == path
    assert not path.exists() and tempfile.gettempdir() == str(place)


def test_what_a_killed_run_has_left_is_removed(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = RUN.replace("scratch.MEMORY", repr(str(place / "memory")))
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=launch.ROOT, env={**os.environ, "TMPDIR": str(place)},
        stdout=subprocess.PIPE, text=True,
    ) as run:  # fmt: skip
        assert run.stdout
        made = [Path(path) for path in run.stdout.readline().split()]
        scratch.remove_abandoned()
        assert len(made) == 2 and all(path.exists() for path in made), "a run that lives keeps its directories"
        assert capsys.readouterr().err == ""
        run.send_signal(signal.SIGKILL)
    assert all(path.exists() for path in made)
    scratch.remove_abandoned()
    assert not any(path.exists() for path in made)
    told = capsys.readouterr().err
    assert all(str(path) in told for path in made)


def test_what_is_not_ours_is_left_alone(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "bench-of-another-program").mkdir()
    (place / "bench-file").touch()
    target = place / "target"
    target.mkdir()
    (target / scratch.LOCK).touch()
    (place / "bench-link").symlink_to(target)
    linked = place / "bench-linked-lock"
    linked.mkdir()
    (linked / scratch.LOCK).symlink_to(target / scratch.LOCK)
    before = sorted(place.rglob("*"))
    scratch.remove_abandoned()
    assert sorted(place.rglob("*")) == before and capsys.readouterr().err == ""


def test_what_cannot_be_removed_keeps_its_lock_for_the_next_run(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = place / "bench-1"
    (left / "busy").mkdir(parents=True)
    (left / scratch.LOCK).touch()
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", lambda *_, **__: None)
        scratch.remove_abandoned()
    assert (left / scratch.LOCK).exists()
    scratch.remove_abandoned()
    assert not left.exists()


def test_the_cache_in_memory_lies_in_such_a_directory(place: Path) -> None:
    store = caches.InMemory()
    assert store.directory.parent == place / "memory" and (store.directory / scratch.LOCK).exists()
    store.stop()
    assert not store.directory.exists()
