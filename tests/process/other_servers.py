"""gunicorn, uWSGI and waitress for tests, with the application that the tests have written.

Knows how they are started and ended. Contract: a server that was entered takes connections, and is gone with its
processes when it is left.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fronts import free_port, running

GUNICORN = ("-m", "gunicorn", "--bind=127.0.0.1:{port}", "--no-control-socket", "app:application")
UWSGI = (
    *(
        "-c",
        "import pyuwsgi, sys; pyuwsgi.run(sys.argv[1:])",
        "--http-socket=127.0.0.1:{port}",
        "--binary-path={python}",
    ),
    *("--module=app:application", "--master", "--processes=2", "--need-app", "--die-on-term"),
)

# By name: the package that pip installs, and what the interpreter is called with.
SERVERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "gunicorn": ("gunicorn", (*GUNICORN, "--workers=2")),
    "gunicorn-threads": ("gunicorn", (*GUNICORN, "--threads=4")),
    "uwsgi": ("pyuwsgi", UWSGI),
    "waitress": ("waitress", ("-m", "waitress", "--listen=127.0.0.1:{port}", "app:application")),
}


@contextlib.contextmanager
def serving(name: str, directory: Path) -> Iterator[int]:
    """The port of this server with `application` of app.py in the directory; what it says goes to `output` there."""
    package, arguments = SERVERS[name]
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed: pip install {package}")
    port = free_port()
    command = [sys.executable, *(word.format(port=port, python=sys.executable) for word in arguments)]
    with running(name, command, directory / "output", "127.0.0.1", port, patience=20):
        yield port
