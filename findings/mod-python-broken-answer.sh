#!/bin/sh
# mod_python 3.5.0 (under Apache 2.4.71): an answer that fails in the middle reaches the client as a whole one.
#
# A handler writes "first" and raises, and so does an application of WSGI through mod_python's own handler. Seen for
# both: status 200, the chunk "first", then Apache's page "500 Internal Server Error" as a part of the same body, and the
# last chunk.
# Expected: an answer without its last chunk. RFC 9112 section 8: a body in the chunked coding is incomplete unless
# the zero-sized chunk was received, which is the only sign of a failure that a client has after status 200.
. "$(dirname "$(realpath "$0")")/lib"
cat >app.py <<'PY'
def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/csv")])
    yield b"first"
    raise ValueError("the database went away")
PY
cat >handler.py <<'PY'
def handler(req):
    req.content_type = "text/csv"
    req.write("first")
    raise ValueError("the database went away")
PY
mod_python
ask() { echo "$1: $(http "GET $1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" | grep -e ^HTTP -e ^first -e '^<title>' -e '^0$' | tr '\n' ' ')"; }
verdict "/handler: HTTP/1.1 200 OK first <title>500 Internal Server Error</title> 0 
/wsgi: HTTP/1.1 200 OK first <title>500 Internal Server Error</title> 0 " "$(for path in /handler /wsgi; do ask $path; done)"
