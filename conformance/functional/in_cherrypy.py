"""Stands in for CherryPy's WSGI server: CherryPy's own applications, tools and tests, served by poorhttp.

Knows how CherryPy makes its server from its settings and how its tests choose one; the rest is that for cheroot.
"""

from __future__ import annotations

import gzip
import socket
import warnings
from types import SimpleNamespace
from typing import Any

from conformance.functional.in_cheroot import Server

# Their modules of former names warn when they are imported.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import cherrypy
    import cherrypy._cpwsgi_server
    from cherrypy.lib import encoding
    from cherrypy.test import helper


class CPWSGIServer(Server):
    """The server that CherryPy makes for itself. adapter: `cherrypy.server` or another one with its settings."""

    version = "poorhttp"

    def __init__(self, adapter: Any = cherrypy.server) -> None:
        super().__init__(adapter.bind_addr, cherrypy.tree, adapter.thread_pool, timeout=adapter.socket_timeout)
        self._adapter = adapter
        self.protocol = adapter.protocol_version
        self.max_request_header_size = adapter.max_request_header_size or 0
        self.max_request_body_size = adapter.max_request_body_size or 0

    def error_log(self, msg: str = "", level: int = 20, traceback: bool = False) -> None:
        cherrypy.engine.log(msg, level, traceback)


class Supervisor(helper.LocalWSGISupervisor):  # type: ignore[misc]
    """Starts the server for a class of tests, on a port of its own instead of a fixed one.

    The port is kept by a socket that is bound to it and does not listen, until the server is stopped: CherryPy first
    looks whether the port is free, and ends the whole process where it cannot have it.
    """

    def __init__(self, **told: Any) -> None:
        self._kept = socket.socket()
        self._kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._kept.bind(("127.0.0.1", 0))
        super().__init__(**{**told, "port": self._kept.getsockname()[1]})

    def stop(self) -> None:
        try:
            super().stop()
        finally:
            self._kept.close()


gzip.time = encoding.time = SimpleNamespace(time=lambda: 1e9)  # of the header of what is compressed
cherrypy._cpwsgi_server.CPWSGIServer = CPWSGIServer
helper.CPWebCase.available_servers["wsgi"] = Supervisor
