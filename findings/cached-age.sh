#!/bin/sh
# CacheControl 0.14.4, requests-cache 1.3.3 (with cache_control=True) and hishel 2.0.0 (with rfc=True): the Age of a
# response is not counted.
#
# Seen: an answer with "Cache-Control: max-age=60" and "Age: 120", as a cache in front of the origin sends it with
# stale-while-revalidate, is given again from the client's cache without a request: stale on arrival, taken for fresh
# for a minute more.
# Expected: a request. RFC 9111 section 4.2.3: the current age begins with the value of Age; section 4.2: a response is
# fresh while its lifetime is greater than its current age.
. "$(dirname "$(realpath "$0")")/lib"
pypi CacheControl==0.14.4 requests-cache==1.3.3 requests==2.34.2 hishel==2.0.0 httpx==0.28.1
cat >origin.py <<'PY'
import http.server
import os


class Origin(http.server.BaseHTTPRequestHandler):
    count = 0

    def do_GET(self):
        Origin.count += 1
        body = b"answer %d" % Origin.count
        self.send_response(200)
        self.send_header("Cache-Control", "max-age=60")
        self.send_header("Age", self.path[1:])
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Origin).serve_forever()
PY
cat >show.py <<'PY'
import os

import requests
from cachecontrol import CacheControl
from hishel import SqliteStorage
from hishel.httpx import CacheClient
from requests_cache import CachedSession

sessions = {
    "CacheControl": CacheControl(requests.Session()),
    "requests-cache": CachedSession(backend="memory", cache_control=True),
    "hishel": CacheClient(rfc=True, storage=SqliteStorage(database_path="hishel.db")),
}
for name, session in sessions.items():
    url = f"http://127.0.0.1:{os.environ['PORT']}/120"
    first, second = session.get(url).text, session.get(url).text
    print(f"{name}: second answer from the cache: {first == second}")
PY
serve 'python origin.py'
verdict "CacheControl: second answer from the cache: True
requests-cache: second answer from the cache: True
hishel: second answer from the cache: True" "$(python show.py 2>&1)"
