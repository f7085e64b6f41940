#!/bin/sh
# m0serve 1.16.0 and falcorn 0.1.2 (WSGI): of response header fields with one name only the last is sent.
#
# The application gives two Set-Cookie and two WWW-Authenticate fields. Seen: m0serve keeps both cookies and the second
# challenge alone; falcorn keeps one of each, so one cookie of a login is lost.
# Expected: all four. PEP 3333, "The start_response() Callable": the headers are a list of tuples, given as a list so
# that a name can be repeated; RFC 9110 section 5.3 allows it for fields defined as lists and for Set-Cookie, and a
# browser chooses among the challenges that it gets (section 11.6.1).
. "$(dirname "$(realpath "$0")")/lib"
pypi m0serve==1.16.0 falcorn==0.1.2
cat >app.py <<'PY'
def application(environ, start_response):
    start_response(
        "401 Unauthorized",
        [
            ("Set-Cookie", "first=1"),
            ("Set-Cookie", "second=2"),
            ("WWW-Authenticate", "Negotiate"),
            ("WWW-Authenticate", 'Basic realm="site"'),
            ("Content-Length", "0"),
        ],
    )
    return []
PY
fields() { http 'GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n' | grep -iE '^(set-cookie|www-auth)' | sort; }
serve 'm0serve --host 127.0.0.1 --port $PORT app:application'
seen="m0serve
$(fields)"
serve 'falcorn run -H 127.0.0.1 -p $PORT app:application'
seen="$seen
falcorn
$(fields)"
verdict 'm0serve
set-cookie: first=1
set-cookie: second=2
www-authenticate: Basic realm="site"
falcorn
set-cookie: second=2
www-authenticate: Basic realm="site"' "$seen"
