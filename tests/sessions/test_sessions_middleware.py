"""What a session does from request to request: loading, saving, expiry, rotation, races, outages. Through wsgiref's
validator, over stores in memory and signed cookies.
"""

from __future__ import annotations

import io
import re
import threading
import time
from typing import Any
from wsgiref.util import FileWrapper, setup_testing_defaults
from wsgiref.validate import validator

import pytest

from poorhttp.sessions import SessionError, SessionMiddleware, Sessions, StoreDown, TooLarge, TooLate, locks
from poorhttp.sessions.locks import Lock
from poorhttp.sessions.stored import key_of
from poorhttp.sessions.stores.memory import MemoryStore

SECRET = "0123456789abcdef0123456789abcdef"


class Noting(MemoryStore):
    """A store that notes what it is asked, and can be away."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.is_down = False

    def _note(self, what: str) -> None:
        self.asked.append(what)
        if self.is_down:
            raise StoreDown("the store is away")

    def load(self, key: str) -> Any:
        if "save" not in self.asked[-1:] and "touch" not in self.asked[-1:]:
            self._note("load")
        return super().load(key)

    def save(self, key: str, data: bytes, ttl: float, version: str | None) -> str:
        self._note("save")
        try:
            return super().save(key, data, ttl, version)
        finally:
            self.asked.append("saved")

    def touch(self, key: str, ttl: float) -> bool:
        self._note("touch")
        try:
            return super().touch(key, ttl)
        finally:
            self.asked.append("touched")

    def delete(self, key: str) -> None:
        self._note("delete")
        super().delete(key)

    def keys(self) -> set[str]:
        return set(self._records)


class Client:
    """A browser with one cookie jar. handle(session) -> the text of the answer."""

    def __init__(self, store: Any = "memory:", *, is_valid: bool = True, **settings: Any) -> None:
        self.sessions = Sessions(store, **settings)
        self.is_valid = is_valid
        self.jar: dict[str, str] = {}
        self.status, self.headers, self.log = "", [], ""

    def ask(self, app: Any, **environ: Any) -> str:
        """Send a request to an application; keep the cookies of its answer."""
        env: dict[str, Any] = {"wsgi.url_scheme": "https", "HTTP_HOST": "www.example.org", "QUERY_STRING": ""}
        if self.jar:
            env["HTTP_COOKIE"] = "; ".join(f"{name}={value}" for name, value in self.jar.items())
        setup_testing_defaults(env)
        log = io.StringIO()
        env.update({"wsgi.errors": log, "wsgi.multiprocess": False, **environ})
        written = []

        def start_response(status: str, headers: Any, exc_info: Any = None) -> Any:
            self.status, self.headers = status, headers
            return written.append

        wrapped = self.sessions.wrap(app)
        body = (validator(wrapped) if self.is_valid else wrapped)(env, start_response)
        try:
            text = b"".join(written) + b"".join(body)
        finally:
            getattr(body, "close", lambda: None)()
            self.log = log.getvalue()
        for name, value in self.headers:
            if name == "Set-Cookie":
                pair, *attributes = value.split("; ")
                key, _, cookie = pair.partition("=")
                self.jar[key] = cookie
                if "Max-Age=0" in attributes:
                    del self.jar[key]
        return text.decode()

    def do(self, handle: Any, **environ: Any) -> str:
        return self.ask(page(handle), **environ)

    def field(self, name: str) -> str | None:
        values = [value for known, value in self.headers if known == name]
        assert len(values) < 2, values
        return values[0] if values else None

    @property
    def token(self) -> str:
        return self.jar.get("__Host-session", "")


def page(handle: Any, status: str = "200 OK") -> Any:
    """An application that calls handle(session) before the head, and answers with its result."""

    def app(environ: Any, start_response: Any) -> list[bytes]:
        text = str(handle(environ["poorhttp.session"])).encode()
        start_response(status, [("Content-Type", "text/plain"), ("Content-Length", str(len(text)))])
        return [text]

    return app


def put(name: str, value: Any) -> Any:
    return lambda session: session.__setitem__(name, value)


def get(name: str) -> Any:
    return lambda session: session.get(name)


@pytest.fixture(params=["memory", "cookie"])
def client(request: pytest.FixtureRequest) -> Client:
    return kept_in(request.param)


def kept_in(kind: str, **settings: Any) -> Client:
    return Client("cookie:", secrets=SECRET, **settings) if kind == "cookie" else Client("memory:", **settings)


both = pytest.mark.parametrize("kind", ["memory", "cookie"])

# ------------------------------------------------------------------------------------------------ Loading and saving


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


# ---------------------------------------------------------------------------------------------------- Streamed answers


def streaming(early: bool, late: bool) -> Any:
    """A generator as an application; it changes the session before its first block, and after it."""

    def app(environ: Any, start_response: Any) -> Any:
        if early:
            environ["poorhttp.session"]["early"] = 1
        start_response("200 OK", [("Content-Type", "text/plain")])
        yield b"first"
        if late:
            environ["poorhttp.session"]["late"] = 1
        yield b"second"

    return app


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


# --------------------------------------------------------------------------------------------------- Expiry, rotation


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


# -------------------------------------------------------------------------------------------------------------- Ids


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


# ---------------------------------------------------------------------------------------------- Requests at one time


def interleaved(client: Client, first: Any, second: Any) -> None:
    """Call second(session) in a request that begins and ends within that of first(session, step)."""
    client.do(lambda session: first(session, lambda: client.do(second)))


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


# ---------------------------------------------------------------------------------------------------- The store is down


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


def test_a_page_that_does_not_use_the_session_is_served_all_the_same() -> None:
    store = Noting()
    client = Client(store)
    client.do(put("a", 1))
    store.is_down = True
    assert client.do(lambda session: "page") == "page"


# ------------------------------------------------------------------------------------------------------ What may be in it


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({1: "a"}, r"session\['a'\] has the key 1: keys are str, not int"),
        ([{"b": b"x"}], r"session\['a'\]\[0\]\['b'\] is of type bytes"),
        ({1, 2}, r"session\['a'\] is of type set"),
        (float("nan"), r"session\['a'\] is nan: JSON has no such number"),
        ("\ud800", r"session\['a'\] holds half of a surrogate pair"),
        (object(), r"session\['a'\] is of type object"),
    ],
    ids=["int key", "bytes", "set", "nan", "surrogate", "object"],
)
def test_what_json_does_not_have_is_refused(client: Client, value: Any, told: str) -> None:
    with pytest.raises(SessionError, match=told):
        client.do(put("a", value))
    assert client.do(get("a")) == "None"


def test_a_value_that_holds_itself_is_refused(client: Client) -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(SessionError, match="levels deep"):
        client.do(put("a", endless))


def test_a_session_above_max_bytes_raises_and_the_old_one_stays() -> None:
    client = Client(max_bytes=200)
    client.do(put("a", 1))
    with pytest.raises(TooLarge, match="above max_bytes, 200"):
        client.do(put("a", "x" * 200))
    with pytest.raises(TooLarge):
        client.do(lambda session: (session.rotate(), session.update(a="x" * 200)))
    assert client.do(get("a")) == "1"


def test_the_data_does_not_get_into_logs() -> None:
    client = Client()
    client.do(put("password", "hunter2"))
    assert client.do(repr) == "<Session, not used>"
    assert client.do(lambda session: (len(session), repr(session))[1]) == "<Session, 1 keys>"


# --------------------------------------------------------------------------------------------------------- In a table


def test_a_dispatch_table_has_sessions() -> None:
    from types import SimpleNamespace

    from poorhttp import http
    from poorhttp.dispatch import application

    def count(req: Any) -> int:
        req.session["count"] = req.session.get("count", 0) + 1
        req.write(str(req.session["count"]))
        return http.DONE

    handlers = {"/": (http.METHOD_GET, count)}
    client = Client()
    served = application(SimpleNamespace(handlers=handlers, sessions=client.sessions))
    client.sessions = SimpleNamespace(wrap=lambda app: app)  # type: ignore[assignment]
    assert [client.ask(served) for _ in range(3)] == ["1", "2", "3"]


def test_a_dispatch_table_without_sessions_says_so() -> None:
    from types import SimpleNamespace

    from poorhttp import http
    from poorhttp.dispatch import application

    table = SimpleNamespace(handlers={"/": (http.METHOD_GET, lambda req: req.session)})
    client = Client()
    client.sessions = SimpleNamespace(wrap=lambda app: app)  # type: ignore[assignment]
    client.ask(application(table))
    assert client.status.startswith("500") and "this site keeps no sessions; write into the table" in client.log


# ------------------------------------------------------------------------------------------------------------ Settings


@pytest.mark.parametrize(
    ("store", "settings", "told"),
    [
        ("cookie:", {}, "need secrets"),
        ("cookie:", {"secrets": "short"}, "has 5 bytes; expected at least 32"),
        ("cookie:", {"secrets": [SECRET, 5]}, "of type int"),
        ("cookie:", {"secrets": SECRET, "concurrency": "lock"}, "have no lock"),
        ("memory:", {"secrets": SECRET}, "for the store 'cookie:' only"),
        ("memory:", {"idle": 0}, "idle is 0; expected a number"),
        ("memory:", {"absolute": "1h"}, "absolute is '1h'"),
        ("memory:", {"idel": 5}, "unknown setting of sessions: idel; there are absolute, concurrency, cookie, idle"),
        ("memory:", {"concurrency": "none"}, "expected one of merge, lock"),
        ("memory:", {"cookie": "a b"}, "cookie is 'a b'"),
        ("memory:", {"cookie": "__Host-a"}, "without a prefix"),
        ("memory:", {"same_site": "lax"}, "expected one of Lax, Strict, None"),
        ("memory:", {"same_site": "None", "secure": False}, "browsers refuse"),
        ("memory:x", {}, "takes nothing behind the colon"),
        ("sqlite:sessions.db", {}, "expected an absolute path"),
        ("sqlite:///sessions.db", {}, "expected an absolute path"),
        ("sqlite:/a?timeout=never", {}, "timeout of a store is 'never'; expected seconds from 0.05 to 60"),
        ("oracle://host", {}, "begins with 'oracle'; expected one of memory:, file:/path"),
        ("/var/lib/sessions", {}, "begins with '/var/lib/sessions'"),
        ("mariadb://root@localhost", {}, "names no database"),
    ],
)
def test_a_wrong_setting_is_told(store: str, settings: dict[str, Any], told: str) -> None:
    with pytest.raises(SessionError, match=re.escape(told)):
        Sessions(store, **settings)


def test_memory_is_refused_by_a_server_of_several_processes() -> None:
    client = Client()
    with pytest.raises(SessionError, match="one process only"):
        client.do(get("a"), **{"wsgi.multiprocess": True})
