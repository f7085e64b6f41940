"""The two logs as files: written by every process, and opened anew on SIGUSR1."""

import contextlib
import os
import re
import signal
from pathlib import Path

import pytest
from starter import SUPERVISED, Server, Start, wait_for
from versions import VERSION, write

ACCESS_LINE = re.compile(
    r'127\.0\.0\.1(:\d+)? 127\.0\.0\.1 - \[\d\d/\w{3}/\d{4} \d\d:\d\d:\d\d\] "GET (\S+) HTTP/1\.1" (\d{3}) \d+'
)
ERROR_LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d: \[[^\]]+\] \[[SACEWNID0]\] .*")


def start_with_logs(start: Start, shape: str) -> Server:
    return start(shape, "--errorlog=error.log", "--accesslog=access.log")


def text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def test_every_request_has_its_access_line(start: Start, shape: str) -> None:
    server = start_with_logs(start, shape)
    for _ in range(5):
        server.get("/pid")
    assert server.get("/fail")[0] == 500
    assert server.stop() == 0
    lines = text(server.directory / "access.log").splitlines()
    found = [ACCESS_LINE.fullmatch(line) for line in lines]
    assert all(found), lines
    assert sorted((each[2], each[3]) for each in found if each) == [("/fail", "500")] + 5 * [("/pid", "200")]


def test_the_error_log_has_tracebacks_and_complaints(start: Start, shape: str) -> None:
    server = start_with_logs(start, shape)
    assert server.get("/fail")[0] == 500
    assert server.get("/complain")[0] == 200
    assert server.stop() == 0
    lines = text(server.directory / "error.log").splitlines()
    assert "    ValueError: failed as asked" in lines
    assert "complaint" in lines
    assert all(ERROR_LINE.fullmatch(line) or line.startswith("    ") or line == "complaint" for line in lines), lines


def test_usr1_opens_both_logs_anew(start: Start, shape: str) -> None:
    """In every process, also in those that have nothing to do: an old file must not stay open."""
    server = start_with_logs(start, shape)
    error, access = server.directory / "error.log", server.directory / "access.log"
    server.get("/fail")
    wait_for(lambda: "/fail" in text(access) and "failed as asked" in text(error), "the first lines")
    for path in (error, access):
        path.rename(path.with_suffix(".old"))
    server.send(signal.SIGUSR1)
    wait_for(lambda: error.exists() and access.exists(), "new files")
    wait_for(lambda: not old_files_open(server), "every process to have let go of the old files")
    server.get("/fail")
    wait_for(lambda: "/fail" in text(access) and "failed as asked" in text(error), "lines in the new files")
    assert server.stop() == 0


def old_files_open(server: Server) -> bool:
    """Whether any process of the server has a renamed log open."""
    for pid in {server.process.pid, *server.workers()}:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            try:
                if descriptor.readlink().suffix == ".old":
                    return True
            except FileNotFoundError:
                continue
    return False


def test_start_reload_and_stop_are_dated_lines(start: Start, shape: str) -> None:
    server = start_with_logs(start, shape)
    server.send(signal.SIGHUP)
    log = server.directory / "error.log"
    left = 2 if shape in SUPERVISED else 0
    wait_for(lambda: "reloaded: " in text(log) and text(log).count(" left: ") == left, "the reload")
    assert server.get("/pid")[0] == 200
    assert server.stop() == 0
    marked = [line.split("[S] ")[1].split(" ")[0] for line in text(log).splitlines() if "[S] " in line]
    assert marked == ["started:", "reload:", "reloaded:", "stopping" if shape in SUPERVISED else "stopping:"]
    assert server.said.count("poorhttp ") == 1, "the others are lines of the log"


def test_lines_that_a_full_disk_takes_are_told(start: Start, shape: str, tmp_path: Path) -> None:
    """Once, and how many they were when there is room again."""
    log = tmp_path / "access.log"
    log.symlink_to("/dev/full")
    server = start(shape, "--accesslog=access.log")
    workers = server.workers() or {server.process.pid}
    sent = 0

    def ask() -> None:
        """On several connections at once, so that each worker gets some."""
        nonlocal sent
        with contextlib.ExitStack() as stack:
            several = [stack.enter_context(contextlib.closing(server.connection())) for _ in range(8)]
            for each in several:
                each.request("GET", "/pid")
                sent += 1
            for each in several:
                assert each.getresponse().read()

    ask()
    server.await_text("[W] access log: No space left on device (os error 28); its lines are lost while that is so\n")
    log.unlink()
    server.send(signal.SIGUSR1)
    wait_for(log.exists, "the new log")
    again = re.compile(r"\[W\] access log: it takes lines again; (\d+) are lost\n")

    def is_all_told() -> bool:
        ask()
        lost = again.findall(server.said)
        is_told = len(lost) == server.said.count("No space left on device")
        return is_told and sum(map(int, lost)) + text(log).count("/pid") == sent

    wait_for(is_all_told, "how many are lost")
    assert server.said.count("No space left on device") <= len(workers)
    assert server.stop() == 0
    assert "/pid" in text(log)


@pytest.mark.parametrize("log", ["errorlog", "accesslog"])
def test_a_reload_goes_on_though_nobody_reads_a_log_any_more(
    start: Start, shape: str, tmp_path: Path, log: str
) -> None:
    """As at USR1; who reads the pipe again gets the lines of then."""
    fifo = tmp_path / "log.fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    server = start(shape, f"--{log}={fifo}", source=VERSION.format(version="0", more=""))
    os.close(reader)
    write(tmp_path, "1")
    server.send(signal.SIGHUP)
    server.await_text(f"the log {fifo} has no reader")
    wait_for(lambda: server.get()[1].startswith("1 "), "the new code")
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert server.get()[0] == 200
        assert server.stop() == 0
        assert os.read(reader, 1 << 16).endswith(b"\n")
    finally:
        os.close(reader)
