"""Cookies: those of a request, and those that an answer sets."""

from http.cookies import Morsel, SimpleCookie

import pytest
from dispatching import answer, ask
from hypothesis import example, given
from hypothesis import strategies as st

from poorhttp import http


@pytest.mark.parametrize(
    ("field", "cookies"),
    [
        ("a=1; b=2", {"a": "1", "b": "2"}),
        ("a=1;b=2;", {"a": "1", "b": "2"}),
        ("a=1; a=2", {"a": "1"}),
        ('a="x y"; b="', {"a": "x y", "b": '"'}),
        ("a=b=c==", {"a": "b=c=="}),
        ("a; =b; ;;c=", {"c": ""}),
        ("a=\xc5\xbe\xff", {"a": "\u017e\ufffd"}),
        ("", {}),
    ],
)
def test_cookies_of_a_request(field, cookies):
    assert ask(lambda req: req.cookies, HTTP_COOKIE=field) == cookies
    assert ask(lambda req: req.cookies is req.cookies)


def cookies_set(action, **environ):
    """The Set-Cookie fields of an answer whose handler does this."""
    sent = answer(lambda req: action(req) or http.DONE, environ=environ)
    assert sent.code < 500, sent.log
    return [value for name, value in sent.headers if name == "Set-Cookie"]


HTTPS = {"wsgi.url_scheme": "https", "HTTPS": "on"}


def test_a_cookie_is_safe_by_default():
    assert cookies_set(lambda req: req.set_cookie("a", "1")) == ["a=1; Path=/; HttpOnly; SameSite=Lax"]
    assert cookies_set(lambda req: req.set_cookie("a", "1"), **HTTPS) == ["a=1; Path=/; Secure; HttpOnly; SameSite=Lax"]
    assert cookies_set(lambda req: req.set_cookie("__Host-a", "1")) == [
        "__Host-a=1; Path=/; Secure; HttpOnly; SameSite=Lax"
    ]


def test_every_attribute_of_a_cookie():
    def action(req):
        req.set_cookie(
            "a", "1", max_age=60, path="/x", domain="example.com", secure=True, http_only=False, same_site="None"
        )

    assert cookies_set(action) == ["a=1; Path=/x; Domain=example.com; Max-Age=60; Secure; SameSite=None"]
    assert cookies_set(lambda req: req.delete_cookie("a")) == ["a=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax"]


def test_a_cookie_that_is_set_again_is_replaced():
    def action(req):
        req.err_headers_out.add("Set-Cookie", "foreign=1")
        for value in "1", "2":
            req.set_cookie("a", value)
        req.set_cookie("a", "3", path="/x")

    assert [each.partition(";")[0] for each in cookies_set(action)] == ["foreign=1", "a=2", "a=3"]


@pytest.mark.parametrize(
    "end",
    [lambda req: http.redirect(req, "/"), lambda req: http.abort(403), lambda req: http.abort(http.Response("x"))],
)
def test_a_cookie_survives_what_ends_the_handler(end):
    def action(req):
        req.set_cookie("a", "1")
        end(req)

    assert [each[:4] for each in cookies_set(action)] == ["a=1;"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"name": ""}, "no name of a cookie"),
        ({"name": "a b"}, "no name of a cookie"),
        ({"name": "a=b"}, "no name of a cookie"),
        ({"value": "a;b"}, "has ';' in it"),
        ({"value": "a b"}, "has ' ' in it, which no cookie can hold: encode it"),
        ({"value": "a\r\nSet-Cookie: b=1"}, "has '\\\\r' in it"),
        ({"value": "\u017e"}, "has '\u017e' in it"),
        ({"value": "x" * 4096}, "has 4097 bytes"),
        ({"path": "x"}, "begins with /"),
        ({"path": "/;x"}, "no semicolon"),
        ({"domain": "a b"}, "host name"),
        ({"same_site": "lax"}, "one of Strict, Lax, None"),
        ({"same_site": "None"}, "must be secure"),
        ({"name": "__Secure-a", "secure": False}, "must be secure"),
        ({"name": "__host-a", "domain": "example.com"}, "no domain"),
        ({"name": "__Host-a", "path": "/x"}, "path='/'"),
    ],
)
def test_a_cookie_that_browsers_would_refuse_or_misread(arguments, says):
    def action(req):
        with pytest.raises(ValueError, match=says):
            req.set_cookie(**{"name": "a", "value": "1", **arguments})

    assert cookies_set(action) == []


def test_a_cookie_is_text():
    def action(req):
        with pytest.raises(TypeError, match="are str, not int"):
            req.set_cookie("a", 1)

    assert cookies_set(action) == []


@given(st.text(), st.text())
@example("VERSION", "")
def test_a_cookie_that_is_set_comes_back(name, value):
    def action(req):
        try:
            req.set_cookie(name, value)
        except ValueError:
            return

    for field in cookies_set(action):
        # SimpleCookie takes $... and the names of attributes for attributes (RFC 2109).
        if not name.startswith("$") and name.lower() not in Morsel():
            (morsel,) = SimpleCookie(field).values()
            assert (morsel.key, morsel.value) == (name, value)
        assert ask(lambda req: req.cookies, HTTP_COOKIE=field.partition(";")[0]) == {name: value}
