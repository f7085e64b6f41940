"""Whose turn it is where calls take long: which client is served next, and how many calls are inside at once.

Knows counts and orders of answers; knows no times.
"""

from __future__ import annotations

import contextlib
import selectors
import statistics
from collections import Counter
from typing import Any

import pytest

APP = """
import threading, time

inside = set()

def application(environ, start_response):
    kind, seconds = environ["PATH_INFO"].strip("/").split("/")
    thread = threading.get_ident()
    inside.add(thread)
    body = b"%d" % len(inside)
    if kind == "compute":
        end = time.thread_time() + float(seconds)
        while time.thread_time() < end:
            pass
    else:
        time.sleep(float(seconds))
    inside.discard(thread)
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]
"""
CLIENTS = 8


def ask_on(server: Any, target: str, answers: int) -> tuple[Counter[int], list[int]]:
    """Let each client ask again as soon as it has its answer. Returns how many each got, and how many calls were inside
    when each began, in the order of the answers.
    """
    got: Counter[int] = Counter()
    inside: list[int] = []
    with contextlib.ExitStack() as closing, selectors.DefaultSelector() as ready:
        for number in range(CLIENTS):
            client = closing.enter_context(server.connect())
            ready.register(client.sock, selectors.EVENT_READ, (number, client))
            client.send(f"GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")
        while len(inside) < answers:
            for key, _ in ready.select(20):
                number, client = key.data
                inside.append(int(client.response().body))
                got[number] += 1
                client.send(f"GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")
    server.clients.clear()
    return got, inside


@pytest.mark.parametrize("shape", [(1, 1), (1, 8)], ids=["1x1", "1x8"])
def test_clients_that_ask_for_the_same_get_the_same(serve: Any, shape: tuple[int, int]) -> None:
    server = serve(APP, shape)
    ask_on(server, "/compute/0.005", 60)
    got, _ = ask_on(server, "/compute/0.005", 240)
    assert min(got[number] for number in range(CLIENTS)) >= 0.8 * 240 / CLIENTS, got


def test_calls_that_compute_are_inside_one_at_a_time_and_calls_that_wait_together(serve: Any) -> None:
    server = serve(APP, (1, CLIENTS))
    for _ in range(2):
        _, inside = ask_on(server, "/compute/0.003", 300)
        assert statistics.mean(inside[150:]) < 2.5
        _, inside = ask_on(server, "/sleep/0.02", 300)
        assert statistics.mean(inside[100:]) > CLIENTS / 2


def test_calls_that_wait_keep_nobody_outside(serve: Any) -> None:
    """Seven wait for as long as the others compute; these go on one at a time, and all the time."""
    server = serve(APP, (1, CLIENTS))
    with contextlib.ExitStack() as closing:
        waiting = [closing.enter_context(server.connect()) for _ in range(7)]
        for client in waiting:
            client.send("GET /sleep/1.5 HTTP/1.1\r\nHost: a\r\n\r\n")
        with server.connect() as client:
            for _ in range(100):
                assert client.request("/compute/0.003").status == 200
        ready = selectors.DefaultSelector()
        for client in waiting:
            ready.register(client.sock, selectors.EVENT_READ)
        assert not ready.select(0), "a hundred calls of 3 ms took less than 1.5 s"
        assert all(client.response().status == 200 for client in waiting)


@pytest.mark.parametrize("before", ["/compute/0.0001", "/compute/0.02"])
def test_a_short_call_does_not_wait_for_the_end_of_a_long_one(serve: Any, before: str) -> None:
    server = serve(APP, (1, 4))
    ask_on(server, before, 100)
    with server.connect() as first, server.connect() as second, server.connect() as short:
        for client in (first, second):
            client.send("GET /compute/2 HTTP/1.1\r\nHost: a\r\n\r\n")
        for _ in range(3):
            assert short.request("/compute/0.001").status == 200
        with selectors.DefaultSelector() as ready:
            ready.register(first.sock, selectors.EVENT_READ)
            ready.register(second.sock, selectors.EVENT_READ)
            assert not ready.select(0), "they go on"
        assert first.response().status == second.response().status == 200
