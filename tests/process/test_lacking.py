"""What a small, old or bare system lacks: found at the start with its reason, or done without."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from starter import ROOT, SHAPES, Start, mounts, wait_for, without

SOURCE = """
import os

FIRST = [os.path.exists(f"/proc/self/fd/{each}") and os.readlink(f"/proc/self/fd/{each}") for each in range(3)]


def application(environ, start_response):
    print("printed")
    text = f"{FIRST} {len(environ['wsgi.input'].read())}"
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [text.encode()]
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "app.py"
    path.write_text(SOURCE)
    return path


def no_proc(empty: Path) -> tuple[str, ...]:
    empty.mkdir(exist_ok=True)
    return without(f"mount --bind {empty} /proc")


NO_DEVICES = without("mount -t tmpfs none /dev")
READ_ONLY = without(
    *(f'mount --bind "{each}" "{each}" && mount -o remount,ro,bind "{each}"' for each in ("/tmp", "$PWD"))
)

TEMPORARY = ("/var/tmp", "/usr/tmp")


def poorhttp(directory: Path, *arguments: str, inside: tuple[str, ...] = (), **environ: str) -> tuple[int, str]:
    """Exit code, and what was printed."""
    command = [*inside, sys.executable, "-m", "poorhttp", *arguments]
    done = subprocess.run(
        command,
        check=False,
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=30,
    )
    return done.returncode, done.stdout


# Standard streams


@pytest.mark.parametrize("shape", ["1x1", "2x1"])
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"], ids=["0", "1", "2", "all"])
def test_a_standard_stream_that_is_closed(launch: Start, source: Path, shape: str, closed: str) -> None:
    """Nothing else gets its number: what is printed would go there."""
    words = ("--bind=unix:server.sock", "--errorlog=error.log", "--accesslog=-", *SHAPES[shape])
    server = launch("app.py", *words, inside=("sh", "-c", f'exec "$@" {closed}', "sh"))
    wait_for((source.parent / "server.sock").exists, "the socket")
    wait_for(lambda: server.states() and set(server.states().values()) == {"serving"}, "it to serve")
    status, body = server.get()
    assert status == 200
    assert [bool(each) and not each.startswith(("socket", "anon_inode")) for each in eval(body.rpartition(" ")[0])] == [
        True
    ] * 3
    assert server.stop() == 0
    assert "Traceback" not in (source.parent / "error.log").read_text()


def test_a_program_whose_standard_streams_are_closed(tmp_path: Path, source: Path) -> None:
    more = "\nimport poorhttp\npoorhttp.run(application, bind='unix:server.sock', errorlog='error.log')\n"
    (tmp_path / "program.py").write_text(SOURCE.replace("FIRST = ", "FIRST = 0 and ") + more)
    command = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", sys.executable, "program.py"]
    process = subprocess.Popen(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)})
    try:
        wait_for((tmp_path / "server.sock").exists, "the socket")
        first = [os.readlink(f"/proc/{process.pid}/fd/{each}") for each in range(3)]
        assert first == ["/dev/null"] * 3
        process.terminate()
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.wait()


# Devices, /proc, directories


@mounts
def test_without_devices_it_serves(launch: Start, source: Path, shape: str) -> None:
    server = launch("app.py", "--bind=127.0.0.1:0", *SHAPES[shape], inside=NO_DEVICES)
    server.await_address()
    assert server.get()[0] == 200
    assert server.stop() == 0


@mounts
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("dev", "app.py", "--port=0"), "error: cannot open /dev/null: No such file or directory"),
        (
            ("start", "app.py", "--port=0", "--errorlog=log", "--pidfile=pid"),
            "error: cannot open /dev/null: No such file or directory",
        ),
        (("app.py", "--port=0", "--accesslog=|cat"), "error: cannot open the log /dev/null: No such file or directory"),
    ],
    ids=["dev", "start", "log program"],
)
def test_without_devices_what_needs_them_says_so(source: Path, arguments: tuple[str, ...], told: str) -> None:
    code, said = poorhttp(source.parent, *arguments, inside=NO_DEVICES)
    assert code in (1, 2)
    assert told in said.splitlines() and "hint: " in said
    assert "Traceback" not in said and "fault of poorhttp" not in said


@mounts
def test_without_proc_it_serves(launch: Start, source: Path, tmp_path: Path, shape: str) -> None:
    words = ("--bind=127.0.0.1:0", "--status-path=/status", *SHAPES[shape])
    server = launch("app.py", *words, inside=no_proc(tmp_path / "empty"))
    server.await_address()
    assert server.get()[0] == 200
    status, told = server.get("/status?json")
    assert status == 200 and json.loads(told)["requests"] >= 1
    assert server.stop() == 0


@mounts
@pytest.mark.parametrize("shape", ["1x1", "2x1"])
def test_without_proc_a_server_in_the_background_is_known_by_its_lock(source: Path, tmp_path: Path, shape: str) -> None:
    inside = no_proc(tmp_path / "empty")
    words = ("app.py", "--bind=unix:server.sock", "--pidfile=pid", "--errorlog=log", *SHAPES[shape])

    def act(word: str, *more: str) -> tuple[int, str]:
        return poorhttp(tmp_path, word, *words, *more, inside=inside)

    code, said = act("start")
    assert code == 0, said
    pid = int((tmp_path / "pid").read_text())
    try:
        code, said = act("status")
        assert (code, said.splitlines()[0]) == (0, f"running: pid {pid}")
        assert "what it does is not known: /proc is not there" in said
        code, said = act("status", "--json")
        assert (code, json.loads(said)["state"], json.loads(said)["seconds"]) == (0, "running", None)
        assert act("start") == (0, f"running already: pid {pid}\n")
        code, said = act("reload")
        assert (code, said) == (0, f"pid {pid}: reload asked for; the error log tells how it ends\n")
        log = tmp_path / "log"
        wait_for(lambda: "reload failed, the server goes on as it was: " in log.read_text(), "its outcome")
        assert "'/proc/self/environ'" in log.read_text()
    finally:
        code, said = act("stop")
    assert (code, said) == (0, f"stopped (was pid {pid})\n")
    code, said = act("status")
    assert code == 3 and said.startswith("not running: there is no pidfile ")
    (tmp_path / "pid").write_text(f"{os.getpid()}\n")  # alive, and did not lock it
    code, said = act("status")
    assert code == 1 and said.startswith("not running")


@mounts
def test_without_proc_dev_says_so(source: Path, tmp_path: Path) -> None:
    code, said = poorhttp(tmp_path, "dev", "app.py", "--port=0", inside=no_proc(tmp_path / "empty"))
    assert code == 1
    assert said.splitlines() == [
        "error: cannot open /proc/self/status: No such file or directory",
        "hint: mount /proc, as every Linux has it",
    ]


@pytest.mark.parametrize(
    "words", [("app.py",), ("check", "app.py"), ("status", "--pidfile=/tmp/pid"), ("dev",)], ids=lambda words: words[0]
)
def test_a_current_directory_that_was_removed(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "gone").mkdir()
    inside = ("sh", "-c", 'cd gone && rmdir ../gone && exec "$@"', "sh")
    code, said = poorhttp(tmp_path, *words, inside=inside)
    assert code == 2
    assert said.splitlines() == [
        "error: the working directory is gone: No such file or directory",
        "hint: change to a directory that exists",
    ]


@mounts
@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("--pidfile=pid",), 2, "cannot write the pidfile {}/pid: Read-only file system"),
        (("--errorlog=log",), 2, "cannot open the log {}/log: Read-only file system"),
        (("--accesslog=log",), 2, "cannot open the log {}/log: Read-only file system"),
        (("--bind=unix:sock",), 4, "cannot listen on unix:{}/sock: Read-only file system"),
        (("--control-socket=sock",), 4, "cannot listen on unix:{}/sock: Read-only file system"),
    ],
)
def test_a_read_only_file_system(tmp_path: Path, source: Path, words: tuple[str, ...], code: int, told: str) -> None:
    bind = () if words[0].startswith("--bind") else ("--bind=127.0.0.1:0",)
    assert poorhttp(tmp_path, "app.py", *bind, *words, inside=READ_ONLY)[0] == code
    assert f"error: {told.format(tmp_path)}" in poorhttp(tmp_path, "app.py", *bind, *words, inside=READ_ONLY)[1]


# Temporary files


BODY = b"x" * 300_000
"""More than body_memory."""


def post(port: int) -> tuple[int, bytes]:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(b"POST / HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY)
        with client.makefile("rb") as answer:
            status = int(answer.readline().split()[1])
            return status, answer.read().partition(b"\r\n\r\n")[2]


@pytest.mark.parametrize("directory", ["/nonexistent", __file__, ""], ids=["missing", "a file", "empty"])
def test_a_body_goes_where_python_would_put_it(launch: Start, source: Path, directory: str) -> None:
    server = launch("app.py", "--bind=127.0.0.1:0", TMPDIR=directory)
    server.await_address()
    status, body = post(server.port)
    assert status == 200 and body.endswith(b" %d" % len(BODY))
    assert server.stop() == 0
    assert "[E]" not in server.said


@mounts
@pytest.mark.parametrize("shape", ["1x1", "2x1"])
def test_without_a_place_for_bodies_that_is_told_at_the_start(launch: Start, source: Path, shape: str) -> None:
    places = ('"$PWD"', *(each for each in ("/tmp", *TEMPORARY) if Path(each).is_dir()))
    inside = without(*(f"mount --bind {each} {each} && mount -o remount,ro,bind {each}" for each in places))
    server = launch("app.py", "--bind=127.0.0.1:0", *SHAPES[shape], inside=inside, TMPDIR="", TEMP="", TMP="")
    server.await_address()
    server.await_text(
        "[E] no temporary file can be made: Read-only file system; request bodies above body_memory (262144"
    )
    assert server.said.count("no temporary file can be made") == 1
    assert post(server.port)[0] == 503
    server.await_text(
        "[E] 503 Service Unavailable: the body could not be kept in a temporary file: Read-only file system"
    )
    assert server.get()[0] == 200
    assert server.stop() == 0


def test_a_body_for_which_there_is_no_room_is_told_with_the_reason(launch: Start, source: Path) -> None:
    server = launch("app.py", "--bind=127.0.0.1:0", inside=("sh", "-c", 'ulimit -f 0; exec "$@"', "sh"))
    server.await_address()
    assert post(server.port)[0] == 503
    server.await_text("[E] 503 Service Unavailable: the body could not be kept in a temporary file: File too large")
    assert server.stop() == 0


# What else may be missing


@pytest.mark.parametrize("shape", ["1x1", "2x1"])
def test_without_memory_files(launch: Start, source: Path, tmp_path: Path, shape: str) -> None:
    """memfd_create(2) is of Linux 3.17, and a filter may forbid it."""
    refuse = "import os\ndef refuse(*_):\n    raise OSError(38, 'no such call')\nos.memfd_create = refuse\n"
    (tmp_path / "patches").mkdir()
    (tmp_path / "patches" / "sitecustomize.py").write_text(refuse)
    search = f"{tmp_path / 'patches'}:{ROOT}"
    assert poorhttp(tmp_path, "check", "app.py", "--port=0", PYTHONPATH=search)[0] == 0
    server = launch("app.py", "--bind=127.0.0.1:0", *SHAPES[shape], PYTHONPATH=search)
    server.await_address()
    server.send(1)
    server.await_text("reloaded: ")
    assert server.get()[0] == 200
    assert server.stop() == 0


def test_without_an_environment(launch: Start, source: Path) -> None:
    inside = ("env", "-i", f"PYTHONPATH={ROOT}")
    server = launch("app.py", "--bind=127.0.0.1:0", "--type=forking", inside=inside)
    server.await_address()
    assert server.get()[0] == 200
    assert server.stop() == 0
