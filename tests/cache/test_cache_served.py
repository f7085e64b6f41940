"""Workers of a real server share a cache; what a reload keeps, and what it drops."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest
from processes import wait_for
from server import Server

APPLICATION = """
import os
from poorhttp.cache import Cache

kept = Cache(os.environ["TEST_DIRECTORY"] + "/kept", 4 << 20)
dropped = Cache(size=4 << 20)


def application(environ, start_response):
    body = f"{os.getpid()} {kept.incr('count', default=0)} {dropped.incr('count', default=0)}".encode()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]
"""


def asked(server: Server, pids: set[int]) -> list[list[int]]:
    """Ask until each of the processes has answered: process and counts."""
    answers: list[list[int]] = []

    def all_have() -> bool:
        answers.append([int(number) for number in server.get().body.split()])
        return pids <= {answer[0] for answer in answers}

    wait_for(all_have, f"answers of {pids}")
    return answers


@pytest.mark.parametrize("preload", [True, False])
def test_workers_share_it_and_a_reload_keeps_what_has_a_path(start: Callable[..., Server], preload: bool) -> None:
    server = start(APPLICATION, (2, 1), type="forking", preload=preload)
    old = set(server.pids())
    answers = asked(server, old)
    counts = [count for _, count, _ in answers]
    assert counts == list(range(1, len(answers) + 1))
    if preload:
        assert [count for _, _, count in answers] == counts

    killed = min(old)
    os.kill(killed, signal.SIGKILL)
    wait_for(lambda: killed not in server.pids() and len(server.pids()) == 2, "another worker")
    after = asked(server, set(server.pids()))
    assert after[0][1] == counts[-1] + 1
    if preload:
        assert after[0][2] == counts[-1] + 1

    before = set(server.pids())
    server.signal(signal.SIGHUP)
    wait_for(lambda: len(server.pids()) == 2 and not before & set(server.pids()), "new workers")
    last = asked(server, set(server.pids()))
    assert last[0][1] == counts[-1] + len(after) + 1
    assert last[0][2] <= len(last)
