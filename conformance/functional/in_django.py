"""Stands in for the server of Django's LiveServerTestCase, and sets Django up as its own runner of tests does.

Knows the interface of `ThreadedWSGIServer` and `WSGIServer` as `LiveServerThread` uses it, and the settings that the
chosen tests need. Contract: after `server_close` no thread of the engine is left.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import django
import pytest
from django.conf import settings
from django.core.servers import basehttp
from django.db import connections

from conformance.functional.serving import Serving, bound

settings.configure(
    ALLOWED_HOSTS=[],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3"}, "other": {"ENGINE": "django.db.backends.sqlite3"}},
    DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    INSTALLED_APPS=[
        "django.contrib.contenttypes",
        "django.contrib.auth",
        "django.contrib.sessions",
        "django.contrib.staticfiles",
        "servers",
        "servers.another_app",
        "staticfiles_tests",
        "file_storage",
    ],
    MIDDLEWARE=["django.middleware.common.CommonMiddleware", "django.middleware.csrf.CsrfViewMiddleware"],
    ROOT_URLCONF="urls",
    SECRET_KEY="for the test",
    STATIC_URL="static/",
    USE_TZ=False,
)


class ThreadedServer:
    """A server of several threads, to whoever makes it as one of Django's."""

    threads = 10

    def __init__(
        self, address: Any, handler: Any = None, allow_reuse_address: bool = True, connections_override: Any = None
    ) -> None:
        self.connections_override = connections_override
        self._socket = bound(address)
        self.server_address = self._socket.getsockname()

    def set_app(self, app: Any) -> None:
        self._app = app
        told = {"threads": self.threads, "linger_timeout": 0.2}
        self._serving = Serving(self._call, [self._socket], told, left=connections.close_all)

    def serve_forever(self) -> None:
        self._serving.run()

    def shutdown(self) -> None:
        self._serving.stop()

    def server_close(self) -> None:
        """Nothing: the listener is closed where it was served."""

    def _call(self, environ: dict[str, Any], start_response: Any) -> Closing:
        for alias, connection in (self.connections_override or {}).items():
            connections[alias] = connection
        return Closing(self._app(environ, start_response), self._close_connections)

    def _close_connections(self) -> None:
        connections.close_all()


class SingleServer(ThreadedServer):
    """A server of one thread."""

    threads = 1


class Closing:
    """An answer, and what is to be done after it."""

    def __init__(self, answer: Any, close: Any) -> None:
        self._answer, self._close = answer, close

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._answer)

    def __len__(self) -> int:
        return len(self._answer)

    def close(self) -> None:
        try:
            if hasattr(self._answer, "close"):
                self._answer.close()
        finally:
            self._close()


# Then Django skips by itself what the database, not the server, cannot do.
os.environ["RUNNING_DJANGOS_TEST_SUITE"] = "true"
basehttp.ThreadedWSGIServer, basehttp.WSGIServer = ThreadedServer, SingleServer
django.setup()


def pytest_configure(config: pytest.Config) -> None:
    """Databases for the tests, as `manage.py test` makes them."""
    from django.test.runner import DiscoverRunner
    from django.test.utils import setup_test_environment

    setup_test_environment()
    runner = DiscoverRunner(verbosity=0, interactive=False)
    databases = runner.setup_databases(aliases={"default", "other"})
    config.add_cleanup(lambda: runner.teardown_databases(databases))
