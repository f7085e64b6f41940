#!/bin/sh
# mod_python 3.5.0 (its WSGI handler, under Apache 2.4.71): PATH_INFO and the header fields hold decoded UTF-8.
#
# Seen for /caf%C3%A9, and for /%C5%99 with the bytes C5 99 in a field: PATH_INFO is '/café' and '/ř', and the field 'ř'.
# So an application that takes the bytes out of the text, as WSGI has it, gets E9 in place of C3 A9, or an error.
# Expected: each byte as one character. PEP 3333, "Unicode Issues": strings of the environ must contain only code
# points that Latin-1 can represent, and stand for bytes; Werkzeug, Django and WebOb encode them to Latin-1 first.
. "$(dirname "$(realpath "$0")")/lib"
cat >app.py <<'PY'
def application(environ, start_response):
    told = []
    for name in ("PATH_INFO", "HTTP_X_NAME"):
        try:
            told.append(f"{name} {environ[name]!a} {environ[name].encode('latin-1')!r}")
        except UnicodeEncodeError as error:
            told.append(f"{name} {environ[name]!a} {type(error).__name__}")
    start_response("200 OK", [("Content-Type", "text/plain")])
    return ["\n".join(told).encode()]
PY
mod_python
for path in /caf%%C3%%A9 /%%C5%%99; do
    http "GET $path HTTP/1.0\r\nX-Name: \305\231\r\n\r\n" | sed '1,/^$/d'
done >seen
verdict "PATH_INFO '/caf\xe9' b'/caf\xe9'
HTTP_X_NAME '\u0159' UnicodeEncodeError
PATH_INFO '/\u0159' UnicodeEncodeError
HTTP_X_NAME '\u0159' UnicodeEncodeError" "$(cat seen)"
