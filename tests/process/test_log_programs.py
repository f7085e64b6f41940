"""Logs that are pipes to programs: each line arrives whole, and no program can hold the server up."""

import contextlib
import os
import shlex
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from starter import Server, Start, wait_for

READER = """
import os, select, signal, sys
with open(sys.argv[1], "ab", buffering=0) as file:
    file.write(b"# %d %d\\n" % (os.getpid(), os.getuid()))
    while select.select([0], [], []):
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # what it has read nobody else has
        data = os.read(0, 65536)
        file.write(data)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        if not data:
            break
"""


@pytest.fixture(autouse=True)
def nobody_is_left(tmp_path: Path) -> Iterator[None]:
    """Keepers and programs are no children of the server: look for them by the file that they write."""
    yield
    wait_for(lambda: not programs(tmp_path), "the programs to be gone")


def programs(directory: Path) -> list[psutil.Process]:
    """All processes here that have to do with a log of this test."""
    found = []
    for each in psutil.process_iter(["cmdline", "cwd"]):
        if each.pid != os.getpid() and str(directory) in (each.info["cwd"] or ""):
            found.append(each)
    return found


def to_file(directory: Path, name: str) -> str:
    """A program that writes what it gets into a file, behind a line with its number and its user's."""
    (directory / "reader.py").write_text(READER)
    return "|" + shlex.join([sys.executable, str(directory / "reader.py"), str(directory / name)])


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def readers(path: Path) -> list[int]:
    return [int(line.split()[1]) for line in lines(path) if line.startswith("# ")]


def start_with(start: Start, shape: str, directory: Path) -> Server:
    return start(shape, f"--errorlog={to_file(directory, 'errors')}", f"--accesslog={to_file(directory, 'requests')}")


def test_every_line_arrives_though_the_server_ends(start: Start, shape: str, tmp_path: Path) -> None:
    server = start_with(start, shape, tmp_path)
    for number in range(100):
        assert server.get(f"/pid?{number}")[0] == 200
    assert server.get("/fail")[0] == 500
    assert server.stop() == 0
    wait_for(lambda: not programs(tmp_path), "the programs to end with the server")
    requests = [line for line in lines(tmp_path / "requests") if "GET /pid?" in line]
    assert len(requests) == 100 and len(lines(tmp_path / "requests")) == 102
    assert "    ValueError: failed as asked" in lines(tmp_path / "errors")


def test_a_program_that_dies_is_started_again(start: Start, shape: str, tmp_path: Path) -> None:
    server = start(shape, "--errorlog=error.log", f"--accesslog={to_file(tmp_path, 'requests')}")
    requests = tmp_path / "requests"
    for count in (1, 2):
        server.get(f"/pid?before-{count}")
        wait_for(lambda text=f"before-{count}": text in "".join(lines(requests)), "the line")
        os.kill(readers(requests)[-1], signal.SIGKILL)
        wait_for(lambda count=count: len(readers(requests)) == count + 1, "another program")
    server.get("/pid?after")
    wait_for(lambda: "/pid?after" in "".join(lines(requests)), "the line")
    assert (tmp_path / "error.log").read_text().count("ended: killed by signal 9; it is started again in") == 2
    assert server.stop() == 0


def test_a_keeper_that_dies_is_replaced(start: Start, tmp_path: Path) -> None:
    """Two are killed: the one above the program of each log; what is written meanwhile waits in the pipe."""
    server = start_with(start, "2x1", tmp_path)
    told = f"the keeper of the log program {sys.executable} ended: killed by signal 9"
    for count in (1, 2):
        server.get(f"/pid?before-{count}")
        for name in "requests", "errors":
            wait_for(lambda name=name, count=count: len(readers(tmp_path / name)) == count, "a program")
        wait_for(lambda text=f"before-{count}": text in "".join(lines(tmp_path / "requests")), "the line")
        wait_for(
            lambda count=count: "".join(lines(tmp_path / "errors")).count(told) == 2 * (count - 1), "what it holds"
        )
        for name in "requests", "errors":
            os.kill(psutil.Process(readers(tmp_path / name)[-1]).ppid(), signal.SIGKILL)
        assert server.get(f"/pid?meanwhile-{count}")[0] == 200
        wait_for(lambda text=f"meanwhile-{count}": text in "".join(lines(tmp_path / "requests")), "the line")
    wait_for(lambda: "".join(lines(tmp_path / "errors")).count(told) == 4, "four lines about it")
    assert server.stop() == 0


@pytest.mark.parametrize("setting", ["errorlog", "accesslog"])
def test_a_program_that_kills_its_keeper_ends_with_the_server(start: Start, tmp_path: Path, setting: str) -> None:
    server = start("1x1", "--errorlog=error.log", f"--{setting}=|sh -c 'echo >> killed; kill -9 $PPID'")
    server.get("/pid")
    wait_for(lambda: len(lines(tmp_path / "killed")) > 1, "another keeper to be killed")
    assert server.stop() == 0
    wait_for(lambda: not programs(tmp_path), "nobody to be left")
    if setting == "accesslog":
        told = "ended: killed by signal 9; the lines that it held are lost\n"
        assert (tmp_path / "error.log").read_text().endswith(told)


@pytest.mark.parametrize("errors", ["error.log", "program"])
def test_a_guardian_that_dies_is_told(start: Start, tmp_path: Path, errors: str) -> None:
    log = errors if errors == "error.log" else to_file(tmp_path, "error.log")
    server = start("1x1", f"--errorlog={log}", f"--accesslog={to_file(tmp_path, 'requests')}")
    wait_for(lambda: readers(tmp_path / "requests"), "the program")
    keepers = [psutil.Process(readers(tmp_path / "requests")[0]).parent()]
    if errors == "program":
        wait_for(lambda: readers(tmp_path / "error.log"), "the program")
        keepers.append(psutil.Process(readers(tmp_path / "error.log")[0]).parent())
    for keeper in filter(None, keepers):
        os.kill(keeper.ppid(), signal.SIGKILL)
    told = f"the guardian of log program {sys.executable} has ended"
    wait_for(lambda: (tmp_path / "error.log").read_text().count(told) == len(keepers), "a line about it")
    assert server.get("/pid?after")[0] == 200
    wait_for(lambda: "/pid?after" in "".join(lines(tmp_path / "requests")), "the line")
    assert server.stop() == 0


def test_a_program_that_cannot_live_is_started_ever_more_slowly(start: Start, tmp_path: Path) -> None:
    server = start("1x1", "--errorlog=error.log", "--accesslog=|false")
    wait_for(lambda: "again in 0.4 s" in (tmp_path / "error.log").read_text(), "the third end")
    assert (tmp_path / "error.log").read_text().count("it is started again") <= 4
    server.get("/pid")
    assert server.stop() == 0


def test_a_program_that_does_not_read_holds_nobody_up(start: Start, shape: str, tmp_path: Path) -> None:
    sleeps = shlex.join([sys.executable, "-c", "import time; time.sleep(3600)"])
    server = start(shape, "--errorlog=error.log", f"--accesslog=|{sleeps}")
    with server_connection(server) as connection:
        for number in range(600):  # more than the pipes and the keeper hold
            connection.request("GET", f"/pid?{number}{'x' * 4000}")
            assert connection.getresponse().read()
    began = time.monotonic()
    assert server.stop() == 0
    assert time.monotonic() - began < 5.0
    wait_for(lambda: not programs(tmp_path), "the end of the program", seconds=20.0)


def server_connection(server: Server):  # type: ignore[no-untyped-def]
    import contextlib

    return contextlib.closing(server.connection())


def test_when_the_server_is_killed_the_programs_end(start: Start, shape: str, tmp_path: Path) -> None:
    server = start_with(start, shape, tmp_path)
    server.get("/pid?last")
    wait_for(lambda: "/pid?last" in "".join(lines(tmp_path / "requests")), "the line")
    server.send(signal.SIGKILL)
    server.end()
    wait_for(lambda: not programs(tmp_path), "the programs to end with the server")


def test_neither_rotation_nor_reload_disturbs_it(start: Start, shape: str, tmp_path: Path) -> None:
    server = start_with(start, shape, tmp_path)
    server.get("/pid?1")
    server.send(signal.SIGUSR1)
    server.get("/pid?2")
    wait_for(lambda: len(lines(tmp_path / "requests")) == 3, "both lines")
    assert len(readers(tmp_path / "requests")) == 1
    server.send(signal.SIGHUP)
    wait_for(lambda: "reloaded: " in "".join(lines(tmp_path / "errors")), "the new image")
    server.get("/pid?3")
    wait_for(lambda: "/pid?3" in "".join(lines(tmp_path / "requests")), "the line")
    old = readers(tmp_path / "requests")[0]
    wait_for(lambda: not psutil.pid_exists(old), "the end of the old program")
    assert server.stop() == 0


def test_a_signal_to_the_whole_group_takes_no_line(start: Start, tmp_path: Path) -> None:
    server = start_with(start, "1x1", tmp_path)
    server.get("/pid?last")
    for each in programs(tmp_path):  # as KillMode=control-group does
        with contextlib.suppress(psutil.NoSuchProcess):  # it has ended with one that was told before
            each.send_signal(signal.SIGTERM)
    assert server.end() == 0
    wait_for(lambda: not programs(tmp_path), "the programs to end with the server")
    assert sum("/pid?last" in line for line in lines(tmp_path / "requests")) == 1


@pytest.mark.parametrize("setting", ["errorlog", "accesslog"])
def test_a_program_that_is_not_there(launch: Start, tmp_path: Path, setting: str) -> None:
    (tmp_path / "app.py").write_text("def application(environ, start_response): ...\n")
    server = launch("app.py", "--bind=127.0.0.1:0", f"--{setting}=|no-such-program x")
    assert server.end() == 2
    assert "cannot open the log |no-such-program x: no such program" in server.said


def test_a_quote_that_is_not_closed(launch: Start, tmp_path: Path) -> None:
    server = launch("app.py", "--accesslog=|sh -c 'x")
    assert server.end() == 2
    assert "with each quote closed" in server.said
