#!/bin/sh
# wsgo 0.0.25 (WSGI, in Go): a client that ends its own direction after the request gets "200 OK" with an empty body.
#
# Seen: the application needs 0.3 s and answers 404 with a text of 9 bytes. A client that keeps its side open gets
# that; one that sent FIN after its request (`nc -N`, shutdown(SHUT_WR)) gets "200 OK" and "Content-Length: 0".
# Expected: the 404, or an end of the connection without an answer, but no status that the application never gave. RFC
# 9293 section 3.6: a side that has closed goes on receiving until the other side closes too; PEP 3333, "The
# start_response() Callable": the status is the application's.
. "$(dirname "$(realpath "$0")")/lib"
pypi wsgo==0.0.25
cat >app.py <<'PY'
import time


def application(environ, start_response):
    time.sleep(0.3)
    start_response("404 Not Found", [("Content-Type", "text/plain"), ("Content-Length", "9")])
    return [b"not here\n"]
PY
serve 'wsgo -http-socket 127.0.0.1:$PORT -module app'
ask() { http 'GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n' "$1" | grep -E '^(HTTP|Content-Length)'; }
verdict "reads: HTTP/1.1 404 Not Found
Content-Length: 9
half-closed: HTTP/1.1 200 OK
Content-Length: 0" "reads: $(ask whole)
half-closed: $(ask half)"
