"""docs/scaling.md, tried: its HAProxy before three hosts, one of which vanishes, one stops, and all get new code.

The hosts are network namespaces, made here and removed afterwards: `front`, where HAProxy and the clients are, and
three others with the addresses of the document, each joined to `front` by a cable of its own (veth).
"""

import contextlib
import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from fronts import PLACES
from starter import ROOT, Server, Start, wait_for

sys.path.insert(0, str(ROOT))

from bench.clients import Clients

IP, HAPROXY = shutil.which("ip", path=PLACES), shutil.which("haproxy", path=PLACES)
FRONT, HOSTS = "192.0.2.1", ("192.0.2.11", "192.0.2.12", "192.0.2.13")
NEW_NETWORK = 0x40000000  # CLONE_NEWNET of linux/sched.h, what setns(2) is to change

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.skipif(IP is None, reason="ip is not installed: apt-get install iproute2"),
    pytest.mark.skipif(HAPROXY is None, reason="haproxy is not installed: apt-get install haproxy"),
]


def ip(*words: str) -> None:
    subprocess.run([str(IP), *words], check=True, capture_output=True, text=True, timeout=10)


class Network:
    """The namespaces; their names begin with that of this process."""

    def __init__(self) -> None:
        self.front = f"poorhttp-{os.getpid()}-front"
        self.hosts = [f"poorhttp-{os.getpid()}-{number}" for number in range(len(HOSTS))]

    def make(self) -> None:
        for name in (self.front, *self.hosts):
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        for number, (name, address) in enumerate(zip(self.hosts, HOSTS, strict=True)):
            cable = f"host{number}"
            ip("-n", name, "link", "add", "front", "type", "veth", "peer", "name", cable, "netns", self.front)
            for where, link, own, other in ((name, "front", address, FRONT), (self.front, cable, FRONT, address)):
                ip("-n", where, "address", "add", f"{own}/32", "dev", link)
                ip("-n", where, "link", "set", link, "up")
                ip("-n", where, "route", "add", f"{other}/32", "dev", link)

    def remove(self) -> None:
        for name in (self.front, *self.hosts):
            with contextlib.suppress(subprocess.CalledProcessError):
                ip("netns", "delete", name)

    def cut(self, number: int) -> None:
        """Pull the cable: what is sent from now on arrives nowhere, and nobody is told."""
        ip("-n", self.hosts[number], "link", "set", "front", "down")


@pytest.fixture
def network() -> Iterator[Network]:
    network = Network()
    try:
        network.make()
    except subprocess.CalledProcessError as error:
        network.remove()
        pytest.skip(f"no network namespaces here (they need root): {error.stderr.strip()}")
    yield network
    network.remove()


class Site:
    """The servers on the hosts."""

    def __init__(self, network: Network, launch: Start, directory: Path) -> None:
        self._network = network
        self._launch = launch
        for name in ("faults.py", "pages.py"):
            shutil.copy(ROOT / "bench" / "apps" / name, directory)
        self.servers = [self._start(number) for number in range(len(HOSTS))]

    def _start(self, number: int) -> Server:
        inside = (str(IP), "netns", "exec", self._network.hosts[number])
        server: Server = self._launch(
            "faults.py", "--type=forking", "--processes=2", f"--bind={HOSTS[number]}:8080", inside=inside
        )
        server.await_text(f"http://{HOSTS[number]}:8080/")
        return server

    def start_again(self, number: int) -> None:
        self.servers[number] = self._start(number)


def clients_of(network: Network, body: int = 0, before_again: Callable[[], object] = bool) -> Clients:
    """Clients that stand where HAProxy does; each of their threads goes there by itself. body, before_again: as of `Clients`."""

    def enter() -> None:
        with open(f"/run/netns/{network.front}") as namespace:
            if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), NEW_NETWORK):
                raise OSError(ctypes.get_errno(), "setns")

    return Clients(80, 4, 4, 50, enter=enter, body=body, before_again=before_again)


@pytest.fixture
def site(network: Network, launch: Start, tmp_path: Path) -> Iterator[Site]:
    """Three servers, and HAProxy as the document configures it."""
    text = (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8")
    found = re.search(r"```haproxy\n(.*?)```", text, re.DOTALL)
    assert found
    (tmp_path / "haproxy.cfg").write_text(found[1])
    site = Site(network, launch, tmp_path)
    haproxy = subprocess.Popen(
        [str(IP), "netns", "exec", network.front, str(HAPROXY), "-db", "-f", str(tmp_path / "haproxy.cfg")],
        stderr=subprocess.DEVNULL,
    )
    wait_for(lambda: listens(haproxy.pid, 80), "HAProxy to listen")
    yield site
    haproxy.terminate()
    haproxy.wait(10)


def listens(pid: int, port: int) -> bool:
    """Whether somebody listens at this port (TCP, IPv4) in the namespace of this process."""
    lines = Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]
    return any(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A" for line in lines)


def hosts_of(clients: Clients, site: Site, seconds: float = 1.0) -> set[int]:
    """The numbers of the hosts that answered lately."""
    answered = {answer.process for answer in clients.recent(seconds)}
    return {number for number, server in enumerate(site.servers) if answered & server.workers()}


def code_since(moment: float, clients: Clients, server: Server) -> bool:
    """Whether a server's answers of late are all by code that was loaded after this moment."""
    workers = server.workers()
    loaded = [answer.loaded for answer in clients.recent(0.5) if answer.process in workers]
    return min(loaded, default=0) > moment


def all_answer(clients: Clients, site: Site) -> None:
    wait_for(lambda: hosts_of(clients, site) == {0, 1, 2}, "every host to answer")


def test_a_host_that_vanishes_costs_time_only(network: Network, site: Site) -> None:
    with clients_of(network) as clients, clients_of(network, body=100) as posting:
        all_answer(clients, site)
        network.cut(1)
        # Each client has gone on: none waits for the host that is no more.
        for each in clients, posting:
            wait_for(lambda of=each: len(list(of.recent(0.5))) == 8 and hosts_of(of, site, 0.5) == {0, 2}, "the others")
    assert clients.faults() == []
    # A POST that was with it is not sent again; 504 for each, once.
    assert {fault.kind for fault in posting.faults()} <= {"5xx"} and len(posting.faults()) <= 8
    assert not [fault for fault in posting.faults() if fault.is_retry]
    slowest = max(answer.read - answer.sent for answer in clients.answers())
    assert slowest < 10, "timeout server is 5 s, and then there is another host"


def test_a_host_that_stops_and_comes_back_is_not_noticed(network: Network, site: Site) -> None:
    with clients_of(network) as clients:
        all_answer(clients, site)
        assert site.servers[0].stop() == 0
        site.start_again(0)
        all_answer(clients, site)
    assert clients.faults() == []


def test_new_code_on_one_host_after_the_other_is_not_noticed(network: Network, site: Site) -> None:
    with clients_of(network) as clients:
        all_answer(clients, site)
        for server in site.servers:
            asked = time.monotonic()
            server.send(signal.SIGHUP)
            wait_for(partial(code_since, asked, clients, server), "answers by the new code alone")
        all_answer(clients, site)
    assert clients.faults() == []


def test_a_killed_server_costs_posts_that_were_with_it(network: Network, site: Site) -> None:
    """Each once, at once: what is sent again by its client is answered. GETs are sent elsewhere, unnoticed."""
    # A process that is killed closes its listening socket last: a retry at once would be lost in the queue of that.
    gone = threading.Event()
    with clients_of(network) as clients, clients_of(network, 100, partial(gone.wait, 20)) as posting:
        all_answer(clients, site)
        site.servers[1].orphan()
        gone.set()
        killed = time.monotonic()
        wait_for(lambda: all(len(list(each.recent(0.5))) == 8 for each in (clients, posting)), "the others")
        wait_for(lambda: time.monotonic() > killed + 1 and hosts_of(clients, site) == {0, 2}, "the others alone")
    assert clients.faults() == []
    faults = posting.faults()
    # On a kept connection HAProxy ends it without a word, for its client to ask again; on a new one it answers 502.
    assert [fault for fault in faults if fault.kind != ("5xx" if fault.kept_since is None else "reset")] == []
    assert not [fault for fault in faults if fault.is_retry] and len(faults) <= 8


def test_a_stop_and_new_code_cost_no_post(network: Network, site: Site) -> None:
    with clients_of(network, body=100) as posting:
        all_answer(posting, site)
        asked = time.monotonic()
        site.servers[0].send(signal.SIGHUP)
        wait_for(partial(code_since, asked, posting, site.servers[0]), "answers by the new code alone")
        assert site.servers[1].stop() == 0
        site.start_again(1)
        all_answer(posting, site)
    assert posting.faults() == []
