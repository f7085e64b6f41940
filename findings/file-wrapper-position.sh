#!/bin/sh
# pyruvate 1.6.1, uWSGI 2.0.30 (WSGI): wsgi.file_wrapper sends a file from its first byte, not from where the application
# has put it.
#
# Seen for a file "0123456789" on which the application called seek(6), with Content-Length 4: "0123" from pyruvate, and
# "0123456789", six bytes more than was announced, from uWSGI. An answer to a Range request, or the part of an archive,
# is another part of the file with the right length and status. uWSGI sends a file that has grown since its length was
# taken, such as a log, to its new end.
# Expected: "6789". PEP 3333, "Optional Platform-Specific File Handling": transmission should begin at the current
# position within the file.
. "$(dirname "$(realpath "$0")")/lib"
pypi pyruvate==1.6.1 pyuwsgi==2.0.30.post1
printf 0123456789 >digits
cat >app.py <<'PY'
def application(environ, start_response):
    file = open("digits", "rb")
    file.seek(6)
    headers = [("Content-Type", "text/plain"), ("Content-Range", "bytes 6-9/10"), ("Content-Length", "4")]
    start_response("206 Partial Content", headers)
    return environ["wsgi.file_wrapper"](file)
PY
ask() { http 'GET / HTTP/1.1\r\nHost: a\r\nRange: bytes=6-9\r\nConnection: close\r\n\r\n' | grep -E '^(Content-Range|[0-9])'; }
serve 'python -c "import os, app, pyruvate; pyruvate.serve(app.application, \"127.0.0.1:\" + os.environ[\"PORT\"], 1)"'
pyruvate=$(ask)
serve 'exec uwsgi --http-socket 127.0.0.1:$PORT --module app:application --need-app --die-on-term'
uwsgi=$(ask)
verdict "pyruvate: Content-Range: bytes 6-9/10
0123
uWSGI: Content-Range: bytes 6-9/10
0123456789" "pyruvate: $pyruvate
uWSGI: $uwsgi"
