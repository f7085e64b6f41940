"""Stands in for CherryPy's WSGI server: CherryPy's own applications, tools and tests, served by poorhttp.

Knows how CherryPy makes its server from its settings and how its tests choose one; the rest is that for cheroot.
"""

from __future__ import annotations

import socket
import warnings
from typing import Any

from conformance.functional.in_cheroot import Server

# Their modules of former names warn when they are imported.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import cherrypy
    import cherrypy._cpwsgi_server
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
    """Starts the server for a class of tests, on a port that was free a moment ago instead of a fixed one."""

    def __init__(self, **told: Any) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            told["port"] = free.getsockname()[1]
        super().__init__(**told)


cherrypy._cpwsgi_server.CPWSGIServer = CPWSGIServer
helper.CPWebCase.available_servers["wsgi"] = Supervisor
