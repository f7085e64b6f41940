"""Stands in for the modules of waitress that its functional tests import: a server that is poorhttp.

The tests fork a process, make `TcpWSGIServer` or `UnixWSGIServer` in it and call its `run`: here that is the real
worker of poorhttp, with its signals. What waitress promises and the tests take for granted beyond HTTP is added around
the application, where a deployment would add it too; what the tests send and expect is adapted where `deviations.py`
says so (ADAPTATIONS).
"""

from __future__ import annotations

import os
import re
import socket
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from conformance.functional.serving import LOG, Log, bound
from poorhttp.config import config
from poorhttp.listen import sockets
from poorhttp.process import worker

KEYWORDS = {"max_request_body_size": "max_body", "max_request_header_size": "max_head", "expose_tracebacks": "debug"}
REQUEST = re.compile(rb"[A-Z]+ [^ ]+ HTTP/1\.1\r\n")


class WSGIServer:
    """The part of a server of waitress that the fixtures use: `socket`, and `run` until TERM."""

    def __init__(
        self, application: Any, host: str = "", port: int = 0, unix_socket: str = "", threads: int = 4, **keywords: Any
    ) -> None:
        self.socket = bound(unix_socket or (host, port))
        proxied = keywords.pop("trusted_proxy", "") == "*"
        for name in [name for name in keywords if "proxy" in name]:
            del keywords[name]
        told = {KEYWORDS[name]: value for name, value in keywords.items()}
        times = {"keepalive_timeout": 1, "body_timeout": 1}
        settings = {"type": "threading", "threads": threads, "server_header": "waitress", **times, **told}
        self._config = config.from_keywords(settings, {}, os.getcwd())
        self._application = with_remote_host(application)
        if proxied:
            self._application = behind_proxy(self._application)

    def run(self) -> None:
        try:
            worker.serve(self._application, [self.socket], self._config, Log(None), -1)
        finally:
            sockets.close([self.socket])


def with_remote_host(application: Any) -> Callable[..., Iterable[bytes]]:
    """REMOTE_HOST, an optional variable of CGI which waitress sets to the address."""

    def wrapped(environ: dict[str, Any], start_response: Any) -> Any:
        environ.setdefault("REMOTE_HOST", environ["REMOTE_ADDR"])
        return application(environ, start_response)

    return wrapped


def behind_proxy(application: Any) -> Callable[..., Iterable[bytes]]:
    """What a middleware for proxies does, as the tests configure that of waitress."""

    def wrapped(environ: dict[str, Any], start_response: Any) -> Any:
        environ["REMOTE_ADDR"] = environ.pop("HTTP_X_FORWARDED_FOR", environ["REMOTE_ADDR"])
        environ["wsgi.url_scheme"] = environ.pop("HTTP_X_FORWARDED_PROTO", environ["wsgi.url_scheme"])
        environ.pop("HTTP_X_FORWARDED_PORT", None)
        return application(environ, start_response)

    return wrapped


class Socket(socket.socket):
    """Sends a Host with each request of HTTP/1.1 that has none."""

    def send(self, data: Any, flags: int = 0) -> int:
        line = REQUEST.match(data)
        head = bytes(data).partition(b"\r\n\r\n")[0].lower()
        if line and b"\r\nhost:" not in head:
            data = data[: line.end()] + b"Host: localhost\r\n" + data[line.end() :]
        self.sendall(data, flags)
        return len(data)


def pytest_configure(config: pytest.Config) -> None:
    """Put the stand-ins where the tests will import from."""
    os.environ[LOG]  # the forked servers need it
    modules = {name: types.ModuleType(name) for name in ("waitress", "waitress.server", "waitress.compat")}
    modules["waitress.utilities"] = types.ModuleType("waitress.utilities")
    vars(modules["waitress"]).update(server=modules["waitress.server"])
    vars(modules["waitress.server"]).update(TcpWSGIServer=WSGIServer, UnixWSGIServer=WSGIServer)
    vars(modules["waitress.compat"]).update(WIN=False)
    vars(modules["waitress.utilities"]).update(cleanup_unix_socket=lambda path: None)
    sys.modules.update(modules)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Adapt what the tests send and expect."""
    tests = next(item.module for item in session.items if isinstance(item, pytest.Function))
    said = tests.SubprocessTests.assertline

    def assertline(self: Any, line: bytes, status: str, reason: str, version: str) -> None:
        said(self, line, status, "Content Too Large" if status == "413" else reason, "HTTP/1.1")

    tests.SubprocessTests.assertline = assertline
    tests.SubprocessTests.create_socket = lambda self: Socket(self.server.family, socket.SOCK_STREAM)
