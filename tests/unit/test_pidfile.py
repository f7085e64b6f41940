"""The pidfile is written by one start at a time, whole or not at all. Which processes may have written it: `test_control`."""

import errno
import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from poorhttp import stdlib
from poorhttp.errors import ConfigError
from poorhttp.status import pidfile

ROOT = Path(__file__).resolve().parents[2]

STARTS = """
import os, sys
from poorhttp.operate import control
from poorhttp.status import pidfile
from poorhttp.errors import ConfigError

begin, go = os.pipe()
ended, end = os.pipe()
told, tell = os.pipe()
for _ in range(8):
    if os.fork() == 0:
        os.close(go), os.close(end), os.close(told)
        os.read(begin, 1)
        try:
            os.write(tell, b"%d won\\n" % os.getpid() if pidfile.write("pid") >= 0 else b"")
        except ConfigError as error:
            os.write(tell, b"%d %s\\n" % (os.getpid(), error.message.encode()))
        os.close(tell)
        os.read(ended, 1)
        os._exit(0)
os.close(tell), os.close(go)
sys.stdout.buffer.write(open(told, "rb").read())
os.close(end)
while True:
    try:
        os.wait()
    except ChildProcessError:
        break
"""
"""Eight processes that begin at the same moment, and live until all have said how it went."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "pid"


def dead() -> int:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait(30)
    return gone.pid


def names(path: Path) -> list[str]:
    return [each.name for each in path.parent.iterdir()]


@pytest.mark.parametrize("is_stale", [False, True])
def test_of_those_that_start_at_once_one_lives(path: Path, is_stale: bool) -> None:
    for _ in range(5):
        path.unlink(missing_ok=True)
        if is_stale:
            path.write_text(f"{dead()}\n")
        done = subprocess.run(
            [sys.executable, "-c", STARTS],
            cwd=path.parent,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
        said = [line.split(" ", 1) for line in done.stdout.splitlines()]
        [winner] = [pid for pid, word in said if word == "won"]
        losers = [word for pid, word in said if pid != winner]
        assert path.read_text() == f"{winner}\n" and names(path) == ["pid"]
        assert len(losers) == 7 and all(f"names process {winner}, which is alive" in word for word in losers), losers


@pytest.mark.parametrize("moment", ["link", "_lock"])
def test_one_that_appears_in_between_is_not_replaced(path: Path, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    """Before the draft is put where there was none, and before a stale one is removed."""
    module = stdlib.os if moment == "link" else pidfile
    going_on: Callable[..., object] = getattr(module, moment)

    def late(*arguments: object) -> object:
        (path.parent / "other").write_text(f"{os.getppid()}\n")
        (path.parent / "other").replace(path)
        return going_on(*arguments)

    if moment == "_lock":
        path.write_text(f"{dead()}\n")
    monkeypatch.setattr(module, moment, late)
    with pytest.raises(ConfigError, match=f"names process {os.getppid()}, which is alive") as caught:
        pidfile.write(str(path))
    assert caught.value.exit_code == 2
    assert path.read_text() == f"{os.getppid()}\n" and names(path) == ["pid"]


@pytest.mark.parametrize("call", ["write", "link"])
def test_a_disk_that_is_full_leaves_nothing_behind(path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(stdlib.os, call, full)
    if call == "link":
        monkeypatch.setattr(stdlib.os, "replace", full)
    with pytest.raises(ConfigError, match=f"cannot write the pidfile {path}: No space left on device"):
        pidfile.write(str(path))
    assert names(path) == []


def test_a_file_system_without_links(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(stdlib.os, "link", none)
    os.close(pidfile.write(str(path)))
    assert path.read_text() == f"{os.getpid()}\n" and names(path) == ["pid"]


def test_it_is_locked_from_its_first_moment_and_over_an_image(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    going_on, locked = os.link, []

    def link(source: str, target: str) -> None:
        locked.append(is_locked(Path(source)))
        going_on(source, target)

    monkeypatch.setattr(stdlib.os, "link", link)
    lock = pidfile.write(str(path))
    assert locked == [True] and is_locked(path)
    assert pidfile.write(str(path), lock) == lock
    path.unlink()
    other = pidfile.write(str(path), lock)
    os.close(lock)
    assert is_locked(path) and os.path.samestat(os.fstat(other), path.stat())
    os.close(other)
    assert not is_locked(path)


def is_locked(path: Path) -> bool:
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@pytest.mark.parametrize("is_link", [False, True])
def test_a_draft_that_was_left_is_removed(path: Path, is_link: bool) -> None:
    """In a container a killed start and the next one may have the same number."""
    draft, other = path.with_name(f"pid.{os.getpid()}"), path.with_name("other")
    other.write_text("somebody's")
    draft.symlink_to(other) if is_link else draft.touch()
    os.close(pidfile.write(str(path)))
    assert path.read_text() == f"{os.getpid()}\n" and other.read_text() == "somebody's"
    assert not draft.is_symlink() and not draft.exists()


@pytest.mark.parametrize("umask", [0o022, 0o077, 0])
def test_nobody_can_lock_it_before_the_server_has(path: Path, monkeypatch: pytest.MonkeyPatch, umask: int) -> None:
    modes: list[int] = []
    lock = pidfile._lock

    def look(descriptor: int) -> None:
        modes.append(os.fstat(descriptor).st_mode & 0o777)
        lock(descriptor)

    monkeypatch.setattr(pidfile, "_lock", look)
    before = os.umask(umask)
    try:
        os.close(pidfile.write(str(path)))
        assert os.umask(umask) == umask
    finally:
        os.umask(before)
    assert (modes, path.stat().st_mode & 0o777) == ([0o600], 0o644)


def test_nobody_keeps_a_stale_one_by_a_lock(path: Path) -> None:
    path.write_text(f"{dead()}\n")
    with path.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        os.close(pidfile.write(str(path)))
    assert path.read_text() == f"{os.getpid()}\n"


@pytest.mark.parametrize("there", ["words", "link", "directory", "another's"])
def test_what_is_not_ours_any_more_stays(path: Path, there: str) -> None:
    if there == "link":
        path.symlink_to("elsewhere")
    elif there == "directory":
        path.mkdir()
    else:
        path.write_text("words" if there == "words" else f"{os.getppid()}\n")
    pidfile.remove(str(path))
    assert os.path.lexists(path)
