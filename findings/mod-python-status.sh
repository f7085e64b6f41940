#!/bin/sh
# mod_python 3.5.0 (its WSGI handler, under Apache 2.4.71): the status of an application is always replaced by "200 OK".
#
# The application answers "302 Found", "404 Not Found" and "304 Not Modified". Seen for each of them: "200 OK", with the
# application's headers and its body. For 304 that is an empty page which a browser puts in place of the one it has.
# Expected: the status that was given to start_response(). PEP 3333, "The start_response() Callable": the status
# argument is the status string that is sent to the client.
. "$(dirname "$(realpath "$0")")/lib"
cat >app.py <<'PY'
STATUSES = {"/login": "302 Found", "/missing": "404 Not Found", "/cached": "304 Not Modified"}


def application(environ, start_response):
    status = STATUSES[environ["PATH_INFO"]]
    start_response(status, [("Location", "/elsewhere")] if status.startswith("302") else [("ETag", '"one"')])
    return [] if status.startswith("304") else [b"page"]
PY
mod_python
ask() {
    http "GET $1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" >answer
    echo "$1: $(grep -e '^HTTP' -e '^Location' -e '^ETag' -e '^Content-Length' answer | tr '\n' ' ')"
}
verdict '/login: HTTP/1.1 200 OK Location: /elsewhere 
/missing: HTTP/1.1 200 OK ETag: "one" 
/cached: HTTP/1.1 200 OK ETag: "one" Content-Length: 0 ' "$(for path in /login /missing /cached; do ask $path; done)"
