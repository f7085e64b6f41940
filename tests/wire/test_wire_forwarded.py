"""The client, as front servers tell it: what a trusted peer's fields change in the environ and in the logs, and that
nobody else's do. 127.0.0.2 plays the front server, 127.0.0.1 a client that comes by itself; which texts are believed
stands in tests/fronts.rs.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

FRONT = "127.0.0.2"
TRUST = f"{FRONT}, 10.0.0.0/8, fd00::/8"
EVERYTHING = "x-forwarded, x-forwarded-prefix"
TOLD = (
    "X-Forwarded-For: 198.51.100.1, 192.0.2.7, 10.0.0.1",
    "X-Forwarded-Proto: https",
    "X-Forwarded-Host: www.example:8443",
    "X-Forwarded-Prefix: /my%20app",
    "X-Forwarded-User: admin",
    "X-Real-IP: 192.0.2.8",
    'Forwarded: for="[2001:db8::9]:4711";proto=https;host=other.example',
)
URL = ("wsgi.url_scheme", "HTTP_HOST", "SERVER_NAME", "SERVER_PORT", "SCRIPT_NAME", "PATH_INFO", "REQUEST_URI")


@pytest.fixture
def ask(serve: Callable[..., Any], wrap: Callable[..., Any]) -> Callable[..., Any]:
    """ask(*lines, source=FRONT, target="/a%20b", **settings): the response to one request from that address."""

    def ask(*lines: str, source: str = FRONT, target: str = "/a%20b", version: str = "1.1", **settings: Any) -> Any:
        server = serve("echo", **({"trusted_proxies": TRUST} | settings))
        sock = socket.create_connection(server.address, timeout=20, source_address=(source, 0))
        with wrap(sock) as client:
            return client.request(target, "Connection: close", *lines, version=version)

    return ask


def told(response: Any) -> dict[str, str]:
    assert response.status == 200, response
    environ: dict[str, str] = response.json()["environ"]
    return environ


def of_fronts(environ: dict[str, str]) -> set[str]:
    return {name for name in environ if "FORWARDED" in name or name == "HTTP_X_REAL_IP"}


def test_the_request_is_that_of_the_client(ask: Callable[..., Any]) -> None:
    environ = told(ask(*TOLD, forwarded=EVERYTHING))
    assert (environ["REMOTE_ADDR"], environ["REMOTE_PORT"]) == ("192.0.2.7", "")
    assert [environ[name] for name in URL] == [
        *("https", "www.example:8443", "www.example", "8443", "/my app", "/a b", "/a%20b")
    ]
    # The other family is one that this front server lets through.
    assert "HTTP_FORWARDED" not in environ
    assert environ["HTTP_X_FORWARDED_USER"] == "admin"


def test_the_same_by_the_field_of_the_rfc(ask: Callable[..., Any]) -> None:
    environ = told(ask(*TOLD, forwarded="forwarded"))
    assert (environ["REMOTE_ADDR"], environ["REMOTE_PORT"]) == ("2001:db8::9", "4711")
    assert [environ[name] for name in URL] == [
        *("https", "other.example", "other.example", "443", "", "/a b", "/a%20b")
    ]
    assert of_fronts(environ) == {"HTTP_FORWARDED", "HTTP_X_FORWARDED_USER", "HTTP_X_REAL_IP"}


def test_a_front_server_that_names_less_is_believed_less(ask: Callable[..., Any]) -> None:
    """lighttpd and nginx pass on what a client writes into a field that they do not set themselves."""
    environ = told(ask(*TOLD, forwarded="x-forwarded-for"))
    assert environ["REMOTE_ADDR"] == "192.0.2.7"
    assert [environ[name] for name in URL[:2]] == ["http", "example.com"]
    assert environ["SCRIPT_NAME"] == ""
    assert of_fronts(environ) == {"HTTP_X_FORWARDED_FOR", "HTTP_X_FORWARDED_USER", "HTTP_X_REAL_IP"}


def test_the_prefix_is_not_believed_unless_it_is_named(ask: Callable[..., Any]) -> None:
    environ = told(ask(*TOLD, forwarded="x-forwarded"))
    assert (environ["wsgi.url_scheme"], environ["SCRIPT_NAME"]) == ("https", "")
    assert "HTTP_X_FORWARDED_PREFIX" not in environ


@pytest.mark.parametrize("forwarded", ["no", EVERYTHING, "forwarded"])
def test_nobody_else_is_believed(ask: Callable[..., Any], forwarded: str) -> None:
    environ = told(ask(*TOLD, source="127.0.0.1", forwarded=forwarded))
    assert environ["REMOTE_ADDR"] == "127.0.0.1"
    assert environ["REMOTE_PORT"].isdigit()
    assert [environ[name] for name in URL[:2]] == ["http", "example.com"]
    assert environ["SCRIPT_NAME"] == ""
    assert of_fronts(environ) == set()


def test_what_nobody_is_asked_is_not_looked_at(ask: Callable[..., Any]) -> None:
    """Rubbish from a client is no reason to refuse it: it is not read."""
    rubbish = ("X-Forwarded-For: rubbish", "Forwarded: ;;=", "X-Forwarded-Proto: gopher")
    assert told(ask(*rubbish, source="127.0.0.1", forwarded=EVERYTHING))["REMOTE_ADDR"] == "127.0.0.1"


def test_nothing_is_changed_by_default(serve: Callable[..., Any]) -> None:
    """A trusted front server's fields reach the application, which may have its own ideas; nothing is rewritten."""
    environ = told(serve("echo").get("/", *TOLD))
    assert (environ["REMOTE_ADDR"], environ["wsgi.url_scheme"]) == ("127.0.0.1", "http")
    assert len(of_fronts(environ)) == len(TOLD)


def test_none_is_nobody(serve: Callable[..., Any]) -> None:
    environ = told(serve("echo", trusted_proxies="none", forwarded=EVERYTHING).get("/", *TOLD))
    assert environ["REMOTE_ADDR"] == "127.0.0.1"
    assert of_fronts(environ) == set()


@pytest.mark.parametrize("trusted", ["unix", "127.0.0.1"])
def test_a_unix_socket_is_trusted_by_its_own_word(serve: Callable[..., Any], trusted: str) -> None:
    server = serve("echo", bind="unix:DIRECTORY/socket", trusted_proxies=trusted, forwarded="x-forwarded")
    environ = told(server.get("/", *TOLD))
    expected = ("192.0.2.7", "www.example") if trusted == "unix" else ("", "localhost")
    if trusted == "unix":
        environ2 = told(server.get("/", "X-Forwarded-For: 192.0.2.7, 10.0.0.1"))
        assert environ2["REMOTE_ADDR"] == "10.0.0.1"  # which is nobody here
        expected = ("10.0.0.1", "www.example")
    assert (environ["REMOTE_ADDR"], environ["SERVER_NAME"]) == expected


@pytest.mark.parametrize(
    ("line", "forwarded"),
    [
        ("X-Forwarded-For: 192.0.2.7, localhost", EVERYTHING),
        ("X-Forwarded-Proto: gopher", EVERYTHING),
        ("X-Forwarded-Host: a/b", EVERYTHING),
        ("X-Forwarded-Prefix: //evil.example", EVERYTHING),
        ("Forwarded: for=192.0.2.7; proto=http", "forwarded"),
    ],
)
def test_what_cannot_be_true_is_refused(
    start: Callable[..., Any], compose: Callable[..., bytes], line: str, forwarded: str
) -> None:
    server = start("echo", forwarded=forwarded)
    with server.connect() as client:
        client.send(compose("/first") + compose("/second", line) + compose("/third"))
        assert [client.response().status, client.response().status] == [200, 400]
        client.expect_close()
    assert len(server.notes()) == 1
    assert "400 Bad Request" in server.error_lines()[0]
    assert "(GET /second)" in server.error_lines()[0]


@pytest.mark.parametrize("behind", ["", "Expect: 100-continue\r\n"], ids=["plain", "expects"])
@pytest.mark.parametrize("body", ["", "x"], ids=["whole", "cut"])
def test_the_refusal_waits_for_no_body(serve: Callable[..., Any], behind: str, body: str) -> None:
    head = f"POST / HTTP/1.1\r\nHost: a\r\nX-Forwarded-Proto: gopher\r\nContent-Length: 5\r\n{behind}\r\n{body}"
    with serve("echo", forwarded="x-forwarded").connect() as client:
        response = client.send(head).response()
        assert (response.status, response.interim) == (400, [])
        client.expect_close()


def test_a_fault_of_the_head_comes_before_one_of_the_body(serve: Callable[..., Any]) -> None:
    """In one piece, and in two."""
    head = b"POST / HTTP/1.1\r\nHost: a\r\nX-Forwarded-Proto: gopher\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = b"ffffffff\r\n"  # which alone is 413
    for pieces in ([head + body], [head, body]):
        with serve("echo", forwarded="x-forwarded").connect() as client:
            client.send_split(*pieces)
            assert client.response().status == 400


def test_an_unknown_client_has_no_address(ask: Callable[..., Any]) -> None:
    environ = told(ask("X-Forwarded-For: unknown", forwarded=EVERYTHING))
    assert (environ["REMOTE_ADDR"], environ["REMOTE_PORT"]) == ("", "")


def test_a_secure_request_has_the_secure_port(ask: Callable[..., Any]) -> None:
    lines = ("X-Forwarded-Proto: https",)
    environ = told(ask(*lines, forwarded=EVERYTHING))
    assert [environ[name] for name in URL[:4]] == ["https", "example.com", "example.com", "443"]
    environ = told(ask(*lines, "X-Forwarded-Host: [2001:db8::1]", forwarded=EVERYTHING))
    assert [environ[name] for name in URL[1:4]] == ["[2001:db8::1]", "[2001:db8::1]", "443"]
    environ = told(ask(*lines, "X-Forwarded-Host: [2001:db8::1]:81", forwarded=EVERYTHING))
    assert [environ[name] for name in URL[1:4]] == ["[2001:db8::1]:81", "[2001:db8::1]", "81"]


def test_one_request_says_nothing_of_the_next(serve: Callable[..., Any], compose: Callable[..., bytes]) -> None:
    server = serve("echo", forwarded=EVERYTHING, trusted_proxies=f"127.0.0.1, {TRUST}")
    with server.connect() as client:
        plain = client.request("/")
        client.request("/", *TOLD)
        again = client.request("/")
    names = [*URL, "REMOTE_ADDR", "REMOTE_PORT"]
    assert [told(plain)[name] for name in names] == [told(again)[name] for name in names]
    with server.connect() as client:  # in one piece
        client.send(compose("/", *TOLD) + compose("/") + compose("/", "X-Forwarded-For: 192.0.2.9"))
        addresses = [told(client.response())["REMOTE_ADDR"] for _ in range(3)]
    assert addresses == ["192.0.2.7", "127.0.0.1", "192.0.2.9"]


@pytest.mark.parametrize("log", ["poor", "combined", "json"])
def test_the_log_names_the_client(start: Callable[..., Any], log: str) -> None:
    server = start("hello", forwarded="x-forwarded", accesslog_format=log)
    server.get("/told", "X-Forwarded-For: 192.0.2.7")
    server.get("/unknown", "X-Forwarded-For: unknown")
    server.get("/refused", "X-Forwarded-For: 192.0.2.7", "X-Forwarded-Proto: gopher")
    lines = server.request_lines(4)[-3:]
    assert "192.0.2.7" in lines[0]
    assert "127.0.0.1" not in "".join(lines[:2])
    assert "127.0.0.1" in lines[2], "whose request could not be said"


def test_the_next_request_is_not_logged_as_the_one_before(start: Callable[..., Any]) -> None:
    """Front servers send requests of several clients over one connection."""
    server = start("hello", forwarded="x-forwarded", request_id="yes", accesslog_format="json")
    with server.connect() as client:
        assert client.request("/", "X-Forwarded-For: 192.0.2.7", "X-Request-ID: first").status == 200
        assert client.send("GET /\r\n\r\n").response().status == 400
    refused = server.request_lines(3)[-1]
    assert "127.0.0.1" in refused
    assert "192.0.2.7" not in refused
    assert "first" not in refused
    assert "[127.0.0.1]" in server.error_lines()[-1]


def test_a_failure_is_logged_with_its_client(start: Callable[..., Any]) -> None:
    server = start("def application(environ, start_response):\n    raise KeyError('boom')\n", forwarded="x-forwarded",
                   errors=["boom"])  # fmt: skip
    assert server.get("/", "X-Forwarded-For: 192.0.2.7").status == 500
    assert "[192.0.2.7]" in server.errors()


HOPS = st.sampled_from(["192.0.2.7", "198.51.100.1:80", "2001:db8::9", "[2001:db8::9]:1", "10.0.0.1", "10.1.2.3:9",
                        "fd00::1", "::ffff:10.0.0.9", FRONT, "unknown", "_x", "localhost", "1.2.3", " ", ""])  # fmt: skip


def expected_client(value: str) -> str:
    """The rule in other words: REMOTE_ADDR, or 400."""
    trusted = [ipaddress.ip_network(each) for each in (f"{FRONT}/32", "10.0.0.0/8", "fd00::/8")]
    client = FRONT
    for hop in reversed([hop.strip() for hop in value.split(",") if hop.strip()]):
        if hop in ("unknown", "_x"):
            return ""
        text = hop[1:].partition("]")[0] if hop[0] == "[" else hop.partition(":")[0] if hop.count(":") == 1 else hop
        try:
            address: Any = ipaddress.ip_address(text)
        except ValueError:
            return "400"
        address = getattr(address, "ipv4_mapped", None) or address
        client = str(address)
        if not any(address in network for network in trusted):
            break
    return client


@settings(max_examples=150)
@given(st.lists(HOPS, max_size=6).map(", ".join))
@example("10.0.0.1, fd00::1")
def test_any_chain(serve: Callable[..., Any], wrap: Callable[..., Any], value: str) -> None:
    server = serve("echo", trusted_proxies=TRUST, forwarded="x-forwarded")
    with wrap(socket.create_connection(server.address, timeout=20, source_address=(FRONT, 0))) as client:
        response = client.request("/", "Connection: close", f"X-Forwarded-For: {value}")
    expected = expected_client(value)
    assert response.status == (400 if expected == "400" else 200)
    assert expected == "400" or told(response)["REMOTE_ADDR"] == expected


@settings(max_examples=150)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Forwarded-Prefix", "Forwarded"]),
            st.text(alphabet='0123456789abcfhortpsx.:;,="\\[]_-/ %\xe9', max_size=24),
        ),
        max_size=4,
    ),
    st.sampled_from([EVERYTHING, "forwarded"]),
)  # fmt: skip
def test_whatever_is_told_the_environ_makes_sense(
    serve: Callable[..., Any], fields: list[tuple[str, str]], forwarded: str
) -> None:
    """It is refused, or what the application gets is an address, a scheme, a host and a path."""
    response = serve("echo", forwarded=forwarded).get("/path", *(f"{name}: {value}" for name, value in fields))
    assert response.status in (200, 400)
    if response.status == 200:
        environ = told(response)
        assert environ["REMOTE_ADDR"] == "" or ipaddress.ip_address(environ["REMOTE_ADDR"])
        assert environ["wsgi.url_scheme"] in ("http", "https")
        assert environ["SERVER_PORT"] == "" or 0 <= int(environ["SERVER_PORT"]) <= 65535
        assert environ["SERVER_NAME"]
        assert environ["PATH_INFO"] == "/path"
        script = environ["SCRIPT_NAME"]
        assert script == "" or (script[0] == "/" and script[-1] != "/" and "//" not in script)
