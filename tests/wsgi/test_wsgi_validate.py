"""wsgiref.validate around an application that uses all of PEP 3333, on each shape.

The validator asserts on both sides; what it finds becomes a 500 with a traceback, which no test here declares.
"""

from __future__ import annotations

from typing import Any

import pytest

APP = """
from wsgiref.validate import validator

def plain(environ, start_response):
    path = environ["PATH_INFO"]
    stream = environ["wsgi.input"]
    if path == "/read":
        body = stream.read(3) + stream.readline() + b"".join(stream.readlines())
    elif path == "/iterate":
        body = b"".join(stream)
    elif path == "/sizes":
        body = stream.read(2) + stream.readline() + stream.read(1 << 20)
    else:
        body = b"plain"
    environ["wsgi.errors"].write("a note of the application\\n")
    environ["wsgi.errors"].writelines(["another", "\\n"])
    environ["wsgi.errors"].flush()
    headers = [("Content-Type", "text/plain; charset=utf-8")]
    if path == "/write":
        write = start_response("200 OK", headers)
        write(b"written ")
        return [b"and returned"]
    if path == "/generator":
        start_response("200 OK", headers)
        return (b"%d " % number for number in range(5))
    if path == "/exc_info":
        import sys
        try:
            raise ValueError("x")
        except ValueError:
            start_response("500 Sorry", headers, sys.exc_info())
        return [b"sorry"]
    if path == "/204":
        start_response("204 No Content", [])
        return []
    start_response("200 OK", headers + [("Content-Length", str(len(body)))])
    return [body]

application = validator(plain)
"""


@pytest.fixture
def server(serve: Any, any_shape: Any) -> Any:
    return serve(APP, any_shape)


@pytest.mark.parametrize("framing", ["length", "chunked", "file"])
@pytest.mark.parametrize("path", ["/read", "/iterate", "/sizes"])
def test_input(serve: Any, any_shape: Any, path: str, framing: str) -> None:
    server = serve(APP, any_shape, body_memory="16") if framing == "file" else serve(APP, any_shape)
    body = b"first line\nsecond line\nthird"
    with server.connect() as client:
        if framing == "chunked":
            response = client.request(
                path,
                "Transfer-Encoding: chunked",
                "Content-Type: text/plain",
                method="POST",
                body=b"1c\r\n" + body + b"\r\n0\r\n\r\n",
            )
        else:
            response = client.request(path, "Content-Type: text/plain", method="POST", body=body)
        assert (response.status, response.body) == (200, body)


@pytest.mark.parametrize(
    ("path", "status", "body"),
    [
        ("/", 200, b"plain"),
        ("/write", 200, b"written and returned"),
        ("/generator", 200, b"0 1 2 3 4 "),
        ("/exc_info", 500, b"sorry"),
        ("/204", 204, b""),
        ("/a%20b?c=d", 200, b"plain"),
    ],
)
@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_output(server: Any, path: str, status: int, body: bytes, version: str) -> None:
    response = server.get(path, version=version)
    assert (response.status, response.body) == (status, body), server.errors()[-2000:]


@pytest.mark.parametrize("method", ["HEAD", "DELETE", "PUT", "OPTIONS", "PATCH"])
def test_methods(server: Any, method: str) -> None:
    assert server.get("/", method=method).status == 200, server.errors()[-2000:]


def test_repeated_and_odd_fields(server: Any) -> None:
    assert (
        server.get("/", "Cookie: a=1", "Cookie: b=2", "X-A: \xe9", "X-Empty:", "Content-Type: text/plain").status == 200
    )


def test_unix_socket(serve: Any, any_shape: Any) -> None:
    assert serve(APP, any_shape, bind="unix:DIRECTORY/socket").get("/").body == b"plain"


def test_options_asterisk_does_not_reach_the_validator(server: Any) -> None:
    assert server.get("*", method="OPTIONS").status in (200, 204)
