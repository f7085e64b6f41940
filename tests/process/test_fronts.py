"""Behind the real lighttpd, nginx and HAProxy as poorhttp configures them: a server that stops, dies and comes back.

A stop costs nothing behind any of them: who is refused is sent elsewhere. A death costs nothing behind HAProxy and
nginx, which repeat a GET elsewhere; lighttpd does not, so there the requests in flight get a 500 or 503, and a client
that tries once more after the death gets its answer.
"""

import signal
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from fronts import PORTS, before, printed, program
from starter import ROOT, SHAPES, Server, Start, wait_for

sys.path.insert(0, str(ROOT))

from bench.clients import Clients

pytestmark = pytest.mark.timeout(120)

REPEATS = {"lighttpd": False, "nginx": True, "haproxy": True}
"""Whether it sends a GET to another server when one dies with it."""


class Backends:
    """Some servers; one of them may be replaced at its port."""

    def __init__(self, launch: Start, count: int, shape: str = "1x1") -> None:
        self._launch = launch
        self._arguments = ("--forwarded=x-forwarded", *SHAPES[shape])
        self.servers = [self._start(0) for _ in range(count)]

    def _start(self, port: int) -> Server:
        apps = f"{ROOT}:{ROOT / 'bench' / 'apps'}"
        server: Server = self._launch(
            "faults:application", f"--bind=127.0.0.1:{port}", *self._arguments, PYTHONPATH=apps
        )
        server.await_address()
        self._since = time.monotonic()
        return server

    def configuration(self, name: str) -> str:
        """The printed one."""
        places = [f"127.0.0.1:{server.port}" for server in self.servers]
        return printed(name, f"--bind={', '.join(places)}", *self._arguments)

    def end(self, number: int, signum: int) -> None:
        server = self.servers[number]
        assert server.stop(signum) == (0 if signum == signal.SIGTERM else -signum)

    def start_again(self, number: int) -> None:
        self.servers[number] = self._start(self.servers[number].port)

    def answer(self, clients: Clients) -> bool:
        """Whether each server has answered in the last second what was asked since the last one has started: for one
        from before, the kernel may have tried its connection once more, while the front sends nothing new there.
        """
        answering = {answer.process for answer in clients.recent(1) if answer.sent > self._since}
        return all(answering & {server.process.pid, *server.workers()} for server in self.servers)


@pytest.fixture(params=PORTS)
def name(request: pytest.FixtureRequest) -> str:
    """Each front in turn."""
    program(request.param)
    return str(request.param)


@pytest.fixture(params=[2, 4], ids="{} backends".format)
def backends(request: pytest.FixtureRequest, launch: Start) -> Iterator[Backends]:
    return Backends(launch, request.param)


def stop_each(name: str, backends: Backends, directory: Path) -> None:
    """Stop the first two one after the other, start them again, and hold that nobody noticed; a POST is sent once."""
    with before(name, backends.configuration(name), directory) as port:
        with Clients(port, 4, 4, 20) as clients, Clients(port, 2, 2, 20, body=5000) as posting:
            for number in range(2):
                wait_for(lambda: backends.answer(clients), "every backend to answer")
                backends.end(number, signal.SIGTERM)
                backends.start_again(number)
            wait_for(lambda: backends.answer(clients), "every backend to answer again")
        assert (clients.faults(), posting.faults()) == ([], [])


def test_a_stop_is_not_noticed(name: str, backends: Backends, tmp_path: Path) -> None:
    stop_each(name, backends, tmp_path)


def test_nor_that_of_servers_of_several_processes(name: str, launch: Start, tmp_path: Path) -> None:
    stop_each(name, Backends(launch, 2, "2x1"), tmp_path)


def test_a_death_costs_at_most_a_retry(name: str, backends: Backends, tmp_path: Path) -> None:
    # A process that is killed closes its connections before its listening socket: a retry within the same fraction of a
    # millisecond is put into the queue of that socket and lost with it. So the clients wait until the process is gone.
    gone = threading.Event()
    with before(name, backends.configuration(name), tmp_path) as port:
        with Clients(port, 4, 4, 20, before_again=partial(gone.wait, 20)) as clients:
            wait_for(lambda: backends.answer(clients), "every backend to answer")
            backends.end(0, signal.SIGKILL)
            gone.set()
            backends.start_again(0)
            wait_for(lambda: backends.answer(clients), "every backend to answer again")
        faults = clients.faults()
        assert not [fault for fault in faults if fault.is_retry or fault.kind != "5xx"]
        assert len(faults) <= (0 if REPEATS[name] else 8)  # as many as there are clients
