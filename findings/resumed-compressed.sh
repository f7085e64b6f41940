#!/bin/sh
# Starlette 1.10.0 (GZipMiddleware), Tornado 6.6.1 (compress_response), CherryPy 18.10.0 (tools.gzip with tools.etags):
# a compressed download that is resumed is a mixture.
#
# The client takes gzip, gets the first 1000 bytes of the compressed file, and after a break asks for the rest with
# "Range: bytes=1000-" and, in If-Range, the ETag of that answer, a strong one. Seen: 206 with the plain file from byte
# 1000 on (Starlette), or with that compressed anew (Tornado, CherryPy). Put together they are no gzip file.
# Expected: 200, or the rest of the compressed form, which Apache gives an ETag of its own. RFC 9110 section 8.8.3: a
# strong tag is not that of both a coded and a plain form; section 14.1.2: with a content coding a byte range is one of
# the encoded bytes.
. "$(dirname "$(realpath "$0")")/lib"
pypi starlette==1.10.0 uvicorn==0.54.0 tornado==6.6.1 CherryPy==18.10.0
mkdir www
seq 20000 >www/numbers.txt
cat >starlette_server.py <<'PY'
import os

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

application = Starlette(
    routes=[Mount("/", StaticFiles(directory="www"))], middleware=[Middleware(GZipMiddleware)]
)
uvicorn.run(application, port=int(os.environ["PORT"]), log_level="error")
PY
cat >tornado_server.py <<'PY'
import asyncio
import os

from tornado.web import Application, StaticFileHandler


async def main():
    Application([("/(.*)", StaticFileHandler, {"path": "www"})], compress_response=True).listen(int(os.environ["PORT"]))
    await asyncio.Event().wait()


asyncio.run(main())
PY
cat >cherrypy_server.py <<'PY'
import os

import cherrypy

cherrypy.config.update({"server.socket_port": int(os.environ["PORT"]), "environment": "embedded"})
tools = {"staticdir.on": True, "staticdir.dir": os.path.abspath("www"), "gzip.on": True}
tools |= {"etags.on": True, "etags.autotags": True}
cherrypy.quickstart(None, "/", {"/": {f"tools.{name}": value for name, value in tools.items()}})
PY
cat >resume.py <<'PY'
import gzip
import http.client
import os
import sys


def get(**fields):
    connection = http.client.HTTPConnection("127.0.0.1", int(os.environ["PORT"]), timeout=10)
    fields = {name.replace("_", "-"): value for name, value in fields.items()}
    connection.request("GET", "/numbers.txt", headers={"Accept-Encoding": "gzip", **fields})
    answer = connection.getresponse()
    return answer, answer.read()


first, whole = get()
second, rest = get(Range="bytes=1000-", If_Range=first.headers["ETag"])
try:
    gzip.decompress(whole[:1000] + rest)
    result = "a file"
except (OSError, EOFError, ValueError, gzip.zlib.error) as error:
    result = f"no file ({type(error).__name__})"
tag = {None: "no ETag", first.headers["ETag"]: "the same ETag"}.get(second.headers["ETag"], "another ETag")
print(f"{sys.argv[1]}: {first.status} {first.headers['Content-Encoding']}, then {second.status}", end=" ")
print(f"{second.headers['Content-Encoding']}, {second.headers['Content-Range']}, {tag}; together: {result}")
PY
for name in starlette tornado cherrypy; do
    serve "exec python ${name}_server.py"
    python resume.py "$name" >>seen 2>&1
done
verdict "starlette: 200 gzip, then 206 None, bytes 1000-108893/108894, the same ETag; together: no file (error)
tornado: 200 gzip, then 206 gzip, bytes 1000-108893/108894, the same ETag; together: no file (error)
cherrypy: 200 gzip, then 206 gzip, bytes 1000-108893/108894, no ETag; together: no file (error)" "$(cat seen)"
