#!/bin/sh
# granian 2.8.7 (WSGI): wsgi.input.readline() drops the line end, readline(size) gives nothing, and a loop over the
# lines stops after the first.
#
# Seen for the body "one\ntwo\nthree\n": readline() gives b'one', the next b'' although two lines are left (a caller
# takes it for the end), and `for line in wsgi.input` sees one line of three.
# Expected: PEP 3333, "Input and Error Streams": readline(), readlines() and iteration mean what Python's library
# documents for files: each line keeps its line end, and b'' comes at the end of the data alone.
. "$(dirname "$(realpath "$0")")/lib"
pypi granian==2.8.7
cat >app.py <<'PY'
def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    body = environ["wsgi.input"]
    if environ["PATH_INFO"] == "/loop":
        return [repr(list(body)).encode()]
    return [repr([body.readline(), body.readline()]).encode()]
PY
serve 'granian --interface wsgi --host 127.0.0.1 --port $PORT app:application'
post() { http "POST $1 HTTP/1.1\r\nHost: a\r\nContent-Length: 14\r\nConnection: close\r\n\r\none\ntwo\nthree\n" | tail -1; }
seen="readline() twice: $(post /)
loop: $(post /loop)"
verdict "readline() twice: [b'one', b'']
loop: [b'one']" "$seen"
