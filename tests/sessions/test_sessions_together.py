"""Requests of one session at one time, and a store that is away."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from session_client import Client, Noting, get, interleaved, page, put, streaming

from poorhttp.sessions import SessionError, StoreDown, locks
from poorhttp.sessions.locks import Lock
from poorhttp.sessions.stores.memory import MemoryStore

# Requests at one time


def test_changes_of_two_requests_are_put_together() -> None:
    client = Client()
    client.do(lambda session: session.update(a=1, b=2, deep={"x": 1, "y": {"z": 1}}, gone=1))

    def first(session: Any, step: Any) -> None:
        session["a"] = 10
        session["deep"]["y"]["z"] = 10
        del session["gone"]
        step()

    def second(session: Any) -> None:
        session["b"] = 20
        session["new"] = 1
        session["deep"]["x"] = 20

    interleaved(client, first, second)
    expected = {"a": 10, "b": 20, "deep": {"x": 20, "y": {"z": 10}}, "new": 1}
    assert client.do(lambda session: dict(session) == expected) == "True"


def test_of_two_changes_of_one_key_the_later_wins() -> None:
    client = Client()
    client.do(put("a", 0))

    def first(session: Any, step: Any) -> None:
        session["a"] = 1
        step()

    interleaved(client, first, put("a", 2))
    assert client.do(get("a")) == "1"


def test_a_logout_is_not_undone_by_a_request_on_its_way() -> None:
    store = Noting()
    client = Client(store)
    client.do(put("user", "root"))

    def first(session: Any, step: Any) -> None:
        session["late"] = 1
        step()

    interleaved(client, first, lambda session: session.invalidate())
    assert "ended while a request changed it" in client.log
    assert not store.keys() and not client.jar


@pytest.mark.parametrize("logout", [lambda session: session.pop("user"), put("user", None)])
def test_a_user_that_was_removed_does_not_come_back_by_a_change_within(logout: Any) -> None:
    client = Client()
    client.do(lambda session: session.update(user={"id": 1, "seen": 0}, a=1))

    def first(session: Any, step: Any) -> None:
        session["user"]["seen"] = 5
        session["a"] = 2
        step()

    interleaved(client, first, logout)
    assert client.do(lambda session: (session.get("user"), session["a"])) == "(None, 2)"


def test_a_login_keeps_what_another_request_changed_meanwhile() -> None:
    store = Noting()
    client = Client(store)
    client.do(put("a", 1))

    def login(session: Any, step: Any) -> None:
        session.rotate()
        session["user"] = "root"
        step()

    interleaved(client, login, put("cart", [1]))
    assert client.do(dict) == "{'a': 1, 'cart': [1], 'user': 'root'}"
    assert len(store.keys()) == 1


def test_a_record_that_always_changes_is_given_up() -> None:
    class Busy(Noting):
        def save(self, key: str, data: bytes, ttl: float, version: str | None) -> str:
            if version is not None:
                version = super().save(key, data, ttl, version)
                version = "0" * 16
            return super().save(key, data, ttl, version)

    client = Client(Busy())
    client.do(put("a", 1))
    client.do(put("a", 2))
    assert client.status.startswith("503") and "changed by other requests" in client.log


def test_under_the_lock_a_request_waits_for_the_one_before() -> None:
    client = Client(concurrency="lock", lock_timeout=20)
    client.do(put("count", 0))
    inside, end = threading.Event(), threading.Event()

    def slow(session: Any) -> None:
        session["count"] += 1
        inside.set()
        end.wait(20)

    def quick(session: Any) -> None:
        session["count"] += 1

    clients = [Client(client.sessions.store), Client(client.sessions.store)]
    for each in clients:
        each.sessions, each.jar = client.sessions, client.jar
    threads = [threading.Thread(target=clients[0].do, args=(slow,))]
    threads[0].start()
    assert inside.wait(20)
    threads.append(threading.Thread(target=clients[1].do, args=(quick,)))
    threads[1].start()
    time.sleep(0.1)
    assert threads[1].is_alive()
    end.set()
    for thread in threads:
        thread.join(20)
    assert client.do(get("count")) == "2"


def test_an_unknown_id_costs_no_lock() -> None:
    store = Noting()
    client = Client(store, concurrency="lock")
    client.jar["__Host-session"] = "A" * 43
    client.do(get("a"))
    assert store.asked == ["load"]


def test_a_lock_that_is_held_too_long_is_503_and_every_end_of_a_request_frees_it() -> None:
    client = Client(concurrency="lock", lock_timeout=0.1)
    client.do(put("a", 1))

    def first(session: Any, step: Any) -> None:
        session["a"] = 2
        step()
        assert client.status.startswith("503") and "lock" in client.log

    interleaved(client, first, get("a"))
    assert client.do(get("a")) == "2"
    with pytest.raises(ZeroDivisionError):
        client.do(lambda session: session["a"] / 0)
    client.ask(page(get("a"), "500 Internal Server Error"))
    client.ask(page(put("b", {1}), "500 Internal Server Error"))
    with pytest.raises(SessionError):
        client.do(put("b", {1}))
    assert client.do(get("a")) == "2"


def test_a_lock_that_its_holder_lost_stays_with_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    first, second, third = (Lock(store, "0" * 64, timeout) for timeout in (0, 20, 0))
    with monkeypatch.context() as patch:
        patch.setattr(locks, "LIFE", 0.1)
        first.acquire()
    second.acquire()
    first.release()
    with pytest.raises(StoreDown):
        third.acquire()
    second.release()
    third.acquire()


# The store is down


def swallowing(handle: Any) -> Any:
    """An application that takes an error of the store for no session, as frameworks that catch everything do."""

    def careful(session: Any) -> Any:
        try:
            return handle(session)
        except Exception:
            return "welcome, stranger"

    return careful


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("handle", [get("a"), swallowing(get("a")), put("a", 2), swallowing(lambda s: s.invalidate())])
def test_a_store_that_is_down_is_503(handle: Any, method: str) -> None:
    store = Noting()
    client = Client(store)
    client.do(put("a", 1))
    before = dict(client.jar)
    store.is_down = True
    text = client.do(handle, REQUEST_METHOD=method)
    assert client.status == "503 Service Unavailable" and client.field("Retry-After")
    assert text == ("" if method == "HEAD" else "503 - Service Unavailable\n")
    assert client.jar == before and client.log == f"sessions: {method} '/' is answered 503: the store is away\n"
    store.is_down = False
    assert client.do(get("a")) == "1"


def test_a_store_that_goes_down_before_the_save_is_503() -> None:
    store = Noting()
    client = Client(store)

    def handle(session: Any) -> None:
        session["a"] = 1
        store.is_down = True

    assert client.do(handle) == "503 - Service Unavailable\n"

    def writing(environ: Any, start_response: Any) -> Any:
        environ["poorhttp.session"]["a"] = 1
        write = start_response("200 OK", [("Content-Type", "text/plain")])
        write(b"secret")
        write(b"secret")
        return [b"secret"]

    assert client.ask(writing) == "503 - Service Unavailable\n"
    assert client.ask(streaming(early=True, late=False)) == "503 - Service Unavailable\n"
    assert client.status.startswith("503") and not client.jar


def test_a_page_that_the_application_has_made_for_503_is_sent() -> None:
    store = Noting()
    client = Client(store)
    client.do(put("a", 1))
    before = dict(client.jar)
    store.is_down = True
    assert client.ask(page(swallowing(get("a")), "503 Service Unavailable")) == "welcome, stranger"
    assert client.field("Retry-After") == "5" and client.field("Cache-Control") == "no-store"
    assert client.jar == before and client.log == "sessions: GET '/' is answered 503: the store is away\n"


def test_whatever_a_store_says_is_one_line_of_the_log() -> None:
    class Verbose(Noting):
        def load(self, key: str) -> Any:
            raise StoreDown("connection refused\n\tIs the server running?\x1b[31m")

    client = Client(Verbose())
    client.jar["__Host-session"] = "A" * 43
    client.do(get("a"), PATH_INFO="/\n\xe9")
    assert client.log.count("\n") == 1 and client.log[:-1].isprintable()
    assert "GET '/\\n\\xe9' is answered 503: connection refused  Is the server running? [31m" in client.log


def test_a_page_that_does_not_use_the_session_is_served_all_the_same() -> None:
    store = Noting()
    client = Client(store)
    client.do(put("a", 1))
    store.is_down = True
    assert client.do(lambda session: "page") == "page"
