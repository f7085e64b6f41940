"""An application with a version, saved as an editor does."""

from pathlib import Path

VERSION = """
import os
import time

VERSION = "{version}"
{more}

def application(environ, start_response):
    time.sleep(0.03)
    body = (VERSION + " " + str(os.getpid())).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
"""


def write(directory: Path, version: str, more: str = "") -> None:
    """Write the application as an editor does: another file under the same name."""
    draft = directory / "draft"
    draft.write_text(VERSION.format(version=version, more=more))
    draft.replace(directory / "app.py")
