#!/bin/sh
# ServeStatic 4.4.0, Tornado 6.6.1, Falcon 4.4.0, Bottle 0.13.4 and aiohttp 3.14.5: a Range request is answered with a
# part although its If-Range names another version of the file.
#
# Seen: a client holds the first 5 bytes of a file, the file is replaced, and the client asks for the rest with the old
# ETag in If-Range. It gets "206 Partial Content" with the rest of the new file, so it ends with a mixture:
# "AAAAABBBBB".
# Expected: "200 OK" with the whole new file, as Werkzeug and Starlette send it. RFC 9110 section 13.1.5: if the
# validator does not match, the recipient MUST ignore the Range field.
. "$(dirname "$(realpath "$0")")/lib"
pypi servestatic==4.4.0 tornado==6.6.1 falcon==4.4.0 bottle==0.13.4 aiohttp==3.14.5
mkdir files
cat >server.py <<'PY'
import asyncio
import os
import sys
from wsgiref.simple_server import make_server

import bottle
import falcon
import tornado.web
from aiohttp import web
from servestatic import ServeStatic

PORT, FILES = int(os.environ["PORT"]), os.path.abspath("files")


def missing(environ, start_response):
    start_response("404 Not Found", [("Content-Length", "0")])
    return []


def by_wsgi(application):
    make_server("127.0.0.1", PORT, application).serve_forever()


def serve_servestatic():
    by_wsgi(ServeStatic(missing, root=FILES, prefix="files/", autorefresh=True))


def serve_bottle():
    application = bottle.Bottle()
    application.route("/files/<name>", callback=lambda name: bottle.static_file(name, FILES))
    by_wsgi(application)


def serve_falcon():
    application = falcon.App()
    application.add_static_route("/files", FILES)
    by_wsgi(application)


def serve_aiohttp():
    application = web.Application()
    application.router.add_static("/files", FILES)
    web.run_app(application, host="127.0.0.1", port=PORT)


def serve_tornado():
    async def main():
        tornado.web.Application([("/files/(.*)", tornado.web.StaticFileHandler, {"path": FILES})]).listen(PORT)
        await asyncio.Event().wait()

    asyncio.run(main())


globals()["serve_" + sys.argv[1]]()
PY
replace() {
    printf "$1" >new
    touch -d "$2-01-01 UTC" new
    mv new files/data.txt
}
for kind in servestatic tornado falcon bottle aiohttp; do
    replace AAAAAAAAAA 2000
    serve "exec python server.py $kind"
    etag=$(http 'HEAD /files/data.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n' | sed -n 's/^etag: //Ip')
    replace BBBBBBBBBB 2001
    fields="Range: bytes=5-\r\nIf-Range: ${etag:-none}\r\nConnection: close"
    echo "$kind:" $(http "GET /files/data.txt HTTP/1.1\r\nHost: a\r\n$fields\r\n\r\n" |
        tr -d '\r' | grep -iE '^(HTTP|content-range|B)' | sed 's/^HTTP[^ ]* //') >>seen
done
verdict "servestatic: 206 Partial Content Content-Range: bytes 5-9/10 BBBBB
tornado: 206 Partial Content Content-Range: bytes 5-9/10 BBBBB
falcon: 206 Partial Content content-range: bytes 5-9/10 BBBBB
bottle: 206 Partial Content Content-Range: bytes 5-9/10 BBBBB
aiohttp: 206 Partial Content Content-Range: bytes 5-9/10 BBBBB" "$(cat seen)"
