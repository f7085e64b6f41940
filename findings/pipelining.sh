#!/bin/sh
# bjoern 3.2.2 (built by bjoern-binary): of pipelined requests that arrive together only the last is answered.
#
# Seen: three GET requests in one segment on one connection; the application is called for the third alone, and the
# client gets that answer, which it must take for the answer to its first request.
# Expected: three answers in the order of the requests. RFC 9112 section 9.3.2: a client may pipeline on a persistent
# connection, and a server MUST send the responses in the same order that the requests were received.
. "$(dirname "$(realpath "$0")")/lib"
pypi bjoern-binary==3.2.2
cat >app.py <<'PY'
import os

import bjoern


def application(environ, start_response):
    print("called", environ["PATH_INFO"], flush=True)
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "9")])
    return [b"answer" + environ["PATH_INFO"].encode() + b"\n"]


bjoern.run(application, "127.0.0.1", int(os.environ["PORT"]))
PY
serve 'python app.py'
http 'GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\nGET /3 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n' >answers
seen="$(grep -c called server.log) calls, $(grep -c '200 OK' answers) answers: $(grep -o 'answer/.' answers | tr '\n' ' ')"
verdict "1 calls, 1 answers: answer/3 " "$seen"
