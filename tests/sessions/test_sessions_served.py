"""Sessions under poorhttp itself, with several processes and threads that serve one browser at a time."""

from __future__ import annotations

import threading

import pytest

APP = """
from poorhttp.sessions import SessionMiddleware

def page(environ, start_response):
    session = environ["poorhttp.session"]
    if environ["PATH_INFO"] == "/plain":
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"plain"]
    session["count"] = session.get("count", 0) + 1
    session[environ["QUERY_STRING"]] = 1
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [str((session["count"], len(session))).encode()]

application = SessionMiddleware(page, "ADDRESS", concurrency="lock", lock_timeout=30)
"""


@pytest.mark.parametrize("kind", ["sqlite", "directory", "file"])
def test_many_requests_of_one_browser_lose_nothing(start, tmp_path, any_shape, kind: str) -> None:
    server = start(APP.replace("ADDRESS", f"{kind}:{tmp_path}/sessions"), any_shape)
    first = server.get("/?first")
    cookie = first.header("Set-Cookie").partition(";")[0]
    assert cookie.startswith("__Host-session=") and first.body == b"(1, 2)"

    def ask(name: int) -> None:
        for number in range(5):
            assert server.get(f"/?{name}-{number}", f"Cookie: {cookie}").status == 200

    threads = [threading.Thread(target=ask, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(50)
    assert server.get("/?last", f"Cookie: {cookie}").body == b"(22, 23)"
    assert server.get("/plain").header("Set-Cookie") is None
