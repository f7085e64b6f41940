"""The table of the example: which function answers which URI.

Run it from here with `poorhttp .`, or from anywhere with `poorhttp -c poorhttp.ini`.
"""

import re

from heavy import heavy
from light import light

from poorhttp import http

re_mail = None


def setreq(req):
    """Called before every request: add to `req` what the handlers need."""
    global re_mail
    if re_mail is None:
        re_mail = re.compile(r"^[a-z0-9\-_.]+@[a-z0-9\-_.]+$")
        req.log_error("Initialisation ...")
    req.re_mail = re_mail


handlers = {
    "/": (http.METHOD_GET, light),
    "/light": (http.METHOD_GET, light),
    "/heavy": (http.METHOD_GET, heavy),
}
