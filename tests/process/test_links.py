"""Releases beside each other, and a symbolic link that is turned from one to the next: new code is found by the way that
was named, not in the directory to which that led at the start.
"""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from starter import ROOT, SHAPES, Server, Start, asking, wait_for
from versions import write

from poorhttp import cli

IN_CURRENT = ("sh", "-c", 'cd current && exec "$@"', "sh")
"""As a person, or a script, goes there: the shell keeps PWD, by which the directory was named."""

WAYS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "working directory": (IN_CURRENT, ("app.py",)),
    "working directory, a module": (IN_CURRENT, ("app",)),
    "file": ((), ("current/app.py",)),
    "absolute file": ((), ("PLACE/current/app.py",)),
    "ini file": ((), ("-c", "current/poorhttp.ini")),
}
"""How a release is named: by what the server is started, and with which arguments."""


def turn(place: Path, release: str) -> None:
    """Let the link `current` lead there, as a deployment does: at no moment it leads nowhere."""
    (place / "next").symlink_to(release)
    (place / "next").rename(place / "current")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Two releases, the second one a copy of the first with all times, but for what was edited."""
    (tmp_path / "A").mkdir()
    write(tmp_path / "A", "A")
    (tmp_path / "A" / "poorhttp.ini").write_text("[http]\napplication = app.py\n")
    shutil.copytree(tmp_path / "A", tmp_path / "B")
    write(tmp_path / "B", "B")
    times = (tmp_path / "A" / "app.py").stat()
    os.utime(tmp_path / "B" / "app.py", ns=(times.st_atime_ns, times.st_mtime_ns))
    turn(tmp_path, "A")
    return tmp_path


def release(server: Server) -> str:
    return server.get()[1].split(" ")[0]


def await_release(server: Server, name: str) -> None:
    wait_for(lambda: release(server) == name, f"release {name}")


def begin(launch: Start, place: Path, way: str, *arguments: str) -> Server:
    inside, words = WAYS[way]
    words = tuple(word.replace("PLACE", str(place)) for word in words)
    server = launch(*words, "--bind=127.0.0.1:0", *arguments, inside=inside)
    server.await_address()
    await_release(server, "A")
    return server


@pytest.mark.parametrize("way", WAYS)
def test_a_reload_goes_by_the_way_that_was_named(launch: Start, place: Path, way: str) -> None:
    server = begin(launch, place, way)
    for name in "B", "A", "B":
        turn(place, name)
        server.send(signal.SIGHUP)
        await_release(server, name)
    assert server.stop() == 0


def test_so_do_workers(launch: Start, place: Path) -> None:
    server = begin(launch, place, "working directory", *SHAPES["2x1"])
    turn(place, "B")
    server.send(signal.SIGHUP)
    wait_for(lambda: {release(server) for _ in range(8)} == {"B"}, "release B alone")
    assert server.stop() == 0


def test_a_way_that_leads_nowhere_changes_nothing(launch: Start, place: Path) -> None:
    server = begin(launch, place, "working directory")
    (place / "current").unlink()
    server.send(signal.SIGHUP)
    gone = f"the working directory is gone: {place}/current: No such file or directory"
    server.await_text(f"reload failed, the server goes on as it was: {gone}")
    assert release(server) == "A"
    turn(place, "B")
    server.send(signal.SIGHUP)
    await_release(server, "B")
    assert server.stop() == 0


@pytest.mark.parametrize("stands_in", ["current", "A"], ids=["a shell that comes", "a shell that stays"])
def test_a_restart_goes_by_the_way_that_was_named(place: Path, stands_in: str) -> None:
    """Also where the shell is in the old release still, though its prompt names the link."""
    files = f"--bind=unix:{place}/server.sock", f"--pidfile={place}/run.pid", f"--errorlog={place}/error.log"

    def poorhttp(directory: str, command: str) -> str:
        """What a client is told then by the server."""
        done = subprocess.run(
            [sys.executable, "-m", "poorhttp", command, "app.py", *files],
            env={**os.environ, "PYTHONPATH": str(ROOT), "PWD": str(place / "current")},
            cwd=place / directory,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        if command == "stop":
            return ""
        with asking(place / "server.sock") as answer:
            return answer.read().decode().rpartition("\n")[2].split(" ")[0]

    try:
        assert poorhttp("current", "start") == "A"
        turn(place, "B")
        assert poorhttp(stands_in, "restart") == "B"
        turn(place, "A")
        assert poorhttp(stands_in, "restart") == "A"
    finally:
        poorhttp(stands_in, "stop")


@pytest.mark.parametrize("way", WAYS)
def test_under_dev_a_link_that_is_turned_is_a_save(launch: Start, place: Path, way: str) -> None:
    inside, words = WAYS[way]
    server = launch("dev", *(word.replace("PLACE", str(place)) for word in words), "--bind=127.0.0.1:0", inside=inside)
    server.await_address()
    server.await_text("loaded in")
    assert release(server) == "A"
    for name in "B", "A", "B":
        turn(place, name)
        assert release(server) == name
    write(place / "B", "edited")
    assert release(server) == "edited"
    assert server.stop() == 0


def test_under_dev_a_release_without_the_program_gets_it(launch: Start, place: Path) -> None:
    (place / "C").mkdir()
    server = launch("dev", "app.py", "--bind=127.0.0.1:0", inside=IN_CURRENT)
    server.await_address()
    assert release(server) == "A"
    turn(place, "C")
    assert server.get()[0] == 500
    write(place / "C", "C")
    assert release(server) == "C"
    (place / "current").unlink()
    status, text = server.get()
    assert (status, f"the working directory is gone: {place}/current" in text) == (500, True)
    turn(place, "A")
    assert release(server) == "A"


def test_only_a_name_of_this_very_directory_is_a_way(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PWD is inherited by programs that are started in other directories."""
    named = cli.way_to
    monkeypatch.setenv("PWD", str(place / "current"))
    assert named(str(place / "A")) == str(place / "current")
    for other in str(place / "B"), str(place / "none"), "current", "":
        monkeypatch.setenv("PWD", other)
        assert named(str(place / "A")) == str(place / "A")
    monkeypatch.delenv("PWD")
    assert named(str(place / "A")) == str(place / "A")
