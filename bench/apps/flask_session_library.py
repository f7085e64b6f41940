"""A Flask application with the sessions of Flask-Session; SESSIONS in the environment is the address of the store.

SIZE is how many KB a session has besides. Without SESSIONS there are none.
"""

import os
from urllib.parse import urlsplit

import session_data
from flask import Flask, session

PAGE = "Hello, World!"
STORE, SIZE = os.environ.get("SESSIONS"), int(os.environ.get("SIZE", "0"))

application = Flask(__name__)
application.secret_key = "a secret of the bench, for its own eyes only"


def settings(address):
    """What the address of a store of poorhttp is for Flask-Session."""
    where = urlsplit(address)
    if where.scheme == "redis":
        import redis

        return {"SESSION_TYPE": "redis", "SESSION_REDIS": redis.Redis.from_url(address)}
    if where.scheme == "memcached":
        from pymemcache.client.base import Client

        client = Client((where.hostname, where.port), default_noreply=False)
        return {"SESSION_TYPE": "memcached", "SESSION_MEMCACHED": client}
    from cachelib.file import FileSystemCache

    return {"SESSION_TYPE": "cachelib", "SESSION_CACHELIB": FileSystemCache(f"{where.path}.flask", threshold=0)}


if STORE:
    from flask_session import Session

    application.config.update(settings(STORE), SESSION_REFRESH_EACH_REQUEST=False)
    Session(application)


@application.route("/")
def hello():
    return PAGE


@application.route("/login")
def login():
    session["user"] = "somebody@example.com"
    session["count"] = 0
    if SIZE:
        session["data"] = session_data.text(SIZE)
    return PAGE


@application.route("/read")
def read():
    return PAGE if session.get("user") else "nobody"


@application.route("/write")
def write():
    if not session.get("user"):
        return "nobody"
    session["count"] += 1
    return PAGE


@application.route("/count")
def count():
    return str(session.get("count"))
