"""What clients send to the parsers of the dispatch table and of sessions, at two sizes: prints how the CPU time grows.

A script, run by the interpreter that has poorhttp. Prints JSON: name of the input -> the time for 16 times the size,
divided by the time for the size. It is 16 where the time grows with the size, 256 where it grows with the square.
"""

import io
import json as writer
import time
import timeit
from types import SimpleNamespace
from wsgiref.util import setup_testing_defaults

from poorhttp import http
from poorhttp.dispatch import application, codings, preconditions, ranges
from poorhttp.dispatch.cookies import cookies_of
from poorhttp.dispatch.error_log import printable
from poorhttp.dispatch.redirect import checked_target
from poorhttp.pages.document import escape
from poorhttp.sessions.cookies import Cookie

MULTIPART = "multipart/form-data; boundary=" + "b" * 70
HEAD = b'Content-Disposition: form-data; name="a"\r\n'
URLENCODED = "application/x-www-form-urlencoded"
SESSION = Cookie("session", None, "Lax", is_persistent=False)


def read(handler, body, content_type):
    """Let the handler of a table read a body. Raises ValueError unless it is answered 200 or 400."""
    environ = {"REQUEST_METHOD": "POST", "CONTENT_TYPE": content_type, "CONTENT_LENGTH": str(len(body))}
    setup_testing_defaults(environ)
    environ.update({"wsgi.input": io.BytesIO(body), "wsgi.errors": io.StringIO()})
    heads = []
    for _ in application(SimpleNamespace(handlers={"/": (http.METHOD_POST, handler)}))(
        environ, lambda *head: heads.append(head)
    ):
        pass
    if heads[-1][0][:3] not in ("200", "400"):
        raise ValueError(f"{heads[-1][0]} for {content_type}, {len(body)} bytes")


def form(body, content_type=MULTIPART):
    def handler(req):
        http.FieldStorage(req, 1, max_fields=100_000, max_memory=1 << 30)
        return "read"

    read(handler, body, content_type)


def parts(part, count):
    delimiter = b"--" + b"b" * 70
    return b"".join([delimiter + b"\r\n" + part] * count) + delimiter + b"--\r\n"


def json(body):
    read(lambda req: str(type(req.json)), body, "application/json")


def session(field):
    SESSION.read({"HTTP_COOKIE": field, "wsgi.url_scheme": "https"})


# What is sent, as a function of its size, and what reads it. The sizes take some milliseconds.
SENT = {
    "cookies": (lambda size: cookies_of("a=b; " * size), 4000),
    "cookies without =": (lambda size: cookies_of(";" * size), 20_000),
    "one cookie": (lambda size: cookies_of("a=" + '"' * size), 200_000),
    "a session among cookies": (lambda size: session("__Host-sessiom=x; " * size), 4000),
    "a session of quotes": (lambda size: session("__Host-session=" + '"' * size), 500_000),
    "fields": (lambda size: form(b"a=1&" * size, URLENCODED), 1000),
    "escapes": (lambda size: form(b"a=" + b"%41" * size, URLENCODED), 5000),
    "wrong escapes": (lambda size: form(b"a=" + b"%" * size, URLENCODED), 5000),
    "parts": (lambda size: form(parts(HEAD + b"\r\nx\r\n", size)), 300),
    "a large part": (lambda size: form(parts(HEAD + b"\r\n" + b"x" * size + b"\r\n", 1)), 1 << 17),
    "ends of lines": (lambda size: form(parts(HEAD + b"\r\n" + b"\r\n" * size + b"\r\n", 1)), 100_000),
    "all but a boundary": (
        lambda size: form(parts(HEAD + b"\r\n" + (b"\r\n--" + b"b" * 69) * size + b"\r\n", 1)),
        5000,
    ),
    "lines of a part": (lambda size: form(parts(b"".join(b"X%d: y\r\n" % n for n in range(size)), 1)), 80),
    "quotes of a part": (lambda size: form(parts(HEAD[:-3] + b'\\"' * size + b'"\r\n\r\n\r\n', 1)), 450),
    "no boundary": (lambda size: form(b"x" * size), 1 << 20),
    "numbers of JSON": (lambda size: json(b"[" + b"1.5," * size + b"1]"), 4000),
    "surrogates of JSON": (lambda size: json(b'"' + b"\\ud83d\\ude00" * size + b'"'), 8000),
    "ranges": (lambda size: ranges.asked("bytes=" + "0-1," * size, 100), 20_000),
    "a long range": (lambda size: ranges.asked("bytes=" + "9" * size + "-", 100), 200_000),
    "codings": (lambda size: codings.accepted("gzip;q=1," * size), 20_000),
    "parameters of a coding": (lambda size: codings.accepted("gzip" + ";" * size), 20_000),
    "a long weight": (lambda size: codings.accepted("gzip;q=0." + "9" * size), 50_000),
    "tags": (lambda size: preconditions._names('"a", ' * size, '"b"', is_strong=False), 10_000),
    "a date": (lambda size: preconditions._seconds("Sun, " * size), 5000),
    "a date of digits": (lambda size: preconditions._seconds("06 Nov 1994 " + "1:" * size), 5000),
    "a line of the log": (lambda size: printable("\n" * size), 5000),
    "a page": (lambda size: escape("<" * size), 20_000),
    "a target": (lambda size: checked_target("/" + "\u017e" * size), 5000),
}


def grows(send, size):
    """The time for `8 * size`, divided by that for `size / 2`; the best of seven each."""
    few, many = (
        min(timeit.repeat(lambda count=count: send(count), timer=time.thread_time, number=1, repeat=7))
        for count in (size // 2, 8 * size)
    )
    return many / few


if __name__ == "__main__":
    print(writer.dumps({name: grows(*each) for name, each in SENT.items()}))
