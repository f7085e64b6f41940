"""The first process of a container: orphans are reaped, signals reach the server, and its exit code is passed on."""

import signal
import socket
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from starter import NAMESPACE, SHAPES, Server, Start, contains, lives, wait_for

pytestmark = contains

SOURCE = """
import os
import signal
import subprocess


def orphan():
    subprocess.run(["sh", "-c", "true & exit 0"])  # whose parent ends first, or does not look
    return "made"


def code():
    return str(subprocess.run(["sh", "-c", "sleep 0.2; exit 7"]).returncode)


def stop():
    os.kill(1, signal.SIGTERM)  # as an entry point or a health check inside the container does
    return "asked"


def application(environ, start_response):
    told = globals()[environ["PATH_INFO"].strip("/")]()
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [told.encode()]
"""

Contained = Callable[..., tuple[Server, psutil.Process]]


@pytest.fixture
def contained(launch: Start, tmp_path: Path) -> Contained:
    """Start a server as the first process of a namespace; returns it and that process."""

    def begin(*arguments: str, source: str = SOURCE) -> tuple[Server, psutil.Process]:
        (tmp_path / "app.py").write_text(source)
        server = launch(*arguments, "--bind=127.0.0.1:0", inside=NAMESPACE)
        server.await_address()
        (first,) = psutil.Process(server.process.pid).children()
        return server, first

    return begin


def dead_below(process: psutil.Process) -> list[psutil.Process]:
    return [each for each in process.children(recursive=True) if not lives(each)]


COMMANDS = {name: ("app.py", *arguments) for name, arguments in SHAPES.items()} | {"dev": ("dev", "app.py")}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_orphans_are_reaped_and_nobody_elses_children(contained: Contained, command: tuple[str, ...]) -> None:
    server, first = contained(*command)
    for _ in range(5):
        assert server.get("/orphan") == (200, "made")
        assert server.get("/code") == (200, "7")
    wait_for(lambda: not dead_below(first), "all orphans to be reaped")
    assert len(first.children()) == 1
    first.terminate()
    assert server.end() == 0


@pytest.mark.parametrize("shape", ["1x1", "2x1"])
def test_signals_reach_the_server(contained: Contained, shape: str) -> None:
    server, first = contained("app.py", *SHAPES[shape])
    first.send_signal(signal.SIGHUP)
    server.await_text("reloaded: ")
    first.send_signal(signal.SIGUSR1)
    assert server.get("/stop") == (200, "asked")
    assert server.end() == 0
    server.await_text("SIGTERM")


def test_what_the_server_dies_of_is_told(contained: Contained) -> None:
    server, first = contained("app.py")
    (child,) = first.children()
    child.kill()
    assert server.end() == 128 + signal.SIGKILL


def test_a_start_that_fails_has_its_exit_code(launch: Start) -> None:
    server = launch("nothing.py", "--port=0", inside=NAMESPACE)
    assert server.end() == 3
    server.await_text("nothing.py does not exist")


def test_it_weighs_little_and_sleeps(contained: Contained) -> None:
    server, first = contained("app.py")
    assert first.memory_full_info().pss < 6 << 20
    assert server.get("/code") == (200, "7")
    before = first.num_ctx_switches().voluntary
    assert server.get("/code") == (200, "7")  # which is not its child
    assert first.num_ctx_switches().voluntary == before
    first.terminate()
    assert server.end() == 0


def test_sockets_that_were_passed_to_it_are_the_servers(launch: Start, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(SOURCE)
    with socket.create_server(("127.0.0.1", 0)) as passed:
        server = launch("app.py", inside=NAMESPACE, passed=[passed])
    server.await_address()
    assert server.get("/orphan") == (200, "made")
    assert server.get("/stop") == (200, "asked")
    assert server.end() == 0


def test_the_program_that_a_log_is_reads_the_last_line(contained: Contained, tmp_path: Path) -> None:
    server, first = contained("app.py", "--accesslog=|sh -c 'sleep 1; cat > access.log'")
    assert server.get("/code") == (200, "7")
    first.terminate()
    assert server.end() == 0
    assert (tmp_path / "access.log").read_text().count('"GET /code HTTP/1.1" 200') == 1
