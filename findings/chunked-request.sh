#!/bin/sh
# pyruvate 1.6.1 and tsuno 0.1.3 (WSGI): a request body in the chunked coding reaches the application with its chunk
# sizes in it, or as nothing, each time with status 200.
#
# Seen for the five bytes "hello" in one chunk: pyruvate gives the application the 15 bytes "5\r\nhello\r\n0\r\n\r\n"
# as the body, and CONTENT_LENGTH as the int 15; tsuno gives an empty body with CONTENT_LENGTH "0".
# Expected: "hello", or a refusal with 411 or 501. RFC 9112 section 6.1: a recipient MUST be able to parse the chunked
# coding; section 7.1.3 shows the decoding. PEP 3333, "environ Variables": CGI variables are strings.
. "$(dirname "$(realpath "$0")")/lib"
pypi pyruvate==1.6.1 tsuno==0.1.3
cat >app.py <<'PY'
def application(environ, start_response):
    length = environ.get("CONTENT_LENGTH")
    body = environ["wsgi.input"].read(int(length or 0))
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [f"CONTENT_LENGTH={length!r} body={body!r}".encode()]
PY
ask() {
    http 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n5\r\nhello\r\n0\r\n\r\n' |
        grep CONTENT_LENGTH
}
serve 'python -c "import os, app, pyruvate; pyruvate.serve(app.application, \"127.0.0.1:\" + os.environ[\"PORT\"], 1)"'
seen="pyruvate: $(ask)"
serve 'tsuno -w 1 -b 127.0.0.1:$PORT app:application'
seen="$seen
tsuno: $(ask)"
verdict "pyruvate: CONTENT_LENGTH=15 body=b'5\\r\\nhello\\r\\n0\\r\\n\\r\\n'
tsuno: CONTENT_LENGTH='0' body=b''" "$seen"
