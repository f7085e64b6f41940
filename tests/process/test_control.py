"""`poorhttp start`, `stop`, `restart`, `reload`, `status` and `logrotate`: a server in the background and its pidfile."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import psutil
import pytest
from fronts import free_port
from processes import suspend
from starter import APPLICATION, PATIENCE, ROOT, Start, asking, wait_for
from starter import run as command

from poorhttp.status import pidfile, reader
from poorhttp.system import procfs

APP = """
import json
import os

def application(environ, start_response):
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]
"""

ENDLESS = """
def endless():
    import time
    while True:
        yield b"."
        time.sleep(0.05)
"""

WAIT = """
def wait(name):
    import time
    if name:
        open(name + ".began", "w").close()
        while not os.path.exists(name + ".may_end"):
            time.sleep(0.01)
"""

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Run `poorhttp ACTION -c poorhttp.ini` in a directory of its own: exit code and what was said."""
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "poorhttp.ini").write_text(
        "[http]\napplication = app.py\nbind = unix:server.sock\npidfile = run.pid\nerrorlog = error.log\n"
        "graceful_timeout = 2\ntype = forking\nprocesses = 2\n"
    )

    def poorhttp(action: str, *arguments: str) -> tuple[int, str]:
        return command(tmp_path, action, "-c", "poorhttp.ini", *arguments)

    yield poorhttp
    poorhttp("stop")


def pid_of(directory: Path, name: str = "run.pid") -> int:
    return int((directory / name).read_text())


def answer_of(address: Path, path: str = "") -> bytes:
    """The body that a client without a connection yet gets."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(PATIENCE)
        client.connect(str(address))
        client.sendall(b"GET /%b HTTP/1.0\r\n\r\n" % path.encode())
        with client.makefile("rb") as answer:
            return answer.read().rpartition(b"\r\n\r\n")[2]


def connections_to(address: Path) -> list[str]:
    """The connections to a unix socket, accepted or not."""
    lines = Path("/proc/net/unix").read_text().splitlines()
    return [line for line in lines if line.endswith(f" {address}") and line.split()[5] in ("02", "03")]


def be_of(directory: Path, kind: str) -> None:
    """Let the ini file of `run` be of another type, with as many processes and threads as that has."""
    ini = directory / "poorhttp.ini"
    ini.write_text(ini.read_text().replace("type = forking\nprocesses = 2\n", f"type = {kind}\n"))


def workers_of(pid: int) -> list[psutil.Process]:
    """Its two workers, which a start does not wait for: who comes meanwhile waits in the queue of the socket."""
    wait_for(lambda: len(psutil.Process(pid).children()) == 2, "two workers")
    return psutil.Process(pid).children()


def test_a_life_in_the_background(run: Run, tmp_path: Path) -> None:
    assert run("status") == (3, f"not running: there is no pidfile {tmp_path}/run.pid\n")
    code, said = run("start")
    pid = pid_of(tmp_path)
    assert code == 0 and f"started: pid {pid}" in said and "server.sock" in said
    assert os.getsid(pid) == pid, "a session of its own"
    streams = [os.readlink(f"/proc/{pid}/fd/{each}") for each in (0, 1, 2)]
    assert streams == ["/dev/null", *[str(tmp_path / "error.log")] * 2], "what is printed is in the error log"
    assert run("start") == (0, f"running already: pid {pid}\n")
    wait_for(lambda: workers_of(pid), "a worker")
    code, said = run("status")
    assert code == 0 and f"running: pid {pid}, for " in said and "workers: " in said and "MiB" in said
    (tmp_path / "error.log").rename(tmp_path / "error.log.1")
    assert run("logrotate")[0] == 0
    wait_for((tmp_path / "error.log").exists, "the new log")
    wait_for(lambda: os.readlink(f"/proc/{pid}/fd/2") == str(tmp_path / "error.log"), "standard error in the new log")
    assert run("reload") == (0, f"pid {pid}: reload succeeded\n")
    wait_for(lambda: "left: exit code 0" in (tmp_path / "error.log").read_text(), "old workers to leave")
    assert pid_of(tmp_path) == pid
    (tmp_path / "app.py").write_text("import no_such_module\n")
    assert run("restart")[0] == 3, "what cannot start is no reason to stop"
    assert run("status")[0] == 0
    (tmp_path / "app.py").write_text(APP)
    assert run("restart")[0] == 0
    assert pid_of(tmp_path) != pid
    pid = pid_of(tmp_path)
    assert run("stop") == (0, f"stopped (was pid {pid})\n")
    assert not lives(psutil_of(pid)) and not (tmp_path / "run.pid").exists()
    assert run("stop") == (0, f"not running: there is no pidfile {tmp_path}/run.pid\n")
    assert run("reload") == (1, f"not running: there is no pidfile {tmp_path}/run.pid\n")


@pytest.mark.parametrize("kind", ["single", "threading", "forking"])
def test_a_reload_says_how_it_ended_and_in_its_exit_code(run: Run, tmp_path: Path, kind: str) -> None:
    """Also where one is going on already, which may have read the code of before."""
    be_of(tmp_path, kind)
    assert run("start")[0] == 0
    pid = pid_of(tmp_path)
    (tmp_path / "app.py").write_text("import no_such_module\n")
    code, said = run("reload")
    assert code == 1 and said.startswith(
        f"pid {pid}: reload failed, the server goes on as it was: exit code 3: app.py:1: "
    )
    assert "No module named 'no_such_module'" in said
    (tmp_path / "app.py").write_text(APP)
    for _ in range(3):
        assert run("reload") == (0, f"pid {pid}: reload succeeded\n")
    (tmp_path / "app.py").write_text("import time, os\nif not os.path.exists('go'): time.sleep(3600)\n" + APP)
    code, said = run("reload", "--wait=0.5")
    assert code == 1 and said.startswith(f"pid {pid}: the reload has not ended in 0.5 s"), said
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(run, "reload", "--wait=20")
        (tmp_path / "app.py").write_text(APP)
        for each in psutil.Process(pid).children():
            if "POORHTTP_TRIAL" in each.environ():
                each.kill()
        assert second.result() == (0, f"pid {pid}: reload succeeded\n")
    assert run("stop") == (0, f"stopped (was pid {pid})\n")


def test_a_reload_has_succeeded_when_nobody_is_answered_by_the_old_code(run: Run, tmp_path: Path) -> None:
    """Old workers that answer somebody for longer are not waited for: they accept nobody."""
    ini = tmp_path / "poorhttp.ini"
    ini.write_text(ini.read_text().replace("processes = 2", "processes = 4"))
    app = APP.replace("    return", "    if environ['PATH_INFO'] == '/stream': return endless()\n    return") + ENDLESS
    (tmp_path / "app.py").write_text(app)
    assert run("start")[0] == 0
    pid = pid_of(tmp_path)
    wait_for(lambda: len(psutil.Process(pid).children()) == 4, "four workers")
    with contextlib.ExitStack() as stack:
        streams = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(2)]
        for stream in streams:
            stream.settimeout(PATIENCE)
            stream.connect(str(tmp_path / "server.sock"))
            stream.sendall(b"GET /stream HTTP/1.0\r\n\r\n")
            assert stream.recv(9) == b"HTTP/1.1 "
        (tmp_path / "app.py").write_text(app.replace('b"ok"', 'b"OK"'))
        assert run("reload") == (0, f"pid {pid}: reload succeeded\n")
        answers = {answer_of(tmp_path / "server.sock") for _ in range(40)}
        assert answers == {b"OK"}
        assert {stream.recv(1 << 16) for stream in streams} != {b""}, "who is being answered still is"


def test_an_old_worker_whose_call_ends_takes_nobody_who_came_meanwhile(run: Run, tmp_path: Path) -> None:
    """Not even where the new one is busy: its code is old, and it may not have the time that an answer takes."""
    app = APP.replace("    return", "    wait(environ['PATH_INFO'][1:])\n    return") + WAIT
    ini = tmp_path / "poorhttp.ini"
    ini.write_text(ini.read_text().replace("processes = 2", "processes = 1"))
    (tmp_path / "app.py").write_text(app)
    assert run("start")[0] == 0
    pid = pid_of(tmp_path)
    address = tmp_path / "server.sock"
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(answer_of, address, "first")
        wait_for((tmp_path / "first.began").exists, "the call of the old worker")
        (old,) = psutil.Process(pid).children()
        (tmp_path / "app.py").write_text(app.replace('b"ok"', 'b"OK"'))
        assert run("reload") == (0, f"pid {pid}: reload succeeded\n")
        second = pool.submit(answer_of, address, "second")
        wait_for((tmp_path / "second.began").exists, "the call of the new worker")
        third = pool.submit(answer_of, address)
        wait_for(lambda: len(connections_to(address)) == 3, "the third client to wait")
        (tmp_path / "first.may_end").touch()
        assert first.result() == b"ok"
        old.wait(PATIENCE)
        assert not third.done()
        (tmp_path / "second.may_end").touch()
        assert (second.result(), third.result()) == (b"OK", b"OK")


def test_a_reload_fails_where_a_new_worker_does_not_live_to_serve(run: Run, tmp_path: Path) -> None:
    """Which a trial cannot tell, as it forks none. The old ones go on; with the next good code all is well."""
    assert run("start")[0] == 0
    pid = pid_of(tmp_path)
    workers_of(pid)
    (tmp_path / "app.py").write_text("import os\nos.register_at_fork(after_in_child=lambda: os._exit(9))\n" + APP)
    code, said = run("reload")
    assert code == 1 and "reload failed" in said and "died: exit code 9" in said
    assert answer_of(tmp_path / "server.sock") == b"ok"
    (tmp_path / "app.py").write_text(APP.replace('b"ok"', 'b"OK"'))
    assert run("reload") == (0, f"pid {pid}: reload succeeded\n")
    assert answer_of(tmp_path / "server.sock") == b"OK"


@pytest.mark.parametrize("kind", ["single", "forking"])
def test_a_reload_that_is_asked_for_while_the_image_of_another_one_loads(run: Run, tmp_path: Path, kind: str) -> None:
    """Which has read the code of before: there is no board then, and only the next one tells."""
    be_of(tmp_path, kind)
    (tmp_path / "app.py").write_text(
        "import time\nopen('loads', 'a').write('.')\nfor _ in range(100): time.sleep(0.01)\n" + APP
    )
    assert run("start")[0] == 0
    pid = pid_of(tmp_path)
    os.kill(pid, signal.SIGHUP)
    wait_for(lambda: (tmp_path / "loads").stat().st_size == 3, "the new image to load, after the trial")
    assert reader.read_last_reload(pid) is None
    code, said = run("reload", "--wait=0.1")
    assert code == 1 and "the reload has not ended in 0.1 s" in said, said
    (tmp_path / "app.py").write_text("import no_such_module\n")
    code, said = run("reload")
    assert code == 1 and "reload failed, the server goes on as it was: exit code 3" in said, said
    (tmp_path / "app.py").write_text(APP)
    assert run("reload") == (0, f"pid {pid}: reload succeeded\n")


@pytest.mark.parametrize("kind", ["single", "forking"])
def test_what_is_printed_goes_to_the_log_of_the_day_after_a_reload(run: Run, tmp_path: Path, kind: str) -> None:
    """Rotated, reloaded, rotated without being told, led to another file, reloaded again."""

    def printed_to(name: str) -> bool:
        pid = pid_of(tmp_path)
        serving = workers_of(pid) if kind == "forking" else [psutil.Process(pid)]
        try:
            streams = [os.readlink(f"/proc/{each.pid}/fd/{number}") for each in serving for number in (1, 2)]
        except FileNotFoundError:
            return False  # a worker of before has just left
        return set(streams) == {str(tmp_path / name)}

    def reload(name: str, number: int) -> None:
        assert run("reload")[0] == 0
        log = tmp_path / name
        wait_for(lambda: log.exists() and log.read_text().count("reloaded: ") == number, "the reload")

    ini = tmp_path / "poorhttp.ini"
    ini.write_text(ini.read_text().replace("type = forking", f"type = {kind}"))
    (tmp_path / "app.py").write_text('print("loaded", flush=True)\n' + APP)
    assert run("start")[0] == 0
    assert printed_to("error.log")
    (tmp_path / "error.log").rename(tmp_path / "error.log.1")
    assert run("logrotate")[0] == 0
    wait_for((tmp_path / "error.log").exists, "the new log")
    reload("error.log", 1)
    wait_for(lambda: printed_to("error.log"), "the streams in the log")
    (tmp_path / "error.log").rename(tmp_path / "error.log.2")
    reload("error.log", 1)
    wait_for(lambda: printed_to("error.log"), "the streams in the new log")
    ini.write_text(ini.read_text().replace("error.log", "other.log"))
    reload("other.log", 1)
    wait_for(lambda: printed_to("other.log"), "the streams in the other log")
    assert (tmp_path / "other.log").read_text().startswith("loaded\n")
    assert run("logrotate")[0] == 0
    assert printed_to("other.log")


@pytest.mark.parametrize("action", ["start", "restart"])
@pytest.mark.parametrize("kind", ["unix socket", "port"])
def test_a_start_waits_for_the_workers_of_a_server_that_was_killed(
    run: Run, tmp_path: Path, kind: str, action: str
) -> None:
    """They have its sockets until they are gone. The error log tells that it was not stopped."""
    port = free_port()
    place = tmp_path / "server.sock" if kind == "unix socket" else ("127.0.0.1", port)
    bind = "--bind=unix:server.sock" if kind == "unix socket" else f"--bind=127.0.0.1:{port}"
    (tmp_path / "app.py").write_text(
        WAIT + APP.replace("    start", "    wait(environ['PATH_INFO'][1:])\n    start", 1)
    )
    assert run("start", bind)[0] == 0
    killed = pid_of(tmp_path)
    with asking(place, "/call"):
        wait_for((tmp_path / "call.began").exists, "a worker to be in a call")
        os.kill(killed, signal.SIGKILL)
        code, said = run(action, bind)
    assert code == 0, said
    with asking(place) as answer:
        assert answer.read().endswith(b"ok")
    assert run("stop", bind)[0] == 0
    assert run("start", bind)[0] == 0
    log = (tmp_path / "error.log").read_text()
    assert log.count("has left its pidfile") == 1
    assert f"[W] the server before this one, pid {killed}, has left its pidfile: it was killed" in log


def test_without_a_server_a_restart_starts_one_and_a_logrotate_fails(run: Run, tmp_path: Path) -> None:
    assert run("logrotate") == (1, f"not running: there is no pidfile {tmp_path}/run.pid\n")
    assert run("reload") == (1, f"not running: there is no pidfile {tmp_path}/run.pid\n")
    code, said = run("restart")
    assert code == 0 and f"started: pid {pid_of(tmp_path)}" in said, said
    assert run("status")[0] == 0


def test_an_empty_pidfile_is_a_stale_one(run: Run, tmp_path: Path) -> None:
    """A loss of power leaves it."""
    (tmp_path / "run.pid").touch()
    assert run("status")[0] == 1
    assert run("stop") == (0, f"not running: a dead process has left {tmp_path}/run.pid\n")
    code, said = run("start")
    assert code == 0 and "replaced the stale pidfile" in said, said
    assert run("status")[0] == 0


@pytest.mark.parametrize("action", ["stop", "reload", "logrotate"])
def test_a_user_who_may_not_signal_the_server_is_told_so(run: Run, tmp_path: Path, action: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    assert run("start")[0] == 0
    pid = pid_of(tmp_path)
    code = (  # what it needs is imported before: another user may perhaps not read it
        "import os, sys\n"
        "from poorhttp import cli\nfrom poorhttp.operate import background, control\n"
        "from poorhttp.process.start import dry_run, dry_run_child\nfrom poorhttp.status import reader, running\n"
        "pidfile = os.open('run.pid', os.O_RDONLY)\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "running.find = lambda settings: int(os.pread(pidfile, 64, 0))\n"
        "raise SystemExit(cli.main(sys.argv[1:]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, action, "--pidfile=run.pid"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, b""), done.stderr
    assert f"no permission to signal pid {pid}" in done.stderr.decode() and run("status")[0] == 0


@pytest.mark.parametrize("mask", [0o027, 0o077])
def test_the_umask_of_the_start_is_that_of_the_server(run: Run, tmp_path: Path, mask: int) -> None:
    """It counts for whatever is made, also for logs that are opened anew; the pidfile is for everybody to read."""
    inherited = os.umask(mask)
    try:
        assert run("start", "--accesslog=access.log")[0] == 0
    finally:
        os.umask(inherited)
    [log, access, pidfile, sock] = [tmp_path / each for each in ("error.log", "access.log", "run.pid", "server.sock")]

    def modes() -> list[int]:
        return [each.stat().st_mode & 0o777 for each in (log, access, pidfile, sock)]

    expected = [0o644 & ~mask, 0o644 & ~mask, 0o644, 0o777 & ~mask]
    assert modes() == expected
    pid = pid_of(tmp_path)
    processes = [psutil.Process(pid), *workers_of(pid)]
    told = [Path(f"/proc/{each.pid}/status").read_text() for each in processes]
    assert all(f"\nUmask:\t{mask:04o}\n" in each for each in told)
    log.unlink()
    access.unlink()
    assert run("logrotate")[0] == 0
    wait_for(lambda: log.exists() and access.exists(), "the new logs")
    assert modes() == expected


def test_a_start_that_fails_says_why(run: Run, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("import no_such_module\n")
    code, said = run("start")
    assert code == 3 and "ModuleNotFoundError" in said
    assert run("status")[0] == 3
    (tmp_path / "app.py").write_text(APP)
    assert run("start", "--errorlog=-")[0] == 2
    assert run("start", "--pidfile=")[0] == 2


def test_a_server_that_does_not_stop_is_killed(run: Run, tmp_path: Path) -> None:
    assert run("start")[0] == 0
    pid = pid_of(tmp_path)
    workers = workers_of(pid)
    suspend(pid)
    code, said = run("stop", "--graceful-timeout=0.1")
    assert code == 0 and f"pid {pid} did not stop" in said
    wait_for(lambda: not any(map(lives, [psutil_of(pid), *workers])), "the end of all")
    assert run("status") == (3, f"not running: there is no pidfile {tmp_path}/run.pid\n")


def psutil_of(pid: int) -> psutil.Process | None:
    try:
        return psutil.Process(pid)
    except psutil.NoSuchProcess:
        return None


def lives(process: psutil.Process | None) -> bool:
    try:
        return process is not None and process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize("age", [3600, -5])
@pytest.mark.parametrize("name", ["poorhttp", "other"])
def test_no_signal_goes_to_another_process(run: Run, tmp_path: Path, name: str, age: int) -> None:
    """The number of a dead server may be that of any process by now, one called poorhttp even; and where a pidfile was
    kept over a boot, or written by hand, of one that is older than it.
    """
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", name])
    try:
        (tmp_path / "run.pid").write_text(f"{other.pid}\n")
        written = time.time() - age
        os.utime(tmp_path / "run.pid", (written, written))
        for action in ("stop", "reload", "logrotate"):
            assert "not running" in run(action)[1]
        code, said = run("status")
        assert code == 1
        if age < 0 and name == "other":  # where it may have written the file: that is what a start says too
            told = f"{tmp_path}/run.pid names process {other.pid}, which is alive"
            assert said == run("stop")[1] == f"not running: {told} and no poorhttp\n"
            assert json.loads(run("status", "--json")[1])["error"] == f"{told} and no poorhttp"
            assert told in run("start")[1]
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()
    (tmp_path / "run.pid").write_text("0\n")
    assert run("stop")[0] == 2
    (tmp_path / "run.pid").unlink()


CALLS_RUN = 'import app, poorhttp\npoorhttp.run(app.application, config="poorhttp.ini", type="{}")\n'


@pytest.mark.parametrize("kind", ["single", "forking"])
@pytest.mark.parametrize("command", [("program.py",), ("-u", "-m", "poorhttp", "-c", "poorhttp.ini")])
def test_a_server_is_found_by_its_lock_whatever_the_clock_says(
    run: Run, tmp_path: Path, command: tuple[str, ...], kind: str
) -> None:
    """A program that calls run, and the command behind an option of Python; also after the clock was put forward, for
    which the time of the file is put back here. A worker, which has the engine from its parent, has written none.
    """
    (tmp_path / "program.py").write_text(CALLS_RUN.format(kind))
    more = [f"--type={kind}"] if "-m" in command else []
    if kind == "single":
        ini = tmp_path / "poorhttp.ini"
        ini.write_text(ini.read_text().replace("processes = 2\n", "processes = 1\n"))
    program = subprocess.Popen(
        [sys.executable, *command, *more], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    try:
        wait_for((tmp_path / "server.sock").exists, "the socket")
        wait_for(lambda: run("status")[0] == 0, "it to run")
        os.utime(tmp_path / "run.pid", (time.time() - 3600, time.time() - 3600))
        assert run("status")[0] == 0
        assert run("start") == (0, f"running already: pid {program.pid}\n")
        if kind == "forking":
            wait_for(lambda: len(psutil.Process(program.pid).children()) == 2, "two workers")
            with (tmp_path / "run.pid").open() as file:
                assert pidfile.wrote(program.pid, file.fileno())
                workers = psutil.Process(program.pid).children()
                assert not any(pidfile.wrote(each.pid, file.fileno()) for each in workers)
        assert run("stop") == (0, f"stopped (was pid {program.pid})\n") and program.wait(PATIENCE) == 0
    finally:
        program.kill()
        program.wait()


@pytest.mark.parametrize("seconds", [-3600, 86400])
def test_the_number_of_another_server_is_that_of_none(run: Run, tmp_path: Path, seconds: int) -> None:
    """As after a start of the machine in another order: its pidfile is older than who has its number now, or newer, as
    on a board that does not know the time yet.
    """
    assert run("start", "--pidfile=other.pid", "--bind=unix:other.sock")[0] == 0
    pid = pid_of(tmp_path, "other.pid")
    try:
        (tmp_path / "run.pid").write_text(f"{pid}\n")
        os.utime(tmp_path / "run.pid", (time.time() + seconds, time.time() + seconds))
        assert run("reload", "--pidfile=other.pid")[0] == 0
        wait_for(
            lambda: "reloaded: " in (tmp_path / "error.log").read_text(), "the reload, over which the lock is kept"
        )
        assert run("status", "--pidfile=other.pid")[0] == 0
        dead = f"not running: a dead process has left {tmp_path}/run.pid"
        assert run("status")[0] == 1 and run("status")[1].startswith(dead)
        assert run("stop")[0] == 0 and run("stop")[1].startswith(dead)
        code, said = run("restart")
        assert code == 0 and "stale pidfile" in said, said
        assert pid_of(tmp_path) != pid
        assert run("stop")[0] == 0
        assert run("status", "--pidfile=other.pid")[0] == 0
    finally:
        assert run("stop", "--pidfile=other.pid")[0] == 0


def test_a_restart_tries_what_it_can_before_it_stops_anybody(run: Run, tmp_path: Path) -> None:
    assert run("start", "--bind=127.0.0.1:0")[0] == 0
    pid = pid_of(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as other:
        code, said = run("restart", f"--bind=127.0.0.1:{other.getsockname()[1]}")
        assert code == 4 and "is in use by pid" in said, said
    assert run("restart", f"--bind=unix:{tmp_path}/missing/socket")[0] == 4
    assert run("restart", "--errorlog=-")[0] == 2
    (tmp_path / "app.py").write_text("import time\ntime.sleep(3600)\n")
    code, said = run("restart", "--wait=0.5")
    assert code == 3 and "could not be loaded in 0.5 s" in said, said
    assert pid_of(tmp_path) == pid and run("status")[0] == 0
    (tmp_path / "app.py").write_text(APP)
    port = free_port()
    assert run("restart", f"--bind=127.0.0.1:{port}")[0] == 0
    assert run("restart", f"--bind=127.0.0.1:{port}")[0] == 0
    assert run("restart", f"--bind=0.0.0.0:{port}")[0] == 0
    assert run("restart", "--bind=unix:server.sock")[0] == 0
    assert run("restart", "--bind=unix:server.sock")[0] == 0
    assert pid_of(tmp_path) != pid


def test_a_restart_tries_the_control_socket_and_the_owner_of_a_socket_that_is_made_anew(
    run: Run, tmp_path: Path
) -> None:
    ini = tmp_path / "poorhttp.ini"
    ini.write_text(f"{ini.read_text()}control_socket = control.sock\n")
    assert run("start")[0] == 0
    pid = pid_of(tmp_path)
    good = ini.read_text()
    for line, told in [
        ("control_socket = no/such/control.sock", "cannot listen on unix:"),
        ("control_socket = app.py", "exists and is not a socket"),
        ("socket_owner = nosuchuseratall", "there is no user"),
        ("errorlog = /proc/nope", "cannot open the log /proc/nope: "),
    ]:
        name = line.partition(" ")[0]
        ini.write_text("\n".join([*(each for each in good.splitlines() if not each.startswith(name)), line, ""]))
        code, said = run("restart")
        assert code in (2, 4) and told in said, said
        assert pid_of(tmp_path) == pid and run("status")[0] == 0
    ini.write_text(good)
    left = {each.name for each in tmp_path.iterdir()} - {"__pycache__"}
    assert left == {"app.py", "poorhttp.ini", "run.pid", "error.log", "server.sock", "control.sock"}
    assert run("restart")[0] == 0 and pid_of(tmp_path) != pid


@pytest.mark.parametrize("source", ["import os\nos._exit(0)\n", "import os\nif os.fork():\n    os._exit(0)\n"])
def test_an_application_that_ends_the_process_is_no_good_one(run: Run, tmp_path: Path, source: str) -> None:
    assert run("start")[0] == 0
    pid = pid_of(tmp_path)
    (tmp_path / "app.py").write_text(source)
    code, said = run("restart")
    assert code == 3 and "ends the process when it is imported" in said
    assert pid_of(tmp_path) == pid and run("status")[0] == 0


def test_status_says_what_became_of_the_workers(run: Run, tmp_path: Path) -> None:
    assert run("start")[0] == 0
    told = "no workers (WINCH); TTIN or HUP starts them\n"

    def says_so() -> bool:
        os.kill(pid_of(tmp_path), signal.SIGWINCH)  # one that comes before the supervisor listens is ignored
        return told in run("status")[1]

    wait_for(says_so, "no workers")
    os.kill(pid_of(tmp_path), signal.SIGTTIN)
    wait_for(lambda: told not in run("status")[1], "a worker")


def test_a_server_without_workers_misses_none_whatever_the_ini_says_now(run: Run) -> None:
    """Its type was another one at the start."""
    assert run("start", "--type=threading", "--processes=1")[0] == 0
    code, said = run("status")
    assert code == 0 and "threads: " in said and "no workers" not in said, said


def test_a_pidfile_is_not_followed_elsewhere(run: Run, tmp_path: Path) -> None:
    (tmp_path / "run.pid").symlink_to("other.pid")
    (tmp_path / "other.pid").write_text(str(os.getpid()))
    for action in "start", "stop", "status":
        code, said = run(action)
        assert code != 0 and "run.pid is a symbolic link, which is not followed" in said, said


def test_status_for_programs(run: Run, tmp_path: Path) -> None:
    code, said = run("status", "--json")
    assert (code, json.loads(said)) == (3, {"state": "absent", "pidfile": str(tmp_path / "run.pid")})
    assert run("start")[0] == 0
    pid = pid_of(tmp_path)
    workers = {each.pid for each in workers_of(pid)}
    code, said = run("status", "--json")
    facts = json.loads(said)
    assert code == 0 and facts["state"] == "running" and facts["pid"] == pid
    assert {each["pid"] for each in facts["workers"]} == workers
    assert all(each["pss"] > 1 << 20 and each["seconds"] >= 0 for each in [facts, *facts["workers"]])
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: run("status", "--json")[0] == 1, "it to be dead")
    assert json.loads(run("status", "--json")[1])["state"] == "dead"
    (tmp_path / "run.pid").write_text("0\n")
    code, said = run("status", "--json")
    assert code == 4 and json.loads(said)["state"] == "unknown"
    assert run("status")[0] == 4
    (tmp_path / "run.pid").unlink()
    assert run("stop", "--json")[0] == 2


def test_a_typo_elsewhere_keeps_nobody_from_stopping_it(run: Run, tmp_path: Path) -> None:
    assert run("start")[0] == 0
    ini = tmp_path / "poorhttp.ini"
    good = ini.read_text()
    for bad in ("thraeds = 3", "port = 1x", "what is this", "[nonsense]", " indented = 1"):
        ini.write_text(good + bad + "\n")
        code, said = run("status")
        assert code == 0 and "note: " in said, said
        assert run("restart")[0] == 2, "what cannot start is no reason to stop"
    assert run("logrotate")[0] == 0
    code, said = run("stop")
    assert code == 0 and "stopped (was pid" in said
    ini.write_text(good)


def test_a_start_that_takes_long_says_what_it_waits_for_and_has_an_end(run: Run, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("import time\ntime.sleep(3600)\n")
    code, said = run("start", "--wait", "0.5")
    assert code == 1
    assert f"does not serve yet: it loads {tmp_path}/app.py" in said and "did not serve in 0.5 s; ended" in said
    assert run("status")[0] == 3
    for bad in ("soon", "0"):
        code, said = run("start", "--wait", bad)
        assert code == 2 and "flag --wait must be a time such as " in said
    assert run("stop", "--wait", "1")[0] == 2


def test_a_restart_that_had_to_kill_waits_for_the_workers_too(run: Run, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(
        WAIT + APP.replace("    start", "    wait(environ['PATH_INFO'][1:])\n    start", 1)
    )
    bind = f"--bind=127.0.0.1:{free_port()}"
    place = ("127.0.0.1", int(bind.rpartition(":")[2]))
    assert run("start", bind)[0] == 0
    with asking(place, "/call"):
        wait_for((tmp_path / "call.began").exists, "a worker to be in a call")
        suspend(pid_of(tmp_path))
        code, said = run("restart", bind, "--graceful-timeout=0")
    assert code == 0 and "did not stop in 5 s; killed" in said
    with asking(place) as answer:
        assert answer.read().endswith(b"ok")


DYING = """
import os

os.register_at_fork(after_in_child=lambda: os._exit(3))

def application(environ, start_response):
    raise AssertionError
"""


STAY = "import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()\n"


@contextlib.contextmanager
def starting_in_vain(run: Run, directory: Path, *flags: str, source: str = DYING) -> Iterator[tuple[Future[Any], int]]:
    """A start of which a worker has died, and the number of its server."""
    log = directory / "error.log"
    log.write_text("")
    (directory / "app.py").write_text(source)
    with ThreadPoolExecutor(1) as pool:
        start = pool.submit(run, "start", *flags)
        wait_for(lambda: "exit code 3" in log.read_text(), "a worker to die")
        yield start, pid_of(directory)


def test_a_start_has_succeeded_when_a_worker_serves(run: Run, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(DYING)
    code, said = run("start", "--wait=1")
    assert code == 1 and "does not serve yet: no process answers clients\n" in said
    assert said.endswith(f"did not serve in 1 s; ended\nhint: the error log tells why: {tmp_path}/error.log\n")
    assert "died: exit code 3" in (tmp_path / "error.log").read_text()
    assert run("status")[0] == 3


def test_a_start_says_that_its_server_ended_before_a_worker_served(run: Run, tmp_path: Path) -> None:
    for signum, expected in (signal.SIGTERM, 1), (signal.SIGKILL, 9):
        with starting_in_vain(run, tmp_path) as (start, pid):
            os.kill(pid, signum)
            code, said = start.result()
        assert code == expected
        assert said.endswith(f"pid {pid} ended before it served; the error log tells why: {tmp_path}/error.log\n")
        assert not (tmp_path / "run.pid").exists()


def test_a_start_ends_a_server_that_fails_and_does_not_end(run: Run, tmp_path: Path) -> None:
    """It has said that it failed, but a thread of the application keeps it."""
    flags = "--wait=3", "--graceful-timeout=60"
    with starting_in_vain(run, tmp_path, *flags, source=STAY + DYING) as (start, pid):
        os.kill(pid, signal.SIGTERM)
        code, said = start.result()
    assert code != 0 and "another start" not in said
    assert said.endswith(f"pid {pid} ended before it served; the error log tells why: {tmp_path}/error.log\n")
    assert not psutil.pid_exists(pid)


def test_a_second_start_waits_for_a_worker_too(run: Run, tmp_path: Path) -> None:
    with starting_in_vain(run, tmp_path, "--wait=4") as (first, pid):
        code, said = run("start", "--wait=1")
        assert (code, said) == (1, f"pid {pid}, which another start began, did not serve in 1 s\n")
        assert first.result()[0] == 1


def test_a_start_that_fails_has_the_code_of_that_though_it_must_be_ended(run: Run, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(f"{STAY}1 / 0\n")
    code, said = run("start", "--wait=2")
    assert code == 3 and "ZeroDivisionError" in said
    assert not (tmp_path / "run.pid").exists() and run("status") == (
        3,
        f"not running: there is no pidfile {tmp_path}/run.pid\n",
    )


def test_a_start_ends_what_a_reload_made_of_its_server_and_does_not_serve(run: Run, tmp_path: Path) -> None:
    with starting_in_vain(run, tmp_path, "--wait=5") as (start, pid):
        os.kill(pid, signal.SIGHUP)
        wait_for(lambda: "reloaded: " in (tmp_path / "error.log").read_text(), "the next image")
        code, said = start.result()
    assert code == 1 and f"pid {pid} did not serve in 5 s; ended\n" in said
    assert not psutil.pid_exists(pid) and not (tmp_path / "run.pid").exists()


def test_a_restart_goes_on_though_nobody_reads_a_log_any_more(run: Run, tmp_path: Path) -> None:
    fifo = tmp_path / "log.fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    assert run("start", f"--accesslog={fifo}")[0] == 0
    os.close(reader)
    code, said = run("restart", f"--accesslog={fifo}")
    assert code == 0 and f"note: the log {fifo} has no reader" in said
    assert answer_of(tmp_path / "server.sock")
    assert run("stop")[0] == 0
    code, said = run("start", f"--accesslog={fifo}")
    assert code == 2 and f"cannot open the log {fifo}" in said


@pytest.mark.parametrize(("action", "asked"), [("reload", signal.SIGUSR2), ("stop", signal.SIGTERM)])
def test_an_interrupted_command_does_not_say_that_it_was_done(
    run: Run, tmp_path: Path, action: str, asked: signal.Signals
) -> None:
    assert run("start")[0] == 0
    pid = pid_of(tmp_path)

    def has_come() -> bool:
        facts = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        return bool(int(facts["ShdPnd"], 16) >> (asked - 1) & 1)

    suspend(pid)
    command = [sys.executable, "-m", "poorhttp", action, "-c", "poorhttp.ini"]
    with subprocess.Popen(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}) as waiting:
        wait_for(has_come, "the server to be asked")
        waiting.send_signal(signal.SIGINT)
        assert waiting.wait(PATIENCE) == 130
    os.kill(pid, signal.SIGCONT)


def test_a_start_goes_on_waiting_for_what_a_reload_makes_of_its_server(run: Run, tmp_path: Path) -> None:
    with starting_in_vain(run, tmp_path) as (start, pid):
        (tmp_path / "app.py").write_text(APP)
        os.kill(pid, signal.SIGHUP)
        code, said = start.result()
    assert (code, said.splitlines()[-1]) == (0, f"started: pid {pid}")
    assert answer_of(tmp_path / "server.sock")


def hear() -> None:
    """As in a terminal: who runs the tests in the background, or by nohup, ignores these, and so would the child."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_start_that_is_ended_while_it_waits_leaves_nobody_behind(run: Run, tmp_path: Path, signum: int) -> None:
    (tmp_path / "app.py").write_text("import time\nopen('loading', 'w').close()\ntime.sleep(3600)\n")
    start = subprocess.Popen(
        [sys.executable, "-m", "poorhttp", "start", "-c", "poorhttp.ini"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        preexec_fn=hear,
    )
    try:
        wait_for((tmp_path / "loading").exists, "it to load")
        [server] = psutil.Process(start.pid).children()
        start.send_signal(signum)
        assert start.wait(PATIENCE) == 128 + signum
        assert f"pid {server.pid} was stopped before it served" in start.communicate()[1].decode()
        assert not lives(server) and not (tmp_path / "run.pid").exists()
        assert run("status")[0] == 3
    finally:
        start.kill()
        start.wait()


def test_a_server_is_one_in_the_very_moment_in_which_it_becomes_another_image(tmp_path: Path) -> None:
    """As a reload makes it, here again and again: the kernel shows no command line then."""
    (tmp_path / "poorhttp").write_text("import os, sys\nos.execv(sys.executable, [sys.executable, __file__])\n")
    process = subprocess.Popen([sys.executable, str(tmp_path / "poorhttp")])
    try:
        end = time.monotonic() + 2
        while time.monotonic() < end:
            assert pidfile.is_server(process.pid)
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


LOADING = """
import os
import time

open("loading", "w").close()
while not os.path.exists("go"):
    time.sleep(0.02)
"""


def test_a_second_start_waits_for_what_becomes_of_the_first(run: Run, tmp_path: Path) -> None:
    for last, outcome, told in [(APP, 0, "running already: pid {}\n"), ("1 / 0\n", 3, "ended before it served")]:
        (tmp_path / "app.py").write_text(LOADING + last)
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(run, "start")
            wait_for((tmp_path / "loading").exists, "it to load")
            pid = pid_of(tmp_path)
            code, said = run("start", "--wait=0.2")
            assert (code, said) == (1, f"pid {pid}, which another start began, did not serve in 0.2 s\n")
            second = pool.submit(run, "start")
            assert not wait([second], 3).done, "it waits"
            (tmp_path / "go").touch()
            assert first.result()[0] == outcome
            code, said = second.result()
            assert code == (1 if outcome else 0) and told.format(pid) in said
        run("stop")
        (tmp_path / "go").unlink()
        (tmp_path / "loading").unlink()


def test_a_start_says_that_its_server_was_stopped_meanwhile(run: Run, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(LOADING + APP)
    with ThreadPoolExecutor(1) as pool:
        start = pool.submit(run, "start")
        wait_for((tmp_path / "loading").exists, "it to load")
        pid = pid_of(tmp_path)
        assert run("stop") == (0, f"stopped (was pid {pid})\n")
        code, said = start.result()
    assert code == 1 and f"pid {pid} was stopped before it served" in said


def test_a_log_that_cannot_be_opened_anew_is_told_once(run: Run, tmp_path: Path) -> None:
    """By each process, though its standard output and error are that log too."""
    logs, old = tmp_path / "logs", tmp_path / "old"
    logs.mkdir()
    assert run("start", f"--errorlog={logs}/error.log")[0] == 0
    workers_of(pid_of(tmp_path))
    logs.rename(old)
    log = old / "error.log"
    told = f"cannot open the log {logs}/error.log again: No such file or directory"
    for count in (3, 6):
        assert run("logrotate")[0] == 0
        wait_for(lambda most=count: log.read_text().count(told) >= most, "a line of each process")
    assert log.read_text().count(told) == 6
    logs.mkdir()


def test_a_pidfile_that_names_a_worker_is_not_believed(run: Run, tmp_path: Path) -> None:
    assert run("start")[0] == 0
    pid = pid_of(tmp_path)
    workers = workers_of(pid)
    (tmp_path / "run.pid").write_text(f"{workers[0].pid}\n")
    try:
        dead = f"not running: a dead process has left {tmp_path}/run.pid"
        assert run("status")[0] == 1 and run("status")[1].startswith(dead)
        assert run("stop")[0] == 0 and run("stop")[1].startswith(dead)
        assert all(map(lives, workers)), "no signal went to it"
    finally:
        (tmp_path / "run.pid").write_text(f"{pid}\n")
    assert run("stop") == (0, f"stopped (was pid {pid})\n")


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("user = nosuchuseratall", "there is no user"),
        ("group = nosuchgroupatall", "there is no group"),
        ("socket_owner = nosuchuseratall", "there is no user"),
        ("accesslog = no/such/access.log", "cannot open the log"),
        ("accesslog = /proc/nope", "cannot open the log /proc/nope"),
        ("accesslog = .", "Is a directory\nhint: name a file in it"),
        ("accesslog = |no-such-program", "no such program"),
        ("pidfile = no/such/run.pid", "cannot write the pidfile"),
    ],
)
def test_what_a_start_needs_is_looked_at_before(run: Run, tmp_path: Path, setting: str, told: str) -> None:
    ini = tmp_path / "poorhttp.ini"
    good = ini.read_text()
    assert run("--check-config") == (0, "ok\n")
    kept = [line for line in good.splitlines() if line.split(" ")[0] != setting.split(" ")[0]]
    ini.write_text("\n".join([*kept, setting, ""]))
    code, said = run("--check-config")
    assert code == 2 and told in said
    ini.write_text(good)
    assert {each.name for each in tmp_path.iterdir()} - {"__pycache__"} == {"app.py", "poorhttp.ini"}


def test_a_process_that_dies_while_it_loads_is_told(run: Run, tmp_path: Path) -> None:
    died = "the process died while it loaded the application: killed by SIGABRT"
    (tmp_path / "app.py").write_text("import os\nos.abort()\n")
    code, said = run("start")
    assert (code, said.splitlines()[:1]) == (3, [f"error: {died}"])
    assert said.endswith("poorhttp check tells where\n")
    assert not (tmp_path / "run.pid").exists()
    (tmp_path / "app.py").write_text(APP)
    assert run("start")[0] == 0
    pid = pid_of(tmp_path)
    (tmp_path / "app.py").write_text("import os\nos.abort()\n")
    code, said = run("restart")
    assert (code, said.splitlines()[:1]) == (3, [f"error: app.py:2: {died}"])
    assert pid_of(tmp_path) == pid and procfs.lives(pid)
    code, said = run("reload")
    assert (code, said) == (
        1,
        f"pid {pid}: reload failed, the server goes on as it was: killed by SIGABRT; poorhttp check "
        "tells where; the error log tells more\n",
    )
    failed = "reload failed, the server goes on as it was: killed by SIGABRT; poorhttp check tells where"
    wait_for(lambda: failed in (tmp_path / "error.log").read_text(), "the reload to fail")
    assert "killed by SIGABRT" in run("status")[1]


def test_a_server_whose_pidfile_was_changed_in_the_ini_file_is_told_of(run: Run, tmp_path: Path) -> None:
    assert run("start")[0] == 0
    pid, ini = pid_of(tmp_path), tmp_path / "poorhttp.ini"
    before = ini.read_text()
    ini.write_text(before.replace("pidfile = run.pid", "pidfile = other.pid"))
    told = f"not running: there is no pidfile {tmp_path}/other.pid; pid {pid} runs by this ini file, "
    told += f"with --pidfile {tmp_path}/run.pid until a reload\n"
    assert run("status") == (3, told)
    assert run("reload") == (1, told)
    assert json.loads(run("status", "--json")[1])["error"] in told
    told = told.replace(f"not running: there is no pidfile {tmp_path}/other.pid; ", "note: ")
    for word in "start", "restart":
        code, said = run(word)
        assert code == 4 and said.startswith(told) and "in use" in said
    (tmp_path / "link").symlink_to(ini)
    assert run("status", "-c", "link")[0] == 3
    assert run("status", "--pidfile=run.pid")[0] == 0
    assert run("reload", "--pidfile=run.pid")[0] == 0
    assert run("status")[0] == 0
    told = run("status", "--pidfile=run.pid")[1]
    assert f"pid {pid} runs by this ini file, with --pidfile {tmp_path}/other.pid until" in told
    assert run("stop")[0] == 0


def test_a_reload_that_fails_because_of_the_ini_file_is_told_by_status(launch: Start, tmp_path: Path) -> None:
    ini = tmp_path / "poorhttp.ini"
    ini.write_text("[http]\napplication = app.py\nbind = 127.0.0.1:0\npidfile = run.pid\ntype = single\n")
    (tmp_path / "app.py").write_text(APPLICATION)
    server = launch("-c", "poorhttp.ini")
    server.await_serving(1)
    ini.write_text(ini.read_text() + "nonsense = 1\n")
    fault = "poorhttp.ini:6: unknown key in [http]: 'nonsense'"
    code, said = command(tmp_path, "reload", "-c", "poorhttp.ini")
    assert code == 1 and "reload failed, the server goes on as it was" in said and fault in said
    code, said = command(tmp_path, "status", "-c", "poorhttp.ini")
    assert re.search(rf"^last reload: failed, \d.*{re.escape(fault)}$", said, re.MULTILINE), said
    assert server.stop() == 0
