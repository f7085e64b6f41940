"""Stores in files: modes and owners of the files, also after a command of root, and that purging makes none."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from session_suite import any_key

from poorhttp.sessions import StoreDown, open_store

KINDS = ["file", "directory", "sqlite", "diskcache"]
NOBODY = 65534

pytestmark = pytest.mark.usefixtures("careless")


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    if request.param == "diskcache":
        pytest.importorskip("diskcache")
    kind: str = request.param
    return kind


@pytest.fixture
def common_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_purging_makes_nothing(kind: str, tmp_path: Path) -> None:
    store = open_store(f"{kind}:{tmp_path}/sessions")
    assert store.purge() == 0
    store.close()
    assert not list(tmp_path.iterdir())


def test_nobody_else_can_read_the_files(kind: str, tmp_path: Path, common_umask: None) -> None:
    place = tmp_path / "sessions"
    if kind in ("directory", "diskcache"):
        place.mkdir(0o755)  # by an administrator
    store = open_store(f"{kind}:{place}")
    for size in 10, 200_000:
        store.save(any_key(), b"x" * size, 60, None)
    made = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert made and {oct(path.stat().st_mode & 0o777) for path in made} == {"0o600"}
    store.close()


@pytest.mark.parametrize(
    ("before", "after"), [(0o644, 0o600), (0o664, 0o660), (0o666, 0o660), (0o640, 0o640), (0o600, 0o600)]
)
@pytest.mark.parametrize("name", ["file:sessions", "sqlite:sessions", "diskcache:cache.db"])
def test_a_file_that_others_could_read_is_closed_to_them(name: str, before: int, after: int, tmp_path: Path) -> None:
    kind, _, file = name.partition(":")
    if kind == "diskcache":
        pytest.importorskip("diskcache")
    path = tmp_path / file
    path.touch()
    path.chmod(before)
    store = open_store(f"{kind}:{tmp_path if kind == 'diskcache' else path}")
    store.save(any_key(), b"1", 60, None)
    made = [each for each in tmp_path.iterdir() if not each.name.endswith(".lock")]
    assert {oct(each.stat().st_mode & 0o777) for each in made} == {oct(after)}
    store.close()


def test_purging_leaves_another_database_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE pages (a)")
        other.commit()
    path.chmod(0o644)
    before = path.read_bytes()
    store = open_store(f"sqlite:{path}")
    with pytest.raises(StoreDown, match="no such table: poorhttp_sessions"):
        store.purge()
    assert path.read_bytes() == before and path.stat().st_mode & 0o777 == 0o644
    assert [each.name for each in tmp_path.iterdir()] == ["other.db"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can work on the files of others")
def test_root_leaves_the_files_to_the_site(tmp_path: Path) -> None:
    place, lock = tmp_path / "sessions", tmp_path / "sessions.lock"
    store = open_store(f"file:{place}")
    store.save("a" * 64, b"", 0.01, None)
    store.save("b" * 64, b"", 60, None)
    os.chown(place, NOBODY, NOBODY)
    place.chmod(0o640)
    lock.unlink()
    time.sleep(0.05)
    assert store.purge() == 1
    assert {(path.stat().st_uid, path.stat().st_gid) for path in (place, lock)} == {(NOBODY, NOBODY)}
    assert place.stat().st_mode & 0o777 == 0o640


def test_what_is_behind_a_symbolic_link_is_not_written(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "sessions.new").symlink_to("victim")
    store, key = open_store(f"file:{tmp_path}/sessions"), any_key()
    store.save(key, b"1", 60, None)
    assert (tmp_path / "victim").read_text() == "precious" and store.load(key) is not None
    (tmp_path / "sessions.lock").unlink()
    (tmp_path / "sessions.lock").symlink_to("elsewhere")
    with pytest.raises(StoreDown, match="symbolic link"):
        store.delete(key)
    assert not (tmp_path / "elsewhere").exists()
