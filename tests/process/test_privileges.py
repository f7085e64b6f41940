"""user and group: root binds, somebody else serves, and there is no way back."""

import functools
import os
import pwd
import select
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from starter import PATIENCE, ROOT, SHAPES, Start, wait_for

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")

WHO = """
import os
import pwd


def attempt(function):
    try:
        function()
    except OSError:
        return "refused"
    return "root again"


LOADED_AS = os.getresuid()


def application(environ, start_response):
    ways = [lambda: os.setuid(0), lambda: os.setresuid(0, 0, 0), lambda: os.setgid(0), lambda: os.setgroups([0])]
    ways += [lambda: open("/proc/1/mem", "rb").close(), lambda: os.chown(os.environ["ROOTS"], 0, 0)]
    facts = [LOADED_AS, os.getresuid(), os.getresgid(), os.getgroups(), *map(attempt, ways)]
    body = repr(facts).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
"""

NOBODY = (65534, 65534, 65534)

WITH_GROUPS = (
    sys.executable,
    "-c",
    "import os, sys; os.setgroups([0, 4]); os.execvp(sys.argv[1], sys.argv[1:])",
)
"""Starts a server as a root with other groups, as that of a login has them and that of a container does not."""

MAY_MOUNT = shutil.which("unshare") and not subprocess.call(["unshare", "--mount", "true"], stderr=subprocess.DEVNULL)


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """Not below the directory of pytest, which each run of it by root closes to everybody else."""
    with tempfile.TemporaryDirectory(prefix="poorhttp-") as name:
        yield Path(name)


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory into which another user may look, and an interpreter that he may run."""
    tmp_path.chmod(0o755)
    python = next(filter(is_for_all, (sys.executable, "/usr/bin/python3")), None)
    if python is None:
        pytest.skip("another user may run no Python for which poorhttp is built here: the directory of both is closed")
    monkeypatch.setattr(sys, "executable", python)
    (tmp_path / "of-root").touch()
    monkeypatch.setenv("ROOTS", str(tmp_path / "of-root"))
    return tmp_path


@functools.cache
def is_for_all(python: str) -> bool:
    """Whether another user can start poorhttp with this interpreter."""
    command = [python, "-c", "import threading, poorhttp._engine"]
    environ = {"PYTHONPATH": str(ROOT)}
    try:
        return (
            subprocess.run(
                command, check=False, env=environ, user=65534, cwd="/", capture_output=True, timeout=30
            ).returncode
            == 0
        )
    except OSError:
        return False


def test_root_is_given_up_for_good(launch: Start, shape: str, directory: Path) -> None:
    (directory / "log").mkdir()
    os.chown(directory / "log", 65534, 65534)
    (directory / "app.py").write_text(WHO)
    words = ("app.py", "--bind=127.0.0.1:0", *SHAPES[shape], "--user=nobody", "--errorlog=log/error.log")
    server = launch(*words, inside=WITH_GROUPS)
    server.await_address()
    seen = eval(server.get()[1])
    assert seen[:3] == [NOBODY, NOBODY, NOBODY]
    assert sorted(seen[3]) == sorted(os.getgrouplist("nobody", 65534))
    assert set(seen[4:]) == {"refused"}
    for pid in server.workers() | {server.process.pid}:
        facts = Path(f"/proc/{pid}/status").read_text()
        assert "Uid:\t65534\t65534\t65534\t65534" in facts and "Gid:\t65534\t65534\t65534\t65534" in facts
        assert "CapEff:\t0000000000000000" in facts
    assert (directory / "log" / "error.log").stat().st_uid == 65534
    assert server.stop() == 0


def test_a_number_without_a_name_has_no_groups_but_its_own(launch: Start, directory: Path) -> None:
    (directory / "app.py").write_text(WHO)
    server = launch("app.py", "--bind=127.0.0.1:0", "--user=54321", inside=WITH_GROUPS)
    server.await_address()
    assert eval(server.get()[1])[1:4] == [(54321,) * 3, (54321,) * 3, [54321]]
    assert server.stop() == 0


@pytest.mark.skipif(not MAY_MOUNT, reason="needs `unshare --mount`")
def test_the_user_of_the_server_has_all_his_groups(launch: Start, directory: Path) -> None:
    (directory / "app.py").write_text(WHO)
    (directory / "group").write_text("root:x:0:\nnogroup:x:65534:\none:x:4001:root,nobody\ntwo:x:4002:nobody\n")
    with_file = ("unshare", "--mount", "sh", "-c", 'mount --bind group /etc/group && exec "$@"', "-")
    server = launch("app.py", "--bind=127.0.0.1:0", "--user=nobody", inside=(*with_file, *WITH_GROUPS))
    server.await_address()
    assert eval(server.get()[1])[2:4] == [NOBODY, [4001, 4002, 65534]]
    server.send(signal.SIGHUP)
    server.await_text("reloaded: ")
    assert eval(server.get()[1])[2:4] == [NOBODY, [4001, 4002, 65534]]
    assert server.stop() == 0


def test_a_log_does_not_lead_root_to_what_is_not_the_users(launch: Start, directory: Path) -> None:
    """The directory of the log is the user's, and the log a link that he has put there."""
    (directory / "app.py").write_text(WHO)
    secret = directory / "secret"
    secret.write_text("root's\n")
    secret.chmod(0o600)
    (directory / "error.log").symlink_to(secret)
    server = launch("app.py", "--bind=127.0.0.1:0", "--user=nobody", "--errorlog=error.log")
    assert server.end() == 2
    assert "cannot open the log" in server.said
    assert secret.stat().st_uid == 0 and secret.read_text() == "root's\n"


def test_a_group_of_its_own_and_a_socket_for_it(start: Start, directory: Path) -> None:
    server = start("1x1", "--user=nobody", "--group=12345", "--bind=unix:server.sock", "--socket-mode=660", source=WHO)
    found = (directory / "server.sock").stat()
    assert (stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid) == (0o660, 65534, 12345)
    assert "(12345, 12345, 12345)" in server.get()[1]
    assert server.stop() == 0


def test_a_reload_works_without_root(start: Start, shape: str, directory: Path) -> None:
    server = start(shape, "--user=nobody", source=WHO)
    (directory / "app.py").write_text(WHO.replace("facts = [", "facts = ['new', "))
    server.send(signal.SIGHUP)
    wait_for(lambda: "'new'" in server.get()[1], "the new code")
    assert eval(server.get()[1])[1] == NOBODY
    assert server.stop() == 0


def test_check_path_is_asked_for_as_the_user_of_the_server(launch: Start, shape: str, directory: Path) -> None:
    asked = "import os\ndef application(environ, start):\n    start(f'{500 if os.geteuid() == 0 else 200} x', [])\n"
    (directory / "app.py").write_text(f"{asked}    return []\n")
    server = launch("app.py", "--bind=127.0.0.1:0", *SHAPES[shape], "--user=nobody", "--check-path=/")
    server.await_address()
    assert server.said.startswith("GET / is answered 200 x, in 0 bytes\n")
    server.send(signal.SIGHUP)
    server.await_text("reloaded: ")
    assert server.stop() == 0


@pytest.mark.parametrize("mask", [0o027, 0o077])
def test_whatever_the_umask_who_serves_finds_himself_in_the_pidfile(launch: Start, directory: Path, mask: int) -> None:
    (directory / "app.py").write_text(WHO)
    os.chown(directory, 65534, -1)
    inherited = os.umask(mask)
    try:
        server = launch("app.py", "--bind=127.0.0.1:0", "--user=nobody", "--pidfile=run.pid")
    finally:
        os.umask(inherited)
    server.await_address()
    server.send(signal.SIGHUP)
    server.await_text("reloaded: ")
    assert eval(server.get()[1])[1] == NOBODY
    assert server.stop() == 0
    assert not (directory / "run.pid").exists()


def test_a_directory_of_root_is_told_and_in_nobodys_way(start: Start, directory: Path) -> None:
    (directory / "run").mkdir(mode=0o755)
    arguments = ("--user=nobody", "--pidfile=run/server.pid", "--bind=unix:server.sock", "--bind=127.0.0.1:0")
    arguments += ("--control-socket=run/control.sock",)
    server = start("1x1", *arguments, source=WHO)
    for name in "run/server.pid", "run/control.sock", "server.sock":
        assert server.said.count(f"{directory}/{name} cannot be removed at a stop") == 1
    server.send(signal.SIGHUP)
    server.await_text("reloaded: ")
    assert eval(server.get()[1])[1] == NOBODY
    assert server.stop() == 0
    assert server.said.count("cannot be removed at a stop") == 3
    server = start("1x1", *arguments, source=WHO)
    assert server.stop() == 0


def test_root_may_stay_root(start: Start, directory: Path) -> None:
    server = start("1x1", "--user=root", "--errorlog=error.log")
    assert server.get()[0] == 200
    assert "Uid:\t0\t0\t0\t0" in Path(f"/proc/{server.process.pid}/status").read_text()
    assert server.stop() == 0


@pytest.mark.parametrize(
    ("argument", "told"),
    [("--user=no such user", "there is no user 'no such user'"), ("--group=nogroupatall", "there is no group")],
)
def test_nobody_serves_as_somebody_who_is_not_there(launch: Start, directory: Path, argument: str, told: str) -> None:
    (directory / "app.py").write_text(WHO)
    server = launch("app.py", "--bind=127.0.0.1:0", argument)
    assert server.end() == 2
    assert told in server.said and "Traceback" not in server.said


def test_a_user_who_is_not_root_cannot_become_another(launch: Start, directory: Path) -> None:
    (directory / "app.py").write_text(WHO)
    (directory / "poorhttp.ini").write_text("[http]\napplication = app.py\nbind = 127.0.0.1:0\nuser = nobody\n")
    server = launch("-c", "poorhttp.ini")
    server.await_address()
    (directory / "poorhttp.ini").write_text("[http]\napplication = app.py\nbind = 127.0.0.1:0\nuser = root\n")
    server.send(signal.SIGHUP)
    server.await_text("reload failed")
    assert server.get()[0] == 200
    assert server.stop() == 0


@pytest.mark.parametrize("left_out", ["-all", "-setuid", "-setgid"])
@pytest.mark.parametrize("command", [(), ("--check-config",)])
def test_a_root_without_the_rights_is_told_which(
    launch: Start, directory: Path, command: tuple[str, ...], left_out: str
) -> None:
    if not shutil.which("setpriv"):
        pytest.skip("needs setpriv: apt-get install util-linux")
    (directory / "app.py").write_text(WHO)
    inside = ("setpriv", f"--bounding-set={left_out}", "--inh-caps=-all")
    server = launch("app.py", "--bind=127.0.0.1:0", "--user=nobody", *command, inside=inside)
    assert server.end() == 2
    assert server.said.endswith(
        "error: cannot become nobody: Operation not permitted\n"
        "hint: root needs CAP_SETUID and CAP_SETGID here; or leave out user and group\n"
    )
    assert "Traceback" not in server.said


def test_the_home_is_that_of_who_serves(start: Start, directory: Path) -> None:
    """Also after a reload, whose environment is that of the start."""
    at_home = WHO.replace("facts = [", "facts = [[os.environ.get(each) for each in ('HOME', 'USER', 'LOGNAME')], ")
    server = start("1x1", "--user=nobody", source=at_home)
    home = ["/nonexistent", "nobody", "nobody"]
    assert eval(server.get()[1])[0][1:] == home[1:]
    first = eval(server.get()[1])[0]
    assert first[0] == pwd.getpwnam("nobody").pw_dir
    server.send(signal.SIGHUP)
    server.await_text("reloaded: ")
    assert eval(server.get()[1])[0] == first
    assert server.stop() == 0


def test_the_program_of_a_log_is_not_roots(start: Start, directory: Path) -> None:
    (directory / "log").mkdir()
    os.chown(directory / "log", 65534, 65534)
    program = (
        f"|sh -c 'grep -e ^[UG]id: -e ^Groups: /proc/self/status >{directory}/log/ids; cat >{directory}/log/lines'"
    )
    server = start("1x1", "--user=nobody", f"--accesslog={program}", source=WHO)
    server.get("/")
    lines = directory / "log" / "lines"
    wait_for(lambda: lines.exists() and "GET /" in lines.read_text(), "the line")
    assert set((directory / "log" / "ids").read_text().split()) == {"Uid:", "Gid:", "Groups:", "65534"}
    assert lines.stat().st_uid == 65534
    assert server.stop() == 0


LOADED = """
import os

with open("loaded", "a") as file:
    file.write(f"{os.getuid()} {os.environ['HOME']}\\n")


def application(environ, start_response):
    start_response("200 OK", [("Content-Length", "0")])
    return []
"""


def test_only_the_user_who_serves_loads_the_application(launch: Start, directory: Path) -> None:
    """A user who may write the application must not get root by a check or a restart."""
    for name in "code", "log":
        (directory / name).mkdir()
        os.chown(directory / name, 65534, 65534)
    (directory / "code" / "app.py").write_text(LOADED)
    common = ("app.py", "--user=nobody", "--pidfile=../pid", "--errorlog=../log/error.log", "--bind=127.0.0.1:0")
    environ = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "poorhttp"]

    def run(*words: str) -> int:
        return subprocess.run(
            [*command, *words], cwd=directory / "code", env=environ, check=False, timeout=60
        ).returncode

    assert run(*common, "--check-config") == 0
    assert run("start", *common) == 0
    assert run("restart", *common) == 0
    (directory / "log").chmod(0o700)
    os.chown(directory / "log", 0, 0)
    assert run("restart", *common) == 2, "the log cannot be opened any more, so nothing was stopped"
    assert run("status", *common) == 0
    assert run("stop", *common) == 0
    loaded = (directory / "code" / "loaded").read_text().splitlines()
    assert len(loaded) >= 4 and {line.split()[0] for line in loaded} == {"65534"}


@pytest.mark.parametrize("errorlog", ["|cat", "error.log"])
def test_a_user_who_may_not_read_the_interpreter_is_told_so(launch: Start, tmp_path: Path, errorlog: str) -> None:
    if is_for_all(sys.executable):
        pytest.skip("everybody may read this one")
    tmp_path.chmod(0o777)
    (tmp_path / "app.py").write_text(WHO)
    server = launch("app.py", "--bind=127.0.0.1:0", "--user=nobody", f"--errorlog={errorlog}")
    assert server.end() == 2
    assert server.said.startswith("error: nobody may not read ") and server.said.count("\n") == 2
    assert not (tmp_path / "error.log").exists()


@pytest.fixture
def manager() -> Iterator[socket.socket]:
    """The socket of a service manager that anybody may speak to."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(f"\0poorhttp-test-{os.getpid()}")
        sock.settimeout(PATIENCE)
        yield sock


def is_heard(manager: socket.socket, seconds: float) -> bool:
    """Whether the watchdog hears of the server in this time."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if select.select([manager], [], [], left)[0] and b"WATCHDOG=1" in manager.recv(4096):
            return True
    return False


@pytest.mark.parametrize("is_alone", [True, False], ids=["alone", "beside"])
@pytest.mark.parametrize("shape", ["1x1", "2x1"])
def test_a_socket_that_is_closed_to_who_serves_tells_the_watchdog_nothing(
    start: Start, shape: str, directory: Path, manager: socket.socket, is_alone: bool
) -> None:
    """It looks at the others, if there are any; if not, it goes on hearing that the process lives."""
    (directory / "marks").mkdir()
    (directory / "marks").chmod(0o777)
    binds = f"{'' if is_alone else '127.0.0.1:0, '}unix:server.sock"
    who = ("--user=nobody", "--socket-owner=root", "--socket-mode=600")
    notify = f"@poorhttp-test-{os.getpid()}"
    server = start(shape, f"--bind={binds}", *who, NOTIFY_SOCKET=notify, WATCHDOG_USEC="400000")
    wait_for(lambda: is_heard(manager, PATIENCE), "the watchdog to hear of it")
    server.await_text("the watchdog of the service manager may not connect to")
    assert ("only checks that this process runs" in server.said) is is_alone
    if not is_alone:
        with ThreadPoolExecutor(8) as pool:
            answers = [pool.submit(server.get, "/held") for _ in range(8)]
            try:
                wait_for(lambda: not is_heard(manager, 0.6), "the watchdog to hear no more")
            finally:
                (server.marks / "release").touch()
            assert {each.result(PATIENCE) for each in answers} == {(200, "released")}
        wait_for(lambda: is_heard(manager, PATIENCE), "the watchdog to hear of it again")
    assert server.stop() == 0
    assert server.said.count("may not connect to") == 1
