"""Fixtures `serve` and `start`: a real server of the asked application, shape and settings.

One server is shared by the tests of a module that ask `serve` for the same; `start` gives one that belongs to a single
test. What a server is stands in `server.py`, how one is started in `processes.py`, what an answer must be in `client.py`.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from client import Client, compose
from hypothesis import HealthCheck, settings
from processes import wait_for
from server import SHAPES, Server, Shape

# How long an example takes says something about the machine, not about what is tested.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

# The tests start some thousand interpreters. Without bytecode each of them would compile the package anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# In the background of a script it is ignored, and so it would be in all that is started here.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def required(report: Any) -> Any:
    """With REQUIRE=1 in the environment, as .ci/run has it, nothing is skipped that an installation would let run: such
    a skip says what to install, or which suite is not there. One for want of rights, or of the kernel's, stays.
    """
    reason = report.longrepr[2] if report.skipped and isinstance(report.longrepr, tuple) else ""
    if os.environ.get("REQUIRE") == "1" and re.search(r"\binstall|could not import|no suite", reason):
        report.outcome, report.longrepr = "failed", f"not to be skipped where REQUIRE=1: {reason}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Iterator[None]:
    return required((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Iterator[None]:
    return required((yield))


@pytest.fixture(params=SHAPES, ids=lambda shape: f"{shape[0]}x{shape[1]}")
def any_shape(request: pytest.FixtureRequest) -> Shape:
    """Threads in one process, and processes of one thread; most other tests are served by one thread of one process."""
    shape: Shape = request.param
    return shape


@pytest.fixture(scope="module")
def serve() -> Iterator[Callable[..., Server]]:
    """serve(app, shape=(1, 1), errors=(), environment={}, descriptors=0, ini="", **settings) -> Server of the module.

    app: a name of APPLICATIONS, the source text of a module with `application`, or what poorhttp takes as APP.
    errors: texts, one of which must be in every traceback that the error log holds.
    descriptors: the limit of open files. ini: the text of a configuration file. preface: what each connection begins with.
    settings: by name; in a value DIRECTORY stands for the directory of the server.
    """
    running: dict[str, Server] = {}

    def get(app: str, shape: Shape = (1, 1), **keywords: Any) -> Server:
        key = repr((app, shape, sorted(keywords.items(), key=lambda item: item[0])))
        if key not in running or running[key].process.poll() is not None:
            running[key] = launch(app, shape, **keywords)
        return running[key]

    yield get
    stop_all(list(running.values()))


@pytest.fixture
def start() -> Iterator[Callable[..., Server]]:
    """The same for one test alone."""
    running: list[Server] = []

    def get(app: str, shape: Shape = (1, 1), **keywords: Any) -> Server:
        running.append(launch(app, shape, **keywords))
        return running[-1]

    yield get
    stop_all(running)


def launch(
    app: str,
    shape: Shape,
    *,
    errors: Sequence[str] = (),
    environment: dict[str, str] | None = None,
    descriptors: int | None = None,
    ini: str = "",
    preface: bytes = b"",
    **settings: Any,
) -> Server:
    return Server(
        app,
        shape,
        settings,
        errors=errors,
        environment=environment,
        descriptors=descriptors,
        ini=ini,
        preface=preface,
    )


def stop_all(servers: list[Server]) -> None:
    """Stop each, also where another one fails."""
    with contextlib.ExitStack() as stack:
        for server in servers:
            stack.callback(server.stop)


# What test modules use without importing a conftest by name.
@pytest.fixture(name="until", scope="session")
def until_fixture() -> Callable[..., Any]:
    return wait_for


@pytest.fixture(name="compose", scope="session")
def compose_fixture() -> Callable[..., bytes]:
    return compose


@pytest.fixture(scope="session")
def wrap() -> Callable[[socket.socket], Client]:
    """A strict client around any connected socket."""
    return Client
