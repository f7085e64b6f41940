#!/bin/sh
# ServeStatic 4.4.0: a Range request is answered with a part although its If-Range names another version of the file.
#
# Seen: a client holds the first 5 bytes of a file, the file is replaced, and the client asks for the rest with the old
# ETag in If-Range. It gets "206 Partial Content" with the rest of the new file, so it ends with a mixture:
# "AAAAABBBBB".
# Expected: "200 OK" with the whole new file. RFC 9110 section 13.1.5: if the validator does not match, the recipient
# MUST ignore the Range field.
. "$(dirname "$(realpath "$0")")/lib"
pypi servestatic==4.4.0 waitress==3.0.2
mkdir files
cat >app.py <<'PY'
from servestatic import ServeStatic


def missing(environ, start_response):
    start_response("404 Not Found", [("Content-Length", "0")])
    return []


application = ServeStatic(missing, root="files", prefix="files/", autorefresh=True)
PY
printf AAAAAAAAAA >files/data.txt
serve 'waitress-serve --listen=127.0.0.1:$PORT app:application'
etag=$(http 'HEAD /files/data.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n' | sed -n 's/^etag: //Ip')
[ -n "$etag" ] || unavailable "no ETag"
printf BBBBBBBBBB >new
touch -d '2001-01-01 UTC' new
mv new files/data.txt
rest=$(http "GET /files/data.txt HTTP/1.1\r\nHost: a\r\nRange: bytes=5-\r\nIf-Range: $etag\r\nConnection: close\r\n\r\n" |
    grep -iE '^(HTTP|content-range|B)')
verdict "HTTP/1.1 206 Partial Content
Content-Range: bytes 5-9/10
BBBBB" "$rest"
