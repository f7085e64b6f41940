"""A reload with another configuration: addresses that come, stay and go, and files that cannot be opened."""

import contextlib
import os
import signal
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from starter import PATIENCE, Start, asking, wait_for
from versions import VERSION

pytestmark = pytest.mark.timeout(120)


def test_the_configuration_is_read_again(launch: Start, tmp_path: Path) -> None:
    """More workers, a second address, another pidfile; the first socket stays the same one."""
    (tmp_path / "app.py").write_text(VERSION.format(version="0", more=""))
    ini = tmp_path / "poorhttp.ini"
    ini.write_text("[http]\napplication = app.py\ntype = forking\nprocesses = 1\nport = 0\npidfile = old.pid\n")
    server = launch("-c", "poorhttp.ini")
    server.await_address()
    inode = listening(server.process.pid)
    text = "[http]\napplication = app.py\ntype = forking\nprocesses = 3\npidfile = new.pid\n"
    ini.write_text(text + "bind = 127.0.0.1:0, unix:server.sock\n")
    server.send(signal.SIGHUP)
    wait_for((tmp_path / "new.pid").exists, "the new pidfile")
    wait_for(lambda: len(server.workers()) == 3, "three workers")
    assert (tmp_path / "new.pid").read_text() == f"{server.process.pid}\n"
    wait_for(lambda: not (tmp_path / "old.pid").exists(), "the end of the old pidfile")
    assert inode <= listening(server.process.pid)
    assert server.get()[0] == 200
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(PATIENCE)
        client.connect(str(tmp_path / "server.sock"))
    # A reload keeps the unix socket, and the one who made it still removes it.
    server.send(signal.SIGHUP)
    wait_for(lambda: server.said.count("unix:") >= 2, "the next image")
    wait_for(lambda: server.get()[0] == 200, "an answer")
    assert server.stop() == 0
    assert not (tmp_path / "server.sock").exists() and not (tmp_path / "new.pid").exists()


BUSY = """
import os
import time

def application(environ, start_response):
    if environ["PATH_INFO"] == "/busy":
        open("asked", "w").close()
        while not os.path.exists("go"):
            time.sleep(0.01)
    start_response("200 OK", [("Content-Length", "8")])
    return [b"answered"]
"""


@pytest.mark.parametrize("more", [("--type=single",), ("--type=forking", "--processes=1")], ids=["1x1", "1 worker"])
@pytest.mark.parametrize("kind", ["tcp", "unix"])
def test_a_client_that_waits_at_an_address_that_a_reload_takes_away_is_served(
    launch: Start, tmp_path: Path, more: tuple[str, ...], kind: str
) -> None:
    """A process alone finishes what it has first; a new worker answers while the old one is busy."""
    (tmp_path / "app.py").write_text(BUSY)
    ini = tmp_path / "poorhttp.ini"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    address = f"127.0.0.1:{port}" if kind == "tcp" else "unix:server.sock"
    ini.write_text(f"[http]\napplication = app.py\nbind = 127.0.0.1:0, {address}\n")
    server = launch("-c", "poorhttp.ini", *more)
    server.await_address()
    with ThreadPoolExecutor(2) as pool:
        busy = pool.submit(server.get, "/busy")
        wait_for((tmp_path / "asked").exists, "the one thread to be busy")
        with asking(("127.0.0.1", port) if kind == "tcp" else tmp_path / "server.sock") as answer:
            ini.write_text("[http]\napplication = app.py\nbind = 127.0.0.1:0\n")
            server.send(signal.SIGHUP)
            wait_for(lambda: "trying the new code" in server.said and not server.trials(), "the end of the trial")
            if "--type=single" in more:
                (tmp_path / "go").touch()
            assert answer.read().endswith(b"\r\n\r\nanswered")
            (tmp_path / "go").touch()
            assert busy.result(PATIENCE)[0] == 200
    wait_for(lambda: "reloaded: " in server.said, "the new image")
    assert server.get()[0] == 200
    assert server.stop() == 0


def test_an_address_that_a_reload_takes_away_refuses_though_an_old_worker_is_busy(
    launch: Start, tmp_path: Path
) -> None:
    (tmp_path / "app.py").write_text(BUSY)
    ini = tmp_path / "poorhttp.ini"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    ini.write_text(f"[http]\napplication = app.py\nbind = 127.0.0.1:0, 127.0.0.1:{port}\n")
    server = launch("-c", "poorhttp.ini", "--type=forking", "--processes=1")
    server.await_address()
    with ThreadPoolExecutor(1) as pool, socket.socket() as late:
        busy = pool.submit(server.get, "/busy")
        wait_for((tmp_path / "asked").exists, "the old worker to be busy")
        ini.write_text("[http]\napplication = app.py\nbind = 127.0.0.1:0\n")
        server.send(signal.SIGHUP)
        server.await_text("reloaded: ")
        late.settimeout(PATIENCE)
        wait_for(lambda: server.get()[0] == 200, "the new worker")
        with pytest.raises(ConnectionRefusedError):
            late.connect(("127.0.0.1", port))
        assert not busy.done()
        (tmp_path / "go").touch()
        assert busy.result(PATIENCE)[0] == 200
    assert server.stop() == 0


BORN_LATE = (
    BUSY
    + """
def wait():
    while os.path.exists("wait"):
        time.sleep(0.01)

os.register_at_fork(after_in_child=wait)
"""
)


@pytest.mark.parametrize("kind", ["tcp", "unix"])
def test_an_old_worker_is_idle_though_an_address_of_it_was_taken_away(launch: Start, tmp_path: Path, kind: str) -> None:
    """A socket that is closed for all is readable for ever."""
    (tmp_path / "app.py").write_text(BORN_LATE)
    ini = tmp_path / "poorhttp.ini"
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}" if kind == "tcp" else "unix:server.sock"
    ini.write_text(f"[http]\napplication = app.py\nbind = 127.0.0.1:0, {address}\n")
    server = launch("-c", "poorhttp.ini", "--type=forking", "--processes=1")
    server.await_address()
    assert server.get()[0] == 200
    [old] = [psutil.Process(pid) for pid in server.workers()]
    ini.write_text("[http]\napplication = app.py\nbind = 127.0.0.1:0\n")
    (tmp_path / "wait").touch()
    server.send(signal.SIGHUP)
    server.await_text("reloaded: ")
    before = sum(old.cpu_times()[:2])
    for _ in range(20):  # of which each takes it a fraction of a millisecond
        assert server.get()[0] == 200
        time.sleep(0.05)  # in which it would turn round and round
    assert sum(old.cpu_times()[:2]) - before < 0.3
    (tmp_path / "wait").unlink()
    assert server.stop() == 0


SLOW_ONCE = """
import os
import time

if os.path.exists("tried"):
    open("loading", "w").close()
    while not os.path.exists("loaded"):
        time.sleep(0.01)
elif os.path.exists("last"):
    open("tried", "w").close()
"""


@pytest.mark.parametrize("end", ["reload", "stop", "stop while it loads"])
def test_a_client_that_waits_for_a_new_worker_while_none_can_be_begun_is_served(
    launch: Start, tmp_path: Path, end: str
) -> None:
    """One old worker drains, another one is busy, so that there are twice as many as are wanted."""
    (tmp_path / "app.py").write_text(SLOW_ONCE + BUSY.replace('"asked"', "f\"asked-{environ['QUERY_STRING']}\""))
    ini = tmp_path / "poorhttp.ini"
    less = "[http]\napplication = app.py\ngraceful_timeout = 60\nbind = 127.0.0.1:0"
    ini.write_text(f"{less}, unix:s\n")
    server = launch("-c", "poorhttp.ini", "--type=forking", "--processes=1")
    server.await_address()
    with ThreadPoolExecutor(2) as pool, contextlib.ExitStack() as clients:
        calls = [pool.submit(server.get, "/busy?1")]
        wait_for((tmp_path / "asked-1").exists, "the first worker to be busy")
        server.send(signal.SIGHUP)
        wait_for(lambda: len(server.workers()) == 2 and server.get()[0] == 200, "the second worker")
        calls.append(pool.submit(server.get, "/busy?2"))
        wait_for((tmp_path / "asked-2").exists, "the second worker to be busy")
        answer = clients.enter_context(asking(tmp_path / "s"))
        ini.write_text(f"{less}\n")
        for count in (2, 3) if end == "reload" else (2,):
            server.send(signal.SIGHUP)
            wait_for(lambda count=count: server.said.count("reloaded: ") == count, "the next image")  # type: ignore[misc]
        if end == "stop while it loads":
            (tmp_path / "last").touch()
            server.send(signal.SIGHUP)
            wait_for((tmp_path / "loading").exists, "the last image")
        if end != "reload":
            server.send(signal.SIGTERM)
            (tmp_path / "loaded").touch()
            server.await_text("stopping")
        (tmp_path / "go").touch()
        assert answer.read().endswith(b"\r\n\r\nanswered")
        assert [call.result(PATIENCE)[0] for call in calls] == [200, 200]
    assert (server.stop() if end == "reload" else server.end()) == 0


def listening(pid: int) -> set[str]:
    """The sockets of a process that listen on TCP, by inode."""
    inodes = {line.split()[9] for line in Path("/proc/net/tcp").read_text().splitlines()[1:] if line.split()[3] == "0A"}
    links = []
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it was closed meanwhile
            links.append(os.readlink(each))
    return inodes & {link.removeprefix("socket:[").removesuffix("]") for link in links}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("processes = 1\ntype = single", "restart the server"),
        ("no_such_setting = 1", "no_such_setting"),
        ("port = 1x", "port"),
    ],
)
def test_a_wrong_configuration_stays_harmless(launch: Start, tmp_path: Path, change: str, told: str) -> None:
    (tmp_path / "app.py").write_text(VERSION.format(version="0", more=""))
    ini = tmp_path / "poorhttp.ini"
    ini.write_text("[http]\napplication = app.py\ntype = forking\nprocesses = 2\nbind = 127.0.0.1:0\n")
    server = launch("-c", "poorhttp.ini")
    server.await_address()
    wait_for(lambda: len(server.workers()) == 2, "two workers")
    before = server.workers()
    kept = [line for line in ini.read_text().splitlines() if line.split(" ")[0] not in change]
    ini.write_text("\n".join([*kept, change, ""]))
    server.send(signal.SIGHUP)
    server.await_text("reload failed")
    server.await_text(told)
    assert server.get()[0] == 200 and server.workers() == before
    assert server.stop() == 0


@pytest.mark.parametrize("kind", ["single", "forking"])
def test_a_socket_that_stays_is_as_the_configuration_wants_it_now(launch: Start, tmp_path: Path, kind: str) -> None:
    (tmp_path / "app.py").write_text(VERSION.format(version="0", more=""))
    ini = tmp_path / "poorhttp.ini"
    text = f"[http]\napplication = app.py\ntype = {kind}\nbind = unix:server.sock\n"
    ini.write_text(text + "socket_mode = 660\n")
    server = launch("-c", "poorhttp.ini")
    server.is_unix = True
    server.await_address()
    path = tmp_path / "server.sock"
    before = path.stat()
    assert before.st_mode & 0o777 == 0o660
    for number, (line, mode) in enumerate([("socket_mode = 600\n", 0o600), ("", 0o600)], 1):
        ini.write_text(text + line)
        server.send(signal.SIGHUP)
        wait_for(lambda count=number: server.said.count("reloaded: ") == count, "the reload")
        assert (path.stat().st_mode & 0o777, path.stat().st_ino) == (mode, before.st_ino)
        assert server.get()[0] == 200
    ini.write_text(text + "socket_owner = nosuchuseratall\n")
    server.send(signal.SIGHUP)
    server.await_text("reload failed")
    assert "there is no user 'nosuchuseratall'" in server.said
    assert server.get()[0] == 200
    assert server.stop() == 0
    assert not path.exists()


@pytest.mark.parametrize("kind", ["single", "forking"])
def test_a_unix_socket_that_was_removed_is_there_again(launch: Start, tmp_path: Path, kind: str) -> None:
    """The control socket too; one that cannot be there again keeps the reload from the server."""
    (tmp_path / "app.py").write_text(VERSION.format(version="0", more=""))
    directory = tmp_path / "sockets"
    directory.mkdir()
    control = directory / "control.sock"
    server = launch("app.py", f"--type={kind}", "--bind=unix:server.sock", f"--control-socket={control}")
    server.is_unix = True
    server.await_address()
    assert server.get()[0] == 200
    (tmp_path / "server.sock").unlink()
    control.unlink()
    directory.rmdir()
    server.send(signal.SIGHUP)
    server.await_text("reload failed")
    assert f"cannot listen on unix:{control}" in server.said
    directory.mkdir()
    server.send(signal.SIGHUP)
    server.await_text("reloaded: ")
    assert server.get()[0] == 200
    assert control.is_socket()
    assert server.stop() == 0
    assert not control.exists() and not (tmp_path / "server.sock").exists()


def test_an_address_in_use_stays_harmless(launch: Start, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(VERSION.format(version="0", more=""))
    ini = tmp_path / "poorhttp.ini"
    ini.write_text("[http]\napplication = app.py\nbind = 127.0.0.1:0\n")
    server = launch("-c", "poorhttp.ini")
    server.await_address()
    with socket.create_server(("127.0.0.1", 0)) as other:
        ini.write_text(f"[http]\napplication = app.py\nbind = 127.0.0.1:0, 127.0.0.1:{other.getsockname()[1]}\n")
        server.send(signal.SIGHUP)
        server.await_text("reload failed")
    server.await_text("is in use")
    assert server.get()[0] == 200
    assert server.stop() == 0


@pytest.mark.parametrize("change", ["errorlog = no/such.log", "accesslog = no/such.log", "pidfile = no/such.pid"])
@pytest.mark.parametrize("kind", ["single", "forking"])
def test_what_cannot_be_opened_stays_harmless(launch: Start, tmp_path: Path, kind: str, change: str) -> None:
    (tmp_path / "app.py").write_text(VERSION.format(version="0", more=""))
    ini = tmp_path / "poorhttp.ini"
    ini.write_text(f"[http]\napplication = app.py\ntype = {kind}\nbind = 127.0.0.1:0\npidfile = run.pid\n")
    server = launch("-c", "poorhttp.ini")
    server.await_address()
    ini.write_text(ini.read_text().replace("pidfile = run.pid\n", "") + change + "\n")
    server.send(signal.SIGHUP)
    server.await_text("reload failed")
    assert server.get()[0] == 200
    assert server.stop() == 0
    assert not (tmp_path / "run.pid").exists()


SPOILED = {
    "rm -r run": "cannot write the pidfile",
    "echo no number > run/server.pid": "is there and is no pidfile",
    "ln -sf elsewhere run/server.pid": "is a symbolic link, which is not followed",
    "rm run/server.pid; mkdir run/server.pid": "is there and is no pidfile",
    "rm run/server.pid; mkfifo run/server.pid": "is there and is no pidfile",
    "echo $OTHER > run/server.pid": "which is alive",
}
"""What befalls a pidfile, and what is told of it."""


@pytest.mark.parametrize("spoil", SPOILED)
@pytest.mark.parametrize("kind", ["single", "forking"])
def test_a_pidfile_that_cannot_be_written_any_more_stays_harmless(
    launch: Start, tmp_path: Path, kind: str, spoil: str
) -> None:
    (tmp_path / "app.py").write_text(VERSION.format(version="0", more=""))
    pidfile = tmp_path / "run/server.pid"
    pidfile.parent.mkdir()
    server = launch("app.py", f"--type={kind}", "--bind=127.0.0.1:0", "--pidfile=run/server.pid")
    server.await_address()
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as other:
        subprocess.run(["sh", "-c", spoil], cwd=tmp_path, env={**os.environ, "OTHER": str(other.pid)}, check=True)
        server.send(signal.SIGHUP)
        server.await_text("reload failed")
    assert SPOILED[spoil] in server.said
    assert server.get()[0] == 200
    subprocess.run(["sh", "-c", "rm -rf run; mkdir run"], cwd=tmp_path, check=True)
    server.send(signal.SIGHUP)
    server.await_text("reloaded: ")
    assert pidfile.read_text() == f"{server.process.pid}\n"
    assert server.get()[0] == 200
    assert server.stop() == 0
    assert not pidfile.exists()


def test_a_reload_leaves_its_pidfile_as_it_is(launch: Start, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(VERSION.format(version="0", more=""))
    server = launch("app.py", "--bind=127.0.0.1:0", "--pidfile=server.pid")
    server.await_address()
    before = (tmp_path / "server.pid").stat()
    server.send(signal.SIGHUP)
    server.await_text("reloaded: ")
    after = (tmp_path / "server.pid").stat()
    assert (after.st_ino, after.st_ctime_ns) == (before.st_ino, before.st_ctime_ns)
    assert server.stop() == 0
