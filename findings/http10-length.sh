#!/bin/sh
# rocket3 20260526.0 (WSGI, the server of py4web): to a client of HTTP/1.0 it announces the length of the first piece
# of the body as that of the whole.
#
# Seen: an application that returns two pieces, "first " and "second", gets "Content-Length: 6" before all 12 bytes, so
# `curl --http1.0` prints "first " and reports success. nginx 1.22's proxy_pass speaks HTTP/1.0 to its servers unless
# told otherwise, and so do ab and many health checks.
# Expected: no Content-Length, or 12. RFC 9112 section 6.3: the body ends where Content-Length says; PEP 3333,
# "Handling the Content-Length Header": a server may take the length of the first piece if the iterable has one piece
# only.
. "$(dirname "$(realpath "$0")")/lib"
pypi rocket3==20260526.0
command -v curl >/dev/null || unavailable "no curl"
cat >app.py <<'PY'
import os

from rocket3 import Rocket3


def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"first ", b"second"]


Rocket3(("127.0.0.1", int(os.environ["PORT"])), "wsgi", {"wsgi_app": application}).start()
PY
serve 'python app.py'
fetch() {
    body=$(curl --silent --max-time 10 "$1" "http://127.0.0.1:$PORT/")
    echo "$1: '$body', curl's status $?"
}
verdict "--http1.1: 'first second', curl's status 0
--http1.0: 'first ', curl's status 0" "$(fetch --http1.1)
$(fetch --http1.0)"
