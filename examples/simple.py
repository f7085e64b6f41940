"""Plain WSGI with a form: `poorhttp simple.py`, run from here, shows what was sent to it."""

from html import escape
from urllib.parse import parse_qs

MAX_BODY = 65536

PAGE = """\
<!DOCTYPE html>
<html>
 <head><meta charset="utf-8"><title>Simple</title></head>
 <body>
  <h1>Simple</h1>
  <form method="post" action="/">
   <input name="text" value="{text}" autofocus> <button>Send</button>
  </form>
  <p>{method} {path}: <code>{text}</code></p>
 </body>
</html>
"""


def application(environ, start_response):
    if environ["PATH_INFO"] not in ("", "/"):
        return answer(start_response, "404 Not Found", "text/plain", "Not Found\n")
    if environ["REQUEST_METHOD"] not in ("GET", "HEAD", "POST"):
        return answer(start_response, "405 Method Not Allowed", "text/plain", "Use GET or POST\n", "GET, HEAD, POST")
    text = form(environ).get("text", [""])[0]
    page = PAGE.format(text=escape(text), method=environ["REQUEST_METHOD"], path=escape(environ["PATH_INFO"]))
    return answer(start_response, "200 OK", "text/html", page)


def form(environ):
    if environ["REQUEST_METHOD"] != "POST":
        return parse_qs(environ.get("QUERY_STRING", ""))
    length = min(int(environ.get("CONTENT_LENGTH") or 0), MAX_BODY)
    return parse_qs(environ["wsgi.input"].read(length).decode("utf-8", "replace"))


def answer(start_response, status, kind, text, allow=""):
    body = text.encode("utf-8")
    headers = [("Content-Type", kind + "; charset=utf-8"), ("Content-Length", str(len(body)))]
    if allow:
        headers.append(("Allow", allow))
    start_response(status, headers)
    return [body]
