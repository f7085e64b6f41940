#!/bin/sh
# ab 2.3 (Apache 2.4.71): answers that were cut off, and connections closed without any answer, are complete requests.
#
# The server sends 10 of the 1000 bytes that its Content-Length says, or a chunk without the last one, or closes the
# connection at once. Seen: ab reports "Complete requests: 100" and "Failed requests: 0" for each of them, also with
# keep-alive (-k), and a rate of requests per second. Only answers that differ in length from the first one fail.
# Expected: 100 failed requests, as vegeta, bombardier and loadtest report them. RFC 9112 section 8: an answer is
# incomplete if the connection is closed before its Content-Length or its last chunk has come.
. "$(dirname "$(realpath "$0")")/lib"
debian apache2-utils=2.4.71-1~deb12u1
cat >cutting.py <<'PY'
import os
import socket

ANSWERS = {
    b"/length": b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + b"x" * 10,
    b"/chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n",
    b"/nothing": b"",
}
with socket.create_server(("127.0.0.1", int(os.environ["PORT"]))) as listener:
    while True:
        connection, _ = listener.accept()
        with connection:
            if request := connection.recv(65536):
                connection.sendall(ANSWERS[request.split(b" ")[1]])
PY
serve 'exec python3 cutting.py'
seen=$(for path in length chunked nothing; do
    for option in "" -k; do
        echo "/$path $option:" $(timeout 20 usr/bin/ab -q $option -n 100 -c 4 "http://127.0.0.1:$PORT/$path" 2>&1 |
            grep -E '^(Complete|Failed) requests|^Non-2xx|apr_')
    done
done)
verdict "/length : Complete requests: 100 Failed requests: 0
/length -k: Complete requests: 100 Failed requests: 0
/chunked : Complete requests: 100 Failed requests: 0
/chunked -k: Complete requests: 100 Failed requests: 0
/nothing : Complete requests: 100 Failed requests: 0
/nothing -k: Complete requests: 100 Failed requests: 0" "$seen"
