#!/bin/sh
# wsgo 0.0.25 (WSGI, in Go) with --max-age: its page cache has no method in its key.
#
# Seen: after a GET of a page with "Cache-Control: max-age=60" each POST to the same URL gets the page from the cache, and
# the application never sees the form.
# Expected: each request reaches the application. RFC 9111 section 2: the cache key has at least the method and the
# target URI; section 4: a cache MUST write through requests with methods that are unsafe.
. "$(dirname "$(realpath "$0")")/lib"
pypi wsgo==0.0.25
cat >app.py <<'PY'
def application(environ, start_response):
    form = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)).decode()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Cache-Control", "max-age=60")])
    return [f"answer to {environ['REQUEST_METHOD']} {form}".encode()]
PY
serve 'wsgo -http-socket 127.0.0.1:$PORT -module app -max-age 60'
ask() {
    answer=$(http "$1 $2 HTTP/1.1\r\nHost: a\r\nContent-Length: ${#3}\r\nConnection: close\r\n\r\n$3" | grep answer)
    echo "$1 $2 $3: $answer"
}
verdict "GET /form : answer to GET 
POST /form name=x: answer to GET " "$(ask GET /form ''; ask POST /form name=x)"
