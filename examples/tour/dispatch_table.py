"""A tour of the dispatch table: each function shows one thing, and `/` has links to them.

Run it from here with `poorhttp .`, or from anywhere with `poorhttp -c poorhttp.ini`.
"""

import os
import time
from html import escape
from secrets import token_hex

from poorhttp import http
from poorhttp.sessions import Sessions

# In signed cookies. A site keeps its secret; this one is lost, and the sessions with it, when the server ends.
sessions = Sessions("cookie:", secrets=[os.environ.get("SESSION_SECRET") or token_hex(32)])

TOUR = """\
<!DOCTYPE html>
<title>Tour</title>
<h1>Tour</h1>
<ul>
<li><a href="/hello/world">/hello/world</a>: a parameter in the path
<li><a href="/sum/20/22">/sum/20/22</a>: numbers in the path, and JSON
<li><a href="/countdown">/countdown</a>: an answer that is sent piece by piece
<li><a href="/visits">/visits</a>: a session
<li><a href="/old">/old</a>: a redirect
<li><a href="/nothing">/nothing</a>: a page for an error
<li><a href="/fail">/fail</a>: an exception; with <code>poorhttp dev</code> its traceback
</ul>
<form method="post" action="/upload" enctype="multipart/form-data">
<input type="file" name="file" required> <button>Upload</button>
</form>
"""


def tour(req):
    return TOUR


def hello(req, name):
    louder = req.url_for("hello", name=f"{name}!")
    return f'<p>Hello, {escape(name)}. <a href="{louder}">Louder</a></p>\n'


def add(req, a, b):
    return {"a": a, "b": b, "sum": a + b}


def countdown(req):
    req.content_type = "text/plain"
    for number in range(5, 0, -1):
        yield f"{number}\n"
        time.sleep(0.2)
    yield "Lift-off\n"


def visits(req):
    req.session["visits"] = req.session.get("visits", 0) + 1
    return f"<p>You were here {req.session['visits']} times.</p>\n"


def upload(req):
    file = req.files["file"]
    return {"name": file.filename, "type": file.type, "bytes": len(file.file.read())}


def old(req):
    http.redirect(req, "/", 301)


def missing(req):
    return f'<p>There is no {escape(req.uri)}. <a href="/">Back to the tour</a></p>\n'


def fail(req):
    raise RuntimeError("this page always fails")


handlers = {
    "/": (http.METHOD_GET, tour),
    "/hello/<name>": (http.METHOD_GET, hello),
    "/sum/<a:int>/<b:int>": (http.METHOD_GET, add),
    "/countdown": (http.METHOD_GET, countdown),
    "/visits": (http.METHOD_GET, visits),
    "/upload": (http.METHOD_POST, upload),
    "/old": (http.METHOD_GET, old),
    "/fail": (http.METHOD_GET, fail),
}

errors = {http.HTTP_NOT_FOUND: missing}
