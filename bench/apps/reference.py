"""Print the body that an application gives when it is called without a server: `reference.py MODULE:NAME PATH`."""

import importlib
import sys
from wsgiref.util import setup_testing_defaults


def main():
    module, _, name = sys.argv[1].partition(":")
    environ = {"PATH_INFO": sys.argv[2], "REQUEST_METHOD": "GET"}
    setup_testing_defaults(environ)
    written = []
    chunks = getattr(importlib.import_module(module), name)(environ, lambda status, fields, exc=None: written.append)
    written.extend(chunks)
    sys.stdout.buffer.write(b"".join(written))


main()
