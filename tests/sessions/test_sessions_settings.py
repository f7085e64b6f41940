"""What may be kept in a session, sessions in a dispatch table, and settings that are refused."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest
from session_client import SECRET, Client, Noting, get, put

from poorhttp.sessions import SessionError, Sessions, TooLarge

# What may be in it


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({1: "a"}, r"session\['a'\] has the key 1: keys are str, not int"),
        ([{"b": b"x"}], r"session\['a'\]\[0\]\['b'\] is of type bytes"),
        ({1, 2}, r"session\['a'\] is of type set"),
        (float("nan"), r"session\['a'\] is nan: JSON has no such number"),
        ("\ud800", r"session\['a'\] holds half of a surrogate pair"),
        ({"\ud800": 1}, r"the key '\\ud800' of session\['a'\] holds half of a surrogate pair"),
        (object(), r"session\['a'\] is of type object"),
    ],
    ids=["int key", "bytes", "set", "nan", "surrogate", "surrogate key", "object"],
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
    with pytest.raises(TooLarge, match=r"above max_bytes, 200: .* \(session\['b'\] has 206 bytes of it\)"):
        client.do(put("b", "x" * 200))
    with pytest.raises(TooLarge):
        client.do(lambda session: (session.rotate(), session.update(a="x" * 200)))
    assert client.do(get("a")) == "1"


def test_the_data_does_not_get_into_logs() -> None:
    client = Client()
    client.do(put("password", "hunter2"))
    assert client.do(repr) == "<Session, not used>"
    assert client.do(lambda session: (len(session), repr(session))[1]) == "<Session, 1 keys>"


# In a table


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


@pytest.mark.parametrize("errors", [{}, {503: lambda req: str(req.session["a"])}], ids=["default page", "own page"])
def test_a_store_that_is_down_is_one_line_of_the_log_of_a_table(errors: dict[int, Any]) -> None:
    from types import SimpleNamespace

    from poorhttp import http
    from poorhttp.dispatch import application

    store = Noting()
    client = Client(store)
    client.do(put("a", 1))
    store.is_down = True
    handlers = {"/": (http.METHOD_GET, lambda req: str(req.session["a"]))}
    served = application(SimpleNamespace(handlers=handlers, errors=errors, sessions=client.sessions))
    client.sessions = SimpleNamespace(wrap=lambda app: app)  # type: ignore[assignment]
    assert "503 - Service Unavailable" in client.ask(served) and client.status.startswith("503")
    assert client.log == "sessions: GET '/' is answered 503: the store is away\n"


def test_a_dispatch_table_without_sessions_says_so() -> None:
    from types import SimpleNamespace

    from poorhttp import http
    from poorhttp.dispatch import application

    table = SimpleNamespace(handlers={"/": (http.METHOD_GET, lambda req: req.session)})
    client = Client()
    client.sessions = SimpleNamespace(wrap=lambda app: app)  # type: ignore[assignment]
    client.ask(application(table))
    assert client.status.startswith("500") and "this site keeps no sessions; write into the table" in client.log


# Settings


@pytest.mark.parametrize(
    ("store", "settings", "told"),
    [
        ("cookie:", {}, "need secrets=..., which is None: make a secret with python3 -c"),
        ("cookie:", {"secrets": ""}, "need secrets=..., which is ''"),
        ("cookie:", {"secrets": [None]}, "of type NoneType"),
        ("cookie", {}, "it is written Sessions('cookie:', secrets=...)"),
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
        (
            None,
            {},
            "the store of sessions is of type NoneType; expected an address such as sqlite:/path/of/sessions.db",
        ),
        (["memory:"], {}, "the store of sessions is of type list"),
        ("memory:x", {}, "takes nothing behind the colon"),
        ("sqlite:sessions.db", {}, "expected an absolute path"),
        ("sqlite:///sessions.db", {}, "expected an absolute path"),
        ("sqlite:/a?timeout=never", {}, "timeout of a store is 'never'; expected seconds from 0.05 to 60"),
        ("oracle://host", {}, "begins with 'oracle'; expected one of memory:, file:/path"),
        ("sqllite:/sessions.db", {}, "begins with 'sqllite'; did you mean sqlite:/path/of/sessions.db?"),
        ("mysqli://host/db", {}, "begins with 'mysqli'; did you mean mariadb://user@host/database?"),
        ("Cookies:", {}, "did you mean cookie:?"),
        ("/var/lib/sessions", {}, "begins with '/var/lib/sessions'; did you mean sqlite:/var/lib/sessions?"),
        ("sqlite:/proc", {}, "is at '/proc', which is a directory; expected the path of a file"),
        ("directory:/proc/version", {}, "which is a file; expected the path of a directory"),
        ("redis:localhost", {}, "has no // behind the colon; expected one such as redis://host:6379/0"),
        ("redis://:se/cret@localhost", {}, "the address redis: cannot be read"),
        ("memcached://localhost:port", {}, "is the port a number"),
        ("mariadb://root@localhost", {}, "names no database"),
    ],
)
def test_a_wrong_setting_is_told(store: Any, settings: dict[str, Any], told: str) -> None:
    with pytest.raises(SessionError, match=re.escape(told)):
        Sessions(store, **settings)


def test_a_missing_library_is_told_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    monkeypatch.delitem(sys.modules, "poorhttp.sessions.stores.redis", raising=False)
    with pytest.raises(SessionError, match=r"needs the library redis\b.*not installed.*pip install '\.\[redis\]'"):
        Sessions("redis://localhost")


def test_the_error_of_an_address_does_not_tell_the_password() -> None:
    for address in (
        "redis://:se/cret@localhost",
        "mariadb://root:se/cret@localhost/a",
        "memcached://a:se/cret@localhost",
    ):
        with pytest.raises(SessionError) as told:
            Sessions(address)
        assert "se" not in re.findall(r"\w+", str(told.value)) and told.value.__suppress_context__


def test_memory_is_refused_by_a_server_of_several_processes() -> None:
    client = Client()
    with pytest.raises(SessionError, match="one process only"):
        client.do(get("a"), **{"wsgi.multiprocess": True})
