"""The dispatch table of `bench table` and `bench sessions`: one small page in several ways.

SESSIONS in the environment is the address of the store, SIZE how many KB a session has besides, REDIS the address of a
server which is asked without sessions, PATTERNS how many paths have parameters.
"""

import os

import session_data

from poorhttp import http

PAGE = "Hello, World!"
SECRET = "a secret of the bench, for its own eyes only"
SIZE = int(os.environ.get("SIZE", "0"))


def hello(req):
    return PAGE


def login(req):
    req.session["user"] = "somebody@example.com"
    req.session["count"] = 0
    if SIZE:
        req.session["data"] = session_data.text(SIZE)
    return PAGE


def read(req):
    return PAGE if req.session.get("user") else "nobody"


def write(req):
    if not req.session.get("user"):
        return "nobody"
    req.session["count"] += 1
    return PAGE


def count(req):
    return str(req.session.get("count"))


def named(req, *values):
    return PAGE


handlers = {f"/{function.__name__}": (http.METHOD_GET, function) for function in (hello, login, read, write, count)}
for number in range(int(os.environ.get("PATTERNS", "0")) // 2):
    handlers[f"/shop{number}/<id:int>"] = (http.METHOD_GET, named)
    handlers[f"/page{number}-<name>"] = (http.METHOD_GET, named)

address = os.environ.get("SESSIONS")
if address:
    from poorhttp.sessions import Sessions

    sessions = Sessions(address, secrets=SECRET if address == "cookie:" else ())

if "REDIS" in os.environ:
    import redis

    client = redis.Redis.from_url(os.environ["REDIS"])
    client.set("bench", "x" * 100)

    def get(req):
        return PAGE if client.get("bench") else "nothing"

    handlers["/get"] = (http.METHOD_GET, get)
