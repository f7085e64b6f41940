"""The cookie of a session: its attributes over https and http, and what a signed one refuses."""

from __future__ import annotations

import hmac
import string
import time
from binascii import a2b_base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from session_client import SECRET, Client, both, get, kept_in, put

from poorhttp.sessions import TooLarge
from poorhttp.sessions.signing import Signer

LAPTOP = {"wsgi.url_scheme": "http", "HTTP_HOST": "localhost:8080", "REMOTE_ADDR": "127.0.0.1"}
OTHER = {"wsgi.url_scheme": "http", "HTTP_HOST": "www.example.org", "REMOTE_ADDR": "192.0.2.7"}


# Browsers let a neighbour set all of these but the first: they trim no more than spaces and tabs (RFC 6265bis 5.6).
NAMES = [
    "__Host-session",
    "session",
    "__host-session",
    "\xc2\xa0__Host-session",
    "\xa0__Host-session",
    "__Host-session\x85",
]
NAMES += ["__Host-sessions", "$Version=1,__Host-session", "a"]


def attributes(client: Client) -> tuple[str, set[str]]:
    """Name and attributes of the cookie that the last answer set."""
    pair, *rest = (client.field("Set-Cookie") or "").split("; ")
    return pair.partition("=")[0], set(rest)


def test_a_cookie_is_safe_by_default() -> None:
    client = Client()
    client.do(put("a", 1))
    assert attributes(client) == ("__Host-session", {"Path=/", "HttpOnly", "SameSite=Lax", "Secure"})
    assert client.field("Cache-Control") == "no-store" and client.field("Vary") == "Cookie"


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8080", "127.0.0.1:80", "[::1]:8080", "app.localhost", "LOCALHOST"]
)
def test_on_a_laptop_the_cookie_needs_no_https(host: str) -> None:
    client = Client()
    here = {**LAPTOP, "HTTP_HOST": host}
    client.do(put("a", 1), **here)
    assert attributes(client) == ("session", {"Path=/", "HttpOnly", "SameSite=Lax"})
    assert client.do(get("a"), **here) == "1" and not client.log


@pytest.mark.parametrize(
    "there",
    [
        OTHER,
        {**OTHER, "REMOTE_ADDR": "127.0.0.1"},  # a proxy that does not tell of https
        {**OTHER, "HTTP_HOST": "localhost"},
        {**OTHER, "HTTP_HOST": "localhost.example.org", "REMOTE_ADDR": "127.0.0.1"},
        {**OTHER, "HTTP_HOST": "notlocalhost", "REMOTE_ADDR": "127.0.0.1"},
    ],
)
def test_elsewhere_the_cookie_is_secure_and_plain_http_is_told_about_once(there: dict[str, Any]) -> None:
    client = Client()
    client.do(put("a", 1), **there)
    assert attributes(client)[0] == "__Host-session" and "Secure" in attributes(client)[1]
    assert "plain http" in client.log and "secure=False" in client.log
    client.do(lambda session: session.rotate(), **there)
    assert client.log == ""


@pytest.mark.parametrize(
    "name", ["FORWARDED", "X_FORWARDED_FOR", "X_FORWARDED_PROTO", "X_FORWARDED_HOST", "VIA", "X_REAL_IP"]
)
def test_a_request_that_was_passed_on_is_none_of_this_machine(name: str) -> None:
    client = Client()
    client.do(put("a", 1), **LAPTOP, **{f"HTTP_{name}": "192.0.2.7"})
    assert attributes(client)[0] == "__Host-session" and "Secure" in attributes(client)[1]
    assert "browsers drop it" in client.log


def test_a_cookie_that_is_not_secure_is_told_about_once() -> None:
    """A front server that sends nothing of its client looks like one on this machine."""
    client = Client()
    client.do(put("a", 1), **LAPTOP)
    assert "not Secure" in client.log and "secure=True" in client.log
    assert client.log.count("\n") == 1 and len(client.log) < 120, "a beginner is not alarmed"
    client.do(lambda session: session.rotate(), **LAPTOP)
    assert client.log == ""
    client = Client(secure=False)
    client.do(put("a", 1), **LAPTOP)
    assert client.log == ""


def test_a_cookie_without_the_prefix_is_not_read_over_https() -> None:
    """A neighbour domain can set it, but not one with the prefix."""
    client = Client()
    client.do(put("a", 1))
    client.jar = {"session": client.token}
    assert client.do(get("a")) == "None"


def test_plain_http_may_be_chosen_and_https_demanded() -> None:
    client = Client(secure=False, same_site="Strict", cookie="sid")
    client.do(put("a", 1), **OTHER)
    assert attributes(client) == ("sid", {"Path=/", "HttpOnly", "SameSite=Strict"}) and not client.log
    client = Client(secure=True)
    client.do(put("a", 1), **LAPTOP)
    assert attributes(client)[0] == "__Host-session"


def test_other_cookies_do_not_disturb() -> None:
    client = Client()
    client.do(put("a", 1))
    token = client.token
    client.jar = {}
    for header in f"a=b; __Host-session={token}", f"__Host-session={token};;=;a", f'x; __Host-session="{token}" ;y=1':
        assert client.do(get("a"), HTTP_COOKIE=header) == "1"
    for header in (
        f"X__Host-session={token}",
        f"__Host-session2={token}",
        f"__host-session={token}",
        "__Host-session",
        ";",
    ):
        assert client.do(get("a"), HTTP_COOKIE=header) == "None"


@both
@given(
    st.lists(
        st.tuples(st.sampled_from(NAMES), st.sampled_from(["mine", "other", "", "x" * 5000, "A" * 43])), max_size=300
    )
)
def test_of_many_cookies_the_first_of_the_name_counts(kind: str, pairs: list[tuple[str, str]]) -> None:
    """A neighbour can set hundreds, also of this name; browsers send those that are set for a longer path first."""
    client, tokens = kept_in(kind), {}
    for user in "mine", "other":
        client.jar = {}
        client.do(put("user", user))
        tokens[user] = client.token
    header = "; ".join(f"{name}={tokens.get(value, value)}" for name, value in pairs)
    first = next((value for name, value in pairs if name == "__Host-session"), "")
    assert client.do(get("user"), HTTP_COOKIE=header) == str(first if first in tokens else None)
    assert client.field("Set-Cookie") is None and not client.log


@both
def test_a_cookie_that_is_cut_or_longer_is_refused(kind: str) -> None:
    client = kept_in(kind)
    client.do(put("user", "root"))
    token = client.token
    for other in (
        *(token[:end] for end in range(len(token))),
        *(token[start:] for start in range(1, len(token))),
        token * 2,
    ):
        assert client.do(get("user"), HTTP_COOKIE=f"__Host-session={other}") == "None" and not client.log


def test_a_cookie_of_another_store_is_refused() -> None:
    """Also by a store of the same kind: neither ids nor signatures are good for more than one site."""
    sites = [Client(), Client(), signed(), signed(secrets="f" * 32)]
    for site in sites:
        site.do(put("user", "root"))
    for site in sites:
        for other in sites:
            found = site.do(get("user"), HTTP_COOKIE=f"__Host-session={other.token}")
            assert found == ("root" if site is other else "None") and not site.log


# ------------------------------------------------------------------------------------------------------ Signed cookies


def signed(**settings: Any) -> Client:
    return Client("cookie:", **{"secrets": SECRET, **settings})


def test_a_changed_cookie_is_refused_wherever_it_is_changed() -> None:
    client = signed()
    client.do(put("user", "guest"))
    token = client.token
    for index, char in enumerate(token):
        # In the last character of base64 some bits carry nothing.
        other = next(each for each in string.ascii_letters if each != char) if char != "." else "x"
        client.jar = {"__Host-session": token[:index] + other + token[index + 1 :]}
        assert client.do(get("user")) == "None", index
    for other in (
        token[:-1],
        token + "A",
        token + ".",
        "." + token,
        token.partition(".")[0] + ".",
        "." + token.partition(".")[2],
    ):
        client.jar = {"__Host-session": other}
        assert client.do(get("user")) == "None"


@given(st.text(st.characters(min_codepoint=33, max_codepoint=255, exclude_characters=";"), max_size=5000))
def test_no_text_of_a_client_is_an_error(text: str) -> None:
    for client in signed(), Client():
        assert client.do(get("a"), HTTP_COOKIE=f"__Host-session={text}") == "None"
        assert client.field("Set-Cookie") is None and not client.log


@given(st.binary(max_size=200))
def test_no_message_under_a_good_signature_is_an_error(message: bytes) -> None:
    token = Signer(SECRET, "cookie session").sign(message)
    assert signed().do(get("a"), HTTP_COOKIE=f"__Host-session={token}") == "None"


@given(st.binary(min_size=32, max_size=100), st.binary(max_size=300))
def test_the_signature_is_that_of_hmac(secret: bytes, message: bytes) -> None:
    text, _, mac = Signer(secret, "test").sign(message).partition(".")
    key = hmac.digest(secret, b"poorhttp.sessions test", "sha256")
    assert a2b_base64(mac) == hmac.digest(key, text.encode(), "sha256") and a2b_base64(text) == message


def test_a_cookie_of_another_name_or_secret_is_refused() -> None:
    client = signed()
    client.do(put("a", 1))
    other = signed(cookie="other")
    other.jar = {"__Host-other": client.token}
    assert other.do(get("a")) == "None"
    other = signed(secrets="f" * 32)
    other.jar = client.jar
    assert other.do(get("a")) == "None"


def test_keys_rotate() -> None:
    """What an old key has signed is accepted and signed anew; once the old key is gone, it is refused."""
    old, new = "o" * 32, b"n" * 32
    client = signed(secrets=[old])
    client.do(put("a", 1))
    first = dict(client.jar)
    client.sessions = signed(secrets=[new, old]).sessions
    assert client.do(get("a")) == "1"
    assert client.jar != first
    client.sessions = signed(secrets=[new]).sessions
    assert client.do(get("a")) == "1" and client.field("Set-Cookie") is None
    client.jar = first
    assert client.do(get("a")) == "None"


def test_an_expired_cookie_is_refused_when_it_is_sent_again() -> None:
    client = signed(idle=0.2)
    client.do(put("a", 1))
    copy = dict(client.jar)
    time.sleep(0.3)
    client.jar = copy
    assert client.do(get("a")) == "None"


def test_what_does_not_fit_into_a_cookie_raises() -> None:
    client = signed()
    client.do(put("a", "x" * 2900))
    assert len(f"__Host-session={client.token}") < 4096
    with pytest.raises(TooLarge, match="browsers would drop it"):
        client.do(put("a", "x" * 3000))
    assert client.do(lambda session: len(session["a"])) == "2900"
