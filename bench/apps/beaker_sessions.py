"""A WSGI function with the sessions of Beaker; SESSIONS in the environment is the address of the store.

SIZE is how many KB a session has besides. Without SESSIONS there are none.
"""

import os
from urllib.parse import urlsplit

import session_data

PAGE = "Hello, World!"
STORE, SIZE = os.environ.get("SESSIONS"), int(os.environ.get("SIZE", "0"))
SECRET = "a secret of the bench, for its own eyes only"
KINDS = {"cookie": "cookie", "memory": "memory", "directory": "file", "redis": "ext:redis",
         "memcached": "ext:memcached"}  # fmt: skip


def hello(session):
    return PAGE


def login(session):
    session["user"] = "somebody@example.com"
    session["count"] = 0
    if SIZE:
        session["data"] = session_data.text(SIZE)
    session.save()
    return PAGE


def read(session):
    return PAGE if session.get("user") else "nobody"


def write(session):
    if not session.get("user"):
        return "nobody"
    session["count"] += 1
    session.save()
    return PAGE


def count(session):
    return str(session.get("count"))


PAGES = {"/": hello, **{f"/{page.__name__}": page for page in (login, read, write, count)}}


def application(environ, start_response):
    body = PAGES[environ["PATH_INFO"]](environ.get("beaker.session")).encode()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]


def settings(address):
    """What the address of a store of poorhttp is for Beaker."""
    where = urlsplit(address)
    kept = {"session.type": KINDS[where.scheme], "session.save_accessed_time": False, "session.data_serializer": "json"}
    if where.scheme == "cookie":
        return {**kept, "session.validate_key": SECRET}
    kept["session.secret"] = SECRET
    if where.scheme == "redis":
        kept["session.url"] = address
    if where.scheme == "memcached":
        kept |= {"session.url": f"{where.hostname}:{where.port}", "session.lock_dir": os.environ["LOCKS"]}
    if where.scheme == "directory":
        kept["session.data_dir"] = f"{where.path}.beaker"
    return kept


if STORE:
    from beaker.middleware import SessionMiddleware

    application = SessionMiddleware(application, settings(STORE))
