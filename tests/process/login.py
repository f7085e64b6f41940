"""A dispatch table with a login, and a browser that uses it.

Knows sessions as an application does. Knows no server.
"""

from __future__ import annotations

from comparing import Ask

LOGIN = """
from poorhttp import http
from poorhttp.sessions import Sessions

sessions = SESSIONS

def login(req):
    req.session.rotate()
    req.session["user"] = req.form["user"]
    http.redirect(req, req.url_for("whoami"))

def logout(req):
    req.session.invalidate()
    http.redirect(req, req.url_for("whoami"))

def whoami(req):
    return req.session.get("user", "nobody")

def count(req):
    req.session["count"] = req.session.get("count", 0) + 1
    return str(req.session["count"])

def broken(req):
    req.session["user"] = "intruder"
    raise ValueError("on purpose")

handlers = {
    "/login": (http.METHOD_POST, login), "/logout": (http.METHOD_POST, logout), "/": (http.METHOD_GET, whoami),
    "/count": (http.METHOD_GET, count), "/broken": (http.METHOD_GET, broken),
}
"""

SQLITE = 'Sessions("sqlite:DIRECTORY/data/sessions.db", concurrency="lock", lock_timeout=20)'
COOKIE = 'Sessions("cookie:", secrets="0123456789abcdef0123456789abcdef")'


class Browser:
    """Keeps one cookie; its name and attributes are in `attributes`."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self.cookie, self.attributes = "", ""

    def ask(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        fields = {"Host": "localhost", "Content_Type": "application/x-www-form-urlencoded", "Cookie": self.cookie}
        status, _, headers, answer = self._ask(method, path, body, **fields)
        for name, value in headers:
            if name == "set-cookie":
                self.cookie, _, self.attributes = value.partition("; ")
        return status, answer
