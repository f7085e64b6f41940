"""What the supervisor does about workers that die, and the workers about a supervisor that does."""

import contextlib
import http.client
import os
import re
import signal
import socket
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from processes import delay
from starter import APPLICATION, PATIENCE, SHAPES, Server, Start, wait_for


def serves(server: Server) -> int:
    """Make one request: the pid of the worker that answered."""
    status, body = server.get()
    assert status == 200
    return int(body)


def replaced(server: Server, pid: int) -> bool:
    workers = server.workers()
    return pid not in workers and len(workers) == 2


def test_a_killed_worker_is_replaced_while_the_others_serve(start: Start, supervised: str) -> None:
    server = start(supervised)
    victim, other = sorted(server.workers())
    os.kill(victim, signal.SIGKILL)
    wait_for(lambda: serves(server) and replaced(server, victim), "another worker")
    assert other in server.workers()
    server.await_text(f"worker {victim} died: killed by SIGKILL (perhaps out of memory)")
    assert server.stop() == 0


def test_every_worker_may_be_killed(start: Start, supervised: str) -> None:
    server = start(supervised)
    victims = server.workers()
    for victim in victims:
        os.kill(victim, signal.SIGKILL)
    wait_for(lambda: len(server.workers() - victims) == 2, "two other workers")
    assert serves(server) not in victims
    assert server.stop() == 0


def test_a_worker_that_is_asked_to_leave_is_replaced(start: Start, supervised: str) -> None:
    server = start(supervised)
    leaving = min(server.workers())
    os.kill(leaving, signal.SIGTERM)
    wait_for(lambda: replaced(server, leaving), "another worker")
    server.await_text(f"worker {leaving} was asked to leave (SIGTERM); another one takes its place")
    server.await_text(f"worker {leaving} left: exit code 0")
    assert server.stop() == 0


@pytest.mark.parametrize(("path", "why"), [("/leave", "exit code 9"), ("/segfault", "killed by SIGSEGV")])
def test_an_application_that_crashes_takes_only_its_worker(start: Start, supervised: str, path: str, why: str) -> None:
    server = start(supervised)
    before = server.workers()
    with pytest.raises((OSError, http.client.HTTPException)):
        server.get(path)
    server.await_text(f"died: {why}")
    wait_for(lambda: serves(server) and len(server.workers()) == 2, "another worker")
    assert len(before & server.workers()) == 1
    assert server.stop() == 0


@pytest.mark.parametrize("connects", [True, False])
def test_what_the_first_name_of_a_host_needs_is_loaded_once(start: Start, connects: bool) -> None:
    told = """
import sys
def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [str("encodings.idna" in sys.modules).encode()]
"""
    server = start("2x1", source=("import socket" if connects else "") + told)
    assert server.get() == (200, str(connects))
    assert server.stop() == 0


def test_workers_that_die_at_once_are_started_ever_more_slowly(start: Start) -> None:
    doomed = APPLICATION + "\nos.register_at_fork(after_in_child=lambda: os._exit(7))\n"
    server = start("2x1", source=doomed)
    wait_for(lambda: "starts in 0.8 s" in server.said, "the fourth failure")
    delays = [float(text) for text in re.findall(r"died: exit code 7; the next one starts in ([\d.]+) s", server.said)]
    waits = sorted(set(delays[: delays.index(0.8) + 1]))
    assert waits in ([0.1, 0.2, 0.4, 0.8], [0.2, 0.4, 0.8])
    assert len(delays) <= 6
    assert server.stop() == 0


def test_one_worker_is_one(launch: Start, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APPLICATION)
    server = launch("app.py", "--bind=127.0.0.1:0", "--type=forking", "--processes=1")
    wait_for(server.workers, "a worker")
    assert server.stop() == 0
    assert "forking, 1 process x 1 thread" in server.said
    assert "stopping 1 worker: SIGTERM" in server.said


def test_a_worker_does_not_clean_up_after_the_supervisor(start: Start, supervised: str) -> None:
    """The pid file and the socket of the server outlive a worker that stops, and end with the server."""
    server = start(supervised, "--pidfile=server.pid", "--bind=unix:server.sock")
    pidfile, path = server.directory / "server.pid", server.directory / "server.sock"
    assert int(pidfile.read_text()) == server.process.pid
    leaving = min(server.workers())
    os.kill(leaving, signal.SIGTERM)
    wait_for(lambda: replaced(server, leaving), "another worker")
    assert pidfile.exists()
    assert path.exists()
    assert server.stop() == 0
    assert not pidfile.exists()
    assert not path.exists()


def test_a_client_that_comes_where_one_worker_is_full_is_served_by_another(start: Start, supervised: str) -> None:
    """A full worker must not be the one that a new client wakes. It becomes full with a client whose call takes a while."""
    server = start(supervised, "--max-connections=1")
    kept = server.connection()
    kept.request("GET", "/slow")
    assert kept.getresponse().read() == b"slow"
    for _ in range(3):
        assert server.get()[0] == 200
    kept.close()
    assert server.stop() == 0


def test_clients_that_come_at_once_are_served_at_once(start: Start) -> None:
    """A client that has just come has not said yet what it wants: the client that comes with it is another worker's. If a
    worker waits for a core meanwhile, the first one may take both, so that such a round says nothing.
    """
    together = """
import multiprocessing
import threading
barrier = multiprocessing.Barrier(3)
def application(environ, start_response):
    try:
        barrier.wait(1)
        told = b"together"
    except threading.BrokenBarrierError:
        barrier.reset()
        told = b"alone"
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [told]
"""
    server = start("2x1", "--processes=3", source=together)
    server.await_serving(3)
    workers = server.workers()
    rounds, calm = [], 0
    end = time.monotonic() + 2 * PATIENCE
    with ThreadPoolExecutor(3) as clients:
        while calm < 12 and time.monotonic() < end:
            before = [delay([pid]) for pid in workers]
            rounds.append([each[1] for each in clients.map(lambda _: server.get(), range(3))])
            if max(delay([pid]) - waited for pid, waited in zip(workers, before, strict=True)) < 0.001:
                calm += 1
                assert rounds[-1] == ["together"] * 3, f"round {len(rounds)}, the {calm}. that says something"
    assert ["together"] * 3 in rounds
    assert server.stop() == 0


@pytest.mark.parametrize("is_passed", [False, True], ids=["bound", "passed"])
def test_kept_connections_are_shared_by_the_workers(
    launch: Start, tmp_path: Path, supervised: str, is_passed: bool
) -> None:
    """They come one after the other, so that the first worker is idle again each time: the next must get some too."""
    (tmp_path / "app.py").write_text(APPLICATION)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        bind = ("--bind=fd:3",) if is_passed else ("--bind=127.0.0.1:0",)
        server = launch("app.py", *SHAPES[supervised], *bind, passed=[listener] if is_passed else [])
    server.await_address()
    server.await_serving(2)
    with contextlib.ExitStack() as kept:

        def ask() -> int:
            connection = kept.enter_context(contextlib.closing(server.connection()))
            connection.request("GET", "/")
            return int(connection.getresponse().read())

        # Either says `serving` a moment before it accepts.
        early = {ask()}
        while early != server.workers():
            early.add(ask())
        served = Counter(ask() for _ in range(32))
    assert served.keys() == server.workers() and min(served.values()) >= 4
    assert server.stop() == 0
