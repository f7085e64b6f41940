"""Errors of sessions in a dispatch table: which pages the client gets, what the log tells, and the hooks' contract."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from wsgiref.util import setup_testing_defaults

import pytest
from session_client import Client, Noting, put

from poorhttp import http
from poorhttp.dispatch import application
from poorhttp.sessions import Sessions, StoreDown


class Site(Client):
    """A browser at a site whose one handler is given. store: of its sessions."""

    def __init__(self, handler: Any, store: Any = None, settings: Any = None, **names: Any) -> None:
        super().__init__()
        self.store = store or Noting()
        self.sessions = SimpleNamespace(wrap=lambda app: app)  # type: ignore[assignment]
        handlers = {"/": (http.METHOD_GET_POST, handler)}
        sessions = Sessions(self.store, max_bytes=1000)
        self.app = application(SimpleNamespace(handlers=handlers, sessions=sessions, **names), **(settings or {}))

    def get(self, **environ: Any) -> str:
        return self.ask(self.app, **{"test.store": self.store}, **environ)


def saves_a_set(req: Any) -> str:
    req.session["tags"] = {1}
    return "page"


def saves_too_much(req: Any) -> str:
    req.session["cart"] = "x" * 2000
    return "page"


def fails_at_the_save(req: Any) -> str:
    req.session["a"] = 1
    req.environ["test.store"].is_down = True
    return "page"


def fails_at_the_load(req: Any) -> str:
    return str(req.session.get("a"))


def flushes(req: Any) -> int:
    req.session["tags"] = {1}
    req.write("part")
    req.flush()
    return http.DONE


def streams(req: Any) -> Any:
    req.session["tags"] = {1}
    yield "part"


def own_page(text: str) -> Any:
    return lambda req: f"{text}: {req.status}"


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(
    ("handler", "told"),
    [
        (saves_a_set, "session['tags'] is of type set"),
        (saves_too_much, "session['cart'] has 2009 bytes of it"),
        (flushes, "session['tags'] is of type set"),
        (streams, "session['tags'] is of type set"),
    ],
)
def test_what_cannot_be_saved_is_answered_by_the_page_of_the_site(handler: Any, told: str, method: str) -> None:
    seen = []
    site = Site(handler, errors={500: own_page("sorry")}, post_process=lambda req: seen.append(req.uri))
    text = site.get(REQUEST_METHOD=method)
    assert site.status == "500 Internal Server Error" and text == ("" if method == "HEAD" else "sorry: 500")
    assert told in site.log and (f"test_sessions_table.{handler.__name__}" in site.log or "in flushes" in site.log)
    assert seen == ["/"] and not site.jar and not site.store.keys()


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("handler", [fails_at_the_save, fails_at_the_load])
def test_a_store_that_is_down_is_answered_by_the_page_of_the_site(handler: Any, method: str) -> None:
    seen = []
    site = Site(handler, errors={503: own_page("soon")}, post_process=lambda req: seen.append(req.uri))
    site.jar["__Host-session"] = "A" * 43
    site.store.is_down = handler is fails_at_the_load
    text = site.get(REQUEST_METHOD=method)
    assert site.status == "503 Service Unavailable" and text == ("" if method == "HEAD" else "soon: 503")
    assert site.field("Retry-After") == "5" and site.field("Cache-Control") == "no-store"
    assert site.log == f"sessions: {method} '/' is answered 503: the store is away\n"
    assert seen == ["/"] and site.jar == {"__Host-session": "A" * 43}


def test_a_page_of_the_site_may_redirect() -> None:
    def elsewhere(req: Any) -> None:
        http.redirect(req, "/static/soon.html")

    for handler in saves_a_set, fails_at_the_save, fails_at_the_load:
        site = Site(handler, errors={500: elsewhere, 503: elsewhere})
        site.jar["__Host-session"] = "A" * 43
        site.store.is_down = handler is fails_at_the_load
        site.get()
        assert site.status == "302 Found" and site.field("Location") == "/static/soon.html"


def test_a_page_that_needs_the_session_itself_ends_in_the_default_page() -> None:
    def greeting(req: Any) -> str:
        return f"sorry, {req.session['user']}"

    site = Site(fails_at_the_load, errors={500: greeting, 503: greeting})
    site.jar["__Host-session"] = "A" * 43
    site.store.is_down = True
    assert "<title>503 - Service Unavailable</title>" in site.get()


def test_without_pages_of_the_site_the_table_has_its_own() -> None:
    site = Site(saves_a_set)
    assert "<title>500 - Internal Server Error</title>" in site.get() and "tags" not in site.get()
    site = Site(fails_at_the_save)
    assert "<title>503 - Service Unavailable</title>" in site.get()


def test_under_debug_the_page_says_what() -> None:
    site = Site(saves_a_set, settings={"debug": True})
    assert "session[&#x27;tags&#x27;] is of type set" in site.get()
    site = Site(fails_at_the_save, settings={"debug": True})
    text = site.get()
    assert "the store is away" in text and "<title>503 - Service Unavailable</title>" in text


def test_an_error_of_the_store_that_a_handler_hides_is_503_all_the_same() -> None:
    def careless(req: Any) -> str:
        try:
            return str(req.session["a"])
        except StoreDown:
            return "welcome, stranger"

    site = Site(careless, errors={503: own_page("soon")})
    site.jar["__Host-session"] = "A" * 43
    site.store.is_down = True
    assert site.get() == "soon: 503"


def test_post_process_may_change_the_session() -> None:
    def after(req: Any) -> None:
        req.session["seen"] = 1

    site = Site(lambda req: str(req.session.get("seen")), post_process=after)
    assert [site.get(), site.get()] == ["None", "1"]


def test_an_error_page_saves_nothing_and_a_page_after_it_does() -> None:
    site = Site(lambda req: put("a", 1)(req.session) or http.HTTP_BAD_GATEWAY)
    site.get()
    assert site.status.startswith("502") and not site.jar


def test_a_server_whose_start_response_returns_nothing_gets_one_answer() -> None:
    """It breaks PEP 3333, and is what a quick test of a site looks like."""
    environ: dict[str, Any] = {}
    setup_testing_defaults(environ)
    heads: list[str] = []
    body = Site(lambda req: put("a", 1)(req.session) or "page").app(environ, lambda status, *_: heads.append(status))
    assert b"".join(body) == b"page" and heads == ["200 OK"]
