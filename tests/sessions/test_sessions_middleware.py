"""What a session does in a request: loading and saving, also with an answer that is streamed."""

from __future__ import annotations

import io
import sys
import time
from typing import Any
from wsgiref.util import FileWrapper, setup_testing_defaults

import pytest
from session_client import Client, Noting, get, page, put, streaming

from poorhttp.sessions import SessionMiddleware, TooLate
from poorhttp.sessions.stores.memory import MemoryStore

# Loading and saving


def test_a_session_remembers(client: Client) -> None:
    client.do(put("name", "Žofie"))
    assert client.do(get("name")) == "Žofie"


def test_a_session_is_a_mapping(client: Client) -> None:
    def fill(session: Any) -> None:
        assert session.is_new and session.created is None and not session and "a" not in session
        session.update(a=1, b=[1, {"c": None}], d=1.5, e=True)
        assert session.setdefault("a", 2) == 1 and session.pop("d") == 1.5

    client.do(fill)
    assert client.do(dict) == "{'a': 1, 'b': [1, {'c': None}], 'e': True}"
    assert client.do(lambda session: session.is_new) == "False"
    assert abs(float(client.do(lambda session: session.created)) - time.time()) < 60


def test_an_attribute_is_no_key(client: Client) -> None:
    with pytest.raises(AttributeError):
        client.do(lambda session: setattr(session, "user", "root"))


@pytest.mark.parametrize(
    "change",
    [
        lambda session: session["a"].append(2),
        lambda session: session.get("a").append(2),
        lambda session: session.setdefault("a", []).append(2),
        lambda session: [value.append(2) for value in session.values()],
        lambda session: [value.append(2) for _, value in session.items()],
        lambda session: dict(session)["a"].append(2),
        lambda session: session.update(a=[1, 2]),
    ],
)
def test_a_change_is_seen_however_the_value_was_reached(change: Any) -> None:
    client = Client()
    client.do(put("a", [1]))
    client.do(change)
    assert client.do(get("a")) == "[1, 2]"


def test_a_session_that_is_not_used_costs_nothing() -> None:
    store = Noting()
    client = Client(store)
    client.do(put("a", 1))
    store.asked.clear()
    client.do(lambda session: "")
    assert store.asked == []
    assert {name for name, _ in client.headers} == {"Content-Type", "Content-Length"}


def test_a_session_that_is_read_is_loaded_once_and_not_saved() -> None:
    store = Noting()
    client = Client(store)
    client.do(put("a", 1))
    store.asked.clear()
    assert client.do(lambda session: session["a"] + session["a"]) == "2"
    assert store.asked == ["load"]
    assert client.field("Vary") == "Cookie" and client.field("Set-Cookie") is None


def test_a_new_session_that_stays_empty_leaves_nothing() -> None:
    store = Noting()
    client = Client(store)
    client.do(get("a"))
    assert store.asked == [] and not client.jar


def test_a_change_within_a_value_is_saved(client: Client) -> None:
    client.do(put("cart", {"items": [1]}))
    client.do(lambda session: session["cart"]["items"].append(2))
    assert client.do(get("cart")) == "{'items': [1, 2]}"


def test_setting_what_is_there_already_saves_nothing() -> None:
    store = Noting()
    client = Client(store)
    client.do(put("a", [1]))
    store.asked.clear()
    client.do(put("a", [1]))
    assert "save" not in store.asked and client.field("Set-Cookie") is None


def test_the_session_is_saved_before_the_head_is_sent() -> None:
    order: list[str] = []

    class Late(MemoryStore):
        def save(self, *values: Any) -> str:
            order.append("save")
            return super().save(*values)

    app = SessionMiddleware(page(put("a", 1)), Late())
    environ: dict[str, Any] = {"wsgi.errors": io.StringIO()}
    setup_testing_defaults(environ)
    app(environ, lambda *_: order.append("head"))
    assert order == ["save", "head"]


def test_a_page_that_failed_saves_nothing(client: Client) -> None:
    client.ask(page(put("a", 1), "500 Internal Server Error"))
    assert not client.jar

    def crash(session: Any) -> None:
        session["a"] = 1
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        client.do(crash)
    assert client.do(get("a")) == "None"


def test_fields_of_the_application_stay() -> None:
    client = Client()

    def app(environ: Any, start_response: Any) -> list[bytes]:
        environ["poorhttp.session"]["a"] = 1
        fields = [
            ("Content-Type", "text/plain"),
            ("Vary", "Accept"),
            ("Cache-Control", "private"),
            ("Set-Cookie", "b=1"),
        ]
        start_response("200 OK", fields)
        return [b""]

    client.ask(app)
    assert client.field("Vary") == "Accept, Cookie" and client.field("Cache-Control") == "private"
    assert client.jar["b"] == "1" and client.token


def test_a_file_reaches_the_server_as_it_is() -> None:
    file = FileWrapper(io.BytesIO(b"text"))

    def app(environ: Any, start_response: Any) -> Any:
        environ["poorhttp.session"]["a"] = 1
        start_response("200 OK", [])
        return file

    environ: dict[str, Any] = {"wsgi.errors": io.StringIO()}
    setup_testing_defaults(environ)
    assert SessionMiddleware(app, "memory:")(environ, lambda *_: None) is file


# Streamed answers


def test_a_streamed_answer_saves_what_was_changed_before_its_first_block(client: Client) -> None:
    assert client.ask(streaming(early=True, late=False)) == "firstsecond"
    assert client.do(dict) == "{'early': 1}"


def test_a_change_after_the_head_raises(client: Client) -> None:
    client.is_valid = False
    with pytest.raises(TooLate, match="after the head"):
        client.ask(streaming(early=True, late=True))
    assert client.do(dict) == "{}"  # the client has thrown the answer away, and its cookie

    def app(environ: Any, start_response: Any) -> Any:
        session = environ["poorhttp.session"]
        write = start_response("200 OK", [("Content-Type", "text/plain")])
        session["a"] = 1
        write(b"text")
        for change in (lambda: put("b", 2)(session), session.rotate, session.invalidate, session.clear):
            with pytest.raises(TooLate):
                change()
        assert session["a"] == 1
        return []

    assert client.ask(app) == "text"
    assert client.do(dict) == "{'a': 1}"


@pytest.mark.parametrize("concurrency", ["merge", "lock"])
def test_a_first_use_after_the_head_raises_and_locks_nothing(concurrency: str) -> None:
    client = Client(is_valid=False, concurrency=concurrency, lock_timeout=0.1)
    client.do(put("a", 1))

    def app(environ: Any, start_response: Any) -> Any:
        start_response("200 OK", [("Content-Type", "text/plain")])
        return (str(environ["poorhttp.session"]["a"]).encode() for _ in range(1))

    with pytest.raises(TooLate, match="first used after the head"):
        client.ask(app)
    assert client.field("Vary") is None
    assert client.do(get("a")) == "1" and client.status == "200 OK"


def test_a_stream_that_is_closed_unread_saves_nothing() -> None:
    store = Noting()
    environ: dict[str, Any] = {"wsgi.errors": io.StringIO()}
    setup_testing_defaults(environ)
    body: Any = SessionMiddleware(streaming(early=True, late=False), store)(environ, lambda *_: None)
    body.close()
    assert not store.keys()


def test_an_error_page_in_place_of_a_page_that_was_not_sent_yet_has_the_cookie() -> None:
    """The session was saved with the head that the server drops (PEP 3333, "Error Handling")."""

    def application(environ: Any, start_response: Any) -> Any:
        environ["poorhttp.session"]["a"] = 1
        start_response("200 OK", [("Content-Type", "text/html")])

        def blocks() -> Any:
            try:
                raise OSError("on purpose")
            except OSError:
                start_response("500 Internal Server Error", [("Content-Type", "text/plain")], sys.exc_info())
            yield b"failed"

        return blocks()

    heads: list[Any] = []
    environ: dict[str, Any] = {}
    setup_testing_defaults(environ)
    wrapped = SessionMiddleware(application, "memory:")
    assert list(wrapped(environ, lambda *head: heads.append(head))) == [b"failed"]
    (_, first, *_), (status, fields, exc_info) = heads
    assert status.startswith("500") and exc_info[0] is OSError
    assert dict(fields)["Set-Cookie"] == dict(first)["Set-Cookie"] and dict(fields)["Vary"] == "Cookie"
