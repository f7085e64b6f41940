"""`poorhttp init`: writes the first files of a new application, unless one of them exists."""

from __future__ import annotations

from poorhttp.app.places import seen
from poorhttp.dev.settings import TABLE, found
from poorhttp.errors import ConfigError, write
from poorhttp.stdlib import os

TABLE_TEXT = '''\
"""The functions that answer requests, by path."""

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
# Settings of poorhttp; `poorhttp --dump-config` shows all of them.
[http]

# The application, relative to this file: file.py, module:name, or a directory with dispatch_table.py
application = {application}

# single, forking (processes) or threading (threads)
type = single

address = 127.0.0.1
port = 8080
"""


def run(directory: str) -> int:
    """Write the files into a directory, which is made if it does not exist; only the ini file if there is an
    application that `poorhttp dev` would find. Returns 0. Raises ConfigError.
    """
    served = found(directory)  # the directory itself if it has a dispatch table, or nothing to serve
    program = os.path.join(directory, TABLE) if served == directory else served
    is_there = os.path.isfile(program)
    files = {} if is_there else {TABLE: TABLE_TEXT}
    files["poorhttp.ini"] = INI.format(application=os.path.relpath(served, directory))
    paths = {os.path.join(directory, name): text for name, text in files.items()}
    try:
        os.makedirs(directory, exist_ok=True)
        for path in paths:
            if os.path.lexists(path):
                raise ConfigError(f"{seen(path)} exists already", "name a directory for a new application")
        for path, text in paths.items():
            with open(path, "x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        name = seen(error.filename or directory)
        raise ConfigError(f"cannot write {name}: {error.strerror}", "name another directory") from None
    serve = f"poorhttp dev -c {seen(os.path.join(directory, 'poorhttp.ini'))}"
    what = f"{seen(program)}, which was there," if is_there else "it"
    return write("".join(f"wrote {seen(path)}\n" for path in paths) + f"{serve}    serves {what} while you write\n")
