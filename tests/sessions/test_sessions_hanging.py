"""A store that takes connections and never answers: 503 within its timeout, one line of the log, and the next request too."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest
from session_client import Client, get, page, put

TIMEOUT = 0.5
LIBRARIES = {
    "redis": "redis",
    "memcached": "pymemcache",
    "postgresql": "psycopg",
    "mariadb": "pymysql",
    "mongodb": "pymongo",
}

pytestmark = pytest.mark.usefixtures("careless")


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of a server that the kernel takes connections for, and nobody else."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listener:
        yield listener.getsockname()[1]


@pytest.mark.parametrize("kind", LIBRARIES)
def test_a_store_that_hangs_is_503_in_time(kind: str, silent: int) -> None:
    pytest.importorskip(LIBRARIES[kind])
    client = Client(f"{kind}://user:word@127.0.0.1:{silent}/0?timeout={TIMEOUT}")
    for handle in get("a"), put("a", 1), lambda session: session.rotate(), lambda session: session.invalidate():
        client.jar = {"__Host-session": "A" * 43}
        start = time.monotonic()
        assert client.do(handle) == "503 - Service Unavailable\n"
        assert time.monotonic() - start < 10 * TIMEOUT + 5  # the machine may be busy
        assert client.status.startswith("503") and client.log.count("\n") == 1 and "Traceback" not in client.log
    start = time.monotonic()
    assert client.ask(page(lambda session: "without a session")) == "without a session"
    assert time.monotonic() - start < 5
    client.sessions.store.close()
