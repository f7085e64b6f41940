"""What the tests of a document root know of its files, and how they ask for them."""

import os

from dispatching import call

DATA = bytes(range(256)) * 1000
SECRET = b"nobody may read this"
OLD = 784111777  # Sun, 06 Nov 1994 08:49:37 GMT, the example of RFC 9110
OLD_DATE = "Sun, 06 Nov 1994 08:49:37 GMT"


def get(app, path="/data.bin", method="GET", **fields):
    return call(app, path, method, **{f"HTTP_{name.upper()}": value for name, value in fields.items()})


def latin(path):
    """A path as PATH_INFO has it (PEP 3333)."""
    return os.fsencode(path).decode("latin-1")
