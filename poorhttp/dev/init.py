"""`poorhttp init`: the first files of a new application.

Contract: a file that exists is left as it is, and then none is written.
"""

from __future__ import annotations

from poorhttp.dev.problem import shown
from poorhttp.errors import ConfigError, write
from poorhttp.lean import os

TABLE = '''\
"""Which function answers which URI."""

from poorhttp import http


def welcome(req):
    req.content_type = "text/html; charset=utf-8"
    req.write("<!DOCTYPE html><title>Welcome</title>\\n<h1>It works</h1>\\n")
    req.write("<p>Edit dispatch_table.py, save it, and load this page again.</p>\\n")
    return http.DONE


handlers = {
    "/": (http.METHOD_GET, welcome),
}
'''

INI = """\
# Settings of poorhttp; `poorhttp --dump-config` shows all there are.
[http]

# The directory of dispatch_table.py, from here.
application = ./

# single, forking (processes) or threading (threads)
type = single

address = 127.0.0.1
port = 8080
"""

FILES = {"dispatch_table.py": TABLE, "poorhttp.ini": INI}


def run(directory: str) -> int:
    """Write them into a directory, which is made where it is missing. Returns 0. Raises ConfigError."""
    paths = {os.path.join(directory, name): text for name, text in FILES.items()}
    try:
        os.makedirs(directory, exist_ok=True)
        for path in paths:
            if os.path.lexists(path):
                raise ConfigError(f"{shown(path)} exists already", "name a directory for a new application")
        for path, text in paths.items():
            with open(path, "x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        name = shown(error.filename or directory)
        raise ConfigError(f"cannot write {name}: {error.strerror}", "name another directory") from None
    place = shown(directory)
    serve = "poorhttp dev" if place == "." else f"poorhttp dev {place}"
    return write("".join(f"wrote {shown(path)}\n" for path in paths) + f"{serve}    serves it while you write\n")
