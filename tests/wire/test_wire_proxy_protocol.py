"""The PROXY protocol before HTTP: whose connection it is, in each version, and that nothing else gets in. How its bytes
may look stands in src/net/proxies/proxy_protocol.rs.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable
from typing import Any

import pytest

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
CLIENT = socket.inet_aton("192.0.2.7")
SERVER = socket.inet_aton("192.0.2.1")


def version_2(rest: bytes, command: int = 0x21, family: int = 0x11) -> bytes:
    return SIGNATURE + bytes([command, family]) + struct.pack(">H", len(rest)) + rest


V4 = version_2(CLIENT + SERVER + struct.pack(">HH", 56324, 443))
V6 = version_2(socket.inet_pton(socket.AF_INET6, "2001:db8::9") + bytes(16) + struct.pack(">HH", 1, 2), family=0x21)
TLVS = version_2(CLIENT + SERVER + struct.pack(">HH", 56324, 443) + b"\x04\x01\x00" + b"x" * 256 + b"\x20\xff\xff")
LINE = b"PROXY TCP4 192.0.2.7 192.0.2.1 56324 443\r\n"
HEADERS = {
    "v1": (LINE, ("192.0.2.7", "56324")),
    "v1-ipv6": (b"PROXY TCP6 2001:db8::9 ::1 56324 443\r\n", ("2001:db8::9", "56324")),
    "v1-unknown": (b"PROXY UNKNOWN\r\n", ("", "")),
    "v2": (V4, ("192.0.2.7", "56324")),
    "v2-ipv6": (V6, ("2001:db8::9", "1")),
    "v2-tlvs": (TLVS, ("192.0.2.7", "56324")),
    "v2-unix": (version_2(bytes(216), family=0x31), ("", "")),
    "v2-unspecified": (version_2(b"", family=0), ("", "")),
    "v2-local": (version_2(b"", command=0x20, family=0), ("127.0.0.1", None)),
}
WRONG = {
    "http": b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "v1-bare-lf": LINE.replace(b"\r\n", b"\n"),
    "v1-too-long": b"PROXY UNKNOWN " + b"1" * 100 + b"\r\n",
    "v1-endless": b"PROXY UNKNOWN " + b"1" * 100,
    "v1-family": LINE.replace(b"TCP4", b"TCP5"),
    "v2-version": version_2(CLIENT + SERVER + bytes(4), command=0x11),
    "v2-command": version_2(CLIENT + SERVER + bytes(4), command=0x22),
    "v2-short": version_2(CLIENT + SERVER),
    "v2-beyond-max-head": SIGNATURE + b"\x21\x11\xff\xff",
    "empty-line": b"\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
}


def remote(response: Any) -> tuple[str, str]:
    assert response.status == 200
    environ = response.json()["environ"]
    return environ["REMOTE_ADDR"], environ["REMOTE_PORT"]


@pytest.fixture
def proxied(start: Callable[..., Any]) -> Callable[..., Any]:
    """A server that expects the header; what is not introduced otherwise is so as local."""

    def get(app: str = "echo", **settings: Any) -> Any:
        return start(app, proxy_protocol=True, preface=version_2(b"", command=0x20, family=0), **settings)

    return get


def test_each_header_in_one_piece_and_byte_by_byte(proxied: Callable[..., Any], compose: Callable[..., bytes]) -> None:
    server = proxied()
    for name, (header, expected) in HEADERS.items():
        for pieces in [header + compose()], [header, compose()], [bytes([byte]) for byte in header + compose()]:
            with server.connect(preface=b"") as client:
                assert client.send_split(*pieces), name
                address, port = remote(client.response())
                assert (address, port if expected[1] is not None else None) == expected, name
                # It holds for all requests of the connection.
                assert remote(client.request()) == (address, port)


def test_every_split(proxied: Callable[..., Any], compose: Callable[..., bytes]) -> None:
    server = proxied()
    for header in LINE, V4:
        data = header + compose()
        for cut in range(1, len(header) + 2):
            with server.connect(preface=b"") as client:
                client.send(data[:cut])
                client.send(data[cut:])
                assert remote(client.response()) == ("192.0.2.7", "56324"), cut


def test_what_is_no_header_is_cut_off(proxied: Callable[..., Any], until: Callable[..., Any]) -> None:
    """Each by itself, all at the same time: some are cut off at the deadline only."""
    server = proxied("hello", head_timeout=1)
    before = len(server.error_lines())
    clients = {name: server.connect(preface=b"").send(wrong) for name, wrong in WRONG.items()}
    assert {name for name, client in clients.items() if client.rest_or_reset() != b""} == set()
    assert server.notes() == []

    def told() -> list[str]:
        return [line for line in server.error_lines()[before:] if "PROXY protocol" in line]

    until(lambda: len(told()) == len(WRONG), "a line for each in the error log")
    assert server.get("/").status == 200


def test_a_stranger_gets_nothing(proxied: Callable[..., Any], until: Callable[..., Any]) -> None:
    server = proxied("hello", trusted_proxies="127.0.0.1")
    with socket.create_connection(server.address, timeout=20, source_address=("127.0.0.2", 0)) as sock:
        try:
            sock.sendall(V4 + b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert sock.recv(100) == b""
        except (BrokenPipeError, ConnectionResetError):
            pass
    until(lambda: any("[127.0.0.2]" in line for line in server.error_lines()), "a line in the error log")
    assert server.notes() == []


def test_the_header_has_a_deadline(proxied: Callable[..., Any]) -> None:
    server = proxied(head_timeout=0.3, keepalive_timeout=20)
    for beginning in b"", LINE[:-1], V4[:5]:
        begun = time.monotonic()
        with server.connect(preface=b"") as client:
            client.send(beginning)
            assert client.rest_or_reset() == b""
            assert 0.2 < time.monotonic() - begun < 10
    with server.connect() as client:  # an introduced one may be silent for longer
        time.sleep(0.8)
        assert client.is_silent()
        assert client.request().status == 200


def test_the_log_names_the_client(proxied: Callable[..., Any]) -> None:
    server = proxied("hello")
    with server.connect(preface=b"") as client:
        client.send(LINE).request("/", "Connection: close")
    assert "192.0.2.7" in server.request_lines(2)[-1]


def test_a_client_that_is_introduced_is_no_front_server(proxied: Callable[..., Any]) -> None:
    """Its fields are its own, unless the address that the header names is trusted too."""
    server = proxied(forwarded="x-forwarded", trusted_proxies="127.0.0.1, 198.51.100.0/24")
    told = ("X-Forwarded-For: 203.0.113.5", "X-Forwarded-Proto: https")
    for header, expected in [
        (LINE, "192.0.2.7"),
        (LINE.replace(b"192.0.2.7", b"198.51.100.9"), "203.0.113.5"),
        (HEADERS["v2-local"][0], "203.0.113.5"),
        (HEADERS["v1-unknown"][0], ""),
    ]:
        with server.connect(preface=b"") as client:
            response = client.send(header).request("/", *told)
        assert remote(response)[0] == expected
        is_believed = expected == "203.0.113.5"
        environ = response.json()["environ"]
        assert (environ["wsgi.url_scheme"] == "https") is is_believed
        assert ("HTTP_X_FORWARDED_FOR" in environ) is is_believed


def test_a_second_header_is_a_bad_request(proxied: Callable[..., Any]) -> None:
    server = proxied("hello")
    for second in LINE, V4:
        with server.connect(preface=b"") as client:
            assert client.send(LINE).request().status == 200
            assert client.send(second).response().status == 400
            client.expect_close()


def test_without_the_setting_it_is_a_bad_request(serve: Callable[..., Any]) -> None:
    for header in LINE, V4:
        with serve("hello").connect() as client:
            assert client.send(header).response().status == 400
