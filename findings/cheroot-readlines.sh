#!/bin/sh
# cheroot 11.1.2: wsgi.input.readlines() of a request with Content-Length is always an empty list.
#
# Seen for the body "one\ntwo\n": readlines() gives [] and the eight bytes are still there for read(). Its parameter
# `sizehint=0` is passed on as the size of the first readline(), which reads nothing and ends the loop.
# Expected: [b'one\n', b'two\n']. PEP 3333, "Input and Error Streams": readlines() with its meaning in Python's library
# (io.IOBase.readlines: no hint, or a hint of 0 or less, means all lines).
. "$(dirname "$(realpath "$0")")/lib"
pypi cheroot==11.1.2
cat >app.py <<'PY'
def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    body = environ["wsgi.input"]
    return [repr([body.readlines(), body.read()]).encode()]
PY
serve 'cheroot --bind 127.0.0.1:$PORT app:application'
seen=$(http 'POST / HTTP/1.0\r\nHost: a\r\nContent-Length: 8\r\n\r\none\ntwo\n' | tail -1)
verdict "[[], b'one\\ntwo\\n']" "$seen"
