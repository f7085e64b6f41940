"""Behind the real lighttpd, HAProxy and nginx: a backend that stops, dies and comes back costs no client anything.

A stop costs nothing behind any of them: who is refused is sent elsewhere. A death costs nothing behind HAProxy (with
`retry-on`) and nginx, which repeat a GET elsewhere; lighttpd does not, so there the requests in flight get a 500 or
503, and a client that tries once more gets its answer.
"""

import signal
import sys
from collections.abc import Iterator

import pytest
from fronts import FRONTS, Front
from starter import ROOT, Server, Start, wait_for

sys.path.insert(0, str(ROOT))

from bench.clients import Clients

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(params=FRONTS, ids=lambda front: front.name)
def front(request: pytest.FixtureRequest) -> Front:
    """Each front in turn."""
    front: Front = request.param
    if front.program() is None:
        pytest.skip(f"{front.name} is not installed: apt-get install {front.package}")
    return front


class Backends:
    """Some servers; one of them may be replaced at its port."""

    def __init__(self, launch: Start, count: int) -> None:
        self._launch = launch
        self.servers = [self._start(0) for _ in range(count)]

    def _start(self, port: int) -> Server:
        apps = f"{ROOT}:{ROOT / 'bench' / 'apps'}"
        server: Server = self._launch("faults:application", f"--bind=127.0.0.1:{port}", PYTHONPATH=apps)
        server.await_address()
        return server

    def ports(self) -> list[int]:
        return [server.port for server in self.servers]

    def end(self, number: int, signum: int) -> None:
        server = self.servers[number]
        assert server.stop(signum) == (0 if signum == signal.SIGTERM else -signum)

    def start_again(self, number: int) -> None:
        self.servers[number] = self._start(self.servers[number].port)


def shared_by(clients: Clients, backends: Backends) -> bool:
    """Whether each backend has answered in the last second."""
    wanted = {server.process.pid for server in backends.servers}
    return wanted <= {answer.process for answer in clients.recent(1)}


@pytest.fixture(params=[2, 4], ids="{} backends".format)
def backends(request: pytest.FixtureRequest, launch: Start) -> Iterator[Backends]:
    return Backends(launch, request.param)


def test_a_stop_is_not_noticed(front: Front, backends: Backends, tmp_path) -> None:
    """Each backend in turn is stopped and started again."""
    with front.before(backends.ports(), tmp_path) as port:
        with Clients(port, 4, 4, 20) as clients:
            for number in range(2):
                wait_for(lambda: shared_by(clients, backends), "every backend to answer")
                backends.end(number, signal.SIGTERM)
                backends.start_again(number)
            wait_for(lambda: shared_by(clients, backends), "every backend to answer again")
        assert clients.faults() == []


def test_a_death_costs_at_most_a_retry(front: Front, backends: Backends, tmp_path) -> None:
    with front.before(backends.ports(), tmp_path) as port:
        with Clients(port, 4, 4, 20) as clients:
            wait_for(lambda: shared_by(clients, backends), "every backend to answer")
            backends.end(0, signal.SIGKILL)
            backends.start_again(0)
            wait_for(lambda: shared_by(clients, backends), "every backend to answer again")
        faults = clients.faults()
        assert not [fault for fault in faults if fault.is_retry or fault.kind != "5xx"]
        assert len(faults) <= (0 if front.repeats else 8)  # as many as there are clients
