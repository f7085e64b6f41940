#!/bin/sh
# gevent 26.9.0 (pywsgi): a "304 Not Modified" with the Content-Length of the resource becomes "500 Internal Server
# Error".
#
# Seen: the answer is 500, with an AssertionError in the log ("must be absent or zero").
# Expected: the 304, with or without the field. RFC 9110 section 8.6: a server MAY send Content-Length in a 304, with
# the value that a 200 to the same request would have had; 0 would be the wrong value.
. "$(dirname "$(realpath "$0")")/lib"
pypi gevent==26.9.0
cat >app.py <<'PY'
import os

from gevent.pywsgi import WSGIServer


def application(environ, start_response):
    start_response("304 Not Modified", [("ETag", '"1"'), ("Content-Length", "12")])
    return []


WSGIServer(("127.0.0.1", int(os.environ["PORT"])), application).serve_forever()
PY
serve 'python app.py'
seen=$(http 'GET / HTTP/1.1\r\nHost: a\r\nIf-None-Match: "1"\r\nConnection: close\r\n\r\n' | sed -n 1p)
grep AssertionError server.log
verdict "HTTP/1.1 500 Internal Server Error" "$seen"
