#!/bin/sh
# socketify 0.0.31 (WSGI): an empty answer that announces "Content-Length: 0" is not sent at all.
#
# Seen for a "302 Found" with Content-Length 0 and the body []: the connection ends without a byte ("empty reply" in
# curl). With [b""] it is the same; without the field the answer comes.
# Expected: status line and headers. PEP 3333, "The start_response() Callable": the headers are sent at the first
# non-empty string, or when the iterable is exhausted. Frameworks write redirects and answers to DELETE like this.
. "$(dirname "$(realpath "$0")")/lib"
pypi socketify==0.0.31
cat >app.py <<'PY'
def application(environ, start_response):
    headers = [("Location", "/elsewhere")]
    if "length" in environ["PATH_INFO"]:
        headers.append(("Content-Length", "0"))
    start_response("302 Found", headers)
    return [b""] if "string" in environ["PATH_INFO"] else []
PY
serve 'python -m socketify app:application --host 127.0.0.1 --port $PORT --interface wsgi'
ask() { echo "$1: $(http "GET $1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" | sed -n 1p)"; }
verdict "/plain: HTTP/1.1 302 Found
/length+string: 
/length: " "$(for path in /plain /length+string /length; do ask $path; done)"
