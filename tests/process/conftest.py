"""Fixtures that start a real `python -m poorhttp` and end it, whatever the test did."""

import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from starter import APPLICATION, SHAPES, SUPERVISED, Server, Start


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Start]:
    """Start `python -m poorhttp ARGUMENTS` in an empty directory and return at once; `inside`: by this command."""
    started: list[Server] = []

    def begin(
        *arguments: str, inside: tuple[str, ...] = (), passed: Sequence[socket.socket] = (), **environ: str
    ) -> Server:
        started.append(Server(tmp_path, arguments, environ, inside, passed))
        return started[-1]

    yield begin
    for server in started:
        server.clean_up()
        print(server.said)  # shown if the test failed


@pytest.fixture
def start(launch: Start, tmp_path: Path) -> Start:
    """Start the application above (`source` replaces it) in a shape, with more arguments, and wait until it serves;
    on a port of the system's choice unless told otherwise by --bind.
    """

    def begin(shape: str, *arguments: str, source: str = APPLICATION, **environ: str) -> Server:
        (tmp_path / "app.py").write_text(source)
        bind = () if any(word.startswith("--bind") for word in arguments) else ("--bind=127.0.0.1:0",)
        server = launch("app.py", *bind, *SHAPES[shape], *arguments, **environ)
        server.await_address()
        if source is APPLICATION:
            server.await_serving(2 if shape in SUPERVISED else 1)
        return server

    return begin


@pytest.fixture(params=["1x4", "2x1"])
def shape(request: pytest.FixtureRequest) -> str:
    """A process alone with threads, and single-threaded workers with a supervisor: P and T choose different code, so these
    two run all of it. Where both matter together a test asks for EVERY_SHAPE.
    """
    return str(request.param)


@pytest.fixture
def supervised() -> str:
    """A shape with a supervisor."""
    return "2x2"
