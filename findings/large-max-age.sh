#!/bin/sh
# requests-cache 1.3.3 (with cache_control=True): a max-age of 20 digits makes get() raise OverflowError.
#
# Seen: the answer 200 of the server is lost; the caller sees "Python int too large to convert to C int".
# Expected: the answer. RFC 9111 section 1.2.2: a delta-seconds has any number of digits, and a cache that receives a
# value it can't represent MUST consider it to be 2147483648 or the largest that it can.
. "$(dirname "$(realpath "$0")")/lib"
pypi requests-cache==1.3.3 requests==2.34.2
cat >origin.py <<'PY'
import http.server
import os


class Origin(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Cache-Control", "max-age=99999999999999999999")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")


http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Origin).serve_forever()
PY
cat >show.py <<'PY'
import os

from requests_cache import CachedSession

session = CachedSession(backend="memory", cache_control=True)
try:
    print(session.get(f"http://127.0.0.1:{os.environ['PORT']}/").status_code)
except OverflowError as error:
    print("OverflowError:", error)
PY
serve 'python origin.py'
verdict "OverflowError: Python int too large to convert to C int" "$(python show.py 2>&1)"
