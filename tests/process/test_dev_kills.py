"""Autoreload: whichever process is killed, in any order, the next save is served; and with the supervisor all are gone."""

import contextlib
import os
import random
import time
from pathlib import Path

import psutil
import pytest
from starter import SHAPES, Server, Start, can_listen, lives, wait_for, within

ROUNDS = int(os.environ.get("ROUNDS", "8"))

APP = """
import os
import leaf
def application(environ, start_response):
    start_response("200 OK", [])
    return [f"{leaf.VALUE} {os.getpid()}".encode()]
"""


def session(server: Server) -> list[psutil.Process]:
    """Everybody whom the server has started: it began a session of its own."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(ProcessLookupError, psutil.NoSuchProcess):
            if os.getsid(process.pid) == server.process.pid and lives(process):
                found.append(process)
    return found


def save(server: Server, number: int) -> None:
    (server.directory / "leaf.py").write_text(f"VALUE = {number}\n")
    status, body = server.get()
    assert (status, body.split()[0]) == (200, str(number))


def begin(launch: Start, directory: Path, shape: str) -> Server:
    """Start, and edit until somebody has gone on from before the leaf, and the next one is ready."""
    (directory / "app.py").write_text(APP)
    (directory / "leaf.py").write_text("VALUE = 0\n")
    server = launch("dev", "app.py", "--port=0", *SHAPES[shape])
    server.await_address()
    server.await_text("loaded in")
    for number in range(1, 30):
        save(server, number)
        if "(checkpoint)" in server.said:
            break
        time.sleep(0.05 * number)  # the zygote may need that long
    wait_for(lambda: len(server.workers()) >= 4, "who serves, the zygote, who waits before the leaf, and a fork of it")
    return server


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_kills_in_any_order(launch: Start, tmp_path: Path, seed: int) -> None:
    def trial() -> float:
        chance = random.Random(seed)
        server = begin(launch, tmp_path, list(SHAPES)[seed % len(SHAPES)])
        victims = [each for each in session(server) if each.pid != server.process.pid]
        chance.shuffle(victims)
        for number, victim in enumerate(victims[: chance.randint(0, len(victims))], 100):
            with contextlib.suppress(psutil.NoSuchProcess):
                victim.kill()
            if chance.random() < 0.3:
                save(server, number)  # whatever is missing
        if chance.random() < 0.5:
            save(server, 200)
        began = time.monotonic()
        server.process.kill()
        server.process.wait()
        wait_for(lambda: not session(server), "everybody to be gone")
        wait_for(lambda: can_listen(server.port), "the port to be free")
        return time.monotonic() - began

    within(1, trial)
