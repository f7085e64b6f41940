#!/bin/sh
# Paste 3.10.1 (paste.fileapp, also as `egg:Paste#static` of an ini file): answers to Range requests carry other bytes
# than they say.
#
# The file has 8000 bytes. Seen: "bytes=-10" is answered with "Content-Range: bytes 0-10/8000", the beginning instead of
# the end. Under a server with wsgi.file_wrapper that does not cut the body by itself, such as Python's wsgiref, each
# 206 goes on to the end of the file: "bytes=0-1" says 2 bytes and sends 8000. "bytes=7990-9000" gets 416, and each 200
# has a Content-Range.
# Expected: the last 10 bytes; the bytes that Content-Range says; 7990-7999. RFC 9110 section 14.1.2: bytes=-10 is a
# suffix range, and a last position beyond the end stands for the end; section 14.4: Content-Range is for 206 and 416.
. "$(dirname "$(realpath "$0")")/lib"
pypi Paste==3.10.1
mkdir www
seq -f '%07g' 1000 >www/a.txt
cat >server.py <<'PY'
import os
from wsgiref.simple_server import make_server

from paste.urlparser import StaticURLParser

make_server("127.0.0.1", int(os.environ["PORT"]), StaticURLParser("www")).serve_forever()
PY
cat >ask.py <<'PY'
import os
import socket

for field in ("", "Range: bytes=-10\r\n", "Range: bytes=0-1\r\n", "Range: bytes=7990-9000\r\n"):
    with socket.create_connection(("127.0.0.1", int(os.environ["PORT"])), 5) as connection:
        connection.sendall(f"GET /a.txt HTTP/1.0\r\nHost: localhost\r\n{field}\r\n".encode())
        head, _, body = connection.makefile("rb").read().partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    fields = [line for line in sorted(lines) if line.lower().startswith(("content-range:", "content-length:"))]
    print(field.strip() or "no Range", "->", lines[0].split(" ")[1], *fields, f"({len(body)} bytes came)")
PY
serve 'exec python server.py'
verdict "no Range -> 200 Content-Length: 8000 Content-Range: bytes 0-7999/8000 (8000 bytes came)
Range: bytes=-10 -> 206 Content-Length: 11 Content-Range: bytes 0-10/8000 (8000 bytes came)
Range: bytes=0-1 -> 206 Content-Length: 2 Content-Range: bytes 0-1/8000 (8000 bytes came)
Range: bytes=7990-9000 -> 416 Content-Length: 180 (180 bytes came)" "$(python ask.py 2>/dev/null)"
