"""A WSGI application that uses each public module, as a user with a strict type checker writes it: not run, but checked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import poorhttp
from poorhttp.cache import Cache
from poorhttp.sessions import Conflict, Policy, Session, SessionMiddleware, StoreDown, open_store

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

cache = Cache("/dev/shm/typed.cache")
store = open_store("memory:")
policy = Policy(idle=60)


def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    session: Session = environ["poorhttp.session"]
    try:
        session["name"] = cache.get("name", "nobody")
    except poorhttp.RequestTimeout:
        cache.set("name", "late", timeout=1.5)
    except (Conflict, StoreDown) as error:
        cache.delete(str(error))
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [str(policy.idle).encode()]


def listens(config: poorhttp.Config) -> tuple[int, str, bool, tuple[str, ...]]:
    return config.port, config.type, config.preload, config.forwarded


if __name__ == "__main__":
    poorhttp.run(SessionMiddleware(application, store), type="threading", address="127.0.0.1:8080", request_timeout=5)
