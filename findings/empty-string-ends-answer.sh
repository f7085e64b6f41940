#!/bin/sh
# boring 1.0.2 and asyncore-wsgi 0.0.11 (WSGI): an empty byte string from the application ends the answer for the
# client.
#
# The application yields b"one ", b"", b"two". Seen: the empty one is sent as a chunk of size 0, which is the last
# chunk; curl shows "one " and reports success.
# Expected: "one two". PEP 3333, "Buffering and Streaming" and "Middleware Handling of Block Boundaries": an iterable
# may yield empty strings when it has no data yet; RFC 9112 section 7.1: a chunk of size 0 is the end of the body.
. "$(dirname "$(realpath "$0")")/lib"
pypi boring==1.0.2 asyncore-wsgi==0.0.11
command -v curl >/dev/null || unavailable "no curl"
cat >app.py <<'PY'
def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return iter([b"one ", b"", b"two"])
PY
fetch() {
    body=$(curl --silent --max-time 10 "http://127.0.0.1:$PORT/")
    echo "'$body', curl's status $?"
}
serve 'boring -b 127.0.0.1 -p $PORT app:application'
seen="boring: $(fetch)"
serve 'python -c "
import os, app, asyncore_wsgi
asyncore_wsgi.make_server(\"127.0.0.1\", int(os.environ[\"PORT\"]), app.application).serve_forever()"'
seen="$seen
asyncore-wsgi: $(fetch)"
verdict "boring: 'one ', curl's status 0
asyncore-wsgi: 'one ', curl's status 0" "$seen"
