"""The application of `bench sessions --suite tornado`: it stores a field of the query in the session.

SESSIONS in the environment is the address of the store. Without it there are no sessions, and the field is only read.
"""

import os

from poorhttp import http

PAGE = "Hello, World!"


def store(req):
    req.session["value"] = req.args.get("value")
    return PAGE


def read(req):
    return req.session.get("value", "nothing")


def forget(req):
    req.args.get("value")
    return PAGE


if address := os.environ.get("SESSIONS"):
    from poorhttp.sessions import Sessions

    sessions = Sessions(address, secure=False)  # the site is served by plain http
    handlers = {"/store": (http.METHOD_GET, store), "/read": (http.METHOD_GET, read)}
else:
    handlers = {"/store": (http.METHOD_GET, forget)}
