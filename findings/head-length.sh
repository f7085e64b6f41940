#!/bin/sh
# fastpysgi 0.6 (WSGI): every answer to HEAD, and every 304, announces "Content-Length: 0", also against the
# application.
#
# Seen: for a resource of 12 bytes whose application sends Content-Length 12, GET has 12 and HEAD has 0; a 304 with
# Content-Length 12 leaves as 0. A client that asks for the size first, or a cache that renews its stored answer by the
# fields of a 304, takes the resource for empty.
# Expected: 12, or no Content-Length. RFC 9110 section 8.6: a server MUST NOT send Content-Length in an answer to HEAD,
# or in a 304, unless its value is what the answer to GET would have.
. "$(dirname "$(realpath "$0")")/lib"
pypi fastpysgi==0.6
cat >app.py <<'PY'
def application(environ, start_response):
    status = "304 Not Modified" if environ["PATH_INFO"] == "/same" else "200 OK"
    start_response(status, [("ETag", '"1"'), ("Content-Length", "12")])
    return [b"twelve bytes"] if status[0] == "2" and environ["REQUEST_METHOD"] == "GET" else []
PY
serve 'fastpysgi --host 127.0.0.1 -p $PORT app:application'
length() { http "$1 $2 HTTP/1.1\r\nHost: a\r\nIf-None-Match: \"1\"\r\nConnection: close\r\n\r\n" | grep -i '^content-length'; }
seen="GET /: $(length GET /)
HEAD /: $(length HEAD /)
GET /same (304): $(length GET /same)"
verdict "GET /: Content-Length: 12
HEAD /: Content-Length: 0
GET /same (304): Content-Length: 0" "$seen"
