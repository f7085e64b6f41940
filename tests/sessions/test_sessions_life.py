"""How long a session lives, how it is rotated and ended, and its id."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from session_client import Client, Noting, both, get, interleaved, kept_in, page, put

from poorhttp.sessions.stored import key_of

# Expiry, rotation


@both
def test_a_session_that_is_not_used_ends(kind: str) -> None:
    client = kept_in(kind, idle=0.3)
    client.do(put("a", 1))
    assert client.do(get("a")) == "1"
    time.sleep(0.4)
    assert client.do(get("a")) == "None"


@both
def test_use_keeps_a_session_alive_until_its_absolute_end(kind: str) -> None:
    client = kept_in(kind, idle=0.6, absolute=1.8)
    start = time.monotonic()
    client.do(put("a", 1))
    while time.monotonic() - start < 1.5:
        assert client.do(get("a")) == "1"
        time.sleep(0.1)
    while time.monotonic() - start < 1.9:
        client.do(get("a"))
        time.sleep(0.05)
    assert client.do(get("a")) == "None"


def test_the_end_is_that_of_the_server_whatever_the_browser_keeps(client: Client) -> None:
    client = Client("memory:", idle=0.2, persistent=True)
    client.do(put("a", 1))
    assert "; Max-Age=43200" in client.field("Set-Cookie")
    time.sleep(0.3)
    assert client.token and client.do(get("a")) == "None"


def test_use_is_noted_now_and_then_only() -> None:
    store = Noting()
    client = Client(store, idle=2)  # noted each tenth of a second
    client.do(put("a", 1))
    store.asked.clear()
    for _ in range(5):
        client.do(get("a"))
    assert "touch" not in store.asked
    time.sleep(0.12)
    client.do(get("a"))
    assert "touch" in store.asked and "save" not in store.asked


def test_rotation_gives_a_new_id_and_keeps_the_data() -> None:
    client = Client()
    client.do(put("a", 1))
    old = client.token
    client.do(lambda session: session.rotate())
    assert client.token != old and client.do(get("a")) == "1"
    client.jar["__Host-session"] = old
    assert client.do(get("a")) == "None"


def test_rotation_may_leave_the_old_session_for_a_moment_with_its_old_data() -> None:
    client = Client(rotation_grace=0.3)
    client.do(put("name", "anonymous"))
    old = client.token

    def login(session: Any) -> None:
        session.rotate()
        session["name"] = "root"

    client.do(login)
    new, client.jar["__Host-session"] = client.token, old
    assert client.do(get("name")) == "anonymous"
    client.do(put("late", 1))  # does not make it live longer, and gives the client no other cookie
    assert client.token == old
    time.sleep(0.4)
    assert client.do(get("name")) == "None"
    client.jar["__Host-session"] = new
    assert client.do(dict) == "{'name': 'root'}"


def login(session: Any) -> None:
    session.rotate()
    session["user"] = "root"


def test_two_logins_with_one_old_id_both_last() -> None:
    client = Client(rotation_grace=0.3)
    client.do(put("cart", [1]))
    old, tokens = dict(client.jar), []
    for _ in range(2):
        client.jar = dict(old)
        client.do(login)
        tokens.append(client.token)
    time.sleep(0.4)
    for token in tokens:
        client.jar["__Host-session"] = token
        assert client.do(dict) == "{'cart': [1], 'user': 'root'}"


@pytest.mark.parametrize("logout", [lambda session: session.invalidate(), lambda session: session.clear()])
def test_a_logout_with_the_old_id_ends_the_new_sessions(logout: Any) -> None:
    store = Noting()
    client = Client(store, rotation_grace=20)
    client.do(put("cart", [1]))
    old = dict(client.jar)
    client.do(login)
    client.do(lambda session: session.rotate())
    client.jar = dict(old)
    client.do(login)
    client.jar = dict(old)
    client.do(put("late", 1))
    assert len(store.keys()) == 4
    client.do(logout)
    assert not store.keys() and not client.jar


def test_a_logout_ends_the_session_that_was_rotated_meanwhile() -> None:
    store = Noting()
    client = Client(store, rotation_grace=20)
    client.do(put("cart", [1]))

    def logout(session: Any, step: Any) -> None:
        assert session["cart"]
        step()
        session.invalidate()

    interleaved(client, logout, login)
    assert not store.keys()


def test_a_session_that_is_rotated_does_not_live_longer() -> None:
    client = Client(absolute=0.5)
    client.do(put("a", 1))
    time.sleep(0.3)
    client.do(lambda session: session.rotate())
    time.sleep(0.3)
    assert client.do(get("a")) == "None"


def test_an_invalidated_session_is_gone_and_what_follows_is_a_new_one() -> None:
    store = Noting()
    client = Client(store)
    client.do(put("a", 1))
    old = client.token
    client.do(lambda session: session.invalidate())
    assert not client.jar and not store.keys() and "Max-Age=0" in client.field("Set-Cookie")
    client.jar["__Host-session"] = old
    assert client.do(get("a")) == "None"

    def again(session: Any) -> None:
        session.invalidate()
        assert not session and session.is_new
        session["b"] = 2

    client.do(put("a", 1))
    old = client.token
    client.do(again)
    assert client.token != old and client.do(dict) == "{'b': 2}"


def test_a_logout_without_the_cookie_removes_none() -> None:
    """A form of another site comes without the cookie, and must not log the user out."""
    client = Client()
    client.do(lambda session: session.invalidate())
    assert "Set-Cookie" not in dict(client.headers)


def test_a_logout_that_answers_with_an_error_is_a_logout() -> None:
    store = Noting()
    client = Client(store)
    client.do(put("a", 1))
    client.ask(page(lambda session: session.invalidate(), "500 Internal Server Error"))
    assert not client.jar and not store.keys()


def test_an_emptied_session_leaves_neither_record_nor_cookie(client: Client) -> None:
    client.do(put("a", 1))
    client.do(lambda session: session.clear())
    assert not client.jar
    if client.sessions.store is not None:
        assert not client.sessions.store._records  # type: ignore[attr-defined]


# Ids


def test_an_unknown_id_is_never_adopted() -> None:
    client = Client()
    for theirs in "A" * 43, "a" * 43, "../../etc/passwd", "", "%00", "x" * 5000, "A" * 42 + "\xff":
        client.jar["__Host-session"] = theirs
        assert client.do(get("a")) == "None"
        assert client.field("Set-Cookie") is None  # it may belong to a login that is under way
        client.do(put("a", 1))
        assert client.token != theirs and re.fullmatch(r"[\w-]{43}", client.token)


def test_the_store_holds_hashes_of_ids() -> None:
    store = Noting()
    client = Client(store)
    client.do(put("a", 1))
    assert store.keys() == {key_of(client.token)} and client.token not in str(store._records)


def test_a_damaged_record_is_removed_and_told_about() -> None:
    store = Noting()
    client = Client(store)
    for damage in b"", b"1 2", b"9 1 2 {}", b"1 1 9e9 [1]", b"1 1 9e9 {", b"1 x 9e9 {}", b"\x80\x04K\x01.":
        client.do(put("a", 1))
        (key,) = store.keys()
        store.delete(key)
        store.save(key, damage, 60, None)
        assert client.do(get("a")) == "None"
        assert "damaged" in client.log and not store.keys()
