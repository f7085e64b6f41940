"""A guest book: everybody can read it, and users write in it."""

from html import escape

import accounts
from storage import FOLDER, database

from poorhttp import http
from poorhttp.sessions import Sessions

PAGE = """\
<!DOCTYPE html>
<html lang="en">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="stylesheet" href="/style.css">
<h1>{title}</h1>
{body}
</html>
"""

WRITE = """\
<form method="post" enctype="multipart/form-data">
<textarea name="text" required maxlength="2000" placeholder="Your text"></textarea>
<input type="file" name="picture" accept="image/png, image/jpeg">
<button>Write</button>
</form>
<form method="post" action="/logout"><button>Log out {user}</button></form>
"""


def page(title, body):
    """title: text. body: html."""
    return PAGE.format(title=escape(title), body=body)


def shown(number, author, written, text, kind):
    picture = f'<img src="/picture/{number}" alt="">' if kind else ""
    return f"<article><p>{escape(text)}</p>{picture}<footer>{escape(author)}, {written}</footer></article>\n"


def guestbook(req):
    with database() as db:
        rows = db.execute(
            "SELECT number, author, written, text, kind FROM entries LEFT JOIN pictures ON entry = number"
            " ORDER BY number DESC LIMIT 50"
        ).fetchall()
    user = req.session.get("user")
    form = WRITE.format(user=escape(user)) if user else '<p><a href="/login">Log in</a> to write.</p>\n'
    return page("Guest book", form + "".join(shown(*row) for row in rows))


def write(req):
    user = req.session.get("user")
    if user is None:
        http.redirect(req, "/login", 303)
    text = req.form["text"][:2000]
    picture = req.files["picture"].value if "picture" in req.files else None
    with database() as db:
        number = db.execute("INSERT INTO entries (author, text) VALUES (?, ?)", (user, text)).lastrowid
        if picture:
            db.execute("INSERT INTO pictures VALUES (?, ?, ?)", (number, kind_of(picture), picture))
    http.redirect(req, "/", 303)


sessions = Sessions(f"sqlite:{FOLDER}/sessions.db")

LOGIN = """\
<form method="post">
<label>Name <input name="name" required autofocus></label>
<label>Password <input name="password" type="password" required></label>
<button>Log in</button>
</form>
"""


def login(req):
    return page("Log in", LOGIN)


def log_in(req):
    name = req.form["name"]
    if not accounts.is_right(name, req.form["password"]):
        return http.Response(page("Log in", "<p>The name or the password is wrong.</p>\n" + LOGIN), http.HTTP_FORBIDDEN)
    req.session.rotate()
    req.session["user"] = name
    return http.redirect(req, "/", 303)


def log_out(req):
    req.session.invalidate()
    http.redirect(req, "/", 303)


def pre_process(req):
    """Refuse forms that a page of another site has sent."""
    here = req.construct_url("")
    if req.method == "POST" and req.headers_in.get("Origin", here) != here:
        http.abort(http.HTTP_FORBIDDEN)


KINDS = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg"}


def kind_of(picture):
    """The type of a picture by its first bytes, for the client's word on it may be wrong."""
    for start, kind in KINDS.items():
        if picture.startswith(start):
            return kind
    answer = page("No picture", "<p>The file is neither a PNG nor a JPEG.</p>")
    return http.abort(http.Response(answer, http.HTTP_UNSUPPORTED_MEDIA_TYPE))


def picture(req, number):
    with database() as db:
        found = db.execute("SELECT data, kind FROM pictures WHERE entry = ?", (number,)).fetchone()
    if found is None:
        return http.HTTP_NOT_FOUND
    data, kind = found
    return http.Response(data, content_type=kind, headers={"X-Content-Type-Options": "nosniff"})


converters = {"number": ("[0-9]{1,18}", int)}  # what fits into a column of SQLite


def missing(req):
    return page("Not found", '<p>There is no such page. <a href="/">To the guest book</a></p>')


errors = {http.HTTP_NOT_FOUND: missing}

handlers = {
    "/": {http.METHOD_GET: guestbook, http.METHOD_POST: write},
    "/login": {http.METHOD_GET: login, http.METHOD_POST: log_in},
    "/logout": (http.METHOD_POST, log_out),
    "/picture/<number:number>": (http.METHOD_GET, picture),
}
