"""Two pages that are measured: which function answers which URI. Run it from here with `poorhttp .`."""

import re

from heavy import heavy
from light import light

from poorhttp import http

shared = {}  # what is made once and used by all requests


def setreq(req):
    """Called before every request: add to `req` what the handlers need."""
    if not shared:
        shared["re_mail"] = re.compile(r"^[a-z0-9\-_.]+@[a-z0-9\-_.]+$")
        req.log_error("Initialisation ...")
    req.re_mail = shared["re_mail"]


handlers = {
    "/": (http.METHOD_GET, light),
    "/light": (http.METHOD_GET, light),
    "/heavy": (http.METHOD_GET, heavy),
}
