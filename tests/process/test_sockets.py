"""Abstract unix sockets, owners of unix sockets, and a port that servers share."""

import os
import signal
import socket
import stat
import time
from collections import Counter
from pathlib import Path
from textwrap import indent

import pytest
from starter import APPLICATION, PATIENCE, Start, wait_for


def ask(family: int, place: object) -> bytes:
    with socket.socket(family) as client:
        client.settimeout(PATIENCE)
        client.connect(place)  # type: ignore[arg-type]
        client.sendall(b"GET /pid HTTP/1.0\r\n\r\n")
        return b"".join(iter(lambda: client.recv(4096), b""))


def test_an_abstract_socket(start: Start, launch: Start, shape: str, tmp_path: Path) -> None:
    name = f"poorhttp-test-{os.getpid()}-{shape}"
    server = start(shape, f"--bind=unix:@{name}")
    assert f"unix:@{name}" in server.said
    assert b" 200 OK" in ask(socket.AF_UNIX, f"\0{name}")
    other = launch("app.py", f"--bind=unix:@{name}")
    assert other.end() == 4
    assert f"cannot listen on unix:@{name}: Address already in use" in other.said
    server.send(1)
    server.await_text("reloaded: ")
    assert b" 200 OK" in ask(socket.AF_UNIX, f"\0{name}")
    assert server.stop() == 0
    with socket.socket(socket.AF_UNIX) as again:
        again.bind(f"\0{name}")
    assert not list(tmp_path.glob("@*"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a socket away")
@pytest.mark.parametrize(
    ("owner", "found"), [("nobody:12345", (65534, 12345)), (":12345", (0, 12345)), ("65534", (65534, 0))]
)
def test_the_owner_of_a_socket(start: Start, owner: str, found: tuple[int, int]) -> None:
    server = start("1x1", "--bind=unix:server.sock", "--socket-mode=660", f"--socket-owner={owner}")
    facts = (server.directory / "server.sock").stat()
    assert (facts.st_uid, facts.st_gid, stat.S_IMODE(facts.st_mode)) == (*found, 0o660)
    assert server.get("/pid")[0] == 200
    assert server.stop() == 0
    assert not (server.directory / "server.sock").exists()


def test_an_owner_who_is_not_there(launch: Start, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("")
    server = launch("app.py", "--bind=unix:server.sock", "--socket-owner=nosuchuseratall")
    assert server.end() == 2
    assert "there is no user 'nosuchuseratall'" in server.said
    assert not (tmp_path / "server.sock").exists()


def test_a_port_is_shared_by_who_agrees(start: Start, launch: Start) -> None:
    first = start("1x1", "--reuse-port")
    alone = launch("app.py", f"--bind=127.0.0.1:{first.port}")
    assert alone.end() == 4
    second = launch("app.py", f"--bind=127.0.0.1:{first.port}", "--reuse-port")
    second.await_address()
    found: Counter[str] = Counter()
    wait_for(lambda: found.update([first.get("/pid")[1]]) or len(found) == 2, "answers of both")
    assert set(found) == {str(first.process.pid), str(second.process.pid)}
    assert first.stop() == 0
    assert {second.get("/pid")[1] for _ in range(10)} == {str(second.process.pid)}
    assert second.stop() == 0


@pytest.mark.parametrize("kind", ["start", "check", "reload"])
def test_a_server_that_shares_a_port_takes_no_client_before_it_serves(
    start: Start, launch: Start, tmp_path: Path, kind: str
) -> None:
    """The kernel sends a part of the clients to each socket that listens there: they would be reset, or wait."""
    first = start("1x1", "--reuse-port")
    waits = "import os, time\nopen('loading', 'w').close()\nwhile not os.path.exists('go'):\n    time.sleep(0.01)\n"
    (tmp_path / "other.py").write_text(f"{waits}1 / 0\n")
    address = f"127.0.0.1:{first.port}"
    if kind == "reload":
        (tmp_path / "poorhttp.ini").write_text("[http]\napplication = app.py\nport = 0\n")
        other = launch("-c", "poorhttp.ini", "--reuse-port")
        other.await_address()
        server_alone = f"if os.getpid() == {other.process.pid}:\n"  # the trial only loads it
        (tmp_path / "other.py").write_text(f"import os\n{server_alone}{indent(waits, '    ')}{APPLICATION}")
        (tmp_path / "poorhttp.ini").write_text(f"[http]\napplication = other.py\nbind = 127.0.0.1:0, {address}\n")
        other.send(signal.SIGHUP)
    else:
        other = launch(*["--check-config"] * (kind == "check"), "other.py", f"--bind={address}", "--reuse-port")
    wait_for((tmp_path / "loading").exists, "the application to be loaded")
    assert {first.get("/pid")[1] for _ in range(50)} == {str(first.process.pid)}
    (tmp_path / "go").touch()
    if kind == "reload":
        other.await_text("reloaded: ")
        found: Counter[str] = Counter()
        wait_for(lambda: found.update([first.get("/pid")[1]]) or len(found) == 2, "answers of both")
        assert other.stop() == 0
    else:
        assert other.end() == 3
    assert first.stop() == 0


def test_a_socket_that_somebody_else_has_made_meanwhile_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look at a stale socket and its removal."""
    from poorhttp.config.addresses import Address
    from poorhttp.errors import ListenError
    from poorhttp.listen import sockets

    path = str(tmp_path / "server.sock")
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(path)
    before = os.lstat(path)
    while time.time_ns() < before.st_ctime_ns + 50_000_000:  # the clock of a file system is coarse
        time.sleep(0.01)
    looks = []
    lstat = os.lstat

    def replaced(of: str) -> os.stat_result:
        looks.append(of)
        if len(looks) == 2:
            os.unlink(path)
            other.bind(path)
            other.listen()
        return lstat(of)

    with socket.socket(socket.AF_UNIX) as other:
        monkeypatch.setattr(sockets.os, "lstat", replaced)
        with pytest.raises(ListenError, match="in use"):
            sockets.bind(Address(path=path))
        monkeypatch.undo()
        assert os.path.exists(path)
