"""A browser that asks an application with sessions, through wsgiref's validator, and a store that notes what it is asked."""

from __future__ import annotations

import io
from typing import Any
from wsgiref.util import setup_testing_defaults
from wsgiref.validate import validator

import pytest

from poorhttp.sessions import Sessions, StoreDown
from poorhttp.sessions.stores.memory import MemoryStore

SECRET = "0123456789abcdef0123456789abcdef"


class Noting(MemoryStore):
    """A store that notes what it is asked, and can be away."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.is_down = False

    def _note(self, what: str) -> None:
        self.asked.append(what)
        if self.is_down:
            raise StoreDown("the store is away")

    def load(self, key: str) -> Any:
        if "save" not in self.asked[-1:] and "touch" not in self.asked[-1:]:
            self._note("load")
        return super().load(key)

    def save(self, key: str, data: bytes, ttl: float, version: str | None) -> str:
        self._note("save")
        try:
            return super().save(key, data, ttl, version)
        finally:
            self.asked.append("saved")

    def touch(self, key: str, ttl: float) -> bool:
        self._note("touch")
        try:
            return super().touch(key, ttl)
        finally:
            self.asked.append("touched")

    def delete(self, key: str) -> None:
        self._note("delete")
        super().delete(key)

    def keys(self) -> set[str]:
        return set(self._records)


class Client:
    """A browser with one cookie jar. handle(session) -> the text of the answer."""

    def __init__(self, store: Any = "memory:", *, is_valid: bool = True, **settings: Any) -> None:
        self.sessions = Sessions(store, **settings)
        self.is_valid = is_valid
        self.jar: dict[str, str] = {}
        self.status, self.headers, self.log = "", [], ""

    def ask(self, app: Any, **environ: Any) -> str:
        """Send a request to an application; keep the cookies of its answer."""
        env: dict[str, Any] = {"wsgi.url_scheme": "https", "HTTP_HOST": "www.example.org", "QUERY_STRING": ""}
        if self.jar:
            env["HTTP_COOKIE"] = "; ".join(f"{name}={value}" for name, value in self.jar.items())
        setup_testing_defaults(env)
        log = io.StringIO()
        env.update({"wsgi.errors": log, "wsgi.multiprocess": False, **environ})
        written = []

        def start_response(status: str, headers: Any, exc_info: Any = None) -> Any:
            self.status, self.headers = status, headers
            return written.append

        wrapped = self.sessions.wrap(app)
        body = (validator(wrapped) if self.is_valid else wrapped)(env, start_response)
        try:
            text = b"".join(written) + b"".join(body)
        finally:
            getattr(body, "close", lambda: None)()
            self.log = log.getvalue()
        for name, value in self.headers:
            if name == "Set-Cookie":
                pair, *attributes = value.split("; ")
                key, _, cookie = pair.partition("=")
                self.jar[key] = cookie
                if "Max-Age=0" in attributes:
                    del self.jar[key]
        return text.decode()

    def do(self, handle: Any, **environ: Any) -> str:
        return self.ask(page(handle), **environ)

    def field(self, name: str) -> str | None:
        values = [value for known, value in self.headers if known == name]
        assert len(values) < 2, values
        return values[0] if values else None

    @property
    def token(self) -> str:
        return self.jar.get("__Host-session", "")


def page(handle: Any, status: str = "200 OK") -> Any:
    """An application that calls handle(session) before the head, and answers with its result."""

    def app(environ: Any, start_response: Any) -> list[bytes]:
        text = str(handle(environ["poorhttp.session"])).encode()
        start_response(status, [("Content-Type", "text/plain"), ("Content-Length", str(len(text)))])
        return [text]

    return app


def put(name: str, value: Any) -> Any:
    return lambda session: session.__setitem__(name, value)


def get(name: str) -> Any:
    return lambda session: session.get(name)


def interleaved(client: Client, first: Any, second: Any) -> None:
    """Call second(session) in a request that begins and ends within that of first(session, step)."""
    client.do(lambda session: first(session, lambda: client.do(second)))


def streaming(early: bool, late: bool) -> Any:
    """A generator as an application; it changes the session before its first block, and after it."""

    def app(environ: Any, start_response: Any) -> Any:
        if early:
            environ["poorhttp.session"]["early"] = 1
        start_response("200 OK", [("Content-Type", "text/plain")])
        yield b"first"
        if late:
            environ["poorhttp.session"]["late"] = 1
        yield b"second"

    return app


def kept_in(kind: str, **settings: Any) -> Client:
    return Client("cookie:", secrets=SECRET, **settings) if kind == "cookie" else Client("memory:", **settings)


both = pytest.mark.parametrize("kind", ["memory", "cookie"])
