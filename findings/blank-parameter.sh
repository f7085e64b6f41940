#!/bin/sh
# requests-cache 1.3.3: a URL with an empty parameter gets the cached page of the URL without it.
#
# Seen: after GET /page, GET /page?print= and GET /page?print=&lang= give the first answer from the cache, and the
# server is not asked; /page?print (without "=") is another page, as it should be.
# Expected: a request for each. RFC 3986 section 3.4: the query is part of what identifies a resource, and section
# 6.2.2 (normalisation) removes no part of it; RFC 9111 section 2: the cache key has at least the method and the target
# URI.
. "$(dirname "$(realpath "$0")")/lib"
pypi requests-cache==1.3.3 requests==2.34.2
cat >origin.py <<'PY'
import http.server
import os


class Origin(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = f"this is {self.path}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Origin).serve_forever()
PY
cat >show.py <<'PY'
import os

from requests_cache import CachedSession

session = CachedSession(backend="memory", expire_after=60)
for path in ("/page", "/page?print=", "/page?print=&lang=", "/page?print"):
    print(f"asked for {path}:", session.get(f"http://127.0.0.1:{os.environ['PORT']}{path}").text)
PY
serve 'python origin.py'
verdict "asked for /page: this is /page
asked for /page?print=: this is /page
asked for /page?print=&lang=: this is /page
asked for /page?print: this is /page?print" "$(python show.py 2>&1)"
