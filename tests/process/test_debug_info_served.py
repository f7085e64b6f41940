"""/debug-info of a real server: for clients of this machine, and for no others."""

from pathlib import Path

import pytest
from starter import Start, ask

TABLE = """
from poorhttp import http

def page(req):
    return "page"

def form(req):
    return req.args["name"]

handlers = {"/": (http.METHOD_GET, page), "/form": (http.METHOD_GET, form)}
"""

INI = """
[http]
application = ./
document = www
index = yes
[application]
greeting = hello
smtp_password = qwerty1uiop
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "dispatch_table.py").write_text(TABLE)
    (tmp_path / "poorhttp.ini").write_text(INI)
    (tmp_path / "www").mkdir()
    return tmp_path


@pytest.mark.parametrize("words", [("--debug",), ("dev",)], ids=" ".join)
def test_the_author_sees_it_and_nobody_else(launch: Start, site: Path, words: tuple[str, ...]) -> None:
    server = launch(*words, "-c", "poorhttp.ini", "--port=0")
    server.await_address()
    for host in "localhost", "127.0.0.1:80", "[::1]":
        status, _, text = ask(server, "/debug-info", host=host)
        assert status == 200 and "dispatch_table.form" in text and "hello" in text and "qwerty1uiop" not in text
    assert "the field &#x27;name&#x27; is missing" in ask(server, "/form")[2]
    for others in [
        {"host": "attacker.example"},
        {"X_Forwarded_For": "127.0.0.1"},
        {"X_Forwarded_Host": "localhost"},
        {"Forwarded": "for=192.0.2.1"},
        {"Via": "1.1 front"},
    ]:
        assert ask(server, "/debug-info", **others)[0] == 404
        assert "is missing" not in ask(server, "/form", **others)[2]


def test_without_debug_there_is_none(launch: Start, site: Path) -> None:
    server = launch("-c", "poorhttp.ini", "--port=0")
    server.await_address()
    missing = ask(server, "/nowhere")[2].replace("/nowhere", "/debug-info")
    assert ask(server, "/debug-info")[::2] == (404, missing)
    assert "is missing" not in ask(server, "/form")[2]


@pytest.mark.parametrize("client", ["127.0.0.1", "192.0.2.7"])
def test_a_client_of_the_proxy_protocol_sees_nothing(launch: Start, site: Path, client: str) -> None:
    """Which leaves no field in the request. The proxy itself (LOCAL) is a client of this machine."""
    server = launch("-c", "poorhttp.ini", "--port=0", "--debug", "--proxy-protocol", "--trusted-proxies=127.0.0.1")
    server.await_address()
    line = f"PROXY TCP4 {client} 127.0.0.1 1 2\r\n".encode()
    for _ in range(2):
        assert ask(server, "/debug-info", line)[0] == 404
        assert "is missing" not in ask(server, "/form", line)[2]
    own = b"\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00"
    assert ask(server, "/debug-info", own)[0] == 200
