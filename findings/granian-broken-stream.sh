#!/bin/sh
# granian 2.8.7 (WSGI): a generator that raises in the middle of its answer gives a client a complete answer.
#
# The application announces no length, yields "start" and then raises. Seen: the chunk "start", then the last chunk
# "0", so every client takes the five bytes for the whole answer; nothing distinguishes it from a success.
# Expected: a connection that ends without the last chunk. RFC 9112 section 8: an answer in the chunked coding is
# incomplete unless the zero-sized chunk came, which is the only sign of a broken answer that a client has; section
# 7.1: the last chunk says that the data is complete.
. "$(dirname "$(realpath "$0")")/lib"
pypi granian==2.8.7
cat >app.py <<'PY'
def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])

    def body():
        yield b"start"
        raise ValueError("the database went away")

    return body()
PY
serve 'granian --interface wsgi --host 127.0.0.1 --port $PORT app:application'
seen=$(http 'GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n' | sed -n '1p; /^$/,$p' | tr '\n' '|')
grep -q 'the database went away' server.log || unavailable "the application was not reached"
verdict 'HTTP/1.1 200 OK||5|start|0|||' "$seen"
