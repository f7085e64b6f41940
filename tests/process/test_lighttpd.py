"""Behind the real lighttpd, configured as docs/proxy.md says: two servers share the load and keep the connection's order."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from fronts import free_port
from starter import Start, wait_for

LIGHTTPD = shutil.which("lighttpd", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")

pytestmark = pytest.mark.skipif(LIGHTTPD is None, reason="lighttpd is not installed: apt-get install lighttpd")

CONFIGURATION = """
server.modules += ( "mod_proxy" )
server.stream-response-body = 1
server.document-root = "{directory}"
server.bind = "127.0.0.1"
server.port = {port}
$HTTP["host"] =~ "^127\\.0\\.0\\.1" {{
    proxy.balance = "round-robin"
    proxy.server = ( "" => ( {backends} ) )
}}
"""

APPLICATION = """
import os

def application(environ, start_response):
    body = environ["wsgi.input"].read() or (environ["HTTP_X_FORWARDED_FOR"] + " " + str(os.getpid())).encode()
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [body]
"""


def answers(url: str) -> bool:
    try:
        return requests.get(url, timeout=5).status_code == 200
    except requests.ConnectionError:
        return False


@pytest.fixture
def front(start: Start, tmp_path: Path) -> Iterator[str]:
    """The URL of a lighttpd before two servers."""
    ports = [start("1x1", source=APPLICATION).port for _ in range(2)]
    backends = ", ".join(f'( "host" => "127.0.0.1", "port" => {port} )' for port in ports)
    port = free_port()
    configuration = tmp_path / "lighttpd.conf"
    configuration.write_text(CONFIGURATION.format(directory=tmp_path, port=port, backends=backends))
    process = subprocess.Popen([str(LIGHTTPD), "-D", "-f", str(configuration)], stderr=subprocess.DEVNULL)
    try:
        url = f"http://127.0.0.1:{port}/"
        wait_for(lambda: answers(url), "an answer through lighttpd")
        yield url
    finally:
        process.terminate()
        process.wait(10)


def test_two_servers_share_the_requests(front: str) -> None:
    """Each request reaches one of the two, with the client's address in a field."""
    texts = {requests.get(front, timeout=5).text for _ in range(20)}
    assert len(texts) == 2
    assert all(text.startswith("127.0.0.1 ") for text in texts)


def test_a_body_goes_through(front: str) -> None:
    """A megabyte up and down again."""
    body = b"0123456789abcdef" * 65536
    assert requests.post(front, data=body, timeout=20).content == body
