#!/bin/sh
# freastal 0.0.3 (WSGI): what the application gives to the write() of start_response is lost, without an error.
#
# Seen: after write(b"one,") and write(b"two,") and the iterable [b"three"], the client gets "three" with
# Content-Length 5 and status 200.
# Expected: "one,two,three". PEP 3333, "The write() Callable": its body data MUST be sent as if it had been yielded by
# the iterable, before the rest of it; Mercurial's hgweb and older applications are written so.
. "$(dirname "$(realpath "$0")")/lib"
pypi freastal==0.0.3
cat >app.py <<'PY'
def application(environ, start_response):
    write = start_response("200 OK", [("Content-Type", "text/plain")])
    write(b"one,")
    write(b"two,")
    return [b"three"]
PY
serve 'python -c "import os, app, freastal; freastal.serve(app.application, \"127.0.0.1\", int(os.environ[\"PORT\"]))"'
seen=$(http 'GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n' | grep -E '^(HTTP|Content-Length|.*three)')
verdict "HTTP/1.1 200 OK
Content-Length: 5
three" "$seen"
