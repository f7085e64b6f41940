"""The examples' dispatch table as a plain WSGI application, for servers other than poorhttp."""

import sys
from importlib import import_module
from pathlib import Path

from poorhttp import dispatch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))

application = dispatch.application(import_module("dispatch_table"))
